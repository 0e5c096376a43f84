"""BEIR's folders, and TREC's runs and relevance judgments: text files with columns, and the tables of the hub.

BEIR (arXiv:2104.08663) is a folder of ``corpus.jsonl``, ``queries.jsonl`` and ``qrels/SPLIT.tsv``.

A line of a run is ``question Q0 passage rank score name``, of judgments (qrels) ``question iteration passage grade``.
As in trec_eval, passages are ranked by score; ranks in the file are ignored.
"""

import io
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from seper_reward.data.rows import read_rows, shown
from seper_reward.data.tables import choose_split, open_bytes

Run = Mapping[str, list[str]]  # question id -> passage ids, best first
Qrels = Mapping[str, Mapping[str, int]]  # question id -> passage id -> grade, relevant above 0
_TABLE = ["query-id", "corpus-id", "score"]
_TABLES = (".jsonl", ".json", ".csv", ".parquet", ".arrow")


class BeirFiles(NamedTuple):
    """The files of one split of BEIR."""

    queries: Path
    corpus: Path
    qrels: Path | None


def beir_files(source: str) -> BeirFiles | None:
    """Return the files of a BEIR folder, ``None`` for another source; ``:split`` names the file of ``qrels``."""
    name, _, split = (source, "", "") if Path(source).exists() else source.partition(":")
    queries, corpus = (
        next((path for path in (Path(name, file_name), Path(name, f"{file_name}.gz")) if path.is_file()), None)
        for file_name in ("queries.jsonl", "corpus.jsonl")
    )
    if queries is None or corpus is None:
        return None
    splits = {path.stem: path for path in sorted((Path(name) / "qrels").glob("*.tsv"))}
    return BeirFiles(queries, corpus, choose_split(splits, name, split) if splits or split else None)


def read_run(path: str | Path) -> Run:
    """Read the rankings of a run, a text file (also .gz); a line of another form raises ``ValueError``."""
    scores: dict[str, dict[str, float]] = {}
    for where, words in _lines(Path(path)):
        try:
            question, _, passage, _, score, _ = words
            value = float(score)
            if math.isnan(value):
                raise ValueError("NaN has no rank")
        except ValueError as error:
            raise ValueError(
                f"{where}: expected a line of a TREC run, question Q0 passage rank score name, got {shown(words)}"
            ) from error
        if passage in scores.setdefault(question, {}):
            raise ValueError(f"{where}: expected each passage of a question once, got {passage!r} again; drop one")
        scores[question][passage] = value
    return {question: sorted(ranking, key=lambda passage: -ranking[passage]) for question, ranking in scores.items()}


def read_qrels(source: str | Path) -> Qrels:
    """Read judgments: a text file (also .gz) with TREC's four columns or BEIR's three, or such rows, as on the hub."""
    judged: dict[str, dict[str, int]] = {}
    for where, row in _judgments(source):
        try:
            question, passage, grade = row if len(row) == len(_TABLE) else (row[0], row[2], row[3])
            grades, value = judged.setdefault(str(question), {}), float(grade)
            if not value.is_integer():
                raise ValueError("a grade is a whole number")
        except (ValueError, TypeError, IndexError) as error:
            raise ValueError(
                f"{where}: expected a judgment, question iteration passage grade or BEIR's {', '.join(_TABLE)}, got "
                f"{shown(row)}"
            ) from error
        if str(passage) in grades:
            raise ValueError(f"{where}: expected one grade for each passage, got {passage!r} again; drop one")
        grades[str(passage)] = int(value)
    return judged


def _judgments(source: str | Path) -> Iterator[tuple[str, list[Any]]]:
    path = Path(source)
    if path.is_file() and not path.name.removesuffix(".gz").endswith(_TABLES):
        yield from ((where, words) for where, words in _lines(path) if words != _TABLE)  # BEIR's header
        return
    for where, row in read_rows(source):
        yield where, [row.get(name) for name in _TABLE] if isinstance(row, Mapping) else [row]


def _lines(path: Path) -> Iterator[tuple[str, list[str]]]:
    with open_bytes(path) as file, io.TextIOWrapper(file, encoding="utf-8-sig") as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                yield f"{path}, line {number}", line.rstrip("\r\n").split("\t" if "\t" in line else None)
