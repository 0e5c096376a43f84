"""People's marks are read in one way, with one answer to a missing mark."""

import pytest

from seper_reward.data.marks import (
    grade_of,
    grades_of,
    is_counterfactual,
    is_relevant,
    relevance_of,
    role_of,
    role_order,
)
from seper_reward.data.rows import BadRowError
from seper_reward.types import Passage, Query


def marked(**metadata):
    return Passage("text", id="p", metadata=metadata)


def test_a_passage_without_a_mark_is_not_relevant():
    passages = [marked(relevant=True), marked(relevant=False), marked(role="supporting"), marked(role="misleading")]
    assert [is_relevant(passage) for passage in [*passages, marked()]] == [True, False, True, False, False]
    assert is_relevant(marked(role="supporting", relevant=False)) is False  # the plain mark wins
    assert [is_counterfactual(passage) for passage in (marked(), marked(counterfactual=True))] == [False, True]


def test_a_mark_may_be_a_grade():
    marks = [marked(relevant=3), marked(relevant=1), marked(relevant=0), marked(relevant=-2), marked(relevant=True)]
    assert [grade_of(passage) for passage in [*marks, marked(role="supporting"), marked()]] == [3, 1, 0, 0, 1, 1, 0]
    assert type(grade_of(marks[-1])) is int
    assert [is_relevant(passage) for passage in marks] == [True, True, False, False, True]
    query = Query("q", "Who?", ("Ann",), (marked(relevant=2), marked(), marked(relevant=-1)))
    assert grades_of(query) == [2, 0, 0]
    assert relevance_of(query) == [True, False, False]


def test_null_is_no_mark():
    """Tables of Arrow have every field in every row."""
    null = dict.fromkeys(("relevant", "role", "counterfactual"))
    passages = (marked(**{**null, "relevant": True}), marked(**null), marked(**{**null, "role": "supporting"}))
    query = Query("q", "Who?", ("Ann",), passages)
    assert grades_of(query) == [1, 0, 1]
    assert not any(map(is_counterfactual, passages))
    with pytest.raises(BadRowError, match="got none"):
        grades_of(Query("q", "Who?", ("Ann",), (marked(**null),)))


@pytest.mark.parametrize("mark", ["yes", 1.0])
def test_a_mark_is_true_false_or_a_grade(mark):
    with pytest.raises(
        BadRowError, match=r"passage id='p': expected 'relevant': true, false or a grade \(0, 1, 2, ..."
    ):
        is_relevant(marked(relevant=mark))
    with pytest.raises(BadRowError, match="expected 'counterfactual': true or false, got 1"):
        is_counterfactual(marked(counterfactual=1))


def test_a_question_without_any_mark_is_unmarked():
    query = Query("q", "Who?", ("Ann",), (marked(relevant=True), marked()))
    assert relevance_of(query) == [True, False]
    with pytest.raises(
        BadRowError, match="question id='q': expected 'relevant': true, false or a grade in its passages, got"
    ):
        relevance_of(Query("q", "Who?", ("Ann",), (marked(page=3), marked())))
    with pytest.raises(BadRowError, match="question id='q', passage id='p': expected 'relevant'"):
        relevance_of(Query("q", "Who?", ("Ann",), (marked(relevant="no"),)))


def test_roles_of_rows():
    rows = [
        {"role": "misleading"},
        {"relevant": True},
        {"relevant": False},
        {},
        {"role": "other kind", "relevant": True},
        {"relevant": 2},
        {"relevant": -1},
    ]
    roles = [role_of(Passage("Text.", metadata=row)) for row in rows]
    assert roles == ["misleading", "relevant", "other", "all", "other kind", "relevant", "other"]
    assert sorted(roles[:5], key=role_order) == ["relevant", "other", "misleading", "all", "other kind"]


def test_known_roles_come_first():
    roles = ["misinfo", "page", "noise", "supporting", "correct"]
    assert sorted(roles, key=role_order) == ["supporting", "correct", "noise", "misinfo", "page"]
