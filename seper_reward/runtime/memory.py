"""Batches that fit into memory: token budgets, halved batches after running out of memory, and peak memory."""

import contextlib
import ctypes
import re
import resource
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import torch

T = TypeVar("T")
R = TypeVar("R")


def in_halves(act: Callable[[list[T]], Iterable[R]], batch: list[T]) -> list[R]:
    """Return ``act(batch)``, one result per item; if the device runs out of memory, act on the halves instead."""
    try:
        return list(act(batch))
    except torch.OutOfMemoryError:
        if len(batch) == 1:
            raise
    # outside of the handler: the error keeps the frames and their tensors alive
    if torch.accelerator.is_available():
        torch.accelerator.empty_cache()
    warnings.warn(
        f"out of memory: a batch of {len(batch)} is halved, and low digits may differ from a run with more memory; "
        "lower max_batch_tokens to avoid it",
        stacklevel=2,
    )
    middle = len(batch) // 2
    return [*in_halves(act, batch[:middle]), *in_halves(act, batch[middle:])]


def token_batches(lengths: Mapping[T, int], budget: int) -> Iterator[list[T]]:
    """Group items of similar length into batches of at most ``budget`` tokens when padded to their longest item.

    Batches go from the shortest items (by tokens, then by value) to the longest; an item above the budget is a batch.

    >>> list(token_batches({"a": 2, "b": 5, "c": 1, "d": 3}, 6))
    [['c', 'a'], ['d'], ['b']]
    """
    batch: list[T] = []
    for item in sorted(lengths, key=lambda item: (lengths[item], item)):
        if batch and (len(batch) + 1) * lengths[item] > budget:
            yield batch
            batch = []
        batch.append(item)
    if batch:
        yield batch


def in_batches(items: Sequence[T], size: int) -> list[Sequence[T]]:
    """Divide items into batches of neighbours. Batches are fixed before work: they affect low digits of results."""
    return [items[start : start + size] for start in range(0, len(items), size)]


def give_back() -> None:
    """Return freed memory to the system; glibc keeps it, and tensors of varying size make it grow for hours."""
    with contextlib.suppress(OSError, AttributeError):  # the C library is not glibc
        ctypes.CDLL("libc.so.6").malloc_trim(0)


def peak_bytes() -> int:
    """Return the peak memory of this process in bytes, including models."""
    status = Path("/proc/self/status")
    if status.is_file():  # ru_maxrss would begin at the peak of the parent process
        match = re.search(r"VmHWM:\s+(\d+) kB", status.read_text(encoding="utf-8"))
        if match:
            return int(match[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def device_peak_bytes() -> int | None:
    """Return the peak allocated memory of this process on its GPU in bytes; ``None`` without a GPU."""
    return torch.cuda.max_memory_allocated() if torch.cuda.is_available() else None
