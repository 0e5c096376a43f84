"""Attention masks and padding: pure functions on tensors."""

from collections.abc import Sequence

import torch
from torch import Tensor


def left_pad(sequences: Sequence[Sequence[int]], pad_id: int) -> tuple[Tensor, Tensor]:
    """Return the left-padded token ids of L sequences and their mask, ``(L, T)`` each."""
    longest = max(map(len, sequences))
    ids = torch.tensor([[pad_id] * (longest - len(ids)) + list(ids) for ids in sequences])
    mask = torch.tensor([[0] * (longest - len(ids)) + [1] * len(ids) for ids in sequences])
    return ids, mask


def attention_mask(seen: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the additive mask ``(L, 1, T, slots)`` for ``seen``, ``(L, T, slots)`` bool: slots visible to a query."""
    return torch.zeros_like(seen, dtype=dtype).masked_fill(~seen, torch.finfo(dtype).min)[:, None]
