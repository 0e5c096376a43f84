"""HotpotQA (arXiv:1809.09600) and 2WikiMultihopQA, as on the hub and as in their own JSON files.

``context`` is ``{title: [...], sentences: [[...], ...]}`` on the hub, ``[[title, [sentence, ...]], ...]`` in files.
A passage is marked relevant if its title is among the titles in ``supporting_facts``.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from seper_reward.data.formats.layout import Row, marked_passage


class HotpotQA:
    """Rows of HotpotQA."""

    name = "HotpotQA"

    def fits(self, row: Row, needed: Collection[str]) -> bool:
        """Return whether a row has an answer, a context and supporting facts."""
        return {"question", "answer", "context", "supporting_facts"} <= set(row) and "passages" not in row

    def read_from(self, row: Row) -> str:
        """Return the source columns of the fields, for messages."""
        return "answers from 'answer', passages from 'context', marks from 'supporting_facts'"

    def convert(self, row: Row) -> dict[str, Any]:
        """Return the row with a passage for each title of the context."""
        own = {name: value for name, value in row.items() if name not in ("answer", "context", "supporting_facts")}
        facts = row["supporting_facts"]
        supporting = set(facts["title"] if isinstance(facts, Mapping) else (title for title, _ in facts))
        passages = [
            marked_passage(" ".join(sentence.strip() for sentence in sentences), title in supporting, title)
            for title, sentences in _paragraphs(row["context"])
        ]
        return {**own, "answers": row["answer"], "passages": passages}


def _paragraphs(context: Any) -> Iterator[tuple[str, list[str]]]:
    if isinstance(context, Mapping):
        return zip(context["title"], context["sentences"], strict=True)
    return ((title, sentences) for title, sentences in context)
