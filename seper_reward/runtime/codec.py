"""The codec of frozen records: JSON values in caches, label rows, requests and responses, by pydantic."""

from typing import Any, TypeVar

from pydantic import TypeAdapter

T = TypeVar("T")
_ADAPTERS: dict[type, TypeAdapter[Any]] = {}


def to_json(record: Any, exclude: Any = None) -> Any:
    """Return a record as JSON values: its fields in order, except ``exclude``, in pydantic's form."""
    return _adapter(type(record)).dump_python(record, mode="json", exclude=exclude)


def from_json(kind: type[T], values: Any) -> T:
    """Return the record of which ``to_json`` made values, or raise ``ValueError``; missing fields have defaults."""
    return _adapter(kind).validate_python(values)  # type: ignore[no-any-return]


def _adapter(kind: type) -> TypeAdapter[Any]:
    if kind not in _ADAPTERS:  # making one takes milliseconds
        _ADAPTERS[kind] = TypeAdapter(kind)
    return _ADAPTERS[kind]
