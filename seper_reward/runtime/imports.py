"""Optional libraries, imported where they are used."""

import importlib
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
