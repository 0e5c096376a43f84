"""The cache returns what was computed, once, and tells its own files from others."""

import sqlite3
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest

from seper_reward.runtime.cache import Cache, open_cache
from tests.helpers import in_forks


def test_cache_computes_only_missing_values(tmp_path):
    cache, asked = Cache(tmp_path / "sub" / "cache.sqlite"), []

    def compute(missing):
        asked.append(missing)
        return [{"n": at} for at in missing]

    assert cache.through(["a", "b"], compute) == [{"n": 0}, {"n": 1}]
    assert cache.through(["b", "c", "a"], compute) == [{"n": 1}, {"n": 1}, {"n": 0}]
    assert asked == [[0, 1], [1]]
    assert (cache.hits, cache.misses) == (2, 3)
    assert Cache(tmp_path / "sub" / "cache.sqlite").through(["c"], compute) == [{"n": 1}]


def test_cache_of_many_keys(tmp_path):
    cache = Cache(tmp_path / "cache.sqlite")
    keys = [str(number) for number in range(2000)]
    assert cache.through(keys, lambda missing: missing) == list(range(2000))
    assert cache.through(keys, lambda missing: 1 / 0) == list(range(2000))


def test_cache_returns_exceptions_and_stores_none(tmp_path):
    cache, error = Cache(tmp_path / "cache.sqlite"), ValueError("too long")
    assert cache.through(["a", "b", "a"], lambda missing: [error, 1, error]) == [error, 1, error]
    assert cache.missing(["a", "b"]) == [0]
    assert cache.through(["b", "a"], lambda missing: [2 * at for at in missing]) == [1, 2]


def test_cache_shared_by_threads(tmp_path):
    cache = Cache(tmp_path / "cache.sqlite")
    cache.through(["a"], lambda missing: [1])
    with ThreadPoolExecutor(4) as pool, warnings.catch_warnings():
        warnings.simplefilter("error")
        assert list(pool.map(lambda _: cache.through(["a"], lambda missing: 1 / 0), range(20))) == [[1]] * 20
        list(pool.map(lambda at: cache.through([str(at)], lambda missing: [at]), range(100)))
    assert cache.missing(list(map(str, range(100)))) == []


def fill(path, start):
    cache = Cache(path)
    for number in range(start, start + 50):
        cache.through([str(number)], lambda missing, number=number: [number])


def test_cache_shared_by_processes(tmp_path):
    path = tmp_path / "cache.sqlite"
    in_forks(lambda rank: fill(path, 25 * rank), 30)
    assert Cache(path).through([str(n) for n in range(75)], lambda missing: 1 / 0) == list(range(75))


def test_cache_refuses_another_file(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("these are my notes, not a database, " * 100)
    with pytest.raises(ValueError, match="is not a cache file"):
        Cache(path)
    assert path.read_text().startswith("these are my notes")
    with pytest.raises(OSError, match="could not be opened"):
        Cache(tmp_path)


def edit(path, statement, *values):
    database = sqlite3.connect(path)
    database.execute(statement, values)
    database.commit()
    database.close()


@pytest.mark.parametrize(
    ("statement", "value"),
    [
        ("UPDATE entries SET value = ? WHERE key = 'b'", "null"),
        ("UPDATE entries SET value = ? WHERE key = 'b'", "{}"),
        ("UPDATE entries SET value = ? WHERE key = 'b'", "7.0"),  # of the right type, but not what was computed
        ("UPDATE entries SET value = ? WHERE key = 'b'", "not JSON"),
        ("UPDATE entries SET value = ? WHERE key = 'b'", b"\xff\xfe"),
        ("UPDATE entries SET value = CAST(? AS TEXT) WHERE key = 'b'", b"\xff\xfe"),
        ("UPDATE entries SET checksum = ? WHERE key = 'b'", ""),
    ],
)
def test_cache_computes_damaged_entries_again(tmp_path, statement, value):
    path = tmp_path / "cache.sqlite"
    Cache(path).through(["a", "b", "c"], lambda missing: [1.5, 2.5, 3.5])
    edit(path, statement, value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert Cache(path).through(["a", "b", "c"], lambda missing: [[1.5, 2.5, 3.5][at] for at in missing]) == [
            1.5, 2.5, 3.5,
        ]  # fmt: skip
    assert Cache(path).through(["a", "b", "c"], lambda missing: 1 / 0) == [1.5, 2.5, 3.5]


def test_cache_in_a_damaged_file(tmp_path):
    """Truncated anywhere or overwritten in places, it is refused in one line, or what is missing is computed."""
    whole = tmp_path / "whole.sqlite"
    keys = [f"{at:064d}" for at in range(300)]
    Cache(whole).through(keys, lambda missing: [{"text": str(at) * 50} for at in missing])
    content, refused = whole.read_bytes(), []
    damaged = [content[:length] for length in (0, 10, 100, 1000, 4096, 5000, 20000, len(content) - 100)]
    damaged += [content[:at] + bytes(4096) + content[at + 4096 :] for at in (0, 4096, 8192, 40960)]
    for place, damage in enumerate(damaged):
        path = tmp_path / f"{place}.sqlite"
        path.write_bytes(damage)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                cache = Cache(path)
            except ValueError as error:
                refused.append(str(error))
                continue
            for _ in range(2):
                found = cache.through(keys, lambda missing: [{"text": str(at) * 50} for at in missing])
                assert found == [{"text": str(at) * 50} for at in range(300)]
    assert 0 < len(refused) < len(damaged) - 4
    assert all("is not a cache file" in message and "delete it or name" in message for message in refused)


def test_cache_on_a_full_disk(tmp_path):
    cache = Cache(tmp_path / "cache.sqlite")
    connection = cache._database  # the limit is that of a connection
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count={pages}")
    with pytest.warns(UserWarning, match=r"cannot be written: database or disk is full; the run continues") as told:
        values = [cache.through([key], lambda missing, key=key: [key * 10**5]) for key in "ab"]
    assert values == [["a" * 10**5], ["b" * 10**5]]
    assert len(told) == 1
    connection.execute("PRAGMA max_page_count=100000")  # there is room again
    cache.through(["a"], lambda missing: ["a" * 10**5])
    assert Cache(tmp_path / "cache.sqlite").through(["a"], lambda missing: 1 / 0) == ["a" * 10**5]


def test_cache_refuses_an_earlier_version(tmp_path):
    edit(tmp_path / "old.sqlite", "CREATE TABLE entries (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID")
    with pytest.raises(ValueError, match="is not a cache file of this version; delete it or name another path"):
        Cache(tmp_path / "old.sqlite")


def test_cache_has_no_log_in_shared_memory(tmp_path):
    Cache(tmp_path / "cache.sqlite").through(["a"], lambda missing: [1])
    assert not list(tmp_path.glob("*-wal")) + list(tmp_path.glob("*-shm"))


def test_open_cache(tmp_path):
    cache = Cache(":memory:")
    assert open_cache(cache) is cache
    assert open_cache(None) is None
    open_cache(str(tmp_path / "one.sqlite")).through(["a"], lambda missing: [7])
    assert open_cache(tmp_path / "one.sqlite").through(["a"], lambda missing: 1 / 0) == [7]
    for wrong in (3, True, ""):
        with pytest.raises(TypeError, match=r"cache must be a path such as 'cache.sqlite', a Cache or None"):
            open_cache(wrong)
