"""Ragas: a ``SingleTurnSample`` of ragas 0.2 to 0.4, and rows of 0.1 (``question``, ``ground_truth``, ``contexts``).

Columns after https://docs.ragas.io/en/stable/concepts/components/eval_sample/. The gold answer is ``reference``. The
``answer`` of 0.1 and the ``response`` of later versions are outputs of a system and stay metadata.
"""

from typing import Any

from seper_reward.data.formats.layout import Columns, Row, renamed

QUESTION = ("user_input", "question", "query")
ANSWERS = ("reference", "ground_truth", "ground_truths")
PASSAGES = ("retrieved_contexts", "contexts", "reference_contexts")


class Ragas(Columns):
    """Rows of Ragas. If passages have ids, the passages that the reference is based on are marked ``relevant``."""

    def convert(self, row: Row) -> dict[str, Any]:
        """Return the row with our column names."""
        columns = self.found(row)
        converted = renamed(row, columns)
        texts, ids = converted.get("passages") or (), row.get("retrieved_context_ids")
        if columns.get("passages") != "retrieved_contexts" or not ids or len(ids) != len(texts):
            return converted
        known = row.get("reference_context_ids")
        marks = [{} if known is None else {"relevant": each in known} for each in ids]
        passages = [{"id": each, "text": text, **mark} for each, text, mark in zip(ids, texts, marks, strict=True)]
        return {**converted, "passages": passages}


RAGAS = Ragas("Ragas", {"question": QUESTION, "answers": ANSWERS, "passages": PASSAGES})
