"""Traps for a judge: how they are counted, and what the embedded judge does with them."""

import json
from collections import Counter

import pytest
import torch

from seper_reward.cli import main
from seper_reward.data.demo import EQUIVALENCE
from seper_reward.data.rows import read_valid_rows
from seper_reward.estimators.entailment import EntailmentScorer
from seper_reward.evaluation.validity.stress import stress
from seper_reward.runtime.pretrained import LoadOptions

TRAPS = ("unrelated", "gibberish", "echo", "shotgun", "not_gold", "politeness", "question_mark")


class Credulous:
    """Says 0.75 to every response, half as much to one of a polite question."""

    def class_probs(self, pairs, questions):
        return torch.tensor([[0.75 if len(question) < 60 else 0.375, 0.0, 0.0] for question in questions])


def test_traps_by_hand():
    rows = [row for _, row in read_valid_rows(EQUIVALENCE)]
    result = stress(Credulous())
    assert result["unrelated"].keys() == {"20", "100", "260"}
    assert result["question_mark_shift"] == 0
    lengths = [
        (len(row["question"]) < 60, len(row["plain_question"]) < 60) for row in rows if row["kind"] == "politeness"
    ]
    moved = sum(one != other for one, other in lengths) / len(lengths)
    assert result["politeness_shift"] == pytest.approx(0.375 * moved, abs=1e-4)
    assert result["politeness_shift"] > 0.2
    echo = [0.75 if len(row["question"]) < 60 else 0.375 for row in rows if row["kind"] == "echo"]
    assert result["echo"] == pytest.approx(sum(echo) / len(echo), abs=1e-4)


def test_traps_are_many_and_state_nothing():
    rows = [row for _, row in read_valid_rows(EQUIVALENCE)]
    counts = Counter(row["kind"] for row in rows)
    assert min(counts[kind] for kind in TRAPS) >= 40
    assert not any(row["equivalent"] for row in rows if row["kind"] in TRAPS[:5])
    assert len({row["id"] for row in rows}) == len(rows)


def test_the_embedded_judge_sees_through_them():
    result = stress(EntailmentScorer.from_pretrained(options=LoadOptions(device="cpu")))
    assert max(result["unrelated"][tokens] for tokens in ("100", "260")) <= 0.055
    assert result["unrelated"]["20"] <= 0.09
    assert result["echo"] <= 0.03
    assert result["gibberish"] <= 0.03
    assert result["shotgun"] <= 0.1
    assert result["not_gold"] <= 0.25
    assert result["politeness_shift"] <= 0.02
    assert result["question_mark_shift"] <= 0.01
    assert result["stated"] >= 0.95


def test_the_command(tiny_entailment, tmp_path, capsys):
    words = ["--entailment", tiny_entailment, "--dtype", "float32", "--device", "cpu", "--json", tmp_path / "out.json"]
    assert main(["evaluate", "stress", *map(str, words)]) == 0
    written = json.loads((tmp_path / "out.json").read_text())
    assert set(written["unrelated"]) == {"20", "100", "260"}
    assert {"gibberish", "echo", "shotgun", "not_gold", "politeness_shift", "question_mark_shift"} < written.keys()
    assert "not gold" in capsys.readouterr().out
