"""Human annotations of passages: marks of relevance, planted wrong answers, and roles in the demo.

A mark is ``relevant: true | false``, ``relevant: GRADE`` (a whole number, 0 = not relevant) or ``role: "supporting"``
(or another role) in the metadata of a passage; null is no mark. ``true`` and a supporting role are grade 1. A passage
without a mark is not relevant, like an unjudged document in TREC. A question is unmarked if none of its passages has a
mark.
"""

from seper_reward.data.rows import BadRowError
from seper_reward.types import Passage, Query

# in the order of tables and figures
_ROLES = ("supporting", "correct", "relevant", "unrelated", "noise", "other", "misleading", "misinfo")
#: Error message for a question without marks.
UNMARKED = (
    "expected 'relevant': true, false or a grade in its passages, got none; mark them, or leave the question out"
)
#: Note under a table of rankings whose measures by marks are empty.
NO_MARKS = (
    "nDCG, MRR and recall are empty: no question has a passage that is marked 'relevant'; mark passages in the input"
)


def grade_of(passage: Passage) -> int:
    """Return the human grade of a passage's relevance, >= 0; 0 if it has no mark.

    Grades below 0, which TREC gives to junk, count as 0, as in trec_eval. Another mark raises ``BadRowError``.
    """
    mark = passage.metadata.get("relevant")
    if mark is None:
        mark = passage.metadata.get("role") == "supporting"
    if not isinstance(mark, int):
        raise BadRowError(
            f"passage id={passage.id!r}: expected 'relevant': true, false or a grade (0, 1, 2, ...), got {mark!r}; "
            "repair it"
        )
    return max(int(mark), 0)


def is_relevant(passage: Passage) -> bool:
    """Return whether the grade of a passage is at least 1; errors are those of ``grade_of``."""
    return grade_of(passage) >= 1


def is_marked(passage: Passage) -> bool:
    """Return whether a passage has a mark of relevance or a role."""
    return any(passage.metadata.get(name) is not None for name in ("relevant", "role"))


def is_counterfactual(passage: Passage) -> bool:
    """Return whether a wrong answer was planted in a passage (its mark ``counterfactual``: true or false)."""
    mark = passage.metadata.get("counterfactual")
    if mark is None:
        return False
    if not isinstance(mark, bool):
        raise BadRowError(
            f"passage id={passage.id!r}: expected 'counterfactual': true or false, got {mark!r}; repair it"
        )
    return mark


def grades_of(query: Query) -> list[int]:
    """Return the grade of each passage of a question; ``BadRowError`` if none has a mark, or one is wrong."""
    if not any(map(is_marked, query.passages)):
        raise BadRowError(f"question id={query.id!r}: {UNMARKED}")
    try:
        return [grade_of(passage) for passage in query.passages]
    except BadRowError as error:
        raise BadRowError(f"question id={query.id!r}, {error}") from error


def relevance_of(query: Query) -> list[bool]:
    """Return whether each passage of a question is relevant (grade 1 or more); errors are those of ``grades_of``."""
    return [grade >= 1 for grade in grades_of(query)]


def role_of(passage: Passage) -> str:
    """Return a passage's role: ``role`` of its metadata, else ``relevant`` or ``other`` by its mark, else ``all``."""
    marks = passage.metadata
    if marks.get("role") is not None:
        return str(marks["role"])
    if isinstance(marks.get("relevant"), int):
        return "relevant" if marks["relevant"] > 0 else "other"
    return "all"


def group_of(query: Query) -> str:
    """Return the group of a question, the field ``group`` of the input; "all" if it has none."""
    return str(query.metadata.get("group") or "all")


def role_order(role: str) -> tuple[int, str]:
    """Return a sort key that puts known roles first, from supporting to misleading."""
    return (_ROLES.index(role) if role in _ROLES else len(_ROLES), role)
