"""Whether to use a passage at all: risk-coverage curves and thresholds. Pure.

A gate gives each question a score, and the questions whose score is above a threshold get a passage; the others are
asked without. The share of questions that get one is the coverage of El-Yaniv and Wiener (JMLR 11, 2010), who plot the
error over it; here the measure itself, such as SePer, is plotted, so that higher is better.
"""

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple


class Curve(NamedTuple):
    """A measure over the share of questions that get a passage.

    Attributes:
        coverage: Shares of questions that get a passage, from 0 (never) to 1 (always); one step per distinct score.
        value: Mean of the measure over all questions, with and without a passage, at each share.
        thresholds: Numbers that a score must exceed at each share: halfway between neighbouring scores, inf at 0 and
            -inf at 1.
    """

    coverage: tuple[float, ...]
    value: tuple[float, ...]
    thresholds: tuple[float, ...]

    @property
    def area(self) -> float:
        """Area under the curve, joined by straight lines: its mean over all shares.

        A straight line over questions of one score is what giving the passage to some of them by lot has on average. A
        gate by lot alone has the mean of never and always.
        """
        steps = zip(self.coverage, self.coverage[1:], self.value, self.value[1:], strict=False)
        return sum((right - left) * (low + high) / 2 for left, right, low, high in steps)

    def best_threshold(self) -> float:
        """Return the threshold with the greatest value; of several, the middle one (the lower of two middle ones)."""
        top = max(self.value)
        # sums in another order differ in the last digits
        best = [each for each, value in zip(self.thresholds, self.value, strict=True) if math.isclose(value, top)]
        return best[len(best) // 2]


def curve(scores: Sequence[float], without: Sequence[float], with_passage: Sequence[float]) -> Curve:
    """Return a measure over the share of questions that get a passage, those with the highest scores first.

    Args:
        scores: Q scores of a gate, higher = rather with a passage.
        without: Q values of the measure without a passage.
        with_passage: Q values of the measure with the passage that the question would get.

    Raises:
        ValueError: There is no question, the numbers of values differ, or a score is NaN.
    """
    if not len(scores) == len(without) == len(with_passage) or not len(scores):
        raise ValueError(
            f"expected as many scores as values without and with a passage, at least one, got {len(scores)}, "
            f"{len(without)} and {len(with_passage)}"
        )
    if any(map(math.isnan, scores)):
        raise ValueError("expected a score for every question, got NaN; leave out questions that have none")
    order = sorted(set(map(float, scores)), reverse=True)
    thresholds = [math.inf, *((high + low) / 2 for high, low in itertools.pairwise(order)), -math.inf]
    values = [sum(gated(scores, without, with_passage, threshold)) / len(scores) for threshold in thresholds]
    shares = [sum(score > threshold for score in scores) / len(scores) for threshold in thresholds]
    return Curve(tuple(shares), tuple(values), tuple(thresholds))


def gated(
    scores: Sequence[float], without: Sequence[float], with_passage: Sequence[float], threshold: float
) -> list[float]:
    """Return the Q values of the measure where the questions whose score is above the threshold get a passage."""
    return [
        after if score > threshold else before
        for score, before, after in zip(scores, without, with_passage, strict=True)
    ]
