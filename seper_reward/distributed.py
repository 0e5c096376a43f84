"""Accelerate: which process this is, what share of the work it takes, and results in input order."""

import functools
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, TypeVar

import torch

T = TypeVar("T")


@functools.cache
def process_state() -> Any:
    """Return Accelerate's process state: one process, or those of ``torchrun`` (gloo where there is no GPU)."""
    from accelerate import PartialState

    # shares of hours of work drift apart by more than the usual half hour
    return PartialState(cpu=not torch.accelerator.is_available(), timeout=timedelta(days=7))


def shard(items: Sequence[T]) -> list[T]:
    """Return this process's share: every n-th item, so that shares have like lengths and like difficulty."""
    state = process_state()
    return list(items[state.process_index :: state.num_processes])


def gather_in_order(local: Sequence[T]) -> list[T]:
    """Undo [`shard`] on all processes: return everybody's results in the order of the whole input."""
    state = process_state()
    if state.num_processes == 1:
        return list(local)
    shares: list[Any] = [None] * state.num_processes
    torch.distributed.all_gather_object(shares, list(local))
    longest = max(map(len, shares))
    return [share[row] for row in range(longest) for share in shares if row < len(share)]


def agree(message: str | None) -> str | None:
    """Return the main process's message on all processes, so that all stop or go on together."""
    if process_state().num_processes == 1:
        return message
    box = [message]
    torch.distributed.broadcast_object_list(box, src=0)
    return box[0]
