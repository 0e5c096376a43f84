"""Tables and datasets, read by the ``datasets`` library: CSV, Parquet, Arrow, saved folders, and ids on the hub."""

import csv
import glob
import gzip
import io
import logging
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
# org/name, then a revision, a configuration and a split, each optional
_HUB_ID = re.compile(
    r"(?P<name>\w[\w.-]*/\w[\w.-]*)(?:@(?P<revision>[^:/]+))?(?:/(?P<config>[^:/]+))?(?::(?P<split>.+))?"
)
SAVED = ("dataset_dict.json", "state.json")  # files of DatasetDict.save_to_disk and Dataset.save_to_disk
TABLES = (".csv", ".tsv", ".parquet", ".arrow")
NO_COLUMN = "(cells without a column)"  # of rows that are longer than the header
_LONGEST_ERROR = 300
_LONGEST_HEADER = 1_000_000  # characters


def open_table(path: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of a file whose name ends in one of ``TABLES``; CSV and TSV may be gzipped.

    Cells of CSV and TSV are texts or ``None``; cells behind the last column are under ``NO_COLUMN``. Between tabs,
    only quotes around a whole cell count. Raises ``OSError`` if the file cannot be read, ``ValueError`` for a wrong
    header.
    """
    import datasets

    builder, separator = path.suffix[1:], ""
    options: dict[str, Any] = {}
    if builder not in ("parquet", "arrow"):
        builder = "csv"
        names, separator = _header(path)
        columns = [*names, NO_COLUMN]
        # with names, no header and no index, else pandas takes longer rows for rows with an index
        options = {"names": columns, "header": None, "skiprows": 1, "index_col": False, "sep": separator}
        options |= {"features": datasets.Features({name: datasets.Value("string") for name in columns})}  # 007 stays
        options |= {"encoding": "utf-8-sig", "keep_default_na": False, "na_values": [""]}  # NA may be an answer
        options["quoting"] = csv.QUOTE_NONE if separator == "\t" else csv.QUOTE_MINIMAL
    warnings.filterwarnings("ignore", "Length of header or names")  # rows that are too long are rejected one by one
    logging.getLogger("datasets.packaged_modules").setLevel(logging.CRITICAL)  # it logs errors that it raises as well
    with _one_line_errors(str(path)):
        files = glob.escape(str(path.resolve()))  # a name with brackets is no pattern
        rows = datasets.load_dataset(builder, data_files=files, split="train", streaming=True, **options)
        for row in with_class_names(rows):
            yield {name: _unquoted(cell) for name, cell in row.items()} if separator == "\t" else row


def _header(path: Path) -> tuple[list[str], str]:
    """Return the names of the columns of CSV, and its separator."""
    with _one_line_errors(str(path)), open_bytes(path) as file, io.TextIOWrapper(file, "utf-8-sig") as lines:
        header = lines.readline(_LONGEST_HEADER).rstrip("\n")  # lines may end in a bare CR
        separator = max(",;\t", key=header.count)
        names = next(csv.reader([header], delimiter=separator), [])
    # pandas writes its index as a first column without a name
    if not any(names) or not all(names[1:]) or len(set(names)) < len(names):
        raise ValueError(f"{path}: expected a header with a unique name for each column, got {names}")
    return names, separator


def _unquoted(cell: str | None) -> str | None:
    """Return a cell without the quotes of pandas, which doubles the quotes inside."""
    quoted = re.fullmatch(r'"((?:[^"]|"")*)"', cell or "", re.DOTALL)
    return quoted[1].replace('""', '"') if quoted else cell


def open_dataset(source: str) -> Iterable[Any]:
    """Open one split of a dataset: a folder of ``save_to_disk`` or of data files, or an id on the hub.

    An id is ``org/name`` or ``org/name@revision/configuration``; the suffix ``:split`` names the split, or a slice,
    ``:train[:100]``. Raises ``OSError`` if it cannot be read, ``ValueError`` for a wrong split.
    """
    import datasets

    name, _, split = (source, "", "") if Path(source).exists() else source.partition(":")
    saved = any((Path(name) / file_name).is_file() for file_name in SAVED)
    options: dict[str, object] = {}
    if not Path(name).is_dir():
        hub = _HUB_ID.fullmatch(source)
        if hub is None:
            raise FileNotFoundError(
                f"{source}: no such file or folder, nor the id of a dataset on the hub, such as org/name:train"
            )
        if not (hub["split"] or hub["revision"]) and Path(hub["name"]).parent.is_dir():
            raise FileNotFoundError(
                f"{source}: no such file or folder; if it is a dataset on the hub, name its split: {source}:train"
            )
        name, split, options = hub["name"], hub["split"] or "", {"name": hub["config"], "revision": hub["revision"]}
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # it warns of each retry
    with _one_line_errors(source):
        rows: Any = (
            datasets.load_from_disk(name) if saved else datasets.load_dataset(name, split=split or None, **options)
        )
    if isinstance(rows, dict):
        return with_class_names(choose_split(rows, name if saved else source, split))
    if saved and split:
        raise ValueError(f"{name}: expected no split, as this is a Dataset, got {split!r}; leave it out")
    return with_class_names(rows)


def with_class_names(rows: Any) -> Iterable[Any]:
    """Return the rows of a dataset with the names of classes (``ClassLabel``), also in lists and objects."""
    features = getattr(rows, "features", None)
    if not (isinstance(features, Mapping) and _has_classes(features)):
        return rows  # type: ignore[no-any-return]
    return (_class_names(row, features) for row in rows)


def _has_classes(feature: Any) -> bool:
    if isinstance(feature, Mapping):
        return any(map(_has_classes, feature.values()))
    return hasattr(feature, "int2str") or _has_classes(getattr(feature, "feature", {}))


def _class_names(value: Any, feature: Any) -> Any:
    if value is None:
        return None
    if isinstance(feature, Mapping):
        return {name: _class_names(item, feature.get(name)) for name, item in value.items()}
    if hasattr(feature, "int2str"):
        return feature.int2str(value) if value >= 0 else None  # -1 is no class
    if isinstance(value, list) and hasattr(feature, "feature"):
        return [_class_names(item, feature.feature) for item in value]
    return value


def choose_split(splits: Mapping[str, T], source: str, split: str) -> T:
    """Return the named split of a source, or its only one; ``ValueError`` if there is no such split."""
    if not split and len(splits) == 1:
        return next(iter(splits.values()))
    if split not in splits:
        got = repr(split) if split else "none"
        raise ValueError(
            f"{source}: expected a split, one of {', '.join(splits) or 'none'}, got {got}; name it after a colon: "
            f"{source}:{next(iter(splits), 'test')}"
        )
    return splits[split]


def open_bytes(path: Path) -> Any:
    """Open a file to read bytes, decompressed if its name ends in .gz."""
    return gzip.open(path) if path.name.endswith(".gz") else path.open("rb")


@contextmanager
def _one_line_errors(source: str) -> Iterator[None]:
    """Turn errors of the file system, the network or the library into an ``OSError`` with a one-line message."""
    from datasets.exceptions import DatasetsError
    from huggingface_hub.utils import httpx  # type: ignore[attr-defined]  # httpx2 from hub 2 on

    try:
        yield
    except (OSError, EOFError, ValueError, csv.Error, DatasetsError, httpx.HTTPError) as error:
        message = " ".join(f"{error} {error.__cause__ or ''}".split())[:_LONGEST_ERROR]
        unreached = isinstance(error, (ConnectionError, httpx.HTTPError))
        hint = "; without network only local files and the hub's cache are readable" if unreached else ""
        hint = "; save it as UTF-8" if "codec can't decode" in message else hint
        raise OSError(
            f"{source}: cannot be read as a dataset of the hub or of local files: {message}{hint}"
        ) from error
