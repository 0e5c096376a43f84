"""Read and check questions, answers, passages and corpora; every error names file, row and fix."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from seper_reward.data.answers import normalize_answer, read_answers
from seper_reward.data.demo import CORPUS, QUESTIONS
from seper_reward.data.formats.beir import beir_files
from seper_reward.data.formats.recognise import recognise
from seper_reward.data.formats.trec import Qrels, read_qrels, read_run, with_judgments, with_ranking
from seper_reward.data.marks import grade_of
from seper_reward.data.rows import BadRowError, BrokenRow, read_rows, shown, stated_list
from seper_reward.runtime.hashing import content_key
from seper_reward.runtime.messages import say_once
from seper_reward.types import Answers, Passage, Query, answer_items

# names of the id field, in order of preference: ours, BEIR's, and the one of our label rows
_IDS = ("id", "_id")
_PASSAGE_IDS = (*_IDS, "passage_id")


@dataclass(frozen=True)
class Rejected:
    """A row left out, with the reason."""

    where: str  # file and row, counted from 1
    reason: str  # expected value, actual value, and fix
    row: Any  # the row, or the start of the line if it could not be parsed


@dataclass(frozen=True)
class Examples:
    """Usable queries in input order, and rejected rows."""

    queries: tuple[Query, ...]
    rejected: tuple[Rejected, ...]
    about: str = ""  # recognised layout of the input, in one line; empty for our own layout
    judgments: Qrels | None = None  # people's judgments of the corpus, as in BEIR's folders


@dataclass(frozen=True)
class InputOptions:
    """Options of reading an input."""

    # of `id`, `question`, `answers` or `passages`, if they are not recognised; several columns are joined
    columns: Mapping[str, str | Sequence[str]] = field(default_factory=dict)
    separator: str | None = None  # text between the aliases in a cell of answers; None if a cell has one
    # whether rows of a dataset on the hub are fetched as they are needed, instead of all before
    streaming: bool = False
    # TREC run (`read_run`) whose passages the questions get; those without a ranking are left out
    run: str | None = None
    run_depth: int = 10  # most passages of a question taken from the run, >= 1
    # people's judgments (`read_qrels`), which mark the passages; questions without are left out
    qrels: str | None = None
    # whether questions may lack passages without a corpus, too: an index or a search service has them
    retrieved: bool = False


def read_queries(
    source: str | Path | Iterable[Any],
    corpus: Mapping[str, Passage] | None = None,
    options: InputOptions = InputOptions(),
    *,
    answers_needed: bool = True,
    most: int | None = None,
) -> Examples:
    """Read questions with answers and passages.

    Args:
        source: Any source of ``read_rows``: a file, a dataset's folder or id, or rows. Rows are
            ``{id?, question, answers, passages}`` or have one of ``recognise.LAYOUTS``. A passage is a text,
            ``{id?, title?, text}``, or, with a corpus, ``{id}``; other fields are kept as metadata. The field of an id
            may also be ``_id``, of a passage's id ``passage_id``, as in files of labels.
        corpus: Passages by id. With a corpus, rows may lack ``passages``; a retriever adds them later.
        options: Options of reading the rows: ``columns``, ``separator`` and ``streaming``.
        answers_needed: Whether each row must have ``answers``.
        most: Most queries to read, the first ones; ``None`` reads all.

    Raises:
        OSError: The source is missing or cannot be read.
        ValueError: The format is unknown, or no known column contains a needed field.
    """
    needed = {"question"} | ({"answers"} if answers_needed else set()) | ({"passages"} if corpus is None else set())
    name = str(source) if isinstance(source, (str, Path)) else "the input"
    rows = read_rows(source, streaming=options.streaming)
    reading, rows = recognise(rows, name, needed, options.columns, options.separator)
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
    """Read questions, and the corpus of their passages if there is one.

    Args:
        source: Name of a source of ``read_queries``; ``"demo"`` for the bundled questions; or a BEIR folder with the
            suffix ``:split``, which contains a corpus and judgments.
        corpus_file: Source of the corpus for ``read_corpus`` (default: the demo's or BEIR's own corpus, else none).
        options: Options of reading the input.
        answers_needed: Whether each question must have ``answers``.
        most: Maximum number of questions to read, from the first (default: all).

    Raises:
        OSError: A source is missing or cannot be read.
        ValueError: A format is unknown, a column or split is missing, or no id of a question occurs in the run or the
            judgments.
    """
    beir = None if source == "demo" else beir_files(source)
    questions = beir.queries if beir else QUESTIONS if source == "demo" else source
    corpus_path = corpus_file or (beir.corpus if beir else CORPUS if source == "demo" else None)
    corpus = read_corpus(corpus_path) if corpus_path else {} if options.retrieved else None
    qrels = options.qrels or (beir.qrels if beir else None)
    filtered = options.run or qrels
    examples = read_queries(questions, corpus, options, answers_needed=answers_needed, most=None if filtered else most)
    queries: Sequence[Query] = examples.queries
    if (options.run or qrels) and corpus is None:
        raise ValueError("a run and judgments refer to passages of a corpus; give the corpus, too")
    if options.run:
        queries = with_ranking(queries, read_run(options.run), corpus or {}, options.run_depth)
        _check_some(queries, examples.queries, options.run)
    judgments = read_qrels(qrels) if qrels else None
    if judgments is not None:
        ranked, queries = queries, with_judgments(queries, judgments, corpus or {})
        _check_some(queries, ranked, str(qrels))
    queries = tuple(queries[: most if filtered else None])
    return replace(examples, queries=queries, judgments=judgments), corpus


def read_corpus(source: str | Path) -> dict[str, Passage]:
    """Read a corpus of ``{id, title?, text}`` rows, by id; BEIR's ``_id`` counts as an id.

    If no row has an id, rows are numbered from 0. Rows with an id and without any text, as in some BEIR sets, are left
    out with a message.

    Args:
        source: Any source of ``read_rows``: a file, or a dataset's folder or id.

    Raises:
        OSError: The file is missing or cannot be read.
        ValueError: There is no row, a row is unusable (skipping it would renumber rows without ids), or only some rows
            have an id.
    """
    corpus: dict[str, Passage] = {}
    named, blank = False, 0
    for where, row in read_rows(source):
        try:
            if isinstance(row, BrokenRow):
                raise BadRowError(row.reason)
            has_id = isinstance(row, Mapping) and _id_field(row, _PASSAGE_IDS) is not None
            if has_id and "text" in row and _is_blank(row["text"]) and _is_blank(row.get("title")):
                blank += 1
                continue
            passage = _passage(row, position=len(corpus), corpus=None)
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
    if blank:
        say_once(f"{source}: {blank} passages have no text and are left out")
    return corpus


def as_query(row: Any, corpus: Mapping[str, Passage] | None = None, *, answers_needed: bool = True) -> Query:
    """Check one record ``{id?, question, answers, passages}``; equal answers count once, other fields are metadata.

    ``answers`` is a text, a list of the aliases of one answer or, if the answer is a list, a list with the aliases of
    each item. Unless ``answers_needed``, it may be absent or empty. ``passages`` may be one text.

    Raises:
        BadRowError: The record is unusable; the message has the field, the expected and the actual value, and the fix.
    """
    if isinstance(row, Query):
        return row
    if not isinstance(row, Mapping):
        raise BadRowError(f"expected an object {{question, answers, passages}}, got {shown(row)}")
    question = _text(row.get("question"), "question")
    given = stated_list(row.get("answers"))
    answers = () if not answers_needed and given in (None, "", []) else _answers(given)
    passages = _passages(stated_list(row.get("passages")), corpus)
    id_field = _id_field(row, _IDS)
    metadata = _metadata(row, {"id", id_field, "question", "answers", "passages"}, "")
    identity = _identifier(row[id_field], id_field) if id_field else _content_id(question, answers, passages)
    return Query(identity, question, answers, passages, metadata)


def add_passages(query: Query, passages: Sequence[Passage], grades: Mapping[str, int] | None = None) -> Query:
    """Return a query with further passages after its own, each id once.

    A search service may give passages without ids, which then get one from their texts, and several parts of a
    document under its id, which then get the id ``DOCUMENT#HASH``. Human ``grades`` by id are of documents: further
    parts are then left out, and new passages get their grade, 0 if they have none.
    """
    known = {passage.id: passage.text for passage in query.passages}
    others: list[Passage] = []
    for passage in passages:
        if not passage.id or (grades is None and known.get(passage.id, passage.text) != passage.text):
            text_id = content_key(passage.title, passage.text)[:16]
            passage = replace(passage, id=f"{passage.id}#{text_id}" if passage.id else text_id)
        if passage.id not in known:
            known[passage.id] = passage.text
            others.append(passage)
    if grades is not None:
        others = [replace(each, metadata={**each.metadata, "relevant": grades.get(each.id, 0)}) for each in others]
    return replace(query, passages=(*query.passages, *others))


def in_corpus(queries: Iterable[Query], corpus: Mapping[str, Passage], judgments: Qrels | None = None) -> list[Query]:
    """Return queries whose passages have the titles of the corpus, with those that people judged relevant.

    The number of passages that are not in the corpus is printed, because no retriever can find them.

    Raises:
        BadRowError: A passage has another text in the corpus; ids may be mere row numbers.
    """
    passages = absent = 0
    found = []
    for query in queries:
        for passage in query.passages:
            other = corpus.get(passage.id)
            passages += 1
            absent += other is None
            if other is not None and _differ(passage, other):
                raise BadRowError(
                    f"question id={query.id!r}: its passage id={passage.id!r} is {passage.full_text[:80]!r}, but the "
                    f"corpus has {other.full_text[:80]!r} under this id; use different ids in questions and corpus"
                )
        known = tuple(replace(each, title=each.title or corpus.get(each.id, each).title) for each in query.passages)
        grades = (judgments or {}).get(query.id, {})
        judged = [corpus[each] for each, grade in grades.items() if grade > 0 and each in corpus]
        found.append(add_passages(replace(query, passages=known), judged, grades))
    if absent:
        say_once(
            f"{absent} of {passages} passages of questions are not in the corpus: no retriever can find them, and "
            "recall and nDCG count them as not found; use the corpus's ids for passages that it has"
        )
    return found


def _differ(one: Passage, other: Passage) -> bool:
    """Return whether two passages have different texts, or different titles if both have one."""
    return one.text != other.text or bool(one.title and other.title and one.title != other.title)


def pool_passages(queries: Sequence[Query]) -> tuple[dict[str, Passage], list[Query]]:
    """Build a corpus from the passages of all queries; return it, and the queries with the corpus's ids.

    Equal texts are in the corpus once and without metadata, because metadata belongs to one query. A query that has a
    passage twice keeps the one with the higher human grade.
    """
    corpus: dict[str, Passage] = {}
    renamed = []
    for query in queries:
        passages: dict[str, Passage] = {}
        for passage in query.passages:
            identity = content_key(passage.title, passage.text)[:16]
            corpus[identity] = Passage(passage.text, passage.title, identity)
            if identity not in passages or grade_of(passage) > grade_of(passages[identity]):
                passages[identity] = replace(passage, id=identity)
        renamed.append(replace(query, passages=tuple(passages.values())))
    return corpus, renamed


def _check_some(queries: Sequence[Query], asked: Sequence[Query], file: str) -> None:
    if asked and not queries:
        raise ValueError(
            f"{file}: expected ids of the questions, such as {asked[0].id!r}, got none of them; use the same ids in "
            "both files"
        )
    if len(queries) < len(asked):
        say_once(f"{file}: {len(asked) - len(queries)} of {len(asked)} questions are not in it and are left out")


def _answers(value: Any) -> Answers:
    if isinstance(value, str):
        value = [_text(value, "answers")]
    if not isinstance(value, Sequence) or not value:
        raise BadRowError(
            f"answers must be a text or a list with at least one text, got {shown(value)}; drop unanswerable "
            "questions, or use a labeler that needs no answers"
        )
    return _distinct(read_answers(value, _text))


def _passages(value: Any, corpus: Mapping[str, Passage] | None) -> tuple[Passage, ...]:
    if corpus is not None and (value is None or value == []):
        return ()  # a retriever adds them later
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
        return _numbered(Passage(_text(value, name)), position, corpus)
    if not isinstance(value, Mapping):
        raise BadRowError(f"{name} must be a text or {{id?, title?, text}}, got {shown(value)}")
    id_field = _id_field(value, _PASSAGE_IDS)
    identity = _identifier(value[id_field], f"{name}.{id_field}") if id_field else ""
    metadata = _metadata(value, {"id", id_field, "title", "text"}, f"{name}.")
    if value.get("text") is None and corpus is not None:
        if not id_field or identity not in corpus:  # else its place would be taken for the number of a row
            came = f"id {identity!r}" if id_field else shown(value)
            raise BadRowError(f"{name} has neither a text nor an id of the corpus, got {came}; add one")
        entry = corpus[identity]
        return Passage(entry.text, entry.title, identity, {**entry.metadata, **metadata})
    title = "" if _is_blank(value.get("title")) else _text(value["title"], f"{name}.title")
    if title and "text" in value and _is_blank(value["text"]):  # as in some BEIR sets
        passage = Passage(title, id=identity, metadata=metadata)
    else:
        passage = Passage(_text(value.get("text"), f"{name}.text"), title, identity, metadata)
    return passage if id_field else _numbered(passage, position, corpus)


def _numbered(passage: Passage, position: int, corpus: Mapping[str, Passage] | None) -> Passage:
    """Return a passage with its position as its id, or a hash of both if a corpus has another one there."""
    other = (corpus or {}).get(str(position))
    clashes = other is not None and _differ(passage, other)
    return replace(passage, id=content_key(position, passage.title, passage.text)[:16] if clashes else str(position))


def _is_blank(text: Any) -> bool:
    return text is None or (isinstance(text, str) and not text.strip())


def _distinct(answers: Answers) -> Answers:
    """Return answers without duplicates: equal aliases, and items with the same aliases."""
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
        raise BadRowError(f"{name} contains half a surrogate pair at {error.start}; repair the text") from error
    return value


def _id_field(row: Mapping[str, Any], names: Sequence[str]) -> str | None:
    """Return the first name whose field is not empty."""
    return next((name for name in names if row.get(name) is not None), None)


def _identifier(value: Any, name: str) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int)) or value == "":
        raise BadRowError(f"{name} must be a text or a whole number, got {shown(value)}; rename it or leave it out")
    return _encodable(str(value), name)


def _metadata(row: Mapping[str, Any], ours: set[str | None], prefix: str) -> dict[str, Any]:
    """Return the other fields of a row, which must be writable as strict JSON in UTF-8."""
    metadata = {key: value for key, value in row.items() if key not in ours}
    for key, value in metadata.items():
        try:
            json.dumps({key: value}, ensure_ascii=False, allow_nan=False, default=str).encode()
        except UnicodeEncodeError as error:
            raise BadRowError(f"{prefix}{key!a} contains half a surrogate pair; repair the text") from error
        except ValueError as error:
            raise BadRowError(f"{prefix}{key!a} contains NaN or an infinity; write null or leave it out") from error
        except (TypeError, RecursionError) as error:
            raise BadRowError(f"{prefix}{key!a} cannot be written as JSON ({error}); leave it out") from error
    return metadata


def _content_id(question: str, answers: Answers, passages: Sequence[Passage]) -> str:
    return content_key(question, answers, [[passage.title, passage.text] for passage in passages])[:16]
