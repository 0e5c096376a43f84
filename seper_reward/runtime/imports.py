"""Optional libraries, imported where they are used, and what users name by a dotted path."""

import importlib
from collections.abc import Callable
from typing import Any


def need(module: str, extra: str) -> Any:
    """Import a library that an extra of this package installs.

    Raises:
        OSError: The library is not installed; the message names the command that installs it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise OSError(
            f"this needs {module.split('.')[0]} ({error}); run: pip install 'seper-reward[{extra}]'"
        ) from error


def named_callable(setting: str, path: str) -> Callable[..., Any]:
    """Import the callable that ``package.module:name`` names.

    Args:
        setting: Name of the setting, for errors.
        path: A module that this process can import and the name of a callable in it, with a colon between them.

    Raises:
        ValueError: The path has another form, the module cannot be imported, or there is no such callable in it.
    """
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
