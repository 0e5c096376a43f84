"""A folder that one run at a time works in, and that is resumed only with the settings it was begun with."""

import fcntl
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from seper_reward.runtime.json_files import read_json, write_json


def lock_folder(folder: Path) -> IO[str]:
    """Make a folder if it is absent and lock it; the lock lasts as long as the returned file is open.

    Raises:
        OSError: The folder cannot be made or written.
        ValueError: Another process holds the lock.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / ".lock").open("w", encoding="utf-8")
    except OSError as error:
        raise OSError(f"output_dir={str(folder)!r} cannot be written: {error}; name another folder") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # the system frees it, even after SIGKILL
    except BlockingIOError as error:
        lock.close()
        raise ValueError(
            f"output_dir={str(folder)!r} is in use by another process; wait for it or name another folder"
        ) from error
    return lock


def claim_settings(
    path: Path, settings: Mapping[str, Any], decides: Sequence[str] = (), *, holds: str = "a run with other settings"
) -> None:
    """Write settings into a run's folder, or refuse a folder that was begun with others.

    Args:
        path: JSON file of the settings; its folder is the run's.
        settings: JSON-able; what JSON cannot hold counts by its text.
        decides: Keys that must be the same as before; none for all of them.
        holds: What a refused folder holds, for the message.

    Raises:
        ValueError: The folder was begun with other settings, and the message says what changed; or the file is broken.
    """
    if path.is_file():
        check_settings(path, settings, decides, holds=holds)
    else:
        write_json(path, json.loads(json.dumps(settings, default=str)))


def check_settings(
    path: Path, settings: Mapping[str, Any], decides: Sequence[str] = (), *, holds: str = "a run with other settings"
) -> None:
    """Refuse a folder that was begun with other settings, as ``claim_settings`` does, without writing."""
    settings = json.loads(json.dumps(settings, default=str))
    before = read_json(path)
    keys = decides or sorted({*before, *settings})
    changed = [
        line for key in keys for line in _differences(before.get(key), settings.get(key), "" if decides else key)
    ]
    if changed:
        raise ValueError(
            f"output_dir={str(path.parent)!r} holds {holds}; changed: {'; '.join(changed)}. "
            "Name another folder, or go back to the former settings to resume"
        )


def _differences(before: Any, after: Any, name: str) -> list[str]:
    if isinstance(before, dict) and isinstance(after, dict):
        return [
            line
            for key in sorted({*before, *after})
            for line in _differences(before.get(key), after.get(key), f"{name}.{key}" if name else key)
        ]
    return [] if before == after else [f"{name} was {before!r}, is {after!r}"]
