"""Noise from content, and tokens from probabilities and noise: pure functions."""

import hashlib
import itertools
import struct
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

# tokens per group of neighbours, one of which is drawn first; about the square root of the vocabulary's size
_GROUP = 256
# the constants of SplitMix64, as signed integers
_GAMMA, _MIX1, _MIX2 = -0x61C8864680B583EB, -0x40A7B892E31B1A47, -0x6B2FB644ECCEEE15


def noise(prompt: str, index: int, seed: int, length: int) -> list[int]:
    """Return ``length`` random 64-bit words, signed, that prompt, sample index and seed decide."""
    text = f"{seed}\0{index}\0{prompt}".encode("utf-8", "surrogatepass")
    stream = hashlib.shake_256(text).digest(8 * length)  # a longer stream begins like a shorter one
    return [word for (word,) in struct.iter_unpack(">q", stream)]


def branch_word(word: int, token_ids: Sequence[int]) -> int:
    """Return a random 64-bit word, signed, that another word and the tokens of a branch decide."""
    content = struct.pack(f">{len(token_ids) + 1}q", word, *token_ids)
    return int.from_bytes(hashlib.shake_256(content).digest(8), "big", signed=True)


def uniform(words: Tensor, places: Tensor) -> Tensor:
    """Return uniform random numbers by SplitMix64, one per place of each stream.

    Args:
        words: ``(R, 1)`` int64, where the R streams start.
        places: ``(R, K)`` int64, >= 0: places in each stream; a token's place is its number.

    Returns:
        ``(R, K)`` float64 in (0, 1).
    """
    mixed = words + (places + 1) * _GAMMA  # int64 wraps around
    mixed = (mixed ^ _shifted(mixed, 30)) * _MIX1
    mixed = (mixed ^ _shifted(mixed, 27)) * _MIX2
    mixed = mixed ^ _shifted(mixed, 31)
    return (_shifted(mixed, 11).double() + 0.5) * 2.0**-53


def draw(log_probs: Tensor, branches: Sequence[int], words: Sequence[int]) -> Tensor:
    """Draw a token for each response: Gumbel arg-max over groups of tokens, then over the tokens of the drawn group.

    A small change of the probabilities seldom changes the token, as with noise for each token of the vocabulary, at a
    fraction of its cost.

    Args:
        log_probs: ``(B, V)`` natural-log probabilities, which need not sum to 1.
        branches: Row of ``log_probs`` that each of R responses is drawn from.
        words: Random 64-bit word of each response, made by ``noise``.

    Returns:
        ``(R,)`` token ids.
    """
    groups = _grouped(log_probs)
    rows = torch.tensor(branches, device=log_probs.device)
    start = torch.tensor(words, device=log_probs.device)[:, None]
    group = _gumbels(groups.logsumexp(-1)[rows], start, groups[0].numel()).argmax(-1)  # (R,)
    first = group * _GROUP
    return first + _gumbels(groups[rows, group], start, first[:, None]).argmax(-1)


def best_children(
    log_probs: Tensor,
    branches: Sequence[int],
    words: Sequence[int],
    path_log_probs: Sequence[float],
    perturbed: Sequence[float],
    families: Sequence[int],
    count: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """Find the children with the greatest perturbed log-probabilities: a step of stochastic beam search.

    Each leaf of the tree of tokens has a perturbed log-probability, its own plus Gumbel noise, and the leaves with the
    greatest ones are a sample without replacement (Gumbel-top-k). That of an inner branch is the greatest of its
    leaves', so that those of its children are Gumbel variables whose greatest is known (arXiv:1903.06059, section 4
    and appendix B.3). Groups of tokens are branches between a branch and its tokens: only the tokens of the best
    groups get noise, which loses none, because no token is above its group.

    Args:
        log_probs: ``(B, V)`` natural-log probabilities of the next token, which sum to 1.
        branches: Row of ``log_probs`` that each of R live branches continues with.
        words: Random 64-bit word of each branch, made by ``branch_word``.
        path_log_probs: R natural-log probabilities of the branches themselves.
        perturbed: R perturbed log-probabilities of the branches.
        families: How many of the branches, one after another, compete with each other; they sum to R.
        count: Most children that each family keeps.

    Returns:
        ``(C,)`` places of the children's parents among the R branches, token ids, and perturbed log-probabilities
        (float64), family by family, the greatest first. A family has fewer than ``count`` children only if it has no
        more of a probability above 0.
    """
    device = log_probs.device
    groups = _grouped(log_probs)
    lines = torch.tensor(branches, device=device)
    start = torch.tensor(words, device=device)[:, None]
    paths, greatest = (torch.tensor(row, dtype=torch.float64, device=device) for row in (path_log_probs, perturbed))
    totals = paths[:, None] + groups.logsumexp(-1)[lines]  # (R, G)
    scores = _with_greatest(_gumbels(totals, start, groups[0].numel()), greatest)
    parents, group, greatest, sizes = _best(scores, families, count)
    first = group * _GROUP
    totals = paths[parents, None] + groups[lines[parents], group]  # (C, _GROUP)
    scores = _with_greatest(_gumbels(totals, start[parents], first[:, None]), greatest)
    rows, places, greatest, _ = _best(scores, sizes, count)
    return parents[rows], first[rows] + places, greatest


def nucleus(scores: Tensor, top_p: float) -> Tensor:
    """Return the log-probabilities of scores within the smallest set of tokens whose probability reaches ``top_p``.

    Those of other tokens are -inf.
    """
    ordered, order = scores.log_softmax(-1).sort(dim=-1, descending=True)
    before = ordered.exp().cumsum(-1) - ordered.exp()  # mass in front of each token
    dropped = torch.zeros_like(before, dtype=torch.bool).scatter(1, order, before >= top_p)
    return scores.masked_fill(dropped, -torch.inf).log_softmax(-1)


def _grouped(log_probs: Tensor) -> Tensor:
    """Return log-probabilities ``(B, V)`` as groups of neighbours, ``(B, G, _GROUP)``, the last one filled up."""
    padding = -log_probs.shape[1] % _GROUP
    if padding:
        log_probs = torch.nn.functional.pad(log_probs, (0, padding), value=-torch.inf)
    return log_probs.reshape(len(log_probs), -1, _GROUP)


def _gumbels(scores: Tensor, words: Tensor, first: int | Tensor) -> Tensor:
    """Perturb ``(R, K)`` log-probabilities with Gumbel noise, the streams' from place ``first`` on; return float64."""
    places = first + torch.arange(scores.shape[1], device=scores.device).expand_as(scores)
    return scores.double() - (-uniform(words, places).log()).log()


def _with_greatest(gumbels: Tensor, greatest: Tensor) -> Tensor:
    """Move Gumbel variables ``(R, K)`` to where the greatest of each row is a given number, ``(R,)``.

    The numerically stable form of arXiv:1903.06059, appendix B.3. In exp(-G), the arrival times of a race, all
    variables of a row move by the same time, so that a small change of a probability makes a small change here.
    """
    behind = gumbels - gumbels.amax(-1, keepdim=True)
    gap = greatest[:, None] - gumbels + (-behind.expm1()).log()
    return greatest[:, None] - gap.clamp(min=0) - gap.abs().neg().exp().log1p()


def _best(scores: Tensor, families: Sequence[int], count: int) -> tuple[Tensor, Tensor, Tensor, list[int]]:
    """Find the ``count`` greatest finite scores of each family of rows, or as many as there are.

    Returns:
        Rows, columns and scores, ``(C,)``, family by family, the greatest first; and how many each family has.
    """
    rivals = pad_sequence([*torch.split(scores, list(families))], batch_first=True, padding_value=-torch.inf)
    together = rivals.flatten(1)
    best = together.topk(min(count, together.shape[1]))
    offsets = torch.tensor([0, *itertools.accumulate(families)][:-1], device=scores.device)[:, None]
    kept = best.values.isfinite()
    rows, columns = offsets + best.indices // scores.shape[1], best.indices % scores.shape[1]
    return rows[kept], columns[kept], best.values[kept], kept.sum(1).tolist()


def _shifted(words: Tensor, bits: int) -> Tensor:
    """Shift right and fill with zeros, where ``>>`` would fill with the sign."""
    return (words >> bits) & ((1 << (64 - bits)) - 1)
