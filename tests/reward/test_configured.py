"""The reward of a YAML file, and TRL's own script that loads it by a dotted path."""

import importlib
import json
from dataclasses import fields

import pytest
import yaml

from seper_reward.commands.serve import ServeOptions
from seper_reward.options import RewardOptions, ScorerOptions, pick
from seper_reward.reward import configured
from seper_reward.reward.configured import CONFIG, read_reward, read_reward_config
from seper_reward.reward.formula import RewardWeights
from tests.serving.helpers import ServerThread
from tests.test_docs import ROOT
from trainers.policy import PolicyConfig

EXAMPLES = sorted((ROOT / "configs" / "reward").glob("*.yaml"))
ROWS = [
    {
        "prompt": f"Who owns house {at}?",
        "question": f"Who owns house {at}?",
        "answers": [f"Owner {at}"],
        "passages": [f"House {at} belongs to Owner {at}."],
    }
    for at in range(4)
]


@pytest.fixture
def config(tmp_path, monkeypatch):
    """Return a function that writes settings to the file that the variable names."""
    configured._reward.cache_clear()
    path = tmp_path / "reward.yaml"

    def write(settings):
        path.write_text(settings if isinstance(settings, str) else yaml.safe_dump(settings))
        monkeypatch.setenv(CONFIG, str(path))
        return path

    return write


def test_the_examples_are_read():
    assert [path.name for path in EXAMPLES] == ["in-process.yaml", "server.yaml"]
    here, there = map(read_reward_config, EXAMPLES)
    assert here.passage_tag == there.passage_tag
    assert pick(RewardWeights, here) == pick(RewardWeights, there) == RewardWeights()
    assert (here.url, there.url) == (None, "http://localhost:8100")


def test_what_the_file_says_is_what_the_reward_is(config, tiny_reader, tiny_entailment):
    reading = {"answer_pattern": "= (.*)", "search_tools": ["search"]}
    reward = read_reward(config({"url": "http://localhost:8100/", "answer_weight": 2, "gain_weight": 0.5, **reading}))
    assert (reward.answer_pattern, reward.search_tools.names) == ("= (.*)", ("search",))
    assert reward.weights == RewardWeights(2.0, 0.5, price=0.1)
    reader = {"reader": str(tiny_reader), "prompt": "brief", "dtype": "float32", "device": "cpu"}
    sampling = {"num_samples": 4, "max_new_tokens": 8, "seed": 3}
    settings = {**reader, "judge": str(tiny_entailment), **sampling, "price": 0.2}
    reward = read_reward(config(settings))
    with reward._reader.scorer() as scorer:
        assert (scorer.sampler.options.num_samples, scorer.sampler.options.seed) == (4, 3)
    columns = {name: [ROWS[0][name]] for name in ("question", "answers", "passages")}
    assert configured.delta_seper(**columns) == reward(**columns)
    assert configured.delta_seper(**columns)[0] is not None


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"prize": 0.1}, "reward.yaml: unknown setting 'prize', did you mean 'price'?"),
        ({"price": -1}, "price must be at least 0, got -1"),
        ({"url": "localhost:8100"}, "url must be an address such as http://localhost:8100"),
        ({"url": "http://a:1", "timeout": 0}, "timeout must be above 0"),
        (
            {"url": "http://a:1", "reader": "b", "num_samples": 3},
            "with a url the server has the reader; set num_samples, reader there",
        ),
        ({"answer_pattern": "("}, "answer_pattern must be a regular expression, got '(': missing )"),
        ("- price: 0.1", "must contain a YAML mapping"),
    ],
)
def test_mistakes_are_named_where_trl_looks_the_name_up(config, settings, message):
    path = config(settings)
    with pytest.raises(ValueError, match=f"^{CONFIG}={path}: ") as caught:
        importlib.import_module("seper_reward.reward").delta_seper  # noqa: B018
    assert message in str(caught.value)


def test_a_file_that_is_not_there(monkeypatch):
    monkeypatch.setenv(CONFIG, "configs/rewards/server.yaml")
    with pytest.raises(OSError, match=r"^SEPER_REWARD_CONFIG=configs/rewards/server.yaml: .*no such file"):
        importlib.import_module("seper_reward.reward").delta_seper  # noqa: B018


def test_no_setting_of_the_reader_is_lost_or_shadowed():
    """A setting of the reward that had the name of a reader's would count as one."""
    own = {*RewardOptions.__annotations__, *RewardWeights.__annotations__}
    assert not own & {each.name for each in fields(ScorerOptions)}


def test_one_default_price(monkeypatch):
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


def test_trl_grpo(tmp_path, config, tiny_reader, tiny_scorer):
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


def test_trl_grpo_ends_at_once_where_the_file_is_wrong(tmp_path, config):
    config({"url": "http://localhost:8100", "prise": 0.1})
    with pytest.raises(ValueError, match="unknown setting 'prise', did you mean 'price'"):
        trl_grpo(tmp_path, "no/such-model")
