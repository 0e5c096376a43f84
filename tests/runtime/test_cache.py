"""The cache returns what was computed, once, and tells its own files from others."""

import multiprocessing

import pytest

from seper_reward.runtime.cache import Cache


def test_only_missing_values_are_computed(tmp_path):
    cache, asked = Cache(tmp_path / "sub" / "cache.sqlite"), []

    def compute(missing):
        asked.append(missing)
        return [{"n": at} for at in missing]

    assert cache.through(["a", "b"], compute) == [{"n": 0}, {"n": 1}]
    assert cache.through(["b", "c", "a"], compute) == [{"n": 1}, {"n": 1}, {"n": 0}]
    assert asked == [[0, 1], [1]]
    assert (cache.hits, cache.misses) == (2, 3)
    cache.close()
    assert Cache(tmp_path / "sub" / "cache.sqlite").through(["c"], compute) == [{"n": 1}]


def test_many_keys(tmp_path):
    cache = Cache(tmp_path / "cache.sqlite")
    keys = [str(number) for number in range(2000)]
    assert cache.through(keys, lambda missing: missing) == list(range(2000))
    assert cache.through(keys, lambda missing: 1 / 0) == list(range(2000))


def test_a_failed_computation_leaves_nothing_behind(tmp_path):
    cache = Cache(tmp_path / "cache.sqlite")
    with pytest.raises(ZeroDivisionError):
        cache.through(["a"], lambda missing: 1 / 0)
    assert cache.through(["a"], lambda missing: [1]) == [1]


def fill(path, start):
    cache = Cache(path)
    for number in range(start, start + 50):
        cache.through([str(number)], lambda missing, number=number: [number])


def test_processes_share_a_file(tmp_path):
    path = tmp_path / "cache.sqlite"
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=fill, args=(path, start)) for start in (0, 25)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    assert Cache(path).through([str(n) for n in range(75)], lambda missing: 1 / 0) == list(range(75))


def test_another_file_is_refused(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("these are my notes, not a database, " * 100)
    with pytest.raises(ValueError, match="is not a cache file"):
        Cache(path)
    assert path.read_text().startswith("these are my notes")
    with pytest.raises(OSError, match="could not be opened"):
        Cache(tmp_path)
