"""The recipe of the shipped entailment adapter: its loss, its data, one step."""

import math
import random
from pathlib import Path

import pytest
import torch

from seper_reward.data.demo import ENTAILMENT_ADAPTER
from seper_reward.data.splits import split_of
from seper_reward.evaluation.validity.equivalence import Verdict
from seper_reward.runtime.json_files import read_json
from seper_reward.runtime.parser import parse_settings
from seper_reward.runtime.pretrained import LoadOptions
from trainers import entailment as trainer
from trainers.adapters import entailment_data as data

ROOT = Path(__file__).parents[2]


def test_loss_by_hand():
    logits = torch.tensor([[0.5, 0.3, 0.2], [0.5, 0.3, 0.2], [0.1, 0.2, 0.7]]).log()
    labels = torch.tensor([1, data.NOT_ENTAILMENT, 2])
    expected = -(math.log(0.3) + math.log(0.5) + math.log(0.7)) / 3
    assert float(trainer.three_way_loss({"logits": logits}, labels)) == pytest.approx(expected, rel=1e-5)


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


def test_swapped_answers_share_no_word_with_the_gold_ones(shared_data):
    rows = data.evouna_rows(shared_data, "dev")
    swapped = [pair for pair in data.swapped_pairs(rows, random.Random(0)) if pair.source == "evouna_swap"]
    assert len(swapped) > len(rows) / 2
    assert {pair.label for pair in swapped} == {data.NOT_ENTAILMENT}
    assert all(pair.premise != pair.hypothesis for pair in swapped)


def test_only_licence_clean_sets_are_trained_on():
    assert set(data.LICENCES).isdisjoint({*data.EVALUATION_ONLY, "ling_in_loop"})
    assert not any(name.startswith(("2way", "imppres", "anli", "sick")) for name in data.LICENCES)


def test_a_few_steps_move_the_adapter_and_it_loads(shared_data, tmp_path, monkeypatch):
    from safetensors.torch import load_file

    from seper_reward import EntailmentScorer

    pairs = data.nli_pairs(shared_data, "snli_dev_test", "dev")[:64]
    monkeypatch.setattr(trainer, "training_pairs", lambda *_: pairs)
    config = trainer.EntailmentTrainingConfig(
        data_dir=str(shared_data), output_dir=str(tmp_path), max_steps=3, batch_size=8, lora_r=4
    )
    folder = trainer.train(config)
    weights = load_file(folder / "adapter_model.safetensors")
    moved = [name for name, tensor in weights.items() if "lora_B" in name and tensor.abs().max() > 0]  # B starts at 0
    assert len(moved) == sum("lora_B" in name for name in weights) > 30
    assert {tensor.dtype for tensor in weights.values()} == {torch.float16}
    assert not list(folder.glob("*.bin"))
    probs = EntailmentScorer.from_pretrained(str(folder), LoadOptions(device="cpu")).class_probs(
        [("A man sleeps", "A man rests")]
    )
    assert float(probs.sum()) == pytest.approx(1.0, abs=1e-3)

    # half of its verdicts are wrong, so that it should be less certain: a temperature above 1, in the weights
    verdicts = [Verdict(f"who {n}?", ("Ann Lee",), "Ann", n % 2 == 0) for n in range(20)]
    judged = [(row.response, row.answers[0]) for row in verdicts]
    questions = [row.question for row in verdicts]
    before = EntailmentScorer.from_pretrained(str(folder), LoadOptions(dtype="float32", device="cpu")).class_probs(
        judged, questions
    )
    temperature = trainer.fitted_temperature(folder, verdicts)
    trainer.divide_logits(folder, temperature)
    after = EntailmentScorer.from_pretrained(str(folder), LoadOptions(dtype="float32", device="cpu")).class_probs(
        judged, questions
    )
    torch.testing.assert_close(after, (before.log() / temperature).softmax(-1), atol=2e-2, rtol=0)
    assert (after[:, 0] - 0.5).abs().mean() < (before[:, 0] - 0.5).abs().mean()
    assert temperature != pytest.approx(1.0, abs=0.05)


def test_stages_differ_only_by_what_the_config_says(shared_data):
    plain, more = (data.training_pairs(shared_data, 0, confusable=wanted) for wanted in (False, True))
    added = {pair.source for pair in more} - {pair.source for pair in plain}
    assert added == {"evouna_mined", "answer_types"}


def test_confusable_answers_entail_only_their_own_spellings():
    pairs = list(data.typed_pairs(500, random.Random(0)))
    entailed = [pair for pair in pairs if pair.label == data.LABELS["entailment"]]
    assert 0.3 < len(entailed) / len(pairs) < 0.5
    assert all(pair.question.endswith("?") for pair in pairs)
    assert not any(pair.premise.lower() == pair.hypothesis.lower() for pair in pairs if pair not in entailed)


def test_a_training_is_not_resumed_with_other_settings(tmp_path, monkeypatch):
    def stops(config):
        raise KeyboardInterrupt

    monkeypatch.setattr(trainer, "train", stops)
    words = ["--output_dir", str(tmp_path), "--max_steps", "4"]
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            trainer.main(words)
    with pytest.raises(ValueError, match=r"forms was False, is True"):
        trainer.main([*words, "--forms", "true"])


def test_the_shipped_card_is_what_the_recipe_writes_from_the_shipped_scores():
    (config,) = parse_settings(
        (trainer.EntailmentTrainingConfig,), ["--config", str(ROOT / "configs/entailment/modified.yaml")], "entailment"
    )
    written = trainer.card(config, read_json(ENTAILMENT_ADAPTER / "scores.json"))
    assert (ENTAILMENT_ADAPTER / "README.md").read_text(encoding="utf-8") == written
