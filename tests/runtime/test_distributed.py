"""Work split by cost: every item once, like loads, and the order of the input again after gathering."""

import json
import time
import types

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from seper_reward.runtime import distributed
from seper_reward.runtime.distributed import cut_by_cost, gather_in_order, shard
from tests.helpers import launch


@given(st.lists(st.integers(1, 50).map(float), max_size=30), st.integers(1, 5))
def test_cut_by_cost_every_item_once_and_loads_alike(costs, parts):
    cuts = cut_by_cost(costs, parts)
    assert len(cuts) == parts
    assert [place for part in cuts for place in part] == list(range(len(costs)))
    loads = [sum(costs[place] for place in part) for part in cuts]
    assert all(abs(load - sum(costs) / parts) <= max(costs, default=0) for load in loads)
    assert abs(loads[0] - sum(costs) / parts) <= max(costs, default=0) / 2  # it has one border within the sequence


@pytest.mark.parametrize("costs", [None, [3.0, 1.0, 1.0, 7.0, 2.0, 2.0, 9.0]])
def test_gather_in_order_undoes_shard(monkeypatch, costs):
    items, sent = list("abcdefg"), {}
    for index in range(3):
        monkeypatch.setattr(
            distributed, "process_state", lambda at=index: types.SimpleNamespace(num_processes=3, process_index=at)
        )
        sent[index] = shard(items, costs)
    monkeypatch.setattr("accelerate.utils.gather_object", lambda local: [*sent[0], *sent[1], *local])
    assert gather_in_order(sent[2]) == items


def two():
    """Share work, wait for each other, and print what all processes have."""
    me = distributed.process_state().process_index
    time.sleep(0.2 * me)
    torch.distributed.barrier = None  # Accelerate's call names a GPU per process, so it fails where they share one
    distributed.wait_for_all()
    gathered = gather_in_order([me])
    said = distributed.together(lambda: time.sleep(0.2) or "published")
    if me == 0:
        print(json.dumps([gathered, said]))


def test_together_and_gather_in_order_in_two_processes(tmp_path):
    out, _ = launch(two, tmp_path)
    # gloo of torch 2.9 prints lines above it
    assert json.loads(out.splitlines()[-1]) == [[0, 1], "published"]


@pytest.mark.parametrize(
    ("processes", "devices", "backend"), [(4, 1, "gloo"), (2, 2, None), (2, 0, None), (1, 1, None)]
)
def test_process_state_uses_gloo_on_a_shared_gpu(monkeypatch, processes, devices, backend):
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(processes))
    monkeypatch.setattr("torch.accelerator.device_count", lambda: devices)
    monkeypatch.setattr("accelerate.PartialState", lambda **options: options.get("backend"))
    distributed.process_state.cache_clear()
    try:
        assert distributed.process_state() == backend
    finally:
        distributed.process_state.cache_clear()
