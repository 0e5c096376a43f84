"""What people say about passages: the mark of relevance, the planted wrong answer, the role in the demo.

A mark is ``relevant: true | false``, ``relevant: GRADE`` (a whole number, 0 = not relevant) or ``role: "supporting"``
(or another role) in the metadata of a passage. ``true`` and a supporting role are grade 1. A passage without a mark is
not relevant, like an unjudged document in TREC; only a question none of whose passages has a mark is unmarked.
"""

from collections.abc import Mapping
from typing import Any

from seper_reward.data.rows import BadRowError
from seper_reward.types import Passage, Query

# in the order of tables and figures
_ROLES = ("supporting", "correct", "relevant", "unrelated", "noise", "other", "misleading", "misinfo")
#: What to say of a question without marks, where they are needed.
UNMARKED = (
    "expected 'relevant': true, false or a grade in its passages, got none; mark them, or leave the question out"
)


def grade_of(passage: Passage) -> int:
    """Return the grade of relevance that people gave a passage, >= 0; 0 if it has no mark.

    Grades below 0, TREC's for junk, count as 0, as in trec_eval.

    Raises:
        BadRowError: The mark ``relevant`` is neither true, false nor a whole number.
    """
    mark = passage.metadata.get("relevant", passage.metadata.get("role") == "supporting")
    if not isinstance(mark, int):
        raise BadRowError(
            f"passage id={passage.id!r}: expected 'relevant': true, false or a grade (0, 1, 2, ...), got {mark!r}; "
            "repair it"
        )
    return max(int(mark), 0)


def is_relevant(passage: Passage, relevant_from: int = 1) -> bool:
    """Return whether people gave a passage at least the grade ``relevant_from``; ``False`` if it has no mark.

    Raises:
        BadRowError: The mark ``relevant`` is neither true, false nor a whole number.
    """
    return grade_of(passage) >= relevant_from


def is_marked(passage: Passage) -> bool:
    """Return whether people said of a passage whether it is relevant, or which role it has."""
    return bool({"relevant", "role"} & set(passage.metadata))


def is_counterfactual(passage: Passage) -> bool:
    """Return whether a wrong answer was planted in a passage (its mark ``counterfactual``).

    Raises:
        BadRowError: The mark is neither true nor false.
    """
    mark = passage.metadata.get("counterfactual", False)
    if not isinstance(mark, bool):
        raise BadRowError(
            f"passage id={passage.id!r}: expected 'counterfactual': true or false, got {mark!r}; repair it"
        )
    return mark


def grades_of(query: Query) -> list[int]:
    """Return the grade of each passage of a question (``grade_of``).

    Raises:
        BadRowError: No passage of the question has a mark, or one is neither true, false nor a whole number.
    """
    if not any(map(is_marked, query.passages)):
        raise BadRowError(f"question id={query.id!r}: {UNMARKED}")
    try:
        return [grade_of(passage) for passage in query.passages]
    except BadRowError as error:
        raise BadRowError(f"question id={query.id!r}, {error}") from error


def relevance_of(query: Query) -> list[bool]:
    """Return whether each passage of a question is relevant: of grade 1 or more.

    Raises:
        BadRowError: No passage of the question has a mark, or one is neither true, false nor a whole number.
    """
    return [grade >= 1 for grade in grades_of(query)]


def role_of(passage: Mapping[str, Any]) -> str:
    """Return the role of a passage's row: its ``role``, else ``relevant`` or ``other`` by its mark, else ``all``."""
    if passage.get("role") is not None:
        return str(passage["role"])
    if isinstance(passage.get("relevant"), int):
        return "relevant" if passage["relevant"] > 0 else "other"
    return "all"


def type_of(passage: Passage) -> str:
    """Return what kind of passage people call it: its ``role`` or ``type``, else ``relevant`` or ``other``."""
    named = passage.metadata.get("role") or passage.metadata.get("type")
    return str(named) if named else "relevant" if is_relevant(passage) else "other"


def role_order(role: str) -> tuple[int, str]:
    """Return a sort key that puts known roles first, from supporting to misleading."""
    return (_ROLES.index(role) if role in _ROLES else len(_ROLES), role)
