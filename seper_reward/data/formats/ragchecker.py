"""RAGChecker: ``RAGResult`` of ragchecker 0.1; a JSON file has a list of them in ``results``.

Columns after https://github.com/amazon-science/RAGChecker/blob/main/ragchecker/container.py: ``query_id``, ``query``,
``gt_answer``, ``response`` (the output of a system, which stays metadata) and ``retrieved_context``, a list of
``{doc_id, text}``.
"""

from collections.abc import Mapping
from typing import Any

from seper_reward.data.formats.layout import Columns, Row, renamed

QUESTION = ("query",)
ANSWERS = ("gt_answer",)
PASSAGES = ("retrieved_context",)


class RagChecker(Columns):
    """Rows of RAGChecker."""

    def convert(self, row: Row) -> dict[str, Any]:
        """Return the row with our names of columns and of passage ids."""
        converted = super().convert(row)
        if isinstance(converted.get("passages"), list):
            converted["passages"] = list(map(_passage, converted["passages"]))
        return converted


def _passage(passage: Any) -> Any:
    if not isinstance(passage, Mapping):
        return passage
    return renamed(passage, {"id": "doc_id"} if "doc_id" in passage else {})


RAGCHECKER = RagChecker(
    "RAGChecker", {"id": ("query_id",), "question": QUESTION, "answers": ANSWERS, "passages": PASSAGES}
)
