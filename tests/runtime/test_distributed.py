"""Work split by cost: every item once, like loads, and the order of the input again after gathering."""

import itertools
import json
import time
import types
from datetime import timedelta
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from seper_reward.runtime import distributed
from seper_reward.runtime.distributed import SharedQueue, cut_by_cost, gather_in_order, shard, wait_for_all
from tests.helpers import launch, run


@given(st.lists(st.integers(1, 50).map(float), max_size=30), st.integers(1, 5))
def test_every_item_once_and_loads_alike(costs, parts):
    cuts = cut_by_cost(costs, parts)
    assert len(cuts) == parts
    assert [place for part in cuts for place in part] == list(range(len(costs)))
    loads = [sum(costs[place] for place in part) for part in cuts]
    assert all(abs(load - sum(costs) / parts) <= max(costs, default=0) for load in loads)


@pytest.mark.parametrize("costs", [None, [3.0, 1.0, 1.0, 7.0, 2.0, 2.0, 9.0]])
def test_gathering_undoes_sharing(monkeypatch, costs):
    items, sent = list("abcdefg"), {}
    for index in range(3):
        monkeypatch.setattr(
            distributed, "process_state", lambda at=index: types.SimpleNamespace(num_processes=3, process_index=at)
        )
        sent[index] = shard(items, costs)
    monkeypatch.setattr(distributed, "wait_for_all", lambda: None)
    monkeypatch.setattr("accelerate.utils.gather_object", lambda local: [*sent[0], *sent[1], *local])
    assert gather_in_order(sent[2]) == items


@pytest.fixture
def pretended(monkeypatch):
    """Two processes in this one: the same store, and the same names of what they make together."""
    store = torch.distributed.HashStore()
    monkeypatch.setattr(distributed, "process_state", lambda: types.SimpleNamespace(num_processes=2))
    monkeypatch.setattr(distributed, "_store", lambda: store)
    monkeypatch.setattr(distributed, "_queues", itertools.repeat(0))


def test_a_slow_process_is_left_less_of_a_shared_queue(pretended):
    items, costs = list("abcdefg"), [1, 9, 2, 8, 3, 7, 4]
    fast, slow = (SharedQueue(items, costs) for _ in range(2))
    taking = iter(slow)
    taken = [next(taking)]
    others = list(itertools.islice(fast, 5))
    taken += taking
    assert (taken, others) == (["b", "a"], ["d", "f", "g", "e", "c"])  # the dearest first, each once


def test_one_process_keeps_the_order_of_a_shared_queue():
    assert list(SharedQueue("abc", [1, 3, 2])) == ["a", "b", "c"]


def test_who_does_not_come_is_not_waited_for_forever(pretended, monkeypatch):
    monkeypatch.setattr(distributed, "_WORK", timedelta(milliseconds=20))
    with pytest.raises(OSError, match="another process has ended or is stuck; run the same command again"):
        wait_for_all()


def two():
    """Share work, wait for longer than a collective call does, and print what all processes have."""
    distributed._COLLECTIVE = timedelta(seconds=2)
    me = distributed.process_state().process_index
    taken = [[*SharedQueue(range(count), [1.0] * count)] for count in (300, 0, 20)]
    gather_in_order([])
    time.sleep(3 * me)
    gathered = gather_in_order([taken])
    said = distributed.together(lambda: time.sleep(3) or "published")
    if me == 0:
        print(json.dumps([gathered, said]))


@pytest.mark.parametrize("launcher", [pytest.param("torchrun", marks=pytest.mark.slow), "by hand"])
def test_two_processes(tmp_path, launcher):
    """Each takes what the other has not, and waits for the other, also where no ``torchrun`` serves the store."""
    if launcher == "torchrun":
        torchrun = ("-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2")
        code = "from tests.runtime.test_distributed import two; two()"
        (tmp_path / "two.py").write_text(code)
        done = run([], launcher=(*torchrun, tmp_path / "two.py"), cwd=Path(__file__).parents[2])
        out, err = done.stdout, done.stderr
    else:
        out, err = launch(two, tmp_path)
    assert out, err
    gathered, said = json.loads(out.splitlines()[-1])  # gloo of torch 2.9 prints lines above it
    assert said == "published"
    for one, other, count in zip(*gathered, (300, 0, 20), strict=True):
        assert sorted(one + other) == list(range(count))


@pytest.mark.parametrize(
    ("processes", "devices", "backend"), [(4, 1, "gloo"), (2, 2, None), (2, 0, None), (1, 1, None)]
)
def test_processes_that_share_a_gpu_communicate_by_gloo(monkeypatch, processes, devices, backend):
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(processes))
    monkeypatch.setattr("torch.accelerator.device_count", lambda: devices)
    monkeypatch.setattr("accelerate.PartialState", lambda **options: options.get("backend"))
    distributed.process_state.cache_clear()
    try:
        assert distributed.process_state() == backend
    finally:
        distributed.process_state.cache_clear()
