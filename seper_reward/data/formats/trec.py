"""TREC runs and relevance judgments: text files with columns separated by blanks, and the tables of BEIR and the hub.

A line of a run is ``question Q0 passage rank score name``, of judgments (qrels) ``question iteration passage grade``.
As in trec_eval, passages are ranked by score; ranks in the file are ignored.
"""

import gzip
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from seper_reward.data.rows import read_rows, shown
from seper_reward.runtime.messages import say_once
from seper_reward.types import Passage, Query

Run = Mapping[str, list[str]]  # question id -> passage ids, best first
Qrels = Mapping[str, Mapping[str, int]]  # question id -> passage id -> grade, relevant above 0
_TABLE = ["query-id", "corpus-id", "score"]
_TABLES = (".jsonl", ".json", ".csv", ".parquet")


def read_run(path: str | Path) -> Run:
    """Read the rankings of a run, a text file (also .gz).

    Raises:
        OSError: The file is missing or cannot be read.
        ValueError: A line has another form, or ranks a passage again; the message names file and line.
    """
    scores: dict[str, dict[str, float]] = {}
    for where, words in _lines(Path(path)):
        try:
            question, _, passage, _, score, _ = words
            value = float(score)
        except ValueError as error:
            raise ValueError(
                f"{where}: expected a line of a TREC run, question Q0 passage rank score name, got {shown(words)}"
            ) from error
        if passage in scores.setdefault(question, {}):
            raise ValueError(f"{where}: expected each passage of a question once, got {passage!r} again; drop one")
        scores[question][passage] = value
    return {question: sorted(found, key=lambda each: -found[each]) for question, found in scores.items()}


def read_qrels(source: str | Path) -> Qrels:
    """Read judgments.

    Args:
        source: A text file (also .gz) with TREC's four columns or BEIR's three; or a source of ``read_rows`` with rows
            ``{query-id, corpus-id, score}``, such as BEIR's judgments on the hub.

    Raises:
        OSError: The source is missing or cannot be read.
        ValueError: A row is not a judgment; the message names file and row.
    """
    judged: dict[str, dict[str, int]] = {}
    for where, row in _judgments(source):
        try:
            question, passage, grade = row if len(row) == len(_TABLE) else (row[0], row[2], row[3])
            judged.setdefault(str(question), {})[str(passage)] = int(grade)
        except (ValueError, TypeError, IndexError) as error:
            raise ValueError(
                f"{where}: expected a judgment, question iteration passage grade or BEIR's {', '.join(_TABLE)}, got "
                f"{shown(row)}"
            ) from error
    return judged


def with_ranking(queries: Iterable[Query], run: Run, corpus: Mapping[str, Passage], depth: int) -> list[Query]:
    """Return the questions with a ranking in a run, with its ``depth`` best passages in place of theirs.

    Passages that the corpus lacks are passed over with a message: documents without a text are not in it.

    Raises:
        ValueError: The corpus has no passage of the run.
    """
    found, ranked, lacking = [], 0, set[str]()
    for query in queries:
        ids = run.get(query.id, [])
        passages = tuple(corpus[each] for each in ids if each in corpus)[:depth]
        ranked += bool(ids)
        lacking |= {each for each in ids[:depth] if each not in corpus}
        if passages:
            found.append(replace(query, passages=passages))
    if ranked and not found:
        raise ValueError(f"the corpus has no passage of the run, such as {min(lacking)!r}; use the corpus of the run")
    if lacking:
        say_once(
            f"{len(lacking)} passages of the run, such as {min(lacking)!r}, are not in the corpus and are left out, "
            f"with {ranked - len(found)} questions that have no other"
        )
    return found


def with_judgments(queries: Iterable[Query], qrels: Qrels, corpus: Mapping[str, Passage]) -> list[Query]:
    """Return the judged questions, with the grades of their passages as the mark ``relevant``.

    As in TREC, an unjudged passage is not relevant: its grade is 0. A question without passages gets its judged
    passages that are in the corpus.
    """
    found = []
    for query in queries:
        if (grades := qrels.get(query.id)) is not None:
            passages = query.passages or [corpus[each] for each in grades if each in corpus]
            marks = ({**each.metadata, "relevant": grades.get(each.id, 0)} for each in passages)
            marked = (replace(each, metadata=mark) for each, mark in zip(passages, marks, strict=True))
            found.append(replace(query, passages=tuple(marked)))
    return found


def _judgments(source: str | Path) -> Iterator[tuple[str, list[Any]]]:
    path = Path(source)
    if path.is_file() and not path.name.removesuffix(".gz").endswith(_TABLES):
        yield from ((where, words) for where, words in _lines(path) if words != _TABLE)  # BEIR's header
        return
    for where, row in read_rows(source):
        yield where, [row.get(name) for name in _TABLE] if isinstance(row, Mapping) else [row]


def _lines(path: Path) -> Iterator[tuple[str, list[str]]]:
    with gzip.open(path, "rt") if path.name.endswith(".gz") else path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                yield f"{path}, line {number}", line.rstrip("\r\n").split("\t" if "\t" in line else None)
