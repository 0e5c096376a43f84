"""Content-addressed store of sampled responses and entailment scores (SQLite).

A key covers everything that decides its value: weights, text, options. So entries never go stale, and can be shared.
"""

import hashlib
import json
import sqlite3
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from seper_reward.runtime.codec import from_json, to_json
from seper_reward.runtime.hashing import content_key
from seper_reward.runtime.profiling import timed


class Cache:
    """A key-value store of JSON values in one SQLite file, made with its folder; safe for threads and processes here.

    Damaged entries count as missing. If the file can no longer be read or written, for example on a full disk, a
    warning is issued and values are computed without it. ``":memory:"`` keeps the entries in this process. Several
    machines need a local file each, as network file systems may not lock. A file that is no cache of this version
    raises ``ValueError``.
    """

    def __init__(self, path: str | Path) -> None:
        self.hits = self.misses = 0
        self._path = str(path)
        self._warned = False
        self._lock = threading.Lock()  # of the connection, which has one transaction at a time
        if self._path != ":memory:":
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        try:
            self._database = sqlite3.connect(
                self._path, timeout=60, isolation_level="IMMEDIATE", check_same_thread=False
            )
            # no write-ahead log: it needs shared memory, which network file systems do not support
            self._database.execute("PRAGMA journal_mode=TRUNCATE")
            self._database.execute(
                "CREATE TABLE IF NOT EXISTS entries "
                "(key TEXT PRIMARY KEY, value TEXT NOT NULL, checksum TEXT NOT NULL) WITHOUT ROWID"
            )
            columns = [column[1] for column in self._database.execute("PRAGMA table_info(entries)")]
        except sqlite3.OperationalError as error:
            raise OSError(f"cache={self._path!r} could not be opened: {error}") from error
        except sqlite3.DatabaseError as error:
            raise ValueError(
                f"cache={self._path!r} is not a cache file, or a damaged one ({error}); delete it or name another path"
            ) from error
        if columns != ["key", "value", "checksum"]:
            raise ValueError(
                f"cache={self._path!r} is not a cache file of this version; delete it or name another path"
            )

    def through(self, keys: Sequence[str], compute: Callable[[list[int]], Sequence[object]]) -> list[Any]:
        """Return the values of ``keys`` (``content_keys``); ``compute`` returns those at the missing positions.

        An exception in place of a value is returned and not stored.
        """
        with timed("cache"):
            values = self._get(keys)
        missing = [position for position, key in enumerate(keys) if key not in values]
        self.hits, self.misses = self.hits + len(keys) - len(missing), self.misses + len(missing)
        errors: dict[str, Exception] = {}
        if missing:
            computed = dict(zip((keys[at] for at in missing), compute(missing), strict=True))
            errors = {key: value for key, value in computed.items() if isinstance(value, Exception)}
            fresh = {key: json.dumps(value) for key, value in computed.items() if key not in errors}
            with timed("cache"):
                self._put(fresh)
            values.update(fresh)
        return [errors[key] if key in errors else json.loads(values[key]) for key in keys]

    def missing(self, keys: Sequence[str]) -> list[int]:
        """Return the positions of the keys that have no value yet."""
        values = self._get(keys)
        return [position for position, key in enumerate(keys) if key not in values]

    def _get(self, keys: Sequence[str]) -> dict[str, str]:
        try:
            with self._lock:
                rows = self._database.execute(
                    "SELECT * FROM entries WHERE key IN (SELECT value FROM json_each(?))", [json.dumps(keys)]
                ).fetchall()
        except sqlite3.Error as error:
            self._warn("read", error)
            return {}
        return {key: value for key, value, checksum in rows if checksum == _checksum(key, value)}

    def _put(self, values: Mapping[str, str]) -> None:
        try:
            with self._lock, self._database:  # a transaction: a unit of work is stored as a whole or not at all
                self._database.executemany(
                    "INSERT OR REPLACE INTO entries VALUES (?, ?, ?)",
                    [(key, value, _checksum(key, value)) for key, value in values.items()],
                )
        except sqlite3.Error as error:
            self._warn("written", error)

    def _warn(self, verb: str, error: sqlite3.Error) -> None:
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"cache={self._path!r} cannot be {verb}: {error}; the run continues and computes missing values",
                stacklevel=4,
            )


def open_cache(cache: "Cache | str | Path | None") -> "Cache | None":
    """Return a cache, opened if it is given by its path; errors are those of ``Cache``."""
    if cache is None or isinstance(cache, Cache):
        return cache
    if not isinstance(cache, (str, Path)) or not str(cache):
        raise TypeError(f"cache must be a path such as 'cache.sqlite', a Cache or None, got {cache!r}")
    return Cache(cache)


def _checksum(key: str, value: object) -> str:
    return hashlib.sha256(f"{key} {value}".encode("utf-8", "surrogatepass")).hexdigest()[:16]


class HasWeights(Protocol):
    """A model whose answers depend only on the input and the contents of its hash."""

    @property
    def weights_hash(self) -> str:
        """Hash over all parts of the model that decide an answer."""


def content_keys(kind: str, model: HasWeights, inputs: Sequence[tuple[object, ...]]) -> list[str]:
    """Return a cache key for each input of a model, given as JSON-able parts."""
    return [content_key(kind, model.weights_hash, *parts) for parts in inputs]


def answers_through(
    cache: Cache | None,
    kind: str,
    model: HasWeights,
    inputs: Sequence[tuple[object, ...]],
    compute: Callable[[list[int]], Sequence[object]],
    record: type | None = None,
) -> list[Any]:
    """Return a model's answer to each input, from the cache if there is one.

    An input is given as the JSON-able parts that decide its answer, along with the kind. ``compute`` returns an answer
    or an exception for each position missing in the cache. Answers are JSON-able, or objects of ``record``.
    """
    if not inputs:
        return []
    if cache is None:
        return list(compute(list(range(len(inputs)))))

    def stored(missing: list[int]) -> Sequence[object]:
        answers = compute(missing)
        if record is None:
            return answers
        return [answer if isinstance(answer, Exception) else to_json(answer) for answer in answers]

    answers = cache.through(content_keys(kind, model, inputs), stored)
    if record is None:
        return answers
    return [answer if isinstance(answer, Exception) else from_json(record, answer) for answer in answers]
