"""Imports of optional libraries on first use, and of callables given by a dotted path."""

import importlib
from collections.abc import Callable
from typing import Any


def need(module: str, extra: str) -> Any:
    """Import a library of an optional extra of this package; raise ``OSError`` with the fix if it is missing."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise OSError(
            f"this needs {module.split('.')[0]} ({error}); run: pip install 'seper-reward[{extra}]'"
        ) from error


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
