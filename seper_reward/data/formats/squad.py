"""SQuAD (arXiv:1606.05250), as on the hub and as in its own JSON file; other extractive sets share the layout.

A row of the hub is ``{id, title, context, question, answers: {text: [...], answer_start: [...]}}``. The context is the
paragraph in which annotators found the answer, so it becomes a passage marked relevant. Questions without an answer
(SQuAD 2.0) have an empty list.
"""

from collections.abc import Collection, Mapping
from typing import Any

from seper_reward.data.formats.layout import Row, marked_passage


class Squad:
    """Rows of SQuAD."""

    name = "SQuAD"

    def fits(self, row: Row, needed: Collection[str]) -> bool:
        """Return whether a row has a context and the texts of answers."""
        answers = row.get("answers")
        return {"question", "context"} <= set(row) and isinstance(answers, Mapping) and "text" in answers

    def read_from(self, row: Row) -> str:
        """Return the source columns of the fields, for messages."""
        return "question from 'question', answers from 'answers.text', passages from 'context' and 'title'"

    def convert(self, row: Row) -> dict[str, Any]:
        """Return the row with the context as its only passage, without the positions of answers."""
        own = {name: value for name, value in row.items() if name not in ("answers", "context", "title")}
        passage = marked_passage(row["context"], True, row.get("title"))
        return {**own, "answers": list(row["answers"]["text"]), "passages": [passage]}


def squad_rows(document: Mapping[str, Any]) -> list[Any]:
    """Return the questions of SQuAD's own JSON file as rows of the hub; no rows for other documents.

    Raises:
        KeyError: An article is incomplete.
    """
    articles = document.get("data")
    if not isinstance(articles, list) or not all("paragraphs" in article for article in articles):
        return []
    return [
        {
            "id": asked["id"],
            "title": article.get("title", ""),
            "context": paragraph["context"],
            "question": asked["question"],
            "answers": {"text": [answer["text"] for answer in asked.get("answers") or []]},
        }
        for article in articles
        for paragraph in article["paragraphs"]
        for asked in paragraph["qas"]
    ]
