"""The placebo: which questions it is measured on, and what it did to the labels."""

import random

import pytest

from seper_reward.labels.labelers import GoldLabeler, load_labeler
from seper_reward.labels.placebo import closed_book, placebo_queries
from seper_reward.labels.summary import placebo_effect
from seper_reward.reports.tables import placebo_line
from tests.helpers import as_query

QUERIES = [
    as_query({"id": f"q{number}", "question": f"Who built mill {number}?", "answers": ["Ann"], "passages": ["Corn."]})
    for number in range(30)
]


def test_placebo_queries_are_the_same_in_any_order(tiny_scorer):
    labeler = load_labeler("delta_seper", lambda: tiny_scorer)
    chosen = placebo_queries(labeler, QUERIES)
    assert placebo_queries(labeler, random.Random(1).sample(QUERIES, len(QUERIES))) == chosen
    assert len({query.id for query in chosen}) == 20
    assert {query.passages[0].text for query in chosen} == {tiny_scorer.reader.prompts.style.placebo}
    assert len(placebo_queries(labeler, QUERIES[:3])) == 3
    assert placebo_queries(GoldLabeler(), QUERIES) == []


@pytest.mark.parametrize("name", ["delta_seper", "erag", "likelihood"])
def test_closed_book_compares_the_placebo_with_no_passage(name, tiny_scorer):
    given = tiny_scorer.with_baseline("placebo")
    assert given.fingerprint["prompt"] == {**tiny_scorer.fingerprint["prompt"], "baseline": "placebo"}
    labeler = load_labeler(name, lambda: given)
    (query,) = placebo_queries(labeler, QUERIES[:1])
    assert labeler.label(query).labels == pytest.approx([0.0], abs=1e-6)  # compared with itself
    found = closed_book(labeler).label(query)
    assert found == load_labeler(name, lambda: tiny_scorer).label(query)
    assert name == "erag" or abs(found.labels[0]) > 1e-3  # the tiny reader is right nowhere
    assert given.reader.prompts.style.baseline == "placebo"


def test_placebo_effect_by_hand():
    # mean .1, standard deviation .2, and Student's t is 4.302653 for two degrees of freedom
    effect = placebo_effect([0.1, 0.3, -0.1], "likelihood")
    assert effect["questions"] == 3
    assert effect["likelihood"] == pytest.approx(0.1)
    assert effect["interval"] == pytest.approx([0.1 - 0.496828, 0.1 + 0.496828], abs=1e-5)
    assert placebo_line(effect, "likelihood").endswith("likelihood +0.100 (95 %: -0.397 to +0.597), 3 questions")


def test_placebo_effect_of_few_questions_has_no_interval():
    assert placebo_effect([0.2], "likelihood") == {"questions": 1, "likelihood": 0.2, "interval": None}
    assert placebo_line(placebo_effect([0.2], "likelihood"), "likelihood").endswith("likelihood +0.200, 1 question")
    assert placebo_effect([], "likelihood") == {"questions": 0, "likelihood": None, "interval": None}
    assert "no question" in placebo_line(placebo_effect([], "likelihood"), "likelihood")
