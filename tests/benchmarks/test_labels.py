"""Candidates for a label, by hand."""

import math

import pytest

from seper_reward.types import LabeledQuery, Passage, Query
from tests.benchmarks.labels import pooled_answers


def _read(question_gain, **responses):
    return {
        "question_gain": question_gain,
        "responses": [
            {"text": text.replace("_", " "), "weight": weight, "count": int(text != "Gold")}
            for text, weight in responses.items()
        ],
    }


def test_pooled_answers_by_hand():
    """Weights of the passages are 3/4 and 1/4, so the pool has .6 of Ann, .1 of Bob, and nothing of the abstention.

    A gold answer that was not drawn is no answer of the reader's.
    """
    query = Query("q", "Who?", (), (Passage("one"), Passage("two")))
    details = (
        _read(math.log(3) / 2, Ann=0.5, the_Ann=0.3, unknown=0.2),
        _read(0.0, Bob=0.4, Do_not_know=0.5, Gold=0.1),
    )
    row = LabeledQuery(query, (0.0,) * 2, (0.0,) * 2, details=details, baseline=_read(0.0, ann=0.2, Carl=0.8))
    first, second = 0.6 / 0.7, 0.1 / 0.7
    assert pooled_answers(row) == pytest.approx([(0.8 - 0.2) * first, (0.0 - 0.2) * first + 0.4 * second])
