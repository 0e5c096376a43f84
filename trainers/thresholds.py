"""Threshold of a rule that searches for questions with a high score, tuned on questions with known rewards; pure."""

import itertools
import math
from collections.abc import Sequence


def best_threshold(scores: Sequence[float], without: Sequence[float], searching: Sequence[float]) -> float:
    """Return the threshold above which searching leads to the greatest mean reward; of equal ones, the median.

    Thresholds are halfway between neighbouring scores, inf (never search) and -inf (always search).

    Args:
        scores: Scores of Q questions, such as entropies.
        without: Rewards without a search.
        searching: Rewards with a search.

    Raises:
        ValueError: The lengths differ or are 0, or a score is NaN.

    >>> best_threshold([0.75, -0.5, 0.25], without=[0.1, 0.9, 0.5], searching=[0.7, 0.4, 0.6])
    -0.125
    """
    if not len(scores) == len(without) == len(searching) or not len(scores):
        raise ValueError(
            f"expected as many scores as rewards without and with a search, at least one, got {len(scores)}, "
            f"{len(without)} and {len(searching)}"
        )
    if any(map(math.isnan, scores)):
        raise ValueError("expected a score for every question, got NaN; leave out questions without a score")
    order = sorted(set(map(float, scores)), reverse=True)
    thresholds = [math.inf, *((high + low) / 2 for high, low in itertools.pairwise(order)), -math.inf]
    rows = list(zip(scores, without, searching, strict=True))
    rewards = [sum(after if score > limit else before for score, before, after in rows) for limit in thresholds]
    top = max(rewards)
    # sums in different order differ in the last digits
    best = [limit for limit, reward in zip(thresholds, rewards, strict=True) if math.isclose(reward, top)]
    return best[len(best) // 2]
