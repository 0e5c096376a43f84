"""Settings as dataclass fields: defaults, help texts, and types that are checked whoever sets them."""

from dataclasses import field, fields
from typing import Any, Literal, get_args, get_origin, get_type_hints


def setting(default: Any, text: str) -> Any:
    """Return a dataclass field with a default and a help text; a list is copied for each object."""
    if isinstance(default, list):
        return field(default_factory=lambda: list(default), metadata={"help": text})
    return field(default=default, metadata={"help": text})


def check_types(config: Any) -> None:
    """Refuse values that YAML may bring and argparse would not: `seed: abc`, `strict: 3`, `dtype: int8`.

    Args:
        config: Object of a settings dataclass.

    Raises:
        ValueError: A value does not have the type of its field, with what was expected.
    """
    hints = get_type_hints(type(config))
    for each in fields(config):
        _check_type(each.name, getattr(config, each.name), hints[each.name])


def _check_type(name: str, value: Any, hint: Any) -> None:
    kinds = get_args(hint) if type(None) in get_args(hint) else (hint,)
    if not any(_fits(value, kind) for kind in kinds):
        expected = " or ".join(_described(kind) for kind in kinds)
        raise ValueError(f"{name} must be {expected}, got {value!r}")


def _fits(value: Any, kind: Any) -> bool:
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    if kind == list[str]:
        return isinstance(value, list) and all(isinstance(item, str) for item in value)
    if isinstance(value, bool):
        return kind is bool
    return isinstance(value, (int, float) if kind is float else get_origin(kind) or kind)


def _described(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return ", ".join(map(str, get_args(kind)))
    return "nothing" if kind is type(None) else getattr(kind, "__name__", str(kind))
