"""BERTScore's F1 of token embeddings."""

import torch
from torch import Tensor


def bertscore_f1(one: Tensor, other: Tensor) -> float:
    """Return how alike two texts are by the vectors of their tokens (BERTScore, arXiv:1904.09675; all tokens weigh 1).

    Args:
        one: ``(T, D)`` vectors of the one text's tokens.
        other: ``(U, D)`` vectors of the other's.

    Returns:
        Harmonic mean of precision and recall, the mean greatest cosine similarity of each text's tokens with one of
        the other's, in [0, 1]; 0 where a text has no token or the two have nothing in common.

    >>> round(bertscore_f1(torch.tensor([[1.0, 0.0], [0.0, 2.0]]), torch.tensor([[3.0, 0.0]])), 4)
    0.6667
    """
    if not len(one) or not len(other):
        return 0.0
    cosines = torch.nn.functional.normalize(one, dim=1) @ torch.nn.functional.normalize(other, dim=1).T  # (T, U)
    sides = [float(cosines.amax(dim).mean().clamp(0.0, 1.0)) for dim in (0, 1)]
    return 2 * sides[0] * sides[1] / sum(sides) if sum(sides) else 0.0
