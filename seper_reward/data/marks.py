"""What people say about passages: the mark of relevance, the planted wrong answer, the role in the demo.

A mark is ``relevant: true | false`` or ``role: "supporting"`` (or another role) in the metadata of a passage. A
passage without a mark is not relevant, like an unjudged document in TREC; only a question none of whose passages has
a mark is unmarked.
"""

from collections.abc import Mapping
from typing import Any

from seper_reward.data.rows import BadRowError
from seper_reward.types import Passage, Query

# in the order of tables and figures
_ROLES = ("supporting", "correct", "relevant", "unrelated", "noise", "other", "misleading", "misinfo")
#: What to say of a question without marks, where they are needed.
UNMARKED = "expected 'relevant': true or false in its passages, got none; mark them, or leave the question out"


def is_relevant(passage: Passage) -> bool:
    """Return whether people marked a passage relevant; ``False`` where it has no mark.

    Raises:
        BadRowError: The mark ``relevant`` is neither true nor false.
    """
    return _flag(passage, "relevant", passage.metadata.get("role") == "supporting")


def is_marked(passage: Passage) -> bool:
    """Return whether people said of a passage whether it is relevant, or which role it has."""
    return bool({"relevant", "role"} & set(passage.metadata))


def is_counterfactual(passage: Passage) -> bool:
    """Return whether a wrong answer was planted in a passage (its mark ``counterfactual``).

    Raises:
        BadRowError: The mark is neither true nor false.
    """
    return _flag(passage, "counterfactual", False)


def relevance_of(query: Query) -> list[bool]:
    """Return the mark of each passage of a question.

    Raises:
        BadRowError: No passage of the question has a mark, or one is neither true nor false.
    """
    if not any(map(is_marked, query.passages)):
        raise BadRowError(f"question id={query.id!r}: {UNMARKED}")
    try:
        return [is_relevant(passage) for passage in query.passages]
    except BadRowError as error:
        raise BadRowError(f"question id={query.id!r}, {error}") from error


def role_of(passage: Mapping[str, Any]) -> str:
    """Return the role of a passage's row: its ``role``, else ``relevant`` or ``other`` by its mark, else ``all``."""
    if passage.get("role") is not None:
        return str(passage["role"])
    if isinstance(passage.get("relevant"), bool):
        return "relevant" if passage["relevant"] else "other"
    return "all"


def type_of(passage: Passage) -> str:
    """Return what kind of passage people call it: its ``role`` or ``type``, else ``relevant`` or ``other``."""
    named = passage.metadata.get("role") or passage.metadata.get("type")
    return str(named) if named else "relevant" if is_relevant(passage) else "other"


def role_order(role: str) -> tuple[int, str]:
    """Return a sort key that puts known roles first, from supporting to misleading."""
    return (_ROLES.index(role) if role in _ROLES else len(_ROLES), role)


def _flag(passage: Passage, name: str, absent: bool) -> bool:
    mark = passage.metadata.get(name, absent)
    if not isinstance(mark, bool):
        raise BadRowError(f"passage id={passage.id!r}: expected {name!r}: true or false, got {mark!r}; repair it")
    return mark
