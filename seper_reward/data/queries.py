"""Read and check questions, answers, passages and corpora; every error names file, row and remedy."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from seper_reward.data.answers import normalize_answer, read_answers
from seper_reward.data.demo import CORPUS, QUESTIONS
from seper_reward.data.rows import BadRowError, BrokenRow, read_rows, shown
from seper_reward.runtime.hashing import content_key
from seper_reward.types import Answers, Passage, Query, answer_items

# fields that hold an id, the first that is there: ours, BEIR's, and that of our label rows
_IDS = ("id", "_id")
_PASSAGE_IDS = (*_IDS, "passage_id")


@dataclass(frozen=True)
class Rejected:
    """A row left out, and why.

    Attributes:
        where: File and row, counted from 1.
        reason: What was expected, what came, and what to do.
        row: The row, or the start of the line if it could not be read as one.
    """

    where: str
    reason: str
    row: Any


@dataclass(frozen=True)
class Examples:
    """Usable queries in input order, and the rows that are not."""

    queries: tuple[Query, ...]
    rejected: tuple[Rejected, ...]


def read_queries(
    path: str | Path, corpus: Mapping[str, Passage] | None = None, *, answers_needed: bool = True
) -> Examples:
    """Read questions with answers and passages.

    Args:
        path: JSON, JSONL (either may end in .gz) or Parquet of ``{id?, question, answers, passages}``, or a folder
            written by ``datasets.Dataset.save_to_disk``. A passage is a text, ``{id?, title?, text}``, or, with a
            corpus, ``{id}``; other fields are kept as metadata. An id may also be called ``_id``, that of a passage
            ``passage_id``, so that a file of labels can be read, too.
        corpus: Passages by id. With a corpus, rows may lack ``passages``; a retriever fills them in later.
        answers_needed: Whether each row must have ``answers``.

    Raises:
        OSError: The file is missing or cannot be read.
        ValueError: The format is unknown.
    """
    queries: dict[str, Query] = {}
    rejected: list[Rejected] = []
    for where, row in read_rows(path):
        try:
            if isinstance(row, BrokenRow):
                raise BadRowError(row.reason)
            query = as_query(row, corpus, answers_needed=answers_needed)
            if query.id in queries:
                raise BadRowError(f"id {query.id!r} was used by an earlier row; expected unique ids; rename one")
            queries[query.id] = query
        except BadRowError as error:
            rejected.append(Rejected(where, str(error), row.text if isinstance(row, BrokenRow) else row))
    return Examples(tuple(queries.values()), tuple(rejected))


def read_examples(
    source: str, corpus_file: str | None = None, *, answers_needed: bool = True
) -> tuple[Examples, dict[str, Passage] | None]:
    """Read questions and the corpus their passages are in, if there is one.

    Args:
        source: A file or folder for ``read_queries``, or ``"demo"`` for the project's own questions.
        corpus_file: A file for ``read_corpus``; ``None`` for no corpus, or for the demo's own.
        answers_needed: Whether each question must have ``answers``.
    """
    corpus_path = corpus_file or (CORPUS if source == "demo" else None)
    corpus = read_corpus(corpus_path) if corpus_path else None
    examples = read_queries(QUESTIONS if source == "demo" else source, corpus, answers_needed=answers_needed)
    return examples, corpus


def read_corpus(path: str | Path) -> dict[str, Passage]:
    """Read a corpus of ``{id, title?, text}`` rows, by id; BEIR's ``_id`` is an id, too.

    Where no row has an id, the ids are the places of the rows, from 0.

    Raises:
        OSError: The file is missing or cannot be read.
        ValueError: There is no row, one is unusable, or some have an id and some have none; leaving a row out would
            renumber the rows that have no id.
    """
    corpus: dict[str, Passage] = {}
    named = False
    for where, row in read_rows(path):
        try:
            if isinstance(row, BrokenRow):
                raise BadRowError(row.reason)
            passage = _passage(row, position=len(corpus), corpus=None)
            has_id = isinstance(row, Mapping) and _id_field(row, _PASSAGE_IDS) is not None
            if corpus and has_id != named:
                raise BadRowError(
                    f"expected {'an' if named else 'no'} id, as in the rows before, got {'none' if named else 'one'}; "
                    "give every row an 'id' or '_id', or none"
                )
            named = has_id
            if passage.id in corpus:
                raise BadRowError(f"expected an id that no other passage has, got {passage.id!r}; rename or drop one")
        except BadRowError as error:
            raise ValueError(f"{where}: {error}") from error
        corpus[passage.id] = passage
    if not corpus:
        raise ValueError(f"{path}: expected passages, one a row, got an empty corpus")
    return corpus


def as_query(row: Any, corpus: Mapping[str, Passage] | None = None, *, answers_needed: bool = True) -> Query:
    """Check one record ``{id?, question, answers, passages}``; equal answers count once, other fields are metadata.

    ``answers`` is a list of the aliases of one answer or, where the answer is a list, of lists: the aliases of each of
    its items. Unless ``answers_needed``, it may be absent or empty.

    Raises:
        BadRowError: The record is unusable; the message names the field, what was expected, what came and what to do.
    """
    if isinstance(row, Query):
        return row
    if not isinstance(row, Mapping):
        raise BadRowError(f"expected an object {{question, answers, passages}}, got {shown(row)}")
    question = _text(row.get("question"), "question")
    without = not answers_needed and row.get("answers") in (None, [])
    answers = () if without else _answers(row.get("answers"))
    passages = _passages(row.get("passages"), corpus)
    id_field = _id_field(row, _IDS)
    metadata = _metadata(row, {"id", id_field, "question", "answers", "passages"}, "")
    identity = _identifier(row[id_field], id_field) if id_field else _content_id(question, answers, passages)
    return Query(identity, question, answers, passages, metadata)


def pool_passages(queries: Sequence[Query]) -> tuple[dict[str, Passage], list[Query]]:
    """Make one corpus of the passages of all queries, for input that came without a corpus.

    Returns:
        The corpus by id, with equal texts once and without metadata, because metadata belongs to one query; and the
        queries, whose passages have the corpus's ids.
    """
    corpus: dict[str, Passage] = {}
    renamed = []
    for query in queries:
        passages: dict[str, Passage] = {}
        for passage in query.passages:
            identity = content_key(passage.title, passage.text)[:16]
            corpus[identity] = Passage(passage.text, passage.title, identity)
            passages.setdefault(identity, replace(passage, id=identity))
        renamed.append(replace(query, passages=tuple(passages.values())))
    return corpus, renamed


def _answers(value: Any) -> Answers:
    if not isinstance(value, Sequence) or isinstance(value, str) or not value:
        raise BadRowError(
            f"answers must be a list with at least one text, got {shown(value)}; "
            "wrap a single answer in a list, drop unanswerable questions"
        )
    return _distinct(read_answers(value, _text))


def _passages(value: Any, corpus: Mapping[str, Passage] | None) -> tuple[Passage, ...]:
    if corpus is not None and (value is None or value == []):
        return ()  # a retriever fills them in later
    if not isinstance(value, Sequence) or isinstance(value, str) or not value:
        raise BadRowError(
            f"passages must be a list with at least one passage, got {shown(value)}; "
            "give passages, or a corpus to retrieve them from"
        )
    passages = tuple(_passage(passage, position, corpus) for position, passage in enumerate(value))
    ids = [passage.id for passage in passages]
    repeated = {identity for identity in ids if ids.count(identity) > 1}
    if repeated:
        raise BadRowError(f"passages must have distinct ids, got {sorted(repeated)} twice; drop or rename one")
    return passages


def _passage(value: Any, position: int, corpus: Mapping[str, Passage] | None) -> Passage:
    name = f"passages[{position}]"
    if isinstance(value, str):
        return Passage(_text(value, name), id=str(position))
    if not isinstance(value, Mapping):
        raise BadRowError(f"{name} must be a text or {{id?, title?, text}}, got {shown(value)}")
    id_field = _id_field(value, _PASSAGE_IDS)
    identity = _identifier(value[id_field], f"{name}.{id_field}") if id_field else str(position)
    metadata = _metadata(value, {"id", id_field, "title", "text"}, f"{name}.")
    if value.get("text") is None and corpus is not None:
        if identity not in corpus:
            raise BadRowError(f"{name} has neither a text nor an id of the corpus, got id {identity!r}; add one")
        entry = corpus[identity]
        return Passage(entry.text, entry.title, identity, {**entry.metadata, **metadata})
    title = "" if value.get("title") in (None, "") else _text(value["title"], f"{name}.title")
    return Passage(_text(value.get("text"), f"{name}.text"), title, identity, metadata)


def _distinct(answers: Answers) -> Answers:
    """Return answers without those that are equal to an earlier one: aliases, and items with the same aliases."""
    items: dict[frozenset[str], tuple[str, ...]] = {}
    for aliases in answer_items(answers):
        distinct: dict[str, str] = {}
        for alias in aliases:
            distinct.setdefault(normalize_answer(alias), alias)
        items.setdefault(frozenset(distinct), tuple(distinct.values()))
    first, *others = items.values()
    return first if isinstance(answers[0], str) else (first, *others)


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise BadRowError(f"{name} must be a non-empty text, got {shown(value)}; fill it in or drop the row")
    return _encodable(value, name).strip()


def _encodable(value: str, name: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise BadRowError(f"{name} holds half a surrogate pair at {error.start}; repair the text") from error
    return value


def _id_field(row: Mapping[str, Any], names: Sequence[str]) -> str | None:
    """Return the first of the names whose field is not empty."""
    return next((name for name in names if row.get(name) is not None), None)


def _identifier(value: Any, name: str) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int)) or value == "":
        raise BadRowError(f"{name} must be a text or a whole number, got {shown(value)}; rename it or leave it out")
    return _encodable(str(value), name)


def _metadata(row: Mapping[str, Any], ours: set[str | None], prefix: str) -> dict[str, Any]:
    """Return the other fields of a row, which must be such that strict JSON in UTF-8 can hold them."""
    metadata = {key: value for key, value in row.items() if key not in ours}
    for key, value in metadata.items():
        try:
            json.dumps({key: value}, ensure_ascii=False, allow_nan=False, default=str).encode()
        except UnicodeEncodeError as error:
            raise BadRowError(f"{prefix}{key!a} holds half a surrogate pair; repair the text") from error
        except ValueError as error:
            raise BadRowError(f"{prefix}{key!a} holds NaN or an infinity; write null or leave it out") from error
        except (TypeError, RecursionError) as error:
            raise BadRowError(f"{prefix}{key!a} cannot be written as JSON ({error}); leave it out") from error
    return metadata


def _content_id(question: str, answers: Answers, passages: Sequence[Passage]) -> str:
    return content_key(question, answers, [[passage.title, passage.text] for passage in passages])[:16]
