"""Accelerate: which process this is, what share of the work it takes, and results in input order."""

import fcntl
import functools
import heapq
import itertools
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

import torch

T = TypeVar("T")


@functools.cache
def process_state() -> Any:
    """Return Accelerate's process state: one process, or those of ``torchrun`` (gloo where there is no GPU)."""
    from accelerate import PartialState

    # shares of hours of work drift apart by more than the usual half hour
    return PartialState(cpu=not torch.accelerator.is_available(), timeout=timedelta(days=7))


def shard(items: Sequence[T], costs: Sequence[float] | None = None) -> list[T]:
    """Return this process's share, in the order of the input.

    Args:
        items: all the work, the same on every process.
        costs: of each item, in any unit, for shares of like cost; without, every n-th item.

    See ``SharedQueue`` for work that processes take as they go.
    """
    state = process_state()
    if costs is None:
        return list(items[state.process_index :: state.num_processes])
    return [items[place] for place in split_by_cost(costs, state.num_processes)[state.process_index]]


def split_by_cost(costs: Sequence[float], parts: int) -> list[list[int]]:
    """Share out places among ``parts`` so that no part costs much more than another: the dearest first.

    >>> split_by_cost([5, 1, 1, 9, 4], 2)
    [[1, 3], [0, 2, 4]]
    """
    shares: list[list[int]] = [[] for _ in range(parts)]
    loads = [(0.0, part) for part in range(parts)]  # a heap
    for place in sorted(range(len(costs)), key=lambda place: (-costs[place], place)):
        load, part = heapq.heappop(loads)
        shares[part].append(place)
        heapq.heappush(loads, (load + costs[place], part))
    return [sorted(share) for share in shares]


def gather_in_order(local: Sequence[T], costs: Sequence[float] | None = None) -> list[T]:
    """Undo ``shard`` (of the same costs) on all processes: return everybody's results in the order of the input."""
    state = process_state()
    if state.num_processes == 1:
        return list(local)
    shares: list[Any] = [None] * state.num_processes
    torch.distributed.all_gather_object(shares, list(local))
    if costs is None:
        longest = max(map(len, shares))
        return [share[row] for row in range(longest) for share in shares if row < len(share)]
    places = itertools.chain(*split_by_cost(costs, state.num_processes))
    found = dict(zip(places, itertools.chain(*shares), strict=True))
    return [found[place] for place in range(len(costs))]


def together(act: Callable[[], T]) -> T:
    """Let the main process act and return what it returned on all; if it fails, all raise, and none waits for it.

    Raises:
        ValueError: with the main process's message, on the others; the main process raises its own error.
    """
    if process_state().num_processes == 1:
        return act()
    result, failure = None, None
    if process_state().is_main_process:
        try:
            result = act()
        except Exception as error:  # raised below
            failure = error
    box = [result, None if failure is None else str(failure)]
    torch.distributed.broadcast_object_list(box, src=0)
    if failure is not None:
        raise failure
    if box[1] is not None:
        raise ValueError(box[1])
    return cast(T, box[0])


class SharedQueue(Generic[T]):
    """Items that each fall to one process: the dearest first, each to whoever is free next.

    For work whose results need no order. A process that reads ahead takes more than its share: it needs a
    ``shard``.

    Args:
        items: all the work, the same on every process.
        costs: of each item, in any unit.
        counter: file on a disk that all processes share; ``reset`` it before any of them takes.
    """

    def __init__(self, items: Sequence[T], costs: Sequence[float], counter: Path) -> None:
        self._items, self._counter = items, counter
        self._order = list(range(len(items)))
        if process_state().num_processes > 1:  # one alone keeps the order of the input
            self._order.sort(key=lambda place: (-costs[place], place))

    @staticmethod
    def reset(counter: Path) -> None:
        """Begin anew; for one process, before all others take."""
        counter.write_text("0", encoding="utf-8")

    def __iter__(self) -> Iterator[T]:
        """Take items until none is left."""
        while (taken := self._next()) < len(self._order):
            yield self._items[self._order[taken]]

    def _next(self) -> int:
        with self._counter.open("r+", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # until it is closed
            taken = int(file.read())
            file.seek(0)
            file.write(str(taken + 1))
        return taken
