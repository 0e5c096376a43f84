"""Questions, answers, passages and corpora from rows; every error names file, row and fix."""

import itertools
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from seper_reward.data.answers import as_answers, is_list, stated_aliases
from seper_reward.data.formats import as_ours, check_columns, joined_texts, layout_of, other_names, parse_columns
from seper_reward.data.marks import grade_of
from seper_reward.data.rows import (
    IDS,
    METADATA,
    PASSAGE_IDS,
    BadRowError,
    BrokenRow,
    as_text,
    encodable,
    id_field_of,
    is_empty_passage,
    is_missing,
    read_rows,
    shown,
    stated_list,
    whole,
)
from seper_reward.options import InputOptions
from seper_reward.runtime.hashing import content_key
from seper_reward.runtime.messages import plural, say_once
from seper_reward.runtime.on_disk import OnDisk
from seper_reward.types import Passage, Query

_FIRST_ROWS = 100  # rows whose columns are checked before others are read


@dataclass(frozen=True)
class Rejected:
    """A row left out, with the reason."""

    where: str  # file and row, counted from 1
    reason: str  # expected value, actual value, and fix
    row: Any  # the row, or the start of the line if it could not be parsed


@dataclass(frozen=True)
class Input:
    """Usable queries in input order, and rejected rows."""

    queries: Sequence[Query]
    rejected: Sequence[Rejected]
    corpus: Mapping[str, Passage] | None = None  # passages by id; None if questions have all of them
    # human relevance judgments of the corpus (qrels), as in BEIR's folders
    judgments: Mapping[str, Mapping[str, int]] | None = None


def read_queries(
    source: str | Path | Iterable[object],
    corpus: Mapping[str, Passage] | None = None,
    options: InputOptions = InputOptions(),
    *,
    answers_needed: bool = True,
    passages_needed: bool = True,
    on_disk: bool = False,
) -> Input:
    """Read questions with answers and passages; what is recognised or left out is said once.

    Rows of ``source`` (``read_rows``) are ``{id?, question, answers, passages}`` or in a layout of ``formats``; a
    passage is a text, ``{id?, title?, text}`` or, with a ``corpus`` by id, ``{id}``. With a corpus, rows may lack
    passages. ``on_disk`` keeps the records on disk. Raises ``OSError`` if the source cannot be read, ``ValueError`` if
    the format is unknown, or no column has a needed field.
    """
    passages_needed = passages_needed and corpus is None
    kinds = {"answers": answers_needed, "passages": passages_needed}
    needed = {"question", *(name for name, is_needed in kinds.items() if is_needed)}
    name = str(source) if isinstance(source, (str, Path)) else "the input"
    columns = parse_columns(options.columns)
    rows = read_rows(source)
    first = list(itertools.islice(rows, _FIRST_ROWS))
    objects = [row for _, row in first if isinstance(row, Mapping)]
    check_columns(objects, name, needed, columns)
    if objects:
        _say_layout(name, objects, columns)
    queries: list[Query] | OnDisk[Query] = OnDisk() if on_disk else []
    rejected: list[Rejected] | OnDisk[Rejected] = OnDisk() if on_disk else []
    ids: set[str] = set()
    left_out = Counter[str]()
    for where, row in itertools.chain(first, rows):
        try:
            if isinstance(row, BrokenRow):
                raise BadRowError(row.reason)
            query, empty_aliases, empty_passages = parse_query(
                as_ours(row, columns), corpus, answers_needed=answers_needed, passages_needed=passages_needed
            )
            if query.id in ids:
                raise BadRowError(f"id {query.id!r} was used by an earlier row; expected unique ids; rename one")
            ids.add(query.id)
            queries.append(query)
            left_out.update(aliases=empty_aliases, passages=len(empty_passages))
        except BadRowError as error:
            rejected.append(Rejected(where, str(error), row.text if isinstance(row, BrokenRow) else row))
    if counts := [f"{count} empty {kind}" for kind, count in left_out.items() if count]:
        say_once(f"{name}: left out {' and '.join(counts)}")
    return Input(queries, rejected) if on_disk else Input(tuple(queries), tuple(rejected))


def _say_layout(name: str, rows: Sequence[Mapping[str, Any]], columns: Mapping[str, Sequence[str]]) -> None:
    """Say how the columns of the first rows are read, and which texts seem to be several."""
    if layout := layout_of(rows[0]):
        say_once(f"{name}: read as {layout}")
    read = {f"{column} as {field}": None for row in rows for field, column in other_names(row, columns).items()}
    if read:
        say_once(f"{name}: read {', '.join(read)}; --columns reads others")
    for line in joined_texts(rows, columns):
        say_once(f"{name}: {line}")


def read_corpus(source: str | Path) -> dict[str, Passage]:
    """Read a corpus of ``{id, title?, text}`` rows by id (or ``_id``), numbered from 0 if no row has one.

    Rows with an id and without any text, as in some BEIR sets, are left out. Raises ``ValueError`` if there is no row,
    a row is unusable (skipping it would renumber others), or only some rows have an id.
    """
    corpus: dict[str, Passage] = {}
    named, blank = False, 0
    for where, row in read_rows(source):
        try:
            if isinstance(row, BrokenRow):
                raise BadRowError(row.reason)
            has_id = isinstance(row, Mapping) and id_field_of(row, PASSAGE_IDS) is not None
            if has_id and "text" in row and is_missing(row["text"]) and is_missing(row.get("title")):
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
        say_once(f"{source}: left out: {plural(blank, 'passage')} without a text")
    return corpus


class ParsedQuery(NamedTuple):
    """A query, and the missing values (``is_missing``) of its row, which it does not have."""

    query: Query
    empty_aliases: int = 0
    empty_passages: Sequence[int] = ()  # places of passages without a text

    @property
    def whole(self) -> Query:
        """The query of a row with a result for each passage, so an empty one is a ``BadRowError``."""
        if self.empty_passages:
            place = self.empty_passages[0]
            raise BadRowError(f"passages[{place}] is empty, and there is a result for each passage; leave it out")
        return self.query


def parse_query(
    row: Any, corpus: Mapping[str, Passage] | None = None, *, answers_needed: bool = True, passages_needed: bool = True
) -> ParsedQuery:
    """Check a clean row ``{id?, question, answers, passages}``; equal answers count once, other fields are metadata.

    Raises ``BadRowError`` with the field, the expected and the actual value, and the fix.
    """
    if isinstance(row, Query):
        return ParsedQuery(row)
    if not isinstance(row, Mapping):
        raise BadRowError(f"expected an object {{question, answers, passages}}, got {shown(row)}")
    question = as_text(row.get("question"), "question")
    answers = as_answers(row.get("answers"), needed=answers_needed)
    empty_aliases = sum(map(is_missing, stated_aliases(row.get("answers")))) if answers else 0
    stated = stated_list(row.get("passages"))
    passages, empty_passages = _passages(stated, corpus)
    if not passages and passages_needed and corpus is None:
        raise BadRowError(
            f"passages must be a text or a list with at least one passage, got {shown(stated)}; "
            "give passages, or a corpus to retrieve them from"
        )
    id_field = id_field_of(row, IDS)
    metadata = _metadata(row, {"id", id_field, "question", "answers", "passages"}, "")
    content = [question, answers, [[passage.title, passage.text] for passage in passages]]
    identity = _identifier(row[id_field], id_field) if id_field else content_key(*content)[:16]
    return ParsedQuery(Query(identity, question, answers, passages, metadata), empty_aliases, empty_passages)


def differ(one: Passage, other: Passage) -> bool:
    """Return whether two passages have different texts, or different titles if both have one."""
    return one.text != other.text or bool(one.title and other.title and one.title != other.title)


def pool_passages(queries: Sequence[Query]) -> tuple[dict[str, Passage], list[Query]]:
    """Build a corpus from the passages of all queries; return it, and the queries with the corpus's ids.

    Equal texts are in it once, without metadata, which belongs to one query; a query that has a passage twice keeps
    the one with the higher human grade.
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


def _passages(value: Any, corpus: Mapping[str, Passage] | None) -> tuple[tuple[Passage, ...], list[int]]:
    """Return the passages of a value, and the places of empty ones."""
    values = value if is_list(value) else [] if is_missing(value) else [value]
    is_empty = list(map(is_empty_passage, values))
    passages = tuple(_passage(values[at], at, corpus) for at, empty in enumerate(is_empty) if not empty)
    counts = Counter(passage.id for passage in passages)
    if repeated := sorted(identity for identity, count in counts.items() if count > 1):
        raise BadRowError(f"passages must have distinct ids, got {repeated} twice; drop or rename one")
    return passages, [at for at, empty in enumerate(is_empty) if empty]


def _passage(value: object, position: int, corpus: Mapping[str, Passage] | None) -> Passage:
    name = f"passages[{position}]"
    if not isinstance(value, Mapping):
        if is_list(value):
            raise BadRowError(f"{name} must be a text or {{id?, title?, text}}, got {shown(value)}")
        return _numbered(Passage(as_text(value, name)), position, corpus)
    id_field = id_field_of(value, PASSAGE_IDS)
    identity = _identifier(value[id_field], f"{name}.{id_field}") if id_field else ""
    metadata = _metadata(value, {"id", id_field, "title", "text"}, f"{name}.")
    if "relevant" in metadata:
        metadata["relevant"] = whole(metadata["relevant"])
    if value.get("text") is None and corpus is not None:
        if not id_field or identity not in corpus:  # else its place would be taken for the number of a row
            came = f"id {identity!r}" if id_field else shown(value)
            raise BadRowError(f"{name} has neither a text nor an id of the corpus, got {came}; add one")
        entry = corpus[identity]
        return Passage(entry.text, entry.title, identity, {**entry.metadata, **metadata})
    title = "" if is_missing(value.get("title")) else as_text(value["title"], f"{name}.title")
    if title and "text" in value and is_missing(value["text"]):  # as in some BEIR sets
        passage = Passage(title, id=identity, metadata=metadata)
    else:
        passage = Passage(as_text(value.get("text"), f"{name}.text"), title, identity, metadata)
    return passage if id_field else _numbered(passage, position, corpus)


def _numbered(passage: Passage, position: int, corpus: Mapping[str, Passage] | None) -> Passage:
    """Return a passage with its position as its id, or a hash of both if a corpus has another one there."""
    other = (corpus or {}).get(str(position))
    clashes = other is not None and differ(passage, other)
    return replace(passage, id=content_key(position, passage.title, passage.text)[:16] if clashes else str(position))


def _identifier(value: object, name: str) -> str:
    value = whole(value)
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise BadRowError(f"{name} must be a text or a whole number, got {shown(value)}; rename it or leave it out")
    return encodable(str(value), name)


def _metadata(row: Mapping[str, Any], ours: set[str | None], prefix: str) -> dict[str, object]:
    """Return the other fields of a row, which must be writable as strict JSON in UTF-8."""
    metadata = {key: value for key, value in row.items() if key not in ours}
    if isinstance(metadata.get(METADATA), Mapping):  # as in label rows
        metadata = {**metadata.pop(METADATA), **metadata}
    for key, value in metadata.items():
        try:
            json.dumps({key: value}, ensure_ascii=False, allow_nan=False, default=str).encode()
        except (UnicodeEncodeError, ValueError, TypeError, RecursionError) as error:
            raise BadRowError(f"{prefix}{key!a} cannot be written as JSON in UTF-8 ({error}); leave it out") from error
    return metadata
