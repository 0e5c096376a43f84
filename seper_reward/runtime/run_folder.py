"""A run's folder: used by one run at a time, and resumed only with the same settings."""

import fcntl
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from seper_reward.runtime.json_files import read_json, write_json


def lock_folder(folder: Path) -> IO[str]:
    """Lock a folder, created if missing; the lock lasts as long as the returned file is open."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / ".lock").open("w", encoding="utf-8")
    except OSError as error:
        raise OSError(f"output_dir={str(folder)!r} cannot be written: {error}; name another folder") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # released by the system, even after SIGKILL
    except BlockingIOError as error:
        lock.close()
        raise ValueError(
            f"output_dir={str(folder)!r} is in use by another process; wait for it or name another folder"
        ) from error
    return lock


def claim_settings(
    path: Path,
    settings: Mapping[str, object],
    decides: Sequence[str] = (),
    *,
    holds: str = "a run with other settings",
    write: bool = True,
) -> None:
    """Write JSON-able settings into a run's folder, or raise ``ValueError`` if the folder has other settings.

    ``decides`` are the keys that must be unchanged (default: all); ``holds`` describes the folder, for the message.
    Without ``write``, a folder without settings is left alone.
    """
    settings = json.loads(json.dumps(settings, default=str))
    if not path.is_file():
        if write:
            write_json(path, settings)
        return
    before = read_json(path)
    changed = [
        line
        for key in decides or sorted({*before, *settings})
        for line in _differences(before.get(key), settings.get(key), "" if decides else key)
    ]
    if changed:
        raise ValueError(
            f"output_dir={str(path.parent)!r} holds {holds}; changed: {'; '.join(changed)}. "
            "Name another folder (and the same cache, if any), or use the former settings and versions to resume"
        )


def _differences(before: object, after: object, name: str) -> list[str]:
    if isinstance(before, dict) and isinstance(after, dict):
        return [
            line
            for key in sorted({*before, *after})
            for line in _differences(before.get(key), after.get(key), f"{name}.{key}" if name else key)
        ]
    if before == after:
        return []
    return [f"other {name}" if _is_hash(before) and _is_hash(after) else f"{name} was {before!r}, is {after!r}"]


def _is_hash(value: object) -> bool:
    return isinstance(value, str) and bool(re.fullmatch("[0-9a-f]{16,64}", value))
