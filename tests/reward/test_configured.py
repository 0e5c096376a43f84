"""The reward of a YAML file, and TRL's own script that loads it by a dotted path."""

import importlib
import json

import pytest
import yaml

from seper_reward.commands.serve import ServeOptions
from seper_reward.options import RewardOptions, pick
from seper_reward.reward import configured
from seper_reward.reward.configured import CONFIG, read_reward
from seper_reward.reward.formula import RewardWeights
from seper_reward.reward.reward import SePerReward
from seper_reward.scorer import SePerScorer
from tests.serving.helpers import ServerThread
from trainers.policy import PolicyConfig

ROWS = [
    {"prompt": text, "question": text, "answers": [f"Owner {at}"], "passages": [f"House {at} belongs to Owner {at}."]}
    for at, text in enumerate(f"Who owns house {at}?" for at in range(4))
]


@pytest.fixture
def config(tmp_path, monkeypatch):
    """Return a function that writes settings to the file that the variable names."""

    def write(settings):
        path = tmp_path / "reward.yaml"
        path.write_text(settings if isinstance(settings, str) else yaml.safe_dump(settings))
        monkeypatch.setenv(CONFIG, str(path))
        return path

    return write


def test_read_reward_of_a_file(config, tiny_reader, tiny_entailment):
    reading = {"answer_pattern": "= (.*)", "search_tools": ["search"]}
    reward = read_reward(config({"url": "http://localhost:8100/", "answer_weight": 2, "gain_weight": 0.5, **reading}))
    assert (reward.answer_pattern, reward.search_tools.names) == ("= (.*)", ("search",))
    assert reward.weights == RewardWeights(2.0, 0.5, price=0.1)
    reader = {"reader": str(tiny_reader), "prompt": "brief", "dtype": "float32", "device": "cpu", "seed": 3}
    settings = {**reader, "judge": str(tiny_entailment), "num_samples": 4, "max_new_tokens": 8}
    config({**settings, "price": 0.2})
    columns = {name: [ROWS[0][name]] for name in ("question", "answers", "passages")}
    expected = SePerReward(SePerScorer.from_pretrained(**settings), price=0.2)(**columns)
    assert configured.delta_seper(**columns) == expected != [None]
    assert SePerReward(SePerScorer.from_pretrained(**{**settings, "seed": 4}), price=0.2)(**columns) != expected


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"prize": 0.1}, "reward.yaml: unknown setting 'prize', did you mean 'price'?"),
        ({"price": -1}, "price must be at least 0, got -1"),
        ({"url": "localhost:8100"}, "url must be an address such as http://localhost:8100"),
        ({"url": "http://a:1", "timeout": 0}, "timeout must be above 0"),
        ({"url": "http://a:1", "reader": "b", "num_samples": 3}, "the server has the reader; set num_samples, reader"),
        ({"answer_pattern": "("}, "answer_pattern must be a regular expression, got '(': missing )"),
        ("- price: 0.1", "must contain a YAML mapping"),
    ],
)
def test_delta_seper_names_mistakes_when_trl_looks_it_up(config, settings, message):
    path = config(settings)
    with pytest.raises(ValueError, match=f"^{CONFIG}={path}: ") as caught:
        importlib.import_module("seper_reward.reward").delta_seper  # noqa: B018
    assert message in str(caught.value)


def test_delta_seper_without_its_file(monkeypatch):
    monkeypatch.setenv(CONFIG, "configs/rewards/server.yaml")
    with pytest.raises(OSError, match=r"^SEPER_REWARD_CONFIG=configs/rewards/server.yaml: .*no such file"):
        importlib.import_module("seper_reward.reward").delta_seper  # noqa: B018


def test_reward_weights_have_one_default_price(monkeypatch):
    """In Python, in YAML, of a server, and of the policy's recipe."""
    monkeypatch.delenv(CONFIG, raising=False)
    for options in (RewardOptions(), ServeOptions(), PolicyConfig(init_adapter="none")):
        assert pick(RewardWeights, options) == RewardWeights(price=0.1)


def trl_grpo(tmp_path, reader):
    """Run what `trl grpo` runs; return what it logged."""
    from trl.scripts.grpo import main, make_parser

    (tmp_path / "rows.json").write_text("\n".join(map(json.dumps, ROWS)))
    settings = {
        "datasets": [{"path": "json", "data_files": {"train": str(tmp_path / "rows.json")}}],
        "model_name_or_path": str(reader), "reward_funcs": ["seper_reward.reward.delta_seper"],
        "output_dir": str(tmp_path / "run"), "max_steps": 1, "per_device_train_batch_size": 4, "num_generations": 2,
        "max_completion_length": 8, "use_cpu": True, "bf16": False, "report_to": "none", "logging_steps": 1,
        "save_strategy": "steps", "save_steps": 1, "disable_tqdm": True, "dtype": "float32",
    }  # fmt: skip
    (tmp_path / "grpo.yaml").write_text(yaml.safe_dump(settings))
    main(*make_parser().parse_args_and_config(["--config", str(tmp_path / "grpo.yaml")]))
    return json.loads((tmp_path / "run" / "checkpoint-1" / "trainer_state.json").read_text())["log_history"]


def test_delta_seper_in_trl_grpo(tmp_path, config, tiny_reader, tiny_scorer):
    """TRL's own script finds the reward by its dotted path, and trains with a server's rewards."""
    with ServerThread(tiny_scorer) as server:
        config({"url": server.url, "answer_weight": 0, "price": 0.25})
        with pytest.warns(UserWarning, match="scale_rewards='group' divides"):  # TRL's default
            log = trl_grpo(tmp_path, tiny_reader)
    (row,) = [row for row in log if "rewards/delta_seper/mean" in row]
    assert row["seper/search_rate"] == 1.0
    assert row["seper/cost"] == 0.25
    assert row["seper/unscored"] == 0
    assert row["rewards/delta_seper/mean"] == pytest.approx(row["seper/delta_of_searches"] - 0.25, abs=1e-5)
