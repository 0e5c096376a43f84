"""Noise derived from content, and tokens drawn from probabilities with this noise: pure functions."""

import hashlib
import struct
from collections.abc import Sequence

import torch
from torch import Tensor

# tokens per group of neighbours, one of which is drawn first; about the square root of the vocabulary's size
_GROUP = 256
# the constants of SplitMix64, as signed integers
_GAMMA, _MIX1, _MIX2 = -0x61C8864680B583EB, -0x40A7B892E31B1A47, -0x6B2FB644ECCEEE15


def noise(prompt: str, index: int, seed: int, length: int) -> list[int]:
    """Return ``length`` random signed 64-bit words, a function of prompt, sample index and seed."""
    text = f"{seed}\0{index}\0{prompt}".encode("utf-8", "surrogatepass")
    stream = hashlib.shake_256(text).digest(8 * length)  # a shorter stream is a prefix of a longer one
    return [word for (word,) in struct.iter_unpack(">q", stream)]


def uniform(words: Tensor, places: Tensor) -> Tensor:
    """Return uniform numbers in (0, 1), ``(R, K)`` float64, at places of R streams of SplitMix64."""
    mixed = words + (places + 1) * _GAMMA  # int64 wraps around
    mixed = (mixed ^ _shifted(mixed, 30)) * _MIX1
    mixed = (mixed ^ _shifted(mixed, 27)) * _MIX2
    mixed = mixed ^ _shifted(mixed, 31)
    return (_shifted(mixed, 11).double() + 0.5) * 2.0**-53


def draw(log_probs: Tensor, branches: Tensor, words: Sequence[int]) -> Tensor:
    """Draw a token for each of R responses: Gumbel arg-max over groups of tokens, then over the drawn group's tokens.

    As with noise for each token, a small change of ``log_probs`` ``(B, V)`` rarely changes the token, at a fraction of
    the cost. Each response has its row in ``branches``, and a random 64-bit word from ``noise``. Branches and the
    returned token ids are ``(R,)``.
    """
    # (B, G, _GROUP), with a padded last group
    padded = torch.nn.functional.pad(log_probs, (0, -log_probs.shape[1] % _GROUP), value=-torch.inf)
    groups = padded.reshape(len(log_probs), -1, _GROUP)
    start = torch.tensor(words, device=log_probs.device)[:, None]
    group = _gumbels(groups.logsumexp(-1)[branches], start, groups[0].numel()).argmax(-1)  # (R,)
    first = group * _GROUP
    return first + _gumbels(groups[branches, group], start, first[:, None]).argmax(-1)


def nucleus(scores: Tensor, top_p: float) -> Tensor:
    """Return log-probabilities within the smallest set of tokens whose mass reaches ``top_p``, and -inf elsewhere."""
    ordered, order = scores.log_softmax(-1).sort(dim=-1, descending=True)
    before = ordered.exp().cumsum(-1) - ordered.exp()  # mass before each token
    dropped = torch.zeros_like(before, dtype=torch.bool).scatter(1, order, before >= top_p)
    return scores.masked_fill(dropped, -torch.inf).log_softmax(-1)


def _gumbels(scores: Tensor, words: Tensor, first: int | Tensor) -> Tensor:
    """Add Gumbel noise, from position ``first`` of the streams, to ``(R, K)`` log-probabilities; return float64."""
    places = first + torch.arange(scores.shape[1], device=scores.device).expand_as(scores)
    return scores.double() - (-uniform(words, places).log()).log()


def _shifted(words: Tensor, bits: int) -> Tensor:
    """Shift right and fill with zeros; ``>>`` would fill with the sign bit."""
    return (words >> bits) & ((1 << (64 - bits)) - 1)
