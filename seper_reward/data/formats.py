"""Layouts of rows: ours, and those of SQuAD, HotpotQA, MS MARCO and BEIR, which are recognised by their columns.

Other names of our columns are in ``NAMES``, with those of Ragas, DeepEval and FlashRAG.

- SQuAD (arXiv:1606.05250): the paragraph in which annotators found the answer becomes a passage marked relevant.
- HotpotQA (arXiv:1809.09600), 2WikiMultihopQA: passages whose titles are in ``supporting_facts`` are marked relevant.
- MS MARCO (arXiv:1611.09268): the passages from which annotators wrote the answer are marked relevant.
- BEIR (arXiv:2104.08663): queries ``{_id, text, metadata}``; few have answers, HotpotQA's are in ``metadata.answer``.

Questions without an answer (SQuAD 2.0, MS MARCO) have an empty list.
"""

import itertools
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from seper_reward.data.rows import BadRowError, is_missing, shown, stated_list
from seper_reward.runtime.messages import plural

Row = Mapping[str, Any]
Columns = Mapping[str, str | Sequence[str]]
#: Names of our fields in files and logs; the first one that a row has is read. The output of a system is in none.
NAMES: Mapping[str, Sequence[str]] = {
    "question": ("question", "query", "user_input", "problem", "input"),
    "answers": (
        "answers", "golden_answers", "gold_answers", "ground_truths", "ground_truth", "reference", "expected_output",
        "target", "answer",
    ),
    "passages": ("passages", "retrieved_contexts", "retrieval_context", "contexts", "ctxs", "context", "passage"),
}  # fmt: skip
FIELDS = tuple(NAMES)
_SEPARATORS = {"|": r"\s*\|+\s*", ";": r"\s*;\s*", "/": r"\s+/\s+"}
_JOINED = {"retrieval_context": "|"}  # columns of DeepEval's CSV and JSON lines, which join texts
_SENTENCE_ENDS = (*'.!?"”)]。！？',)
_LEAST_JOINED = 0.2  # share of the texts of a column with a separator from which it is said
_NO_ANSWER = "No Answer Present."  # of MS MARCO


def layout_of(row: Row) -> str:
    """Return the name of a row's layout; "" for ours, and for unknown columns."""
    return next((name for name, (fits, _) in _LAYOUTS.items() if fits(row)), "")


def as_ours(row: Any, columns: Columns = MappingProxyType({})) -> Any:
    """Return a clean row as ``{id?, question?, answers?, passages?}`` and its other columns.

    ``columns`` count before the layout's and the names in ``NAMES``; a dotted path such as ``answer.aliases`` goes
    into objects and list items, and a separator behind it splits texts. Raises ``BadRowError`` if the row has the
    columns of a layout, but other values.
    """
    if not isinstance(row, Mapping):
        return row
    paths = _paths(columns)
    named_columns = {_path_and_separator(path)[0] for path in itertools.chain(*paths.values())}
    rest = {name: value for name, value in row.items() if name not in named_columns}
    named = {name: _joined([_cell_at(row, path) for path in field_paths]) for name, field_paths in paths.items()}
    layout = layout_of(rest)
    try:
        return {**(_LAYOUTS[layout][1](rest) if layout else _renamed(rest, columns)), **named}
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise BadRowError(f"expected a row of {layout} ({error!r}), got {shown(dict(row))}") from error


def other_names(row: Row, columns: Columns = MappingProxyType({})) -> dict[str, str]:
    """Return the columns of a row without a layout that are read as a field of ours, by this field, in any case.

    >>> other_names({"user_input": "Who?", "reference": "Ann", "response": "Bob", "passages": ["Ann did."]})
    {'question': 'user_input', 'answers': 'reference'}
    """
    if layout_of(row):
        return {}
    written = {str(name).lower(): name for name in row if not isinstance(row[name], Mapping)}
    column_names = {
        field: next((written[name] for name in names if name in written), field)
        for field, names in NAMES.items()
        if field not in row and field not in columns
    }
    return {field: name for field, name in column_names.items() if name != field}


def joined_texts(rows: Sequence[Row], columns: Columns) -> Iterator[str]:
    """Yield a sentence for each column of answers or passages whose texts seem to be several, with the way out."""
    named = _paths(columns)
    for field, kind in (("answers", "answer"), ("passages", "passage")):
        for path in named.get(field) or {other_names(row, columns).get(field, field): None for row in rows}:
            texts = [text for row in rows if (text := _only_text(_value_at(row, path)))]
            counts = {sign: sum(_is_joined(text, sign, field) for text in texts) for sign in _SEPARATORS}
            separator = max(counts, key=lambda sign: counts[sign])
            seen = f"{separator!r} is in {counts[separator]} of {plural(len(texts), 'text')} of {path!r}"
            if not counts[separator] or counts[separator] < _LEAST_JOINED * len(texts):
                continue
            if _JOINED.get(path) == separator:
                yield f"{seen} and separates {field}, as DeepEval writes them"
            else:
                way_out = f"--columns '{field}={path}{separator}' splits them"
                yield f"{seen}, and each text is one {kind}; if it separates {field}, {way_out}"


def check_columns(rows: Sequence[object], source: str, needed: Collection[str], columns: Columns) -> None:
    """Raise ``ValueError`` if all of the first rows lack a column of a needed field, or one that the user named."""
    objects = [row for row in rows if isinstance(row, Mapping)]
    listed = f"the columns {', '.join(dict.fromkeys(str(name) for row in objects for name in row))}"
    for path, _ in map(_path_and_separator, itertools.chain.from_iterable(_paths(columns).values())):
        if objects and not any(_has(row, path) for row in objects):
            raise ValueError(f"{source}: expected a column {path!r}, got {listed}; correct the setting columns")
    fields: set[str] = set()
    for row in objects:
        try:
            fields |= set(as_ours(row, columns))
        except BadRowError:
            fields |= set(FIELDS)  # a layout's columns with other values
    missing = [name for name in FIELDS if name in needed and name not in fields]
    if not objects or not missing:
        return
    way_out = f"name it: --columns {' '.join(f'{name}=COLUMN' for name in missing)}"
    if "passages" in missing:
        way_out += " (a text is one passage; several columns are joined), or give a corpus to find passages in"
    if "answers" in missing:
        way_out += "; some labelers need no answers"
    raise ValueError(f"{source}: found no column for {' and '.join(missing)}, got {listed}; {way_out}")


def parse_columns(words: Sequence[str]) -> dict[str, list[str]]:
    """Return the columns that words such as ``answers=gold`` name; answers and passages may have several.

    A separator behind a column, as in ``answers=gold|``, splits its texts.
    """
    columns: dict[str, list[str]] = {}
    for word in words:
        name, _, column = word.partition("=")
        if name not in ("id", *FIELDS) or not column:
            raise ValueError(f"columns must be like question=COLUMN, for id, {', '.join(FIELDS)}, got {word!r}")
        if name in columns and name in ("id", "question"):
            raise ValueError(f"columns names two for {name}, {columns[name][0]!r} and {column!r}; name one")
        columns.setdefault(name, []).append(column)
    return columns


def _has_object(row: Row, name: str, key: str) -> bool:
    return isinstance(row.get(name), Mapping) and key in row[name]


def _squad(row: Row) -> dict[str, object]:
    passage = _marked_passage(row["context"], True, row.get("title"))
    rest = _without(row, "answers", "context", "title")
    return {**rest, "answers": _texts(row["answers"]["text"]), "passages": [passage]}


def _hotpotqa(row: Row) -> dict[str, object]:
    facts, context = row["supporting_facts"], row["context"]
    supporting = set(facts["title"] if isinstance(facts, Mapping) else (title for title, _ in facts))
    if isinstance(context, Mapping):  # on the hub; files have pairs
        context = zip(context["title"], context["sentences"], strict=True)
    passages = [
        _marked_passage(" ".join(sentence.strip() for sentence in sentences), title in supporting, title)
        for title, sentences in context
    ]
    rest = _without(row, "answer", "context", "supporting_facts")
    return {**rest, "answers": row["answer"], "passages": passages}


def _ms_marco(row: Row) -> dict[str, object]:
    marked = zip(row["passages"]["passage_text"], row["passages"]["is_selected"], strict=True)
    return {
        **_without(row, "query", "query_id"),
        "id": row.get("query_id"),
        "question": row["query"],
        "answers": [answer for answer in _texts(row["answers"]) if answer != _NO_ANSWER],
        "passages": [_marked_passage(text, bool(mark)) for text, mark in marked],
    }


def _beir(row: Row) -> dict[str, object]:
    metadata = row.get("metadata")
    sources = [row, metadata] if isinstance(metadata, Mapping) else [row]
    answers = [source[name] for source in sources for name in ("answers", "answer") if source.get(name) is not None]
    rest = _without(row, "text", "title", "metadata", "answers", "answer")
    return {**rest, "question": row["text"], **({"answers": answers[0]} if answers else {})}


_LAYOUTS: Mapping[str, tuple[Callable[[Row], bool], Callable[[Row], dict[str, Any]]]] = {
    "SQuAD": (lambda row: {"question", "context"} <= set(row) and _has_object(row, "answers", "text"), _squad),
    "HotpotQA": (
        lambda row: {"question", "answer", "context", "supporting_facts"} <= set(row) and "passages" not in row,
        _hotpotqa,
    ),
    "MS MARCO": (
        lambda row: {"query", "answers"} <= set(row) and _has_object(row, "passages", "passage_text"),
        _ms_marco,
    ),
    "BEIR": (lambda row: {"_id", "text"} <= set(row) and not {"question", "passages"} & set(row), _beir),
}


def _without(row: Row, *columns: str) -> dict[str, object]:
    return {name: value for name, value in row.items() if name not in columns}


def _texts(value: Any) -> list[object]:
    return [value] if isinstance(value, str) else list(value)


def _marked_passage(text: object, relevant: bool, title: object = "") -> dict[str, object]:
    return {"title": title, "text": text, "relevant": relevant}


def _renamed(row: Row, columns: Columns) -> dict[str, object]:
    """Return a row with its columns of ``other_names`` under our names."""
    fields = {column: field for field, column in other_names(row, columns).items()}
    return {fields.get(name, name): _cell_at(row, name) if name in fields else row[name] for name in row}


def _path_and_separator(path: str) -> tuple[str, str]:
    """Return a path without the separator behind it, and the separator, at which the column's texts are split."""
    return (path[:-1], path[-1]) if path[-1] in _SEPARATORS and len(path) > 1 else (path, "")


def _cell_at(row: Row, named: str) -> object:
    """Return the value at a path, split if the path ends in a separator, or the column is a text of DeepEval."""
    path, separator = _path_and_separator(named)
    value = stated_list(_value_at(row, path))
    if isinstance(value, str):
        separator = separator or _JOINED.get(path, "")
    if not separator:
        return value
    texts = value if isinstance(value, list) else [value]
    return [part for text in texts for part in (_split(text, separator) if isinstance(text, str) else [text])]


def _split(text: str, separator: str) -> list[str]:
    return [part for part in re.split(_SEPARATORS[separator], text.strip()) if part]


def _only_text(value: object) -> str:
    """Return the text of a value that is one text, or a list of one; "" for another value."""
    value = stated_list(value)
    value = value[0] if isinstance(value, list) and len(value) == 1 else value
    return value if isinstance(value, str) else ""


def _is_joined(text: str, separator: str, field: str) -> bool:
    """Return whether a text seems to be several; in a passage, where separators are punctuation, several sentences."""
    parts = _split(text, separator)
    if len(parts) < 2 or field == "answers" or (separator == "|" and " | " not in text):
        return len(parts) > 1
    return all(part.endswith(_SENTENCE_ENDS) for part in parts)


def _paths(columns: Columns) -> dict[str, tuple[str, ...]]:
    return {name: (paths,) if isinstance(paths, str) else tuple(paths) for name, paths in columns.items()}


def _joined(values: Sequence[object]) -> object:
    """Return the value of one column, or those of several as one list."""
    if len(values) == 1:
        return values[0]
    lists = [value if isinstance(value, list) else [value] for value in map(stated_list, values)]
    return [value for value in itertools.chain.from_iterable(lists) if not is_missing(value)]


def _has(value: object, path: str) -> bool:
    """Return whether there may be a value at a dotted path: whether none of its names is unknown."""
    if isinstance(value, list):
        return not value or any(_has(item, path) for item in value)
    if not isinstance(value, Mapping):
        return value is None
    name, _, rest = path.partition(".")
    return path in value or (bool(rest) and name in value and _has(value[name], rest))


def _value_at(value: object, path: str) -> object:
    """Return the value at a dotted path; ``None`` if there is none."""
    if isinstance(value, list):
        return [_value_at(item, path) for item in value]
    if not isinstance(value, Mapping):
        return None
    if path in value:
        return value[path]
    name, _, rest = path.partition(".")
    return _value_at(value.get(name), rest) if rest else None
