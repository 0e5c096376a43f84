"""From passage labels to the input of ranking losses: scaling, grades, pairs, triplets, filters. Pure functions."""

import math
from collections.abc import Iterator

from torch import Tensor

from seper_reward.types import LabeledQuery, Passage

GRADES = 3  # grades of helpful passages: 1 to 3
HARMFUL = -1  # grade of a passage that misleads


def transform(
    labels: Tensor,
    *,
    shift: float = 0.0,
    low: float | None = None,
    high: float | None = None,
    temperature: float = 1.0,
) -> Tensor:
    """Scale labels for a loss: ``(clip(label, low, high) + shift) / temperature``.

    Args:
        labels: Labels in a tensor of any shape; NaN, which stands for no passage, stays NaN.
        shift: Number added after clipping, for losses whose gains must not be negative.
        low: Least label; 0 makes harmful passages equal to useless ones. ``None`` does not clip.
        high: Greatest label; ``None`` does not clip.
        temperature: Teacher's temperature, > 0; below 1 it sharpens the softmax of the result.

    Raises:
        ValueError: The temperature is not above 0, or ``low`` is above ``high``.
    """
    if not temperature > 0:
        raise ValueError(f"temperature must be above 0, got {temperature}")
    if low is not None and high is not None and low > high:
        raise ValueError(f"low must not be above high, got {low} and {high}")
    clipped = labels if low is None and high is None else labels.clamp(low, high)
    return (clipped + shift) / temperature


def quantize(labels: Tensor, margin: float) -> Tensor:
    """Round labels to multiples of ``margin``, as smaller differences are noise; 0 leaves them as they are."""
    return (labels / margin).round() * margin if margin else labels


def grade(label: float, margin: float = 0.1) -> int:
    """Return the graded relevance of a label, for qrels: harm stays apart from uselessness.

    Args:
        label: ΔSePer of the passage, in [-1, 1].
        margin: Least distance from 0 of a label that counts as help or harm, >= 0.

    Returns:
        -1 for a passage that harms (``label <= -margin``), 0 for one that neither harms nor helps, else 1 to 3 by
        thirds of (0, 1].

    >>> [grade(label) for label in (-0.4, -0.05, 0.0, 0.1, 0.34, 0.9)]
    [-1, 0, 0, 1, 2, 3]
    """
    if abs(label) < margin or label == 0:
        return 0
    return HARMFUL if label < 0 else min(math.ceil(label * GRADES), GRADES)


def pairs(labeled: LabeledQuery, *, margin: float = 0.0, sigmas: float = 0.0) -> list[tuple[int, int]]:
    """Return the places (better, worse) of passages whose labels differ by more than chance.

    Args:
        labeled: The labelled query.
        margin: Difference of labels that a pair must exceed.
        sigmas: How many standard errors of the difference a pair must exceed, too. The baseline's error, which cancels
            in a difference, has no part in it.

    Returns:
        Pairs of places in ``labeled``, best ``better`` first and, for each, worst ``worse`` first.
    """
    order = sorted(range(len(labeled.labels)), key=lambda at: -labeled.labels[at])
    errors = labeled.passage_errors
    return [
        (better, worse)
        for place, better in enumerate(order)
        for worse in reversed(order[place + 1 :])
        if labeled.labels[better] - labeled.labels[worse]
        > max(margin, sigmas * math.hypot(errors[better], errors[worse]))
    ]


def triplets(
    labeled: LabeledQuery, *, margin: float = 0.1, sigmas: float = 0.0
) -> Iterator[tuple[Passage, Passage, float]]:
    """Yield (positive, negative, difference of labels).

    A positive helps by at least ``margin`` and exceeds the negative by more than that; see ``pairs``.
    """
    passages, labels = labeled.query.passages, labeled.labels
    for better, worse in pairs(labeled, margin=margin, sigmas=sigmas):
        if _helps(labels[better], margin):
            yield passages[better], passages[worse], labels[better] - labels[worse]


def split_by_help(labeled: LabeledQuery, margin: float = 0.1) -> tuple[list[int], list[int]]:
    """Return the places of positives and of negatives, best first; passages between are in neither.

    A positive helps by at least ``margin``; a negative is at least ``margin`` below the least positive.
    """
    order = sorted(range(len(labeled.labels)), key=lambda at: -labeled.labels[at])
    positives = [at for at in order if _helps(labeled.labels[at], margin)]
    if not positives:
        return [], []
    ceiling = labeled.labels[positives[-1]] - margin
    return positives, [at for at in order if at not in positives and labeled.labels[at] <= ceiling]


def sure(labeled: LabeledQuery, max_std_error: float) -> LabeledQuery:
    """Return the query without the passages whose label has a standard error above ``max_std_error``."""
    return labeled.keep([at for at, error in enumerate(labeled.std_errors) if error <= max_std_error])


def shortened(labeled: LabeledQuery, most: int) -> LabeledQuery:
    """Return the query with at most ``most`` (>= 2) passages: the best, the worst, and evenly between by label."""
    order = sorted(range(len(labeled.labels)), key=lambda at: -labeled.labels[at])
    if len(order) <= most:
        return labeled
    return labeled.keep([order[round(step * (len(order) - 1) / (most - 1))] for step in range(most)])


def informative(labeled: LabeledQuery, margin: float = 0.0) -> bool:
    """Tell whether a query's best label exceeds its worst by more than ``margin``."""
    return bool(labeled.labels) and max(labeled.labels) - min(labeled.labels) > margin


def helped(labeled: LabeledQuery, margin: float = 0.1) -> bool:
    """Tell whether some passage of a query helps: has a label above 0 and of at least ``margin``."""
    return _helps(max(labeled.labels, default=0.0), margin)


def chosen(labeled: LabeledQuery, k: int) -> list[int]:
    """Return the places of the ``k`` passages that a query's labels would show the reader, in the order shown.

    Of the measured sets of ``k`` passages that is the one with the greatest utility; where no set of so many was
    measured, the passages with the best labels, best first. What is equal stays in the order of the query.

    Args:
        labeled: The labelled query.
        k: Number of passages, >= 1; a query with fewer gives all.

    Raises:
        ValueError: ``k`` is below 1.
    """
    if k < 1:
        raise ValueError(f"k must be at least 1, got {k}")
    measured = [each for each in labeled.sets if len(each.shown) == k]
    if measured:
        return list(max(measured, key=lambda each: each.utility.value).shown)
    return sorted(range(len(labeled.labels)), key=lambda at: -labeled.labels[at])[:k]


def _helps(label: float, margin: float) -> bool:
    return label > 0 and label >= margin
