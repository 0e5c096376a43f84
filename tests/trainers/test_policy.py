"""The policy's recipe on a tiny model: it runs, measures, resumes, saves; its summaries by hand."""

import json
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch
import yaml
from peft import AutoPeftModelForCausalLM
from safetensors.torch import load_file
from transformers import AutoTokenizer

from seper_reward.reader.loading import READER_HUB_ID
from seper_reward.reward.rollouts import Rollout, Score
from seper_reward.reward.turns import Turn
from seper_reward.runtime import pretrained
from seper_reward.runtime.json_files import read_lines
from seper_reward.runtime.pretrained import base_of_adapter
from seper_reward.types import Passage
from tests.helpers import cells, run_block
from tests.trainers.test_policy_results import KNOWN, LOST, NEEDED
from trainers import policy
from trainers.models import name_base
from trainers.policy_results import Episode
from trainers.runs import locked


@pytest.fixture
def settings(tmp_path, tiny_reader, tiny_entailment):
    reading = {
        "reader": str(tiny_reader), "prompt": "brief", "dtype": "float32", "device": "cpu",
        "judge": str(tiny_entailment), "num_samples": 2, "max_new_tokens": 3,
    }  # fmt: skip
    (tmp_path / "scorer.yaml").write_text(yaml.safe_dump(reading))
    return [
        "--model", str(tiny_reader), "--scorer", str(tmp_path / "scorer.yaml"), "--init_adapter", "none",
        "--output_dir", str(tmp_path / "run"), "--max_steps", "2", "--per_device_train_batch_size", "4",
        "--num_generations", "2", "--per_device_eval_batch_size", "4", "--max_completion_length", "8",
        "--groups", "known", "fiction", "--limit", "4",
        "--eval_limit", "2", "--bf16", "false", "--save_steps", "1", "--disable_tqdm", "true", "--lora_r", "2",
    ]  # fmt: skip


def results_of(folder):
    return json.loads((folder / "results.json").read_text())


@pytest.mark.parametrize("reader", [pytest.param("separate", marks=pytest.mark.slow), "policy-base"])
def test_main_measures_trains_and_measures_again(settings, tmp_path, capsys, reader):
    settings += ["--reader", reader, "--answer_weight", "0", "--logging_steps", "1", "--eval_limit", "6"]
    assert policy.main(settings) == 0
    results = results_of(tmp_path / "run")
    rules = ["never_search", "always_search", "threshold_entropy", "threshold_semantic_entropy"]
    assert list(results) == ["before", "after", *rules]
    for measures in (results["before"], results["after"]):
        assert set(measures) >= {"accuracy", "searches_per_question", "reward", "unscored"}
        assert measures["unscored"] == 0
    assert results["always_search"]["searches_per_question"] == 1.0
    assert results["never_search"]["searches_per_question"] == results["never_search"]["reward"] == 0.0
    assert results["after"]["accuracy_leads"].keys() == results["after"]["reward_leads"].keys() == {"before", *rules}
    log = [row for row in read_lines(tmp_path / "run" / "training.jsonl") if "reward" in row]
    assert [row["step"] for row in log] == [1, 2]
    assert all("seper/failed_calls" in row for row in log)
    held_out = list(read_lines(tmp_path / "run" / "results_held_out.jsonl"))
    assert {row["by"] for row in held_out} == results.keys()
    assert len({row["id"] for row in held_out}) == len({row["question"] for row in held_out}) == 6
    assert base_of_adapter(tmp_path / "run" / "model").name == settings[1]  # the model
    err = capsys.readouterr().err
    assert "never searches on held-out questions" in err
    model = tmp_path / "run" / "model"
    assert f"next: the same command with --init_adapter {model} --evaluate_only true --input" in err


@pytest.mark.parametrize(("model", "base"), [("embedded", "embedded"), ("plain", READER_HUB_ID), ("org/x", "org/x")])
def test_name_base_writes_the_readers_name(tmp_path, model, base):
    (tmp_path / "adapter_config.json").write_text('{"base_model_name_or_path": "/somewhere", "r": 2}')
    name_base(tmp_path, model)
    assert json.loads((tmp_path / "adapter_config.json").read_text()) == {"base_model_name_or_path": base, "r": 2}


@pytest.mark.slow
def test_main_saves_a_policy_for_peft_and_transformers_alone(settings, tmp_path, monkeypatch):
    made, trainers = policy.new_trainer, []

    def watched(*args):
        trainers.append(made(*args))
        for name, weights in trainers[0].model.named_parameters():
            if "lora_B" in name:  # these start at 0
                torch.nn.init.normal_(weights, std=0.3)
        return trainers[0]

    monkeypatch.setattr(policy, "new_trainer", watched)
    # elsewhere the policy is in bfloat16, and rounded more than the bound below
    monkeypatch.setattr(pretrained, "fast_dtype", lambda *device: torch.float32)
    assert policy.main(settings) == 0
    run, ids = tmp_path / "run", torch.tensor([[5, 9, 300, 42]])
    with torch.no_grad():
        expected = trainers[0].model.eval()(input_ids=ids).logits
        logits = AutoPeftModelForCausalLM.from_pretrained(run / "model")(input_ids=ids).logits
    torch.testing.assert_close(logits, expected, atol=1e-4, rtol=0)
    assert not (run / "merged").exists()
    assert "tools" in AutoTokenizer.from_pretrained(run / "model").chat_template
    assert not (run / "README.md").exists()  # TRL's
    card = (run / "model" / "README.md").read_text()
    assert cells(card, ["after"]) == cells((run / "results.md").read_text(), ["after"])
    assert "lora_r: 2\n" in card
    assert "per_device_train_batch_size: 4\n" in card
    run_block(card, run / "model")


def test_main_with_credit_per_turn_and_own_questions(settings, tmp_path, lane_questions):
    # `--groups` is given again, as a finished run proposes
    own = [*settings, "--input", str(lane_questions), "--groups", lane_questions.stem, "--split_by", "passage"]
    own += ["--credit", "turn", "--scale_rewards", "none", "--logging_steps", "1"]
    assert policy.main(own) == 0
    (checkpoint,) = (tmp_path / "run").glob("checkpoint-2")
    log = json.loads((checkpoint / "trainer_state.json").read_text())["log_history"]
    assert [row["credit/whole_rollouts"] for row in log if "credit/whole_rollouts" in row] == [0.0, 0.0]
    lane_questions.write_text(lane_questions.read_text().replace("graze on", "leave"))
    with pytest.raises(ValueError, match="changed: other data"):
        policy.main(own)


def test_main_evaluates_only(settings, tmp_path, capsys):
    assert policy.main([*settings, "--evaluate_only", "true"]) == 0
    measures = json.loads((tmp_path / "run" / "evaluation.json").read_text())
    assert {"before", "never_search"} < set(measures)
    assert "after" not in measures
    assert "next: " not in capsys.readouterr().err
    assert not any((tmp_path / "run" / name).exists() for name in ("model", "results.json"))


@pytest.mark.slow
def test_main_trains_all_weights(settings, tmp_path):
    settings[settings.index("--lora_r") + 1] = "0"
    assert policy.main(settings) == 0
    saved = load_file(tmp_path / "run" / "model" / "model.safetensors")
    assert not any("lora" in name for name in saved)
    with pytest.raises(ValueError, match="no adapter to switch off"):
        policy.main([*settings, "--reader", "policy-base", "--output_dir", str(tmp_path / "other")])
    model = ["--model", str(tmp_path / "run" / "model"), "--evaluate_only", "true"]  # as it suggests
    assert policy.main([*settings, *model, "--init_adapter", "none", "--output_dir", str(tmp_path / "other")]) == 0


def test_play_measures_a_policy_by_its_own_answers(capsys):
    searches = (Turn("who?", (Passage("Ann runs it."),)),)
    rollouts = [
        (Rollout(NEEDED.question, NEEDED.answers, searches, "Bob"), Score(0.4, (), 0.2, 0.1)),
        (Rollout(NEEDED.question, NEEDED.answers, searches, ""), Score(0.3, (), 0.2, 0.0)),
        (Rollout(KNOWN.question, KNOWN.answers, (), "Paris"), Score(0.9, (), 0.0, 0.9)),
        (Rollout(LOST.question, LOST.answers, (), "Ann"), None),
        (Rollout(NEEDED.question, NEEDED.answers, (), "Bob"), Score(0.0, (), 0.0, 0.0)),  # to fill up a process
    ]
    trainer = SimpleNamespace(
        num_generations_eval=2, evaluate=lambda: None, model=object(), model_wrapped=None,
        args=SimpleNamespace(max_completion_length=8), is_fsdp_enabled=False,
    )  # fmt: skip
    reward = SimpleNamespace(recording=lambda: nullcontext(rollouts))
    closed_book = {name: SimpleNamespace(seper=seper) for name, seper in (("k", 0.9), ("n", 0.1), ("l", 0.1))}
    assert policy.play(trainer, reward, [KNOWN, NEEDED, LOST], closed_book) == [
        Episode("n", True, ("who?",), "Bob", 0.0, 0.1, 0.4), Episode("n", True, ("who?",), "", 0.0, 0.0, 0.3),
        Episode("k", False, (), "Paris", 1.0, 0.9, 0.9), None,
    ]  # fmt: skip
    assert "1 of 4 held-out rollouts search and then give no answer" in capsys.readouterr().err


VLLM = {"use_vllm": True, "use_cpu": True, "per_device_train_batch_size": 8}


@pytest.mark.parametrize(
    ("ranks", "modes", "hangs"),
    [
        (2, {"vllm_mode": "server"}, True),
        (4, {"vllm_mode": "colocate", "vllm_tensor_parallel_size": 2}, True),
        (2, {"vllm_mode": "colocate"}, False),
        (1, {"vllm_mode": "server"}, False),
        (2, {"vllm_mode": "server", "use_vllm": False}, False),
    ],
)
def test_arguments_refuse_ranks_that_generate_together(tmp_path, monkeypatch, ranks, modes, hangs):
    """A rank whose rollouts end first would leave the others waiting for its next turn."""
    monkeypatch.setattr(policy.PolicyArguments, "world_size", ranks)
    found = pytest.raises(ValueError, match="would wait for ever with vllm_mode") if hangs else nullcontext()
    with found:
        policy.PolicyArguments(output_dir=str(tmp_path), **VLLM | modes)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"credit": "turn"}, "needs scale_rewards='none' in GRPOConfig, got 'group'"),
        ({"per_device_eval_batch_size": "7"}, r"whole groups of 2 rollouts .* got 7 over 1 processes"),
        ({"price": "-1"}, "price must be at least 0, got -1"),
    ],
)
def test_main_refuses_settings_before_it_claims_a_folder(settings, tmp_path, given, message):
    with pytest.raises(ValueError, match=message):
        policy.main([*settings, *(word for name, value in given.items() for word in (f"--{name}", value))])
    assert not (tmp_path / "run").exists()


def test_main_refuses_a_used_folder_and_two_readers(settings, tmp_path):
    with locked(tmp_path / "run"), pytest.raises(ValueError, match="in use by another process"):
        policy.main(settings)
    (tmp_path / "engine.yaml").write_text("engine: [http://localhost:1/v1]\n")
    with pytest.raises(ValueError, match=r"uses the policy's weights, but .*engine\.yaml names"):
        policy.main([*settings, "--reader", "policy-base", "--scorer", str(tmp_path / "engine.yaml")])


def test_config_without_a_warm_up_says_what_to_do(tmp_path):
    with pytest.raises(ValueError, match=r"warm up first with `seper-reward train sft"):
        policy.PolicyConfig(init_adapter=str(tmp_path))
