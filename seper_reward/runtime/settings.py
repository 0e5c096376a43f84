"""Settings as dataclass fields: defaults, help texts, and checked types."""

from dataclasses import field, fields
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

PLACE, COMMON = "place", "common"  # keys of a field's metadata, next to argparse's "help"


def setting(default: Any, text: str, place: str | None = None, *, common: bool = False) -> Any:
    """Return a dataclass field for a setting with a help text; a list as default is copied for each object.

    A setting with a place ``group.key`` is ``key`` in the mapping ``group`` of a YAML file, and ``--set
    group.key=...`` on a command line; others, and ``common`` ones, are also flags with the name of the field.
    """
    metadata = {"help": text, PLACE: place, COMMON: common}
    if isinstance(default, list):
        return field(default_factory=lambda: list(default), metadata=metadata)
    return field(default=default, metadata=metadata)


def check_types(config: Any) -> None:
    """Check the types of values from YAML, which argparse has not checked: `seed: abc`, `strict: 3`, `dtype: int8`.

    Raises ``ValueError`` with the name and the type of the field.
    """
    hints = get_type_hints(type(config))
    for name, value in ((each.name, getattr(config, each.name)) for each in fields(config)):
        if not fits(value, hints[name]):
            expected = " or ".join(map(_type_name, _alternatives(hints[name])))
            raise ValueError(f"{name} must be {expected}, got {value!r}")


def check_least(config: object, **least: float) -> None:
    """Raise ``ValueError`` if a setting of this name is below its least value; ``None`` is allowed."""
    for name, bound in least.items():
        value = getattr(config, name)
        if value is not None and not value >= bound:
            raise ValueError(f"{name} must be at least {bound}, got {value}")


def check_choice(name: str, value: object, allowed: tuple[str, ...]) -> None:
    """Raise a ``ValueError`` that names the option and its values if ``value`` is not one of them."""
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(allowed)}, got {value!r}")


def fits(value: Any, hint: Any) -> bool:
    """Return whether a value has the type of a field, which may be a union."""
    return any(_fits(value, kind) for kind in _alternatives(hint))


def _alternatives(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _fits(value: Any, kind: Any) -> bool:
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    if get_origin(kind) is list:
        return isinstance(value, list) and all(_fits(item, get_args(kind)[0]) for item in value)
    if isinstance(value, bool):
        return kind is bool
    return isinstance(value, (int, float) if kind is float else get_origin(kind) or kind)


def _type_name(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return ", ".join(map(str, get_args(kind)))
    return "nothing" if kind is type(None) else getattr(kind, "__name__", str(kind))
