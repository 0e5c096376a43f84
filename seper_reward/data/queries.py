"""Read and check questions, answers, passages and corpora; every error names file, row and remedy."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from seper_reward.data.answers import normalize_answer, read_answers
from seper_reward.data.demo import CORPUS, QUESTIONS
from seper_reward.data.formats.beir import beir_files
from seper_reward.data.formats.recognise import recognise
from seper_reward.data.formats.trec import read_qrels, read_run, with_judgments, with_ranking
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
    """Usable queries in input order, and the rows that are not.

    Attributes:
        queries: The queries.
        rejected: The other rows.
        about: What was recognised in the input, in one line; empty where it has our own layout.
        judged: Whether the queries have the passages that people judged and no retriever's, as BEIR's folders.
    """

    queries: tuple[Query, ...]
    rejected: tuple[Rejected, ...]
    about: str = ""
    judged: bool = False


@dataclass(frozen=True)
class InputOptions:
    """How an input is read, beside its name and that of its corpus.

    Attributes:
        columns: Columns that hold ``id``, ``question``, ``answers`` or ``passages``, where they are not recognised;
            several columns are joined.
        separator: Text between the aliases in a cell of answers; ``None`` if a cell has one.
        streaming: Whether rows of a dataset on the hub are fetched as they are needed, instead of all before.
        run: TREC run (``read_run``) whose passages the questions get; those without a ranking are left out.
        run_depth: Most passages of a question taken from the run, >= 1.
        qrels: People's judgments (``read_qrels``), which mark the passages; questions without are left out.
        retrieved: Whether questions may lack passages without a corpus, too: an index or a search service has them.
    """

    columns: Mapping[str, str | Sequence[str]] = field(default_factory=dict)
    separator: str | None = None
    streaming: bool = False
    run: str | None = None
    run_depth: int = 10
    qrels: str | None = None
    retrieved: bool = False


def read_queries(
    source: str | Path | Iterable[Any],
    corpus: Mapping[str, Passage] | None = None,
    *,
    answers_needed: bool = True,
    columns: Mapping[str, str | Sequence[str]] = MappingProxyType({}),
    separator: str | None = None,
    streaming: bool = False,
    most: int | None = None,
) -> Examples:
    """Read questions with answers and passages.

    Args:
        source: Anything for ``read_rows``: a file, a dataset's folder or id, or rows. Rows are
            ``{id?, question, answers, passages}`` or have one of ``recognise.LAYOUTS``. A passage is a text,
            ``{id?, title?, text}``, or, with a corpus, ``{id}``; other fields are kept as metadata. An id may also be
            called ``_id``, that of a passage ``passage_id``, so that a file of labels can be read, too.
        corpus: Passages by id. With a corpus, rows may lack ``passages``; a retriever fills them in later.
        answers_needed: Whether each row must have ``answers``.
        columns: Columns that hold ``id``, ``question``, ``answers`` or ``passages``, where they are not recognised;
            several columns are joined.
        separator: Text between the aliases in a cell of answers; ``None`` if a cell has one.
        streaming: Whether rows of a dataset on the hub are fetched as they are needed, instead of all before.
        most: Most queries to read, the first ones; ``None`` reads all.

    Raises:
        OSError: The source is missing or cannot be read.
        ValueError: The format is unknown, or no column is known to hold what is needed.
    """
    needed = {"question"} | ({"answers"} if answers_needed else set()) | ({"passages"} if corpus is None else set())
    name = str(source) if isinstance(source, (str, Path)) else "the input"
    reading, rows = recognise(read_rows(source, streaming=streaming), name, needed, columns, separator)
    queries: dict[str, Query] = {}
    rejected: list[Rejected] = []
    for where, row in rows:
        try:
            query = as_query(reading.convert(row), corpus, answers_needed=answers_needed)
            if query.id in queries:
                raise BadRowError(f"id {query.id!r} was used by an earlier row; expected unique ids; rename one")
            queries[query.id] = query
        except BadRowError as error:
            reason = f"{error} ({reading.about})" if reading.about else str(error)
            rejected.append(Rejected(where, reason, row.text if isinstance(row, BrokenRow) else row))
        if len(queries) == most:
            break
    return Examples(tuple(queries.values()), tuple(rejected), reading.about)


def read_examples(
    source: str,
    corpus_file: str | None = None,
    options: InputOptions = InputOptions(),
    *,
    answers_needed: bool = True,
    most: int | None = None,
) -> tuple[Examples, dict[str, Passage] | None]:
    """Read questions and the corpus their passages are in, if there is one.

    Args:
        source: Anything that has a name for ``read_queries``; ``"demo"`` for the project's own questions; or a folder
            of BEIR, ``:split`` behind it, which brings its corpus and its judgments.
        corpus_file: Source of the corpus for ``read_corpus``; ``None`` for none, or for the demo's or BEIR's own.
        options: How the input is read.
        answers_needed: Whether each question must have ``answers``.
        most: Most questions to read, the first ones; ``None`` reads all.

    Raises:
        OSError: A source is missing or cannot be read.
        ValueError: A format is unknown, a column is missing, a split is not there, or the ids of the questions are
            not those of the run or of the judgments.
    """
    beir = None if source == "demo" else beir_files(source)
    questions = beir.queries if beir else QUESTIONS if source == "demo" else source
    corpus_path = corpus_file or (beir.corpus if beir else CORPUS if source == "demo" else None)
    corpus = read_corpus(corpus_path) if corpus_path else {} if options.retrieved else None
    qrels = options.qrels or (beir.qrels if beir else None)
    examples = read_queries(
        questions,
        corpus,
        answers_needed=answers_needed,
        columns=options.columns,
        separator=options.separator,
        streaming=options.streaming,
        most=most,
    )
    queries: Sequence[Query] = examples.queries
    if (options.run or qrels) and corpus is None:
        raise ValueError("a run and judgments name passages of a corpus; give the corpus, too")
    if options.run:
        queries = with_ranking(queries, read_run(options.run), corpus or {}, options.run_depth)
        _check_some(queries, examples, options.run)
    if qrels:
        queries = with_judgments(queries, read_qrels(qrels), corpus or {})
        _check_some(queries, examples, str(qrels))
    return replace(examples, queries=tuple(queries), judged=bool(qrels and not options.run)), corpus


def read_corpus(source: str | Path) -> dict[str, Passage]:
    """Read a corpus of ``{id, title?, text}`` rows, by id; BEIR's ``_id`` is an id, too.

    Where no row has an id, the ids are the places of the rows, from 0.

    Args:
        source: Anything for ``read_rows``: a file, or a dataset's folder or id.

    Raises:
        OSError: The file is missing or cannot be read.
        ValueError: There is no row, one is unusable, or some have an id and some have none; leaving a row out would
            renumber the rows that have no id.
    """
    corpus: dict[str, Passage] = {}
    named = False
    for where, row in read_rows(source):
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
        raise ValueError(f"{source}: expected passages, one a row, got an empty corpus")
    return corpus


def as_query(row: Any, corpus: Mapping[str, Passage] | None = None, *, answers_needed: bool = True) -> Query:
    """Check one record ``{id?, question, answers, passages}``; equal answers count once, other fields are metadata.

    ``answers`` is a text, a list of the aliases of one answer or, where the answer is a list, a list of lists: the
    aliases of each of its items. Unless ``answers_needed``, it may be absent or empty. ``passages`` may be one text.

    Raises:
        BadRowError: The record is unusable; the message names the field, what was expected, what came and what to do.
    """
    if isinstance(row, Query):
        return row
    if not isinstance(row, Mapping):
        raise BadRowError(f"expected an object {{question, answers, passages}}, got {shown(row)}")
    question = _text(row.get("question"), "question")
    without = not answers_needed and row.get("answers") in (None, "", [])
    answers = () if without else _answers(row.get("answers"))
    passages = _passages(row.get("passages"), corpus)
    id_field = _id_field(row, _IDS)
    metadata = _metadata(row, {"id", id_field, "question", "answers", "passages"}, "")
    identity = _identifier(row[id_field], id_field) if id_field else _content_id(question, answers, passages)
    return Query(identity, question, answers, passages, metadata)


def add_passages(query: Query, passages: Sequence[Passage], *, judged: bool) -> Query:
    """Return a query with more passages behind its own, each once by id.

    Args:
        query: The query.
        passages: The passages; one without an id, as of some search services, gets one from its text.
        judged: Whether people judged passages for this query; those that they did not judge have grade 0.
    """
    named = (each if each.id else replace(each, id=content_key(each.title, each.text)[:16]) for each in passages)
    known = {passage.id for passage in query.passages}
    others: list[Passage] = []
    for passage in named:
        if passage.id not in known:
            known.add(passage.id)
            others.append(passage)
    if judged:
        others = [replace(passage, metadata={**passage.metadata, "relevant": 0}) for passage in others]
    return replace(query, passages=(*query.passages, *others))


def refuse_other_texts(queries: Iterable[Query], corpus: Mapping[str, Passage]) -> None:
    """Refuse passages of queries that a corpus has under their id with another text, as where ids are mere places.

    Raises:
        BadRowError: A query has such a passage.
    """
    for query in queries:
        for passage in query.passages:
            other = corpus.get(passage.id)
            if other is not None and other.text != passage.text:
                raise BadRowError(
                    f"question id={query.id!r}: its passage id={passage.id!r} is {passage.text[:80]!r}, but the "
                    f"corpus has {other.text[:80]!r} under this id; give passages and corpus ids of their own"
                )


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


def _check_some(queries: Sequence[Query], examples: Examples, file: str) -> None:
    if examples.queries and not queries:
        raise ValueError(
            f"{file}: expected the ids of the questions, such as {examples.queries[0].id!r}, got none of them; give "
            "the questions their ids"
        )


def _answers(value: Any) -> Answers:
    if isinstance(value, str):
        value = [_text(value, "answers")]
    if not isinstance(value, Sequence) or not value:
        raise BadRowError(
            f"answers must be a text or a list with at least one text, got {shown(value)}; drop unanswerable "
            "questions, or take a labeler that needs no answers"
        )
    return _distinct(read_answers(value, _text))


def _passages(value: Any, corpus: Mapping[str, Passage] | None) -> tuple[Passage, ...]:
    if corpus is not None and (value is None or value == []):
        return ()  # a retriever fills them in later
    if isinstance(value, str):
        value = [_text(value, "passages")]
    if not isinstance(value, Sequence) or not value:
        raise BadRowError(
            f"passages must be a text or a list with at least one passage, got {shown(value)}; "
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
