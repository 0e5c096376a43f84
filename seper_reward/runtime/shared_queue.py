"""Work that processes take one by one, so that none waits for a slow one."""

import fcntl
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from seper_reward.runtime.distributed import process_state

T = TypeVar("T")


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
