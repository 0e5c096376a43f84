"""The policy's recipe on a tiny model: it runs, measures and saves."""

import json

import pytest
import yaml

from trainers import policy
from trainers.policy_data import policy_queries


@pytest.fixture
def settings(tmp_path, tiny_reader, tiny_entailment):
    reading = {
        "reader": str(tiny_reader), "entailment": str(tiny_entailment), "prompt": "brief", "num_samples": 2,
        "max_new_tokens": 3, "dtype": "float32", "device": "cpu",
    }  # fmt: skip
    (tmp_path / "scorer.yaml").write_text(yaml.safe_dump(reading))
    return [
        "--model", str(tiny_reader), "--scorer", str(tmp_path / "scorer.yaml"), "--init_adapter", "none",
        "--output_dir", str(tmp_path / "run"), "--max_steps", "2", "--per_device_train_batch_size", "4",
        "--num_generations", "2", "--per_device_eval_batch_size", "8", "--max_completion_length", "8", "--limit", "6",
        "--bf16", "false", "--save_steps", "1", "--disable_tqdm", "true", "--lora_r", "2",
    ]  # fmt: skip


@pytest.mark.parametrize("reader", ["separate", "policy-base"])
def test_command(settings, tmp_path, reader):
    assert policy.main([*settings, "--reader", reader]) == 0
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert set(results) == {"before", "after", "never_search", "always_search", "threshold"}
    for row in (results["before"], results["after"]):
        assert set(row) >= {"search_rate", "accuracy", "searches_per_question", "reward"}
    assert results["always_search"]["searches_per_question"] == 1.0
    assert results["never_search"] | {"seper": 0, "accuracy": 0} == {
        "accuracy": 0, "seper": 0, "searches_per_question": 0.0, "search_rate_needed": 0.0,
        "search_rate_not_needed": 0.0, "reward": 0.0,
    }  # fmt: skip
    assert (tmp_path / "run" / "model" / "adapter_model.safetensors").is_file()


def test_without_a_warm_up_it_says_what_to_do(tmp_path):
    with pytest.raises(ValueError, match=r"warm up first with `python -m trainers\.sft"):
        policy.PolicyConfig(init_adapter=str(tmp_path))


def test_splits_do_not_meet():
    splits = [{query.id for query in policy_queries(name)[0]} for name in ("train", "dev", "test")]
    assert sum(map(len, splits)) == len(set.union(*splits)) == 123
    assert all(splits)
