"""Attention masks and padding: pure functions on tensors."""

from collections.abc import Sequence

import torch
from torch import Tensor


def left_pad(sequences: Sequence[Sequence[int]], pad_id: int) -> tuple[Tensor, Tensor]:
    """Return ids and mask, ``(L, T)`` each, with the padding in front."""
    longest = max(map(len, sequences))
    ids = torch.tensor([[pad_id] * (longest - len(ids)) + list(ids) for ids in sequences])
    mask = torch.tensor([[0] * (longest - len(ids)) + [1] * len(ids) for ids in sequences])
    return ids, mask


def attention_mask(seen: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the additive mask ``(L, 1, T, S)`` of what ``(L, T, S)`` queries see."""
    return torch.zeros_like(seen, dtype=dtype).masked_fill(~seen, torch.finfo(dtype).min)[:, None]


def tree_mask(owners: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the mask ``(L, 1, T, T)``: a token sees the prompt, and its own continuation up to itself."""
    theirs, mine = owners[:, None], owners[..., None]
    seen = ((theirs == 0) | (theirs == mine)) & (mine >= 0)
    seen = seen & torch.ones_like(seen[0]).tril()
    return attention_mask(seen, dtype)
