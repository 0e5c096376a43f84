"""Planted wrong answers against supporting passages."""

import json

import pytest

from seper_reward.cli import main
from seper_reward.evaluate.counterfactual import counterfactual
from seper_reward.types import Passage, Query
from tests.evaluate.stubs import StubScorer
from tests.helpers import as_query, write_rows
from tests.helpers import evaluation_arguments as arguments

MARKS = {
    "right": {"relevant": True},
    "wrong": {"relevant": False, "counterfactual": True},
    "plain": {"relevant": False},
}


def test_counterfactual_by_hand(tiny_sampler):
    """The reader knows the first question, at 0.8 without a passage, and not the second, at 0.1."""
    sepers = {
        "first": {(): 0.8, ("right",): 0.9, ("wrong",): 0.2, ("plain",): 0.75},
        "second": {(): 0.1, ("right",): 0.7, ("wrong",): 0.1, ("plain",): 0.1},
    }
    scorer = StubScorer(tiny_sampler.tokenizer, lambda question, ids: sepers[question][ids], std_error=0.02)
    passages = tuple(Passage(name, id=name, metadata=marks) for name, marks in MARKS.items())
    found = counterfactual(scorer, [Query(name, name, ("Ann",), passages) for name in sepers])
    means = {kind: row.delta_seper.value for kind, row in found.kinds.items()}
    assert means == pytest.approx({"supporting": 0.35, "planted": -0.3, "neutral": -0.025})
    # an interval reaches 2 √2 · .02 = .057 to either side
    harmful = {kind: row.harmful.value for kind, row in found.kinds.items()}
    assert harmful == {"supporting": 0.0, "planted": 0.5, "neutral": 0.0}
    assert found.kinds["supporting"].helpful.value == 1.0  # .1 and .6
    assert found.known["planted"].harmful.value == found.lower_than_supporting.value == 1.0
    assert found.lead_over_neutral.value == pytest.approx((-0.55 + 0.0) / 2)
    assert "planted, known questions" in found.table()


def test_counterfactual_command(tiny_reader, tiny_entailment, tiny_scorer, tmp_path):
    passages = [{"id": name, "text": name, **marks} for name, marks in MARKS.items()]
    passages.append({"id": "too", "text": "right, too", "relevant": True})
    row = {"question": "Who?", "answers": ["Ann"], "passages": passages}
    rows = [{**row, "id": f"q{n}", "question": f"Who {n}?"} for n in range(3)]
    rows += [{**row, "id": "unplanted", "passages": passages[2:]}, {**row, "id": "long", "question": "why " * 600}]
    words = arguments(tiny_reader, tiny_entailment, write_rows(tmp_path / "qa.jsonl", rows), tmp_path / "out.json")
    assert main(["evaluate", "counterfactual", *words]) == 0
    result = json.loads((tmp_path / "out.json").read_text())
    assert (result["questions"], result["left_out"]) == (3, 2)
    counts = {kind: (found["questions"], found["passages"]) for kind, found in result["kinds"].items()}
    assert counts == {"supporting": (3, 6), "planted": (3, 3), "neutral": (3, 3)}
    with pytest.raises(ValueError, match="marked 'counterfactual'"):
        counterfactual(tiny_scorer, [as_query(rows[3])])
