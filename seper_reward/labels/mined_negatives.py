"""Read, repair and write files of mined hard negatives in the layouts of sentence-transformers and FlagEmbedding."""

import itertools
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seper_reward.data.rows import BadRowError, read_valid_rows, shown

_ANCHORS = ("anchor", "query", "question")
_SCORES = ("label", "score", "scores")  # score columns of sentence-transformers
_NEGATIVE = re.compile(r"negative(_\d+)?")


@dataclass(frozen=True)
class Layout:
    """Columns of a library's rows; ``lists`` are FlagEmbedding's rows, with lists of texts and of their scores."""

    anchor: str  # column of the question
    positive: str  # column of the positive
    columns: tuple[str, ...]  # of the negatives: `negative`, or `negative_1`, `negative_2`, ...; or the list `neg`
    scores: tuple[str, ...] = ()  # columns of scores of a sentence-transformers row's passages
    lists: bool = False

    @property
    def name(self) -> str:
        """Library and columns."""
        library = "FlagEmbedding" if self.lists else "sentence-transformers"
        return f"{library} ({', '.join((self.anchor, self.positive, *self.columns))})"

    def negatives(self, row: Mapping[str, object]) -> list[Any]:
        """Return the values of a row's negatives, unchecked."""
        if not self.lists:
            return [row.get(column) for column in self.columns]
        return list(row["neg"]) if isinstance(row["neg"], (list, tuple)) else [row["neg"]]

    def refusal(self) -> str | None:
        """Return why rows cannot be repaired: their scores would belong to other passages."""
        if not self.scores or len(self.columns) == 1:
            return None
        return (
            f"column {self.scores[0]!r} scores the passages of a row and would be wrong for other passages; "
            "remove the column, or use action=list"
        )


@dataclass(frozen=True)
class MinedNegatives:
    """A file of mined hard negatives, or a folder written by ``datasets``, with its rows unchanged."""

    path: Path
    layout: Layout
    rows: tuple[Mapping[str, Any], ...]

    def by_question(self) -> dict[str, list[str]]:
        """Return the negatives of each question, each text once, in order."""
        found: dict[str, dict[str, None]] = {}
        for row in self.rows:
            found.setdefault(self.question(row), {}).update(dict.fromkeys(self.negatives(row)))
        return {question: list(texts) for question, texts in found.items()}

    def question(self, row: Mapping[str, object]) -> str:
        """Return the question of a row."""
        return str(row[self.layout.anchor]).strip()

    def negatives(self, row: Mapping[str, object]) -> list[str]:
        """Return the texts of a row's negatives."""
        return [text.strip() for text in self.layout.negatives(row)]

    def repaired(self, false: Mapping[str, Collection[str]]) -> Iterator[dict[str, object] | None]:
        """Yield each row without its false negatives, given by question; ``None`` if no negative is left.

        Rows of sentence-transformers need all columns: another negative of the row replaces a false one.
        """
        for row in self.rows:
            texts, wrong = self.negatives(row), false.get(self.question(row), ())
            clean = [at for at, text in enumerate(texts) if text not in wrong]
            if len(clean) == len(texts):
                yield dict(row)
            elif not clean:
                yield None
            elif self.layout.lists:
                lists = [name for name in ("neg", "neg_scores") if row.get(name) is not None]
                yield {**row, **{name: [row[name][at] for at in clean] for name in lists}}
            else:
                others, columns = itertools.cycle(clean), self.layout.columns
                places = [at if at in clean else next(others) for at in range(len(texts))]
                yield {**row, **{column: row[columns[at]] for column, at in zip(columns, places, strict=True)}}


def read_mined(path: str | Path) -> MinedNegatives:
    """Read mined hard negatives; the columns of the first row determine the layout.

    In rows of sentence-transformers, question and positive are in the first columns unless others are named
    ``anchor``, ``query`` or ``question``, and ``positive``. Raises ``BadRowError`` if a row lacks a column or a text,
    ``ValueError`` without rows.
    """
    found = list(read_valid_rows(path))
    if not found:
        raise ValueError(f"{path}: expected rows with mined negatives, got an empty file")
    layout = _layout(*found[0])
    for where, row in found:
        missing = [name for name in (layout.anchor, layout.positive, *layout.columns) if name not in row]
        texts = [] if missing else [row[layout.anchor], *layout.negatives(row)]
        wrong = next((text for text in texts if not isinstance(text, str) or not text.strip()), "")
        if missing or wrong != "":
            came = f"no {missing[0]!r}" if missing else shown(wrong)
            raise BadRowError(f"{where}: expected rows of {layout.name} with texts, got {came}; repair the row")
    return MinedNegatives(Path(path), layout, tuple(row for _, row in found))


def _layout(where: str, row: Mapping[str, object]) -> Layout:
    if {"query", "pos", "neg"} <= row.keys():
        return Layout("query", "pos", ("neg",), lists=True)
    negatives = sorted((name for name in row if _NEGATIVE.fullmatch(name)), key=lambda name: (len(name), name))
    if not negatives:
        raise BadRowError(
            f"{where}: expected mined negatives of FlagEmbedding (query, pos, neg) or sentence-transformers (anchor, "
            f"positive, negative or negative_1, ...), got columns {', '.join(row)}; rename them"
        )
    others = [name for name in row if name not in negatives]
    anchor = next((name for name in _ANCHORS if name in row), others[0] if others else "anchor")
    rest = [name for name in others if name != anchor]
    positive = "positive" if "positive" in row or not rest else rest[0]
    return Layout(anchor, positive, tuple(negatives), tuple(name for name in _SCORES if name in row))
