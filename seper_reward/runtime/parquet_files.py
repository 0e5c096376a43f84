"""Conversion of rows with any fields to a ``datasets.Dataset`` and to Parquet."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datasets import Dataset


def as_dataset(rows: Sequence[Mapping[str, object]]) -> "Dataset":
    """Return rows as a dataset in memory, with the columns of all rows; missing fields and empty objects are ``None``.

    A column with values of several types is stored as JSON: ``datasets`` decodes it, other libraries see texts.
    """
    names = dict.fromkeys(name for row in rows for name in row)
    columns = [_column(name, [_without_empty(row.get(name)) for row in rows]) for name in names]
    from datasets import Dataset, concatenate_datasets

    return concatenate_datasets(columns, axis=1) if columns else Dataset.from_dict({})


def write_parquet(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    """Write rows as a Parquet file, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(path.name + ".tmp")
    as_dataset(rows).to_parquet(scratch)
    scratch.replace(path)


def without_none(value: object) -> Any:
    """Return a value without fields that are ``None``, such as those added by ``as_dataset``."""
    if isinstance(value, Mapping):
        return {name: without_none(field) for name, field in value.items() if field is not None}
    return [without_none(element) for element in value] if isinstance(value, list) else value


def _column(name: str, values: list[object]) -> "Dataset":
    import pyarrow
    from datasets import Dataset

    try:
        return Dataset.from_dict({name: values})
    except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError):
        return Dataset.from_dict({name: values}, on_mixed_types="use_json")


def _without_empty(value: object) -> object:
    if isinstance(value, Mapping):
        return {name: _without_empty(field) for name, field in value.items()} or None
    return [_without_empty(element) for element in value] if isinstance(value, list) else value
