"""Planted wrong answers against supporting passages."""

import pytest

from seper_reward.evaluate.counterfactual import counterfactual
from seper_reward.types import Passage, Query
from tests.evaluate.stubs import StubScorer

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
    with pytest.raises(ValueError, match="marked 'counterfactual'"):
        counterfactual(scorer, [Query("first", "first", ("Ann",), passages[:1])])
