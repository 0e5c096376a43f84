"""Copies of passages that state another answer of the same kind."""

from dataclasses import replace

import pytest

from seper_reward.types import Passage, Query
from tests.benchmarks.adapters.substitution import answer_type, misleads, substituted, with_substituted_copies

MARKED = {"relevant": True}


def query(number, question, answers, text, **metadata):
    passages = (
        Passage(text, f"Town {number}", f"p{number}", metadata or MARKED),
        Passage("It rained all day.", "Weather", f"n{number}", {"relevant": False}),
    )
    return Query(f"q{number}", question, tuple(answers), passages)


@pytest.fixture
def queries():
    return [
        query(1, "When was the mill built?", ["1804"], "The mill was built in 1804 and burnt in 1820."),
        query(2, "When did the bridge fall?", ["1911", "in 1911"], "The bridge fell in 1911."),
        query(3, "Who owned the inn?", ["Ann Lee"], "Ann Lee owned the inn; so ANN LEE wrote."),
        query(4, "Who led the choir?", ["Bo Ray", "Ray"], "The choir of Bo Ray sang."),
    ]


def test_every_spelling_of_the_answer_is_replaced():
    passage = Passage("Ann Lee ran. Later ANN rested; Annette did not.", "Ann Lee (runner)")
    changed = substituted(passage, ["Ann", "Ann Lee"], r"Bo\b Ray")
    assert changed.title == r"Bo\b Ray (runner)"
    assert changed.text == r"Bo\b Ray ran. Later Bo\b Ray rested; Annette did not."


def test_a_copy_states_the_answer_of_another_question_of_its_type(queries):
    drawn = with_substituted_copies(queries, 1.0)
    copies = {row.id: [each for each in row.passages if each.metadata.get("counterfactual")] for row in drawn}
    assert any(copies.values())
    for row, before in zip(drawn, queries, strict=True):
        assert row.passages[:2] == before.passages  # what was there stays, in its place
        for copy in copies[row.id]:
            assert copy.id == f"{before.passages[0].id}-{row.id}-substituted"
            assert (copy.metadata["relevant"], copy.metadata["role"]) == (False, "misleading")
            assert not any(alias in copy.text for alias in before.answers)
            others = [each.answers[0] for each in queries if each.id != row.id]
            stated = [other for other in others if other in copy.text]
            assert [answer_type(other) for other in stated] == [answer_type(before.answers[0])]


def test_copies_do_not_depend_on_the_order_of_the_questions(queries):
    backwards = with_substituted_copies(queries[::-1], 1.0)
    assert backwards[::-1] == with_substituted_copies(queries, 1.0)


def test_a_share_of_the_questions_gets_copies(queries):
    many = [replace(queries[place % 4], id=f"q{place}") for place in range(400)]
    counts = {
        share: sum(len(row.passages) > 2 for row in with_substituted_copies(many, share)) for share in (0, 0.5, 1)
    }
    assert counts[0] == 0
    assert 0.4 < counts[0.5] / counts[1] < 0.6
    assert with_substituted_copies(many, 0) == many


def test_what_names_or_shares_the_answer_misleads_nobody(queries):
    assert misleads(queries[2], "Bo Ray")
    assert not misleads(queries[2], "Lee Ray")  # a word of the right answer
    assert not misleads(queries[2], "yes")
    assert not misleads(replace(queries[2], answers=("no",)), "Ray")
    assert not misleads(replace(queries[2], question="Who was Ann Lee of the inn?"), "Bo Ray")


def test_passages_without_the_answer_or_the_mark_have_no_copy(queries):
    silent = [replace(row, passages=(replace(row.passages[0], text="Nothing of it."),)) for row in queries]
    unmarked = [replace(row, passages=(replace(row.passages[0], metadata={"relevant": False}),)) for row in queries]
    for rows in (silent, unmarked):
        assert with_substituted_copies([*rows, queries[2], queries[3]], 1.0)[:4] == rows
        with pytest.raises(ValueError, match="true that state the answer, got none"):
            with_substituted_copies(rows, 1.0)
