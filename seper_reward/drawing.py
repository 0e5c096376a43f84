"""Pure: noise from content, and tokens from probabilities and noise."""

import hashlib
import struct
from collections.abc import Sequence

import torch
from torch import Tensor

_LIKELY = 1024  # tokens with noise of their own
_GAMMA, _MIX1, _MIX2 = -0x61C8864680B583EB, -0x40A7B892E31B1A47, -0x6B2FB644ECCEEE15  # SplitMix64's, as signed


def noise(prompt: str, index: int, seed: int, length: int) -> list[int]:
    """Return ``length`` random 64-bit words, signed, that prompt, sample index and seed decide."""
    text = f"{seed}\0{index}\0{prompt}".encode("utf-8", "surrogatepass")
    stream = hashlib.shake_256(text).digest(8 * length)  # a longer stream only goes on
    return [word for (word,) in struct.iter_unpack(">q", stream)]


def uniform(words: Tensor, places: Tensor) -> Tensor:
    """Return numbers in (0, 1), float64: those of SplitMix64 at ``places`` of the streams that start at ``words``.

    Args:
        words: ``(R, 1)`` int64.
        places: ``(R, K)`` int64, >= 0: of a token, its number, so that its noise is the same whoever stands beside it.
    """
    mixed = words + (places + 1) * _GAMMA  # int64 wraps around
    mixed = (mixed ^ _shifted(mixed, 30)) * _MIX1
    mixed = (mixed ^ _shifted(mixed, 27)) * _MIX2
    mixed = mixed ^ _shifted(mixed, 31)
    return (_shifted(mixed, 11).double() + 0.5) * 2.0**-53


def draw(log_probs: Tensor, branches: Sequence[int], words: Sequence[int]) -> Tensor:
    """Draw a token for each response: Gumbel arg-max over the likely tokens and all others as one.

    If the others win, the token among them is drawn by their cumulated probabilities. So a small change of the logits
    seldom changes the token, as with noise for each token, for a fraction of its cost.

    Args:
        log_probs: ``(B, V)``, need not sum to 1.
        branches: of each response, its row.
        words: of each response, see [`noise`].

    Returns:
        ``(R,)`` token ids.
    """
    vocabulary = log_probs.shape[1]
    values, tokens = log_probs.topk(min(_LIKELY, vocabulary), dim=-1)  # (B, K)
    # in float64: summed up in float32, rare tokens would be lost
    others = log_probs.exp().scatter(1, tokens, 0.0).cumsum(-1, dtype=torch.float64)  # (B, V)
    at = torch.tensor(branches, device=log_probs.device)
    start = torch.tensor(words, device=log_probs.device)[:, None]
    total = others[at, -1:]  # (R, 1)
    scores = torch.cat([values.double()[at], total.log()], dim=1)
    places = torch.cat([tokens[at], torch.full_like(start, vocabulary)], dim=1)
    best = (scores - (-uniform(start, places).log()).log()).argmax(-1)  # (R,)
    drawn = places.gather(1, best[:, None])[:, 0]
    for row in (drawn == vocabulary).nonzero()[:, 0].tolist():
        fall = uniform(start[row], start.new_tensor([vocabulary + 1])) * total[row]
        # rounding may reach the total, behind which there is no token
        fall = fall.minimum(total[row].nextafter(torch.zeros_like(fall)))
        drawn[row] = torch.searchsorted(others[branches[row]], fall, right=True)[0]
    return drawn


def nucleus(scores: Tensor, top_p: float) -> Tensor:
    """Keep the smallest set of tokens whose probability reaches ``top_p``; the rest gets -inf."""
    ordered, order = scores.log_softmax(-1).sort(dim=-1, descending=True)
    before = ordered.exp().cumsum(-1) - ordered.exp()  # mass in front of each token
    dropped = torch.zeros_like(before, dtype=torch.bool).scatter(1, order, before >= top_p)
    return scores.masked_fill(dropped, -torch.inf)


def _shifted(words: Tensor, bits: int) -> Tensor:
    """Shift right and fill with zeros; ``>>`` fills with the sign."""
    return (words >> bits) & ((1 << (64 - bits)) - 1)
