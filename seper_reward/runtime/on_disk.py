"""A sequence on disk: records are read when they are used, so memory does not grow with their number."""

import os
import pickle
import tempfile
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar, overload

T = TypeVar("T")


class OnDisk(Sequence[T]):
    """Records in a temporary file (in ``TMPDIR``); in memory are 8 bytes per record. Each access makes a copy."""

    def __init__(self, items: Iterable[T] = ()) -> None:
        self._file = tempfile.TemporaryFile(prefix="seper-reward-")  # noqa: SIM115, it is open as long as this object
        self._ends = array("Q", [0])
        for item in items:
            self.append(item)

    def append(self, item: T) -> None:
        """Add a record at the end."""
        self._ends.append(self._ends[-1] + self._file.write(pickle.dumps(item, pickle.HIGHEST_PROTOCOL)))

    def __len__(self) -> int:
        """Return the number of records."""
        return len(self._ends) - 1

    @overload
    def __getitem__(self, place: int) -> T: ...
    @overload
    def __getitem__(self, place: slice) -> list[T]: ...
    def __getitem__(self, place: int | slice) -> T | list[T]:
        """Read a record, or a list of them."""
        if isinstance(place, slice):
            return [self[at] for at in range(*place.indices(len(self)))]
        at = range(len(self))[place]
        self._file.flush()
        start, end = self._ends[at], self._ends[at + 1]
        record: T = pickle.loads(os.pread(self._file.fileno(), end - start, start))  # from our own file
        return record

    def __iter__(self) -> Iterator[T]:
        """Read all records in order."""
        return (self[at] for at in range(len(self)))
