"""People's marks are read in one way, with one answer to a missing mark."""

import pytest

from seper_reward.data.marks import is_counterfactual, is_relevant, relevance_of, role_of, role_order, type_of
from seper_reward.data.rows import BadRowError
from seper_reward.types import Passage, Query


def marked(**metadata):
    return Passage("text", id="p", metadata=metadata)


def test_a_passage_without_a_mark_is_not_relevant():
    passages = [marked(relevant=True), marked(relevant=False), marked(role="supporting"), marked(role="misleading")]
    assert [is_relevant(passage) for passage in [*passages, marked()]] == [True, False, True, False, False]
    assert is_relevant(marked(role="supporting", relevant=False)) is False  # the plain mark wins
    assert [is_counterfactual(passage) for passage in (marked(), marked(counterfactual=True))] == [False, True]


@pytest.mark.parametrize("mark", ["yes", 1, None])
def test_a_mark_is_true_or_false(mark):
    with pytest.raises(BadRowError, match=r"passage id='p': expected 'relevant': true or false, got"):
        is_relevant(marked(relevant=mark))


def test_a_question_without_any_mark_is_unmarked():
    query = Query("q", "Who?", ("Ann",), (marked(relevant=True), marked()))
    assert relevance_of(query) == [True, False]
    with pytest.raises(BadRowError, match="question id='q': expected 'relevant': true or false in its passages, got"):
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
    ]
    roles = [role_of(row) for row in rows]
    assert roles == ["misleading", "relevant", "other", "all", "other kind"]
    assert sorted(roles, key=role_order) == ["relevant", "other", "misleading", "all", "other kind"]


def test_types_of_passages():
    passages = [marked(type="misinfo", relevant=False), marked(role="supporting", type="page"), marked(relevant=True)]
    assert [*map(type_of, passages), type_of(marked())] == ["misinfo", "supporting", "relevant", "other"]
    roles = ["misinfo", "page", "noise", "supporting", "correct"]
    assert sorted(roles, key=role_order) == ["supporting", "correct", "noise", "misinfo", "page"]
