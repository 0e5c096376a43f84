"""Content-addressed store of sampled responses and entailment scores (SQLite).

A key holds everything that decides its value: weights, text, options. So runs, rewards and processes can share a
cache, and no entry of it goes stale. A value computed in a batch of another shape may differ in its low digits.
"""

import json
import sqlite3
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from seper_reward.runtime.hashing import content_key
from seper_reward.runtime.profiling import timed


class Cache:
    """A key-value store of JSON values in one SQLite file; safe for several processes at once.

    Args:
        path: The file; made with its folder if absent. ``":memory:"`` keeps the entries in this process.

    Raises:
        ValueError: The file exists and is no cache.
        OSError: The file cannot be opened.
    """

    def __init__(self, path: str | Path) -> None:
        self.hits = self.misses = 0
        self._path = str(path)
        if self._path != ":memory:":
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        try:
            self._database = sqlite3.connect(self._path, timeout=60, isolation_level=None)
            _switch_to_wal(self._database)
            self._database.execute(
                "CREATE TABLE IF NOT EXISTS entries (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID"
            )
        except sqlite3.OperationalError as error:
            raise OSError(f"cache={self._path!r} could not be opened: {error}") from error
        except sqlite3.DatabaseError as error:
            raise ValueError(f"cache={self._path!r} is not a cache file ({error}); name another path") from error

    def through(self, keys: Sequence[str], compute: Callable[[list[int]], Sequence[Any]]) -> list[Any]:
        """Return the values of ``keys``, computing and storing those that are missing.

        Args:
            keys: Keys made by ``content_keys``.
            compute: Takes the positions of the missing keys, all at once, and returns their JSON values.
        """
        with timed("cache"):
            values = self._get(keys)
        missing = [position for position, key in enumerate(keys) if key not in values]
        self.hits, self.misses = self.hits + len(keys) - len(missing), self.misses + len(missing)
        if missing:
            # one transaction: a unit of work is in the cache as a whole or not at all
            fresh = {keys[at]: json.dumps(value) for at, value in zip(missing, compute(missing), strict=True)}
            with timed("cache"):
                self._database.execute("BEGIN IMMEDIATE")
                self._database.executemany("INSERT OR IGNORE INTO entries VALUES (?, ?)", fresh.items())
                self._database.execute("COMMIT")
            values.update(fresh)
        return [json.loads(values[key]) for key in keys]

    def missing(self, keys: Sequence[str]) -> list[int]:
        """Return the positions of the keys that have no value yet."""
        values = self._get(keys)
        return [position for position, key in enumerate(keys) if key not in values]

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def _get(self, keys: Sequence[str]) -> dict[str, str]:
        values: dict[str, str] = {}
        for start in range(0, len(keys), 500):  # SQLite bounds the number of parameters
            batch = keys[start : start + 500]
            parameters = ",".join("?" * len(batch))
            rows = self._database.execute(f"SELECT key, value FROM entries WHERE key IN ({parameters})", batch)
            values.update(rows)
        return values


class HasWeights(Protocol):
    """A model whose answers are decided by what its hash covers and by the input."""

    @property
    def weights_hash(self) -> str:
        """Hash over all parts of the model that decide an answer."""


def content_keys(kind: str, model: HasWeights, asked: Sequence[tuple[Any, ...]]) -> list[str]:
    """Return a cache key for each input that a model is asked about, given as JSON-able parts."""
    return [content_key(kind, model.weights_hash, *parts) for parts in asked]


def answers_through(
    cache: Cache | None,
    kind: str,
    model: HasWeights,
    asked: Sequence[tuple[Any, ...]],
    compute: Callable[[list[int]], Sequence[Any]],
) -> list[Any]:
    """Return a model's JSON-able answer to each input, from the cache where that has it.

    Args:
        cache: Where answers are kept; ``None`` computes all.
        kind: What kind of answer it is, such as ``"responses"``, so that kinds are not mixed.
        model: The model that answers.
        asked: The inputs, each as the JSON-able parts that decide its answer.
        compute: Takes the positions of the inputs without an answer, all at once, and returns their answers.
    """
    if not asked:
        return []
    if cache is None:
        return list(compute(list(range(len(asked)))))
    return cache.through(content_keys(kind, model, asked), compute)


def _switch_to_wal(database: sqlite3.Connection) -> None:
    """Turn on write-ahead logging, with retries: SQLite does not wait while another process opens the new file."""
    for pause in (0.05, 0.1, 0.2, 0.5, 1.0, 2.0):
        try:
            database.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error):
                raise
            time.sleep(pause)
    database.execute("PRAGMA journal_mode=WAL")
