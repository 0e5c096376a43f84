"""Labels as datasets with the columns that sentence-transformers' trainers take, in the order its losses expect.

Columns called ``label`` or ``labels`` are targets. All other columns are texts, identified by order, not by name.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

from seper_reward.labels.targets import split_by_help, triplets
from seper_reward.types import LabeledQuery

Form = Literal["pairs", "triplets", "lists", "flat"]
Rows = Callable[[Sequence[LabeledQuery], float], Iterator[Any]]
_DIGITS = 6


def form_rows(labeled: Sequence[LabeledQuery], form: Form, margin: float) -> list[dict[str, Any]]:
    """Return the rows of a dataset form; ``margin`` is the least label of a positive, and its lead over a negative.

    Raises:
        ValueError: The form is unknown, or no question gives a row.
    """
    if form not in FORMS:
        raise ValueError(f"form must be one of {', '.join(FORMS)}, got {form!r}")
    return some_rows(FORMS[form], labeled, margin)


def some_rows(make: Rows, labeled: Sequence[LabeledQuery], margin: float) -> list[Any]:
    """Return the rows that ``make`` builds from labels; ``ValueError`` if there are none."""
    rows = list(make(labeled, margin))
    if not rows:
        raise ValueError(
            f"expected questions with a passage that helps by at least {margin} and one that does not, got none of "
            f"{len(labeled)}; lower the margin"
        )
    return rows


def pair_rows(labeled: Sequence[LabeledQuery], margin: float) -> Iterator[dict[str, Any]]:
    """Yield ``{anchor, positive}`` for each passage that helps: for losses with in-batch negatives (MNRL, InfoNCE)."""
    for row in labeled:
        for at in split_by_help(row, margin)[0]:
            yield {"anchor": row.query.question, "positive": row.query.passages[at].full_text}


def triplet_rows(labeled: Sequence[LabeledQuery], margin: float) -> Iterator[dict[str, Any]]:
    """Yield ``{anchor, positive, negative, label}``, for MarginMSE; the label is the difference of labels.

    Without the column ``label``, the rows suit losses of pairs and triplets.
    """
    for row in labeled:
        for positive, negative, difference in triplets(row, margin=margin):
            yield {
                "anchor": row.query.question,
                "positive": positive.full_text,
                "negative": negative.full_text,
                "label": round(difference, _DIGITS),
            }


def list_rows(labeled: Sequence[LabeledQuery], margin: float) -> Iterator[dict[str, Any]]:
    """Yield ``{query, docs, labels}`` for each question, for listwise losses (RankNet, Lambda, ListNet)."""
    for row in labeled:
        passages = [passage.full_text for passage in row.query.passages]
        yield {"query": row.query.question, "docs": passages, "labels": list(row.labels)}


def flat_rows(labeled: Sequence[LabeledQuery], margin: float) -> Iterator[dict[str, Any]]:
    """Yield ``{query, passage, label}`` for each passage, for losses of scored pairs (CoSENT, cosine, MSE)."""
    for row in labeled:
        for passage, label in zip(row.query.passages, row.labels, strict=True):
            yield {"query": row.query.question, "passage": passage.full_text, "label": label}


FORMS: dict[str, Rows] = {
    "pairs": pair_rows,
    "triplets": triplet_rows,
    "lists": list_rows,
    "flat": flat_rows,
}
