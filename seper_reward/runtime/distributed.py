"""Processes under Accelerate: which one this is, its share of the work, and results in input order."""

import bisect
import functools
import heapq
import itertools
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any, Generic, TypeVar, cast

import torch

T = TypeVar("T")

# collective calls, such as those of training: processes make them at about the same time, so a longer wait is a fault
_COLLECTIVE = timedelta(minutes=30)
_WORK = timedelta(days=1)  # processes with hours of work of their own drift apart
_meetings, _queues = itertools.count(), itertools.count()  # the same on all processes, which count together


@functools.cache
def process_state() -> Any:
    """Return Accelerate's process state: one process, or those of ``torchrun`` (gloo where there is no GPU)."""
    from accelerate import PartialState

    return PartialState(cpu=not torch.accelerator.is_available(), timeout=_COLLECTIVE)


def _gather_object(local: list[T]) -> list[T]:
    """Return the lists of all processes as one, by process."""
    from accelerate.utils import gather_object

    return cast(list[T], gather_object(local))


def _broadcast_object_list(objects: list[Any]) -> list[Any]:
    """Return the main process's objects."""
    from accelerate.utils import broadcast_object_list

    return cast(list[Any], broadcast_object_list(objects))


@functools.cache
def _store() -> Any:
    """Return the key-value store of all processes, served where ``torchrun`` or the main process listens.

    Accelerate has no queue that processes take work from, nor a wait that outlasts a collective call's.
    """
    from torch.distributed.rendezvous import rendezvous

    process_state()
    store, _, _ = next(rendezvous("env://", timeout=_COLLECTIVE))
    return store


def wait_for_all() -> None:
    """Wait until all processes have come here, a day at most: longer than a collective call waits.

    Raises:
        OSError: A process did not come, or the one that the others ask is gone.
    """
    processes = process_state().num_processes
    if processes == 1:
        return
    name = f"seper-reward/meeting-{next(_meetings)}"
    try:
        if _store().add(name, 1) == processes:
            _store().set(f"{name}-complete", "")
        _store().wait([f"{name}-complete"], _WORK)
    except RuntimeError as error:
        raise OSError(f"another process has ended or does not come; run the same command again ({error})") from error


def shard(items: Sequence[T], costs: Sequence[float] | None = None) -> list[T]:
    """Return this process's share, in the order of the input.

    ``SharedQueue`` is for work that processes take one item at a time.

    Args:
        items: All the work, the same on every process.
        costs: Cost of each item, in any unit, so that shares cost about the same; ``None`` takes every n-th item.
    """
    state = process_state()
    if costs is None:
        return list(items[state.process_index :: state.num_processes])
    return [items[place] for place in split_by_cost(costs, state.num_processes)[state.process_index]]


def split_by_cost(costs: Sequence[float], parts: int) -> list[list[int]]:
    """Divide the places of ``costs`` into ``parts`` of similar cost: the dearest first, each to the cheapest part.

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


def cut_by_cost(costs: Sequence[float], parts: int) -> list[range]:
    """Cut the line of ``costs`` into ``parts`` of similar cost: an item goes to the part that its middle lies in.

    Unlike ``split_by_cost`` it leaves neighbours together, at a part that may cost one item more.

    >>> cut_by_cost([5, 1, 1, 9, 4], 2)
    [range(0, 3), range(3, 5)]
    """
    total = sum(costs) or 1.0
    middles = [before - cost / 2 for cost, before in zip(costs, itertools.accumulate(costs), strict=True)]
    owners = [min(int(parts * middle / total), parts - 1) for middle in middles]  # never falls
    starts = [bisect.bisect_left(owners, part) for part in range(parts + 1)]
    return [range(start, end) for start, end in itertools.pairwise(starts)]


def gather_in_order(local: Sequence[T], costs: Sequence[float] | None = None) -> list[T]:
    """Return the results of all processes' shares in the order of the input; ``costs`` as given to ``shard``."""
    state = process_state()
    if state.num_processes == 1:
        return list(local)
    wait_for_all()
    shares: list[list[T]] = _gather_object([list(local)])
    if costs is None:
        longest = max(map(len, shares))
        return [share[row] for row in range(longest) for share in shares if row < len(share)]
    places = itertools.chain(*split_by_cost(costs, state.num_processes))
    results = dict(zip(places, itertools.chain(*shares), strict=True))
    return [results[place] for place in range(len(costs))]


def together(act: Callable[[], T]) -> T:
    """Run ``act`` on the main process and return its result on all processes; if it fails, all raise.

    What it wrote to a disk that processes share may not be visible at once to those of other machines; its result is.

    Raises:
        ValueError: The main process failed; raised on the others, with its message. It raises its own error itself.
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
    wait_for_all()
    outcome = _broadcast_object_list(outcome)
    if failure is not None:
        raise failure
    if outcome[1] is not None:
        raise ValueError(outcome[1])
    return cast(T, outcome[0])


def met() -> tuple[int, int]:
    """Return which process this is and of how many, among those that have met: (0, 1) where none have.

    Unlike ``process_state`` it waits for nobody: a process that a trainer starts next to its ranks is alone.
    """
    # not PartialState: under a launcher's variables it would wait for processes that may never come
    if not torch.distributed.is_available() or not torch.distributed.is_initialized():
        return 0, 1
    return torch.distributed.get_rank(), torch.distributed.get_world_size()


def gathered(act: Callable[[], T]) -> list[T]:
    """Run ``act`` on every process that has met and return all results, by process; if one fails, all raise.

    Raises:
        RuntimeError: Another process failed; the message names it and its error. One that fails itself raises its own.
    """
    rank, processes = met()
    if processes == 1:
        return [act()]
    result, failure = None, None
    try:
        result = act()
    except Exception as error:  # raised below: the other processes wait
        failure = error
    problem = None if failure is None else f"{type(failure).__name__}: {failure}"
    outcomes: list[Any] = [None] * processes
    torch.distributed.all_gather_object(outcomes, (result, problem))  # of a trainer's group, also without Accelerate
    if failure is not None:
        raise failure
    for other, (_, problem) in enumerate(outcomes):
        if problem is not None:
            raise RuntimeError(f"process {other} failed, and this one, {rank}, stops with it: {problem}")
    return [found for found, _ in outcomes]


class SharedQueue(Generic[T]):
    """A queue that all processes take from: the dearest item first, each to the process that is free next.

    All processes make it together. The results come in no order. A process that reads ahead takes more than its share;
    ``shard`` is for such work.

    Args:
        items: All the work, the same on every process.
        costs: Cost of each item, in any unit.
    """

    def __init__(self, items: Sequence[T], costs: Sequence[float]) -> None:
        self._items, self._name = items, f"seper-reward/queue-{next(_queues)}"
        self._alone = process_state().num_processes == 1  # it keeps the order of the input
        self._order = sorted(range(len(items)), key=lambda place: (-costs[place], place))

    def __iter__(self) -> Iterator[T]:
        """Take items until none is left."""
        if self._alone:
            yield from self._items
            return
        while (turn := _store().add(self._name, 1) - 1) < len(self._order):
            yield self._items[self._order[turn]]
