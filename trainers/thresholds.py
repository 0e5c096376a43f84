"""Gating: risk-coverage curves and thresholds for the decision to use a passage at all. Pure functions.

A gate gives each question a score, and questions with a score above a threshold get a passage. The share of these
questions is the coverage of El-Yaniv and Wiener (JMLR 11, 2010), who plot the error over coverage; here the measure
itself, such as SePer, is plotted, and higher is better.
"""

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple


class Curve(NamedTuple):
    """A measure, as a mean over all questions, over the share of questions that get a passage, from 0 to 1.

    There is one step per distinct score; its threshold is halfway between neighbouring scores, inf at 0 and -inf at 1.
    """

    coverage: tuple[float, ...]
    value: tuple[float, ...]
    thresholds: tuple[float, ...]

    @property
    def area(self) -> float:
        """Area under the linearly interpolated curve: its mean over all shares.

        The interpolation over questions of equal score is the average of choosing some of them at random. A random
        gate has the mean of never and always.
        """
        steps = zip(self.coverage, self.coverage[1:], self.value, self.value[1:], strict=False)
        return sum((right - left) * (low + high) / 2 for left, right, low, high in steps)

    def best_threshold(self) -> float:
        """Return the threshold with the greatest value; in case of ties, the median one (the lower of two)."""
        top = max(self.value)
        # sums in different order differ in the last digits
        best = [each for each, value in zip(self.thresholds, self.value, strict=True) if math.isclose(value, top)]
        return best[len(best) // 2]


def curve(scores: Sequence[float], without: Sequence[float], with_passage: Sequence[float]) -> Curve:
    """Return a measure over the share of questions with a passage, highest of the Q scores first."""
    if not len(scores) == len(without) == len(with_passage) or not len(scores):
        raise ValueError(
            f"expected as many scores as values without and with a passage, at least one, got {len(scores)}, "
            f"{len(without)} and {len(with_passage)}"
        )
    if any(map(math.isnan, scores)):
        raise ValueError("expected a score for every question, got NaN; leave out questions without a score")
    order = sorted(set(map(float, scores)), reverse=True)
    thresholds = [math.inf, *((high + low) / 2 for high, low in itertools.pairwise(order)), -math.inf]
    values = [sum(gated(scores, without, with_passage, threshold)) / len(scores) for threshold in thresholds]
    shares = [sum(score > threshold for score in scores) / len(scores) for threshold in thresholds]
    return Curve(tuple(shares), tuple(values), tuple(thresholds))


def gated(
    scores: Sequence[float], without: Sequence[float], with_passage: Sequence[float], threshold: float
) -> list[float]:
    """Return the Q values of the measure if questions with a score above the threshold get a passage."""
    return [
        after if score > threshold else before
        for score, before, after in zip(scores, without, with_passage, strict=True)
    ]
