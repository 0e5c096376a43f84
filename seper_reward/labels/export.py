"""Passage labels in the formats that retriever and reranker trainers read.

The forms of ``FORMS`` have the columns of sentence-transformers' trainers, in the order that its losses expect.
Columns called ``label`` or ``labels`` are targets. All other columns are texts, identified by order, not by name.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from seper_reward.data.splits import spread
from seper_reward.labels.rows import DIGITS
from seper_reward.labels.targets import gains, split_by_help, triplets
from seper_reward.options import POSITIVE, check_choice
from seper_reward.runtime.csv_files import ENDINGS, write_csv
from seper_reward.runtime.json_files import json_line, naming
from seper_reward.runtime.messages import plural, say_once
from seper_reward.runtime.parquet_files import write_parquet
from seper_reward.types import LabeledQuery, Passage

MOST_TRIPLETS = 1000  # of a question: 1,000 positives and 1,000 negatives would make a million
Form = Literal["pairs", "triplets", "lists", "flat"]
Rows = Callable[[Sequence[LabeledQuery], float], Iterator[Any]]


def write_labels(labeled: Sequence[LabeledQuery], path: str | Path, layout: str, margin: float = POSITIVE) -> int:
    """Write labels in a layout of ``LAYOUTS``: Parquet, CSV or TSV by the extension, else JSON lines; count the rows.

    ``margin`` is the least label of a positive, and the least distance of a negative below the positives; if a layout
    needs both, questions without are left out. Raises ``ValueError`` if the layout is unknown, an id cannot be written
    in it, or there is nothing to write.
    """
    check_choice("format", layout, tuple(LAYOUTS))
    rows = _some_rows(LAYOUTS[layout], labeled, margin)
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    tables = [row for row in rows if not isinstance(row, str)]
    with naming(path):
        if path.suffix == ".parquet" and tables:
            write_parquet(path, tables)
        elif path.suffix in ENDINGS and any(isinstance(value, list) for row in tables for value in row.values()):
            raise ValueError(
                f"{path}: {layout} has lists, but a CSV cell holds one value; name a file that ends in .jsonl or "
                ".parquet, or export sentence-transformers-flat, -pairs or -triplets"
            )
        elif path.suffix in ENDINGS and tables:
            write_csv(path, tables)
        elif path.suffix in (".parquet", ".csv"):
            raise ValueError(f"{path}: {layout} is a text format, not for {path.suffix}; use another extension")
        else:
            lines = (f"{row}\n" if isinstance(row, str) else json_line(row) for row in rows)
            path.write_text("".join(lines), encoding="utf-8")
    return len(rows)


def form_rows(labeled: Sequence[LabeledQuery], form: Form, margin: float) -> list[dict[str, object]]:
    """Return the rows of a dataset form; ``margin`` is the least label of a positive, and its lead over a negative.

    Raises ``ValueError`` if the form is unknown, or no question gives a row.
    """
    check_choice("form", form, tuple(FORMS))
    return _some_rows(FORMS[form], labeled, margin)


def _some_rows(make: Rows, labeled: Sequence[LabeledQuery], margin: float) -> list[Any]:
    """Return the rows that ``make`` builds from labels; ``ValueError`` if there are none."""
    rows = list(make(labeled, margin))
    if not rows:
        raise ValueError(
            f"expected questions with a passage that helps by at least {margin} and one that does not, got none of "
            f"{len(labeled)}; lower the margin"
        )
    return rows


def _pair_rows(queries: Sequence[LabeledQuery], margin: float) -> Iterator[dict[str, object]]:
    """Yield ``{anchor, positive}`` for each passage that helps: for losses with in-batch negatives (MNRL, InfoNCE)."""
    for labeled in queries:
        for at in split_by_help(labeled, margin)[0]:
            yield {"anchor": labeled.query.question, "positive": labeled.query.passages[at].full_text}


def _triplet_rows(queries: Sequence[LabeledQuery], margin: float) -> Iterator[dict[str, object]]:
    """Yield ``{anchor, positive, negative, label}``, for MarginMSE; the label is the difference of labels.

    A question has at most ``MOST_TRIPLETS``, evenly spread over all from the greatest difference down.
    """
    left_out = 0
    for labeled in queries:
        all_triplets = list(triplets(labeled, margin=margin))
        left_out += max(0, len(all_triplets) - MOST_TRIPLETS)
        for positive, negative, difference in spread(all_triplets, MOST_TRIPLETS):
            yield {
                "anchor": labeled.query.question,
                "positive": positive.full_text,
                "negative": negative.full_text,
                "label": round(difference, DIGITS),
            }
    if left_out:
        say_once(f"left out: {plural(left_out, 'triplet')}; a question has at most {MOST_TRIPLETS}")


def _list_rows(queries: Sequence[LabeledQuery], margin: float) -> Iterator[dict[str, object]]:
    """Yield ``{query, docs, labels}`` for each question, for listwise losses (RankNet, Lambda, ListNet)."""
    for labeled in queries:
        passages = [passage.full_text for passage in labeled.query.passages]
        yield {"query": labeled.query.question, "docs": passages, "labels": list(labeled.labels)}


def _flat_rows(queries: Sequence[LabeledQuery], margin: float) -> Iterator[dict[str, object]]:
    """Yield ``{query, passage, label}`` for each passage, for losses of scored pairs (CoSENT, cosine, MSE)."""
    for labeled in queries:
        for passage, label in zip(labeled.query.passages, labeled.labels, strict=True):
            yield {"query": labeled.query.question, "passage": passage.full_text, "label": label}


def _tevatron(queries: Sequence[LabeledQuery], margin: float) -> Iterator[dict[str, object]]:
    """Yield rows for Tevatron, with the labels as scores."""
    names = _document_ids(queries)
    for labeled, positives, negatives in _both_kinds(queries, margin):
        passages = [
            {"docid": names[labeled.query.id, at], "title": passage.title, "text": passage.text, "score": label}
            for at, (passage, label) in enumerate(zip(labeled.query.passages, labeled.labels, strict=True))
        ]
        yield {
            "query_id": labeled.query.id,
            "query": labeled.query.question,
            "positive_passages": [passages[at] for at in positives],
            "negative_passages": [passages[at] for at in negatives],
        }


def _flag_embedding(queries: Sequence[LabeledQuery], margin: float) -> Iterator[dict[str, object]]:
    """Yield rows for FlagEmbedding; the scores are used for its knowledge distillation."""
    for labeled, positives, negatives in _both_kinds(queries, margin):
        texts = [passage.full_text for passage in labeled.query.passages]
        yield {
            "query": labeled.query.question,
            "pos": [texts[at] for at in positives],
            "neg": [texts[at] for at in negatives],
            "pos_scores": [labeled.labels[at] for at in positives],
            "neg_scores": [labeled.labels[at] for at in negatives],
        }


def _trec(queries: Sequence[LabeledQuery], margin: float) -> Iterator[str]:
    """Yield TREC qrels with the grades of ``gains``; evaluation tools count grades below 1 as not relevant."""
    names = _document_ids(queries)
    for labeled in queries:
        for at, gain in enumerate(gains(labeled, margin)):
            yield f"{_word(labeled.query.id)} 0 {_word(names[labeled.query.id, at])} {gain}"


#: Functions that yield rows, by the form of a dataset.
FORMS: dict[str, Rows] = {"pairs": _pair_rows, "triplets": _triplet_rows, "lists": _list_rows, "flat": _flat_rows}
#: Functions that yield rows (objects, or lines of a text file), by layout of a file.
LAYOUTS: dict[str, Rows] = {
    "sentence-transformers": _list_rows,
    "sentence-transformers-triplets": _triplet_rows,
    "sentence-transformers-pairs": _pair_rows,
    "sentence-transformers-flat": _flat_rows,
    "tevatron": _tevatron,
    "flagembedding": _flag_embedding,
    "trec": _trec,
}


def _both_kinds(queries: Sequence[LabeledQuery], margin: float) -> Iterator[tuple[LabeledQuery, list[int], list[int]]]:
    """Yield the queries that have positives and negatives, with the positions of both."""
    for labeled in queries:
        positives, negatives = split_by_help(labeled, margin)
        if positives and negatives:
            yield labeled, positives, negatives


def _document_ids(queries: Sequence[LabeledQuery]) -> dict[tuple[str, int], str]:
    """Return document ids by (question id, place): the passage's id, plus the question's id if texts share it."""
    texts: dict[str, set[Passage]] = {}
    for labeled in queries:
        for passage in labeled.query.passages:
            texts.setdefault(passage.id, set()).add(passage)
    return {
        (labeled.query.id, at): passage.id if len(texts[passage.id]) == 1 else f"{labeled.query.id}:{passage.id}"
        for labeled in queries
        for at, passage in enumerate(labeled.query.passages)
    }


def _word(identity: str) -> str:
    if not identity or any(character.isspace() for character in identity):
        raise ValueError(f"ids must have no spaces in TREC files, got {identity!r}; rename it in the input")
    return identity
