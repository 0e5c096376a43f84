"""Imports on first use: of optional libraries, of a package's names, and of callables given by a dotted path."""

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def need(module: str, extra: str) -> Any:
    """Import a library of an optional extra of this package; raise ``OSError`` with the fix if it is missing."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise OSError(
            f"this needs {module.split('.')[0]} ({error}); run: pip install 'seper-reward[{extra}]'"
        ) from error


def lazy_name(package: str, name: str, homes: Mapping[str, Sequence[str]]) -> Any:
    """Return a name of a package from its module, for the package's ``__getattr__``.

    ``homes`` are the package's modules, each with its names. Raises ``AttributeError`` if there is no such name.
    """
    for home, names in homes.items():
        if name in names:
            return getattr(importlib.import_module(f"{package}.{home}"), name)
    raise AttributeError(f"module {package!r} has no attribute {name!r}")


def named_callable(setting: str, path: str) -> Callable[..., Any]:
    """Import the callable ``package.module:name``; raise ``ValueError``, which names the setting, if there is none."""
    module, _, name = path.partition(":")
    if not module or not name:
        raise ValueError(f"{setting} must be package.module:name, got {path!r}")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"{setting}={path!r} cannot be imported ({error}); is its folder in PYTHONPATH?") from error
    if not callable(found):
        raise ValueError(f"{setting}={path!r} must be callable, got {found!r}")
    return found  # type: ignore[no-any-return]
