"""The factory of the entailment adapter that ships: its data, its stages, its card."""

import random
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from seper_reward.data.demo import ENTAILMENT_ADAPTER
from seper_reward.data.splits import split_of
from seper_reward.runtime.json_files import read_json
from seper_reward.runtime.parser import parse_options
from tests.benchmarks.adapters import entailment as factory
from tests.benchmarks.adapters import entailment_data as data
from trainers.entailment import LABELS, NOT_ENTAILMENT, EntailmentArguments, LabeledPair, read_pairs

PAIRS = [
    LabeledPair("Ann Lee\n", "Ann", LABELS["entailment"], "ours", "Who built it?"),
    LabeledPair("", "Zoë", NOT_ENTAILMENT, "ours"),
]
CONFIGS = Path(factory.__file__).parent / "configs"


def test_no_question_of_a_held_out_split_is_trained_on(shared_data):
    rows = data.evouna_rows(shared_data, "train")
    asked = {row["question"].lower() for row in rows}
    held_out = {
        row["question"].lower()
        for row in data.read_rows(shared_data / "qa" / "nq_oracle_bm25neg.jsonl.gz")
        if split_of(row["id"]) != "train"
    }
    assert asked.isdisjoint(held_out)
    assert asked.isdisjoint(row["question"].lower() for row in data.evouna_rows(shared_data, "test"))
    assert not any(row["improper"] for row in rows)
    assert len(rows) > 1000


@pytest.mark.slow
def test_no_form_is_made_of_a_held_out_question(shared_data):
    """Neither EVOUNA's dev and test questions, by which the adapter is judged, nor NQ's."""
    held_out = {row["question"].lower() for split in ("dev", "test") for row in data.evouna_rows(shared_data, split)}
    held_out |= {
        row["question"].lower()
        for row in data.read_rows(shared_data / "qa" / "nq_oracle_bm25neg.jsonl.gz")
        if split_of(row["id"]) != "train"
    }
    used = {question.lower() for question, *_ in data.paragraphs(shared_data, random.Random(0))}
    used |= {
        fact.question.lower() for fact in data.known_facts(data.evouna_rows(shared_data, "train"), data.common_facts())
    }
    assert len(used) > 1000
    assert used.isdisjoint(held_out)
    calibrating = {row.question.lower() for row in data.trap_verdicts(shared_data, 300, seed=0)}
    test = {row["question"].lower() for row in data.evouna_rows(shared_data, "test")}
    assert len(calibrating) > 50
    assert calibrating.isdisjoint(used | test)


def test_a_training_is_not_resumed_with_other_settings(tmp_path, monkeypatch):
    def stops(stage, arguments):
        assert read_pairs(stage.pairs) == PAIRS
        raise KeyboardInterrupt

    monkeypatch.setattr(factory, "training_pairs", lambda *_: PAIRS)
    monkeypatch.setattr(factory, "train", stops)
    words = ["--output_dir", str(tmp_path), "--max_steps", "4"]
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            factory.main(words)
    with pytest.raises(ValueError, match=r"forms was False, is True"):
        factory.main([*words, "--forms", "true"])


def test_the_shipped_card_is_what_the_recipe_writes_from_the_shipped_scores():
    words = ["--config", str(CONFIGS / "entailment-second-more.yaml")]
    config, arguments = parse_options((factory.StageConfig, EntailmentArguments), words, "entailment")
    written = factory.card(config, arguments, read_json(ENTAILMENT_ADAPTER / "scores.json"))
    assert (ENTAILMENT_ADAPTER / "README.md").read_text(encoding="utf-8") == written


def test_the_mean_of_two_stages_weighs_each_by_its_share(tmp_path):
    for name, value in (("trained", 2.0), ("start", -3.0)):
        (tmp_path / name).mkdir()
        save_file({"layer": torch.full((2,), value).half()}, tmp_path / name / "adapter_model.safetensors")
    factory.average(tmp_path / "trained", tmp_path / "start", 0.75)
    mean = load_file(tmp_path / "trained" / "adapter_model.safetensors")["layer"]
    assert mean.dtype == torch.float16
    assert mean.tolist() == [0.75, 0.75]  # .75 * 2 - .25 * 3
