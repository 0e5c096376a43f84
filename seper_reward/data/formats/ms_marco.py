"""MS MARCO's question answering (arXiv:1611.09268), version 1.1 and 2.1, as on the hub.

``passages`` is ``{is_selected: [...], passage_text: [...], url: [...]}``; annotators selected the passages from which
they wrote the answer. Questions that the passages do not answer have the answer "No Answer Present."
"""

from collections.abc import Collection, Mapping
from typing import Any

from seper_reward.data.formats.layout import Row, marked_passage

_NO_ANSWER = "No Answer Present."


class MsMarco:
    """Rows of MS MARCO."""

    name = "MS MARCO"

    def fits(self, row: Row, needed: Collection[str]) -> bool:
        """Return whether a row has a query and the texts of passages."""
        passages = row.get("passages")
        return {"query", "answers"} <= set(row) and isinstance(passages, Mapping) and "passage_text" in passages

    def read_from(self, row: Row) -> str:
        """Return the source columns of the fields, for messages."""
        return "question from 'query', passages from 'passages.passage_text', marks from 'passages.is_selected'"

    def convert(self, row: Row) -> dict[str, Any]:
        """Return the row with our column names; a question without an answer has an empty list."""
        own = {name: value for name, value in row.items() if name not in ("query", "query_id")}
        texts, marks = row["passages"]["passage_text"], row["passages"]["is_selected"]
        return {
            **own,
            "id": row.get("query_id"),
            "question": row["query"],
            "answers": [answer for answer in row["answers"] if answer != _NO_ANSWER],
            "passages": [marked_passage(text, bool(mark)) for text, mark in zip(texts, marks, strict=True)],
        }
