"""Write passage labels in the formats that retriever and reranker trainers read."""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from seper_reward.labels.targets import grade, split_by_help, triplets
from seper_reward.runtime.json_files import naming
from seper_reward.types import LabeledQuery, Passage

_Writer = Callable[[Sequence[LabeledQuery], float], Iterator[str]]


def write_labels(labeled: Sequence[LabeledQuery], path: str | Path, layout: str, margin: float = 0.1) -> int:
    """Write labels for another trainer.

    Args:
        labeled: The labelled queries.
        path: File to write; its folder is made if absent.
        layout: Format of the file, a name in ``LAYOUTS``.
        margin: Least label of a positive passage, and least distance of a negative below the positives.

    Returns:
        How many lines were written. Where a layout needs positives and negatives, questions without both have none.

    Raises:
        ValueError: The layout is unknown, an id cannot be written in it, or there is nothing to write.
        OSError: The file cannot be written.
    """
    if layout not in LAYOUTS:
        raise ValueError(f"format must be one of {', '.join(LAYOUTS)}, got {layout!r}")
    lines = list(LAYOUTS[layout](labeled, margin))
    if not lines:
        raise ValueError(
            f"expected questions with a passage that helps by at least {margin} and one that does not, got none of "
            f"{len(labeled)}; lower the margin"
        )
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with naming(path):
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return len(lines)


def _lists(labeled: Sequence[LabeledQuery], margin: float) -> Iterator[str]:
    """Yield rows for sentence-transformers' listwise losses (RankNet, Lambda, ListNet), with labels as they are."""
    for row in labeled:
        yield _line(
            {"query": row.query.question, "docs": _texts(row, range(len(row.labels))), "labels": list(row.labels)}
        )


def _triplets(labeled: Sequence[LabeledQuery], margin: float) -> Iterator[str]:
    """Yield rows for sentence-transformers' MarginMSE and, without the label, its losses of pairs and triplets."""
    for row in labeled:
        for positive, negative, difference in triplets(row, margin=margin):
            yield _line(
                {
                    "anchor": row.query.question,
                    "positive": positive.full_text,
                    "negative": negative.full_text,
                    "label": round(difference, 6),
                }
            )


def _tevatron(labeled: Sequence[LabeledQuery], margin: float) -> Iterator[str]:
    """Yield rows for Tevatron, with the labels as scores."""
    names = _document_ids(labeled)
    for row, positives, negatives in _both_kinds(labeled, margin):
        sides = {"positive_passages": positives, "negative_passages": negatives}
        yield _line(
            {
                "query_id": row.query.id,
                "query": row.query.question,
                **{
                    side: [
                        {
                            "docid": names[row.query.id, at],
                            "title": row.query.passages[at].title,
                            "text": row.query.passages[at].text,
                            "score": row.labels[at],
                        }
                        for at in places
                    ]
                    for side, places in sides.items()
                },
            }
        )


def _flag_embedding(labeled: Sequence[LabeledQuery], margin: float) -> Iterator[str]:
    """Yield rows for FlagEmbedding; the scores are for its knowledge distillation."""
    for row, positives, negatives in _both_kinds(labeled, margin):
        yield _line(
            {
                "query": row.query.question,
                "pos": _texts(row, positives),
                "neg": _texts(row, negatives),
                "pos_scores": [row.labels[at] for at in positives],
                "neg_scores": [row.labels[at] for at in negatives],
            }
        )


def _trec(labeled: Sequence[LabeledQuery], margin: float) -> Iterator[str]:
    """Yield TREC qrels with the grades of ``grade``; evaluation tools count grades below 1 as not relevant."""
    names = _document_ids(labeled)
    for row in labeled:
        for at, label in enumerate(row.labels):
            yield f"{_word(row.query.id)} 0 {_word(names[row.query.id, at])} {grade(label, margin)}"


LAYOUTS: dict[str, _Writer] = {
    "sentence-transformers": _lists,
    "sentence-transformers-triplets": _triplets,
    "tevatron": _tevatron,
    "flagembedding": _flag_embedding,
    "trec": _trec,
}


def _both_kinds(labeled: Sequence[LabeledQuery], margin: float) -> Iterator[tuple[LabeledQuery, list[int], list[int]]]:
    """Yield the queries that have positives and negatives, with the places of both."""
    for row in labeled:
        positives, negatives = split_by_help(row, margin)
        if positives and negatives:
            yield row, positives, negatives


def _document_ids(labeled: Sequence[LabeledQuery]) -> dict[tuple[str, int], str]:
    """Return document ids by (question id, place): the passage's id, with the question's where texts share one."""
    texts: dict[str, set[Passage]] = {}
    for row in labeled:
        for passage in row.query.passages:
            texts.setdefault(passage.id, set()).add(passage)
    return {
        (row.query.id, at): passage.id if len(texts[passage.id]) == 1 else f"{row.query.id}:{passage.id}"
        for row in labeled
        for at, passage in enumerate(row.query.passages)
    }


def _texts(row: LabeledQuery, places: Sequence[int]) -> list[str]:
    return [row.query.passages[at].full_text for at in places]


def _word(identity: str) -> str:
    if not identity or any(character.isspace() for character in identity):
        raise ValueError(f"ids must have no spaces in TREC files, got {identity!r}; rename it in the input")
    return identity


def _line(row: dict[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False)
