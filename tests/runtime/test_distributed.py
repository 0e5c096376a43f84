"""Work split by cost: every item once, like loads, and the order of the input again after gathering."""

import itertools
import random
import sys
import types
from concurrent.futures import ThreadPoolExecutor

import pytest

from seper_reward.runtime import distributed
from seper_reward.runtime.distributed import SharedQueue, gather_in_order, shard, split_by_cost


@pytest.mark.parametrize(("count", "parts"), [(0, 2), (1, 3), (7, 2), (200, 4)])
def test_every_item_once_and_loads_alike(count, parts):
    costs = [random.Random(place).choice([1, 2, 40]) for place in range(count)]
    shares = split_by_cost(costs, parts)
    assert sorted(place for share in shares for place in share) == list(range(count))
    assert all(share == sorted(share) for share in shares)
    loads = [sum(costs[place] for place in share) for share in shares]
    assert max(loads) - min(loads) <= max(costs, default=0)


def test_costs_give_better_shares_than_every_nth():
    costs = [100, 1] * 50  # every second row holds long passages
    assert [sum(costs[place] for place in share) for share in split_by_cost(costs, 2)] == [2525, 2525]


@pytest.mark.parametrize("costs", [None, [3.0, 1.0, 1.0, 7.0, 2.0, 2.0, 9.0]])
def test_gathering_undoes_sharing(monkeypatch, costs):
    items, sent = list("abcdefg"), {}
    for index in range(3):
        monkeypatch.setattr(
            distributed, "process_state", lambda at=index: types.SimpleNamespace(num_processes=3, process_index=at)
        )
        sent[index] = shard(items, costs)
    monkeypatch.setattr(
        distributed.torch.distributed,
        "all_gather_object",
        lambda shares, _: shares.__setitem__(slice(None), [sent[index] for index in range(3)]),
    )
    assert gather_in_order(sent[2], costs) == items


def test_a_slow_process_is_left_less_of_a_shared_queue(monkeypatch, tmp_path):
    monkeypatch.setattr(distributed, "process_state", lambda: types.SimpleNamespace(num_processes=2))
    items, costs = list("abcdefg"), [1, 9, 2, 8, 3, 7, 4]
    SharedQueue.reset(tmp_path / "taken")
    fast, slow = (SharedQueue(items, costs, tmp_path / "taken") for _ in range(2))
    taking = iter(slow)
    taken = [next(taking)]
    others = list(itertools.islice(fast, 5))
    taken += taking
    assert (taken, others) == (["b", "a"], ["d", "f", "g", "e", "c"])  # the dearest first, each once


def test_takers_of_a_shared_queue_do_not_meet(tmp_path):
    """Who reads and writes the counter at the same time waits: threads stand for processes, each with its own file."""
    SharedQueue.reset(tmp_path / "taken")
    queues = [SharedQueue(range(300), [1.0] * 300, tmp_path / "taken") for _ in range(4)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            taken = list(itertools.chain(*pool.map(list, queues)))
    finally:
        sys.setswitchinterval(before)
    assert sorted(taken) == list(range(300))


def test_one_process_keeps_the_order_of_a_shared_queue(tmp_path):
    SharedQueue.reset(tmp_path / "taken")
    assert list(SharedQueue("abc", [1, 3, 2], tmp_path / "taken")) == ["a", "b", "c"]
