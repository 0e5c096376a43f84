"""Processes under Accelerate: rank, share of the work, and results in input order."""

import bisect
import functools
import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar, cast

import torch

T = TypeVar("T")

# processes with hours of separate work drift apart, and a launcher ends all of them if one dies
_LONGEST_WAIT = timedelta(days=1)


@functools.cache
def process_state() -> Any:
    """Return Accelerate's process state: a single process, or the processes of ``torchrun``."""
    from accelerate import PartialState

    # NCCL refuses processes that share a GPU
    shared = int(os.environ.get("LOCAL_WORLD_SIZE", 1)) > torch.accelerator.device_count() > 0
    backend = {"backend": "gloo"} if shared else {}
    return PartialState(cpu=not torch.accelerator.is_available(), timeout=_LONGEST_WAIT, **backend)


def shard(items: Sequence[T], costs: Sequence[float] | None = None) -> list[T]:
    """Return this process's share of all the work, in input order: a part of similar cost (default: 1 per item)."""
    state = process_state()
    parts = cut_by_cost([1.0] * len(items) if costs is None else costs, state.num_processes)
    return [items[place] for place in parts[state.process_index]]


def cut_by_cost(costs: Sequence[float], parts: int) -> list[range]:
    """Cut the sequence of ``costs`` into ``parts`` of similar cost: the middle of an item's cost decides its part.

    >>> cut_by_cost([5, 1, 1, 9, 4], 2)
    [range(0, 3), range(3, 5)]
    """
    total = sum(costs) or 1.0
    middles = [before - cost / 2 for cost, before in zip(costs, itertools.accumulate(costs), strict=True)]
    owners = [min(int(parts * middle / total), parts - 1) for middle in middles]  # non-decreasing
    starts = [bisect.bisect_left(owners, part) for part in range(parts + 1)]
    return [range(start, end) for start, end in itertools.pairwise(starts)]


def gather_in_order(local: Sequence[T]) -> list[T]:
    """Return the results of all processes' shares (``shard``) in the order of the input."""
    if process_state().num_processes == 1:
        return list(local)
    from accelerate.utils import gather_object

    return cast(list[T], gather_object(list(local)))


def together(act: Callable[[], T]) -> T:
    """Run ``act`` on the main process and return its result on all processes; if it fails, all raise.

    Processes other than the main one raise a ``ValueError`` with the message.
    """
    if process_state().num_processes == 1:
        return act()
    result, failure = None, None
    if process_state().is_main_process:
        try:
            result = act()
        except Exception as error:  # raised below: the other processes wait for the broadcast
            failure = error
    outcome = [result, None if failure is None else str(failure)]
    from accelerate.utils import broadcast_object_list

    broadcast_object_list(outcome)
    if failure is not None:
        raise failure
    if outcome[1] is not None:
        raise ValueError(outcome[1])
    return cast(T, outcome[0])


def met() -> tuple[int, int]:
    """Return rank and number of the processes that are already connected: (0, 1) if there are none."""
    # not PartialState: under a launcher's variables it would wait for processes that may never start
    if not torch.distributed.is_available() or not torch.distributed.is_initialized():
        return 0, 1
    return torch.distributed.get_rank(), torch.distributed.get_world_size()


@contextmanager
def agreement() -> Iterator[None]:
    """Enter a block on all connected processes together; if it fails on one, all raise at its end."""
    failure = None
    try:
        yield
    except Exception as error:  # raised below: the other processes wait
        failure = error
    problems = gathered(None if failure is None else f"{type(failure).__name__}: {failure}")
    if failure is not None:
        raise failure
    for other, problem in enumerate(problems):
        if problem is not None:
            raise RuntimeError(f"process {other} failed, so process {met()[0]} stops: {problem}")


def gathered(value: T) -> list[T]:
    """Return the values of all connected processes by rank, each picklable; all must call this together."""
    processes = met()[1]
    if processes == 1:
        return [value]
    values: list[Any] = [None] * processes
    torch.distributed.all_gather_object(values, value)  # of a trainer's group, also without Accelerate
    return values


@contextmanager
def alone() -> Iterator[None]:
    """Hide the other processes in a block that needs none of them, for libraries that act on the first one only."""
    if met() == (0, 1):
        yield
        return
    world, torch.distributed.group.WORLD = torch.distributed.group.WORLD, None
    try:
        yield
    finally:
        torch.distributed.group.WORLD = world


def wait_for_all() -> None:
    """Wait until all connected processes call this."""
    gathered(None)  # Accelerate's wait names one GPU per process, and processes may share one
