"""Human labels are read in one way, with one answer to a missing mark."""

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


@pytest.mark.parametrize(
    ("metadata", "grade", "role"),
    [
        ({"relevant": True}, 1, "relevant"),
        ({"relevant": False}, 0, "other"),
        ({"relevant": 3}, 3, "relevant"),
        ({"relevant": 0}, 0, "other"),
        ({"relevant": -2}, 0, "other"),
        ({"role": "supporting"}, 1, "supporting"),
        ({"role": "misleading"}, 0, "misleading"),
        ({"role": "supporting", "relevant": False}, 0, "supporting"),  # the plain mark wins
        ({"role": "other kind", "relevant": True}, 1, "other kind"),
        ({"relevant": True, "role": None, "counterfactual": None}, 1, "relevant"),  # tables of Arrow have every field
        ({}, 0, "all"),
    ],
)
def test_grade_of_and_role_of_a_passage(metadata, grade, role):
    passage = marked(**metadata)
    assert (grade_of(passage), is_relevant(passage), role_of(passage)) == (grade, grade > 0, role)
    assert type(grade_of(passage)) is int
    assert is_counterfactual(passage) is False


def test_grades_of_a_question_with_marks():
    query = Query("q", "Who?", ("Ann",), (marked(relevant=2), marked(), marked(relevant=-1)))
    assert grades_of(query) == [2, 0, 0]
    assert relevance_of(query) == [True, False, False]
    assert is_counterfactual(marked(counterfactual=True))


@pytest.mark.parametrize("mark", ["yes", 1.0])
def test_is_relevant_refuses_other_marks(mark):
    with pytest.raises(BadRowError, match=r"passage id='p': expected 'relevant': true, false or a grade \(0, 1, 2, "):
        is_relevant(marked(relevant=mark))
    with pytest.raises(BadRowError, match="expected 'counterfactual': true or false, got 1"):
        is_counterfactual(marked(counterfactual=1))


@pytest.mark.parametrize(
    ("passages", "message"),
    [
        (
            (marked(page=3), marked()),
            "question id='q': expected 'relevant': true, false or a grade in its passages, got",
        ),
        ((marked(relevant=None, role=None),), "got none"),
        ((marked(relevant="no"),), "question id='q', passage id='p': expected 'relevant'"),
    ],
)
def test_grades_of_refuses_an_unmarked_question(passages, message):
    with pytest.raises(BadRowError, match=message):
        grades_of(Query("q", "Who?", ("Ann",), passages))


def test_role_order_has_known_roles_first():
    roles = ["misinfo", "page", "noise", "other", "supporting", "correct", "all"]
    assert sorted(roles, key=role_order) == ["supporting", "correct", "noise", "other", "misinfo", "all", "page"]
