"""Pure: noise from content, and tokens from probabilities and noise."""

import hashlib
import struct
from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor


def noise(prompt: str, index: int, seed: int, length: int) -> list[float]:
    """Return ``length`` numbers, even in [0, 1) with 53 bits, that prompt, sample index and seed decide."""
    text = f"{seed}\0{index}\0{prompt}".encode("utf-8", "surrogatepass")
    stream = hashlib.shake_256(text).digest(8 * length)  # a longer stream only goes on
    return [(word >> 11) * 2.0**-53 for (word,) in struct.iter_unpack(">Q", stream)]


def inverse_cdf(probs: Tensor, branches: Sequence[int], noise: Sequence[float]) -> Tensor:
    """Draw from rows of ``probs`` ``(B, V)``: for each response the token its noise falls on, ``(R,)``."""
    # in float64: summed up in float32, rare tokens would be lost
    cumulated = probs.cumsum(-1, dtype=torch.float64)  # (B, V)
    counts: Counter[int] = Counter()
    columns = []
    for branch in branches:
        columns.append(counts[branch])
        counts[branch] += 1
    falls = torch.zeros(len(probs), max(counts.values()), dtype=torch.float64)
    falls[list(branches), columns] = torch.tensor(noise, dtype=torch.float64)
    total = cumulated[:, -1:]
    # rounding may reach the total, behind which there is no token
    falls = (falls.to(probs.device) * total).minimum(total.nextafter(torch.zeros_like(total)))
    return torch.searchsorted(cumulated, falls, right=True)[list(branches), columns]


def nucleus(scores: Tensor, top_p: float) -> Tensor:
    """Keep the smallest set of tokens whose probability reaches ``top_p``; the rest gets -inf."""
    ordered, order = scores.log_softmax(-1).sort(dim=-1, descending=True)
    before = ordered.exp().cumsum(-1) - ordered.exp()  # mass in front of each token
    dropped = torch.zeros_like(before, dtype=torch.bool).scatter(1, order, before >= top_p)
    return scores.masked_fill(dropped, -torch.inf)
