"""BERTScore's F1 of token embeddings."""

import torch
from torch import Tensor


def bertscore_f1(one: Tensor, other: Tensor) -> float:
    """Return the similarity of two texts by their token vectors (BERTScore, arXiv:1904.09675; equal token weights).

    Args:
        one: ``(T, D)`` vectors of the first text's tokens.
        other: ``(U, D)`` vectors of the second text's tokens.

    Returns:
        Harmonic mean of precision and recall: the mean, over the tokens of one text, of the greatest cosine similarity
        with a token of the other text. In [0, 1]; 0 if a text has no token or nothing in common with the other.

    >>> round(bertscore_f1(torch.tensor([[1.0, 0.0], [0.0, 2.0]]), torch.tensor([[3.0, 0.0]])), 4)
    0.6667
    """
    if not len(one) or not len(other):
        return 0.0
    cosines = torch.nn.functional.normalize(one, dim=1) @ torch.nn.functional.normalize(other, dim=1).T  # (T, U)
    sides = [float(cosines.amax(dim).mean().clamp(0.0, 1.0)) for dim in (0, 1)]
    return 2 * sides[0] * sides[1] / sum(sides) if sum(sides) else 0.0
