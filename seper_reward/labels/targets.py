"""From passage labels to what a ranking loss is fed: graded lists, pairs, triplets, filters (pure)."""

import math
from collections.abc import Iterator

from torch import Tensor

from seper_reward.types import LabeledQuery, Passage

GRADES = 3  # of helpfulness, above 0
HARMFUL = -1  # the grade of a passage that misleads


def transform(
    labels: Tensor,
    *,
    shift: float = 0.0,
    low: float | None = None,
    high: float | None = None,
    temperature: float = 1.0,
) -> Tensor:
    """Turn labels into the scale of a loss: ``(clip(label, low, high) + shift) / temperature``.

    Args:
        labels: any shape; NaN (no passage there) stays NaN.
        shift: added after clipping; makes gains out of labels that may be negative.
        low: least label; 0 makes harm equal to uselessness.
        high: greatest label.
        temperature: of the teacher, > 0; below 1 it sharpens the softmax of the result.

    Raises:
        ValueError: the temperature is not above 0, or ``low`` is above ``high``.
    """
    if not temperature > 0:
        raise ValueError(f"temperature must be above 0, got {temperature}")
    if low is not None and high is not None and low > high:
        raise ValueError(f"low must not be above high, got {low} and {high}")
    clipped = labels if low is None and high is None else labels.clamp(low, high)
    return (clipped + shift) / temperature


def quantize(labels: Tensor, margin: float) -> Tensor:
    """Round labels to multiples of ``margin``, so that what differs by less counts as equal; 0 leaves them."""
    return (labels / margin).round() * margin if margin else labels


def grade(label: float, margin: float = 0.1) -> int:
    """Return the graded relevance of a label, for qrels: harm stays apart from uselessness.

    Args:
        label: ΔSePer, in [-1, 1].
        margin: how far from 0 a label must be to mean anything, >= 0.

    Returns:
        -1 if it harms (``label <= -margin``), 0 if it neither harms nor helps, else 1 to 3 by thirds of the scale.

    >>> [grade(label) for label in (-0.4, -0.05, 0.0, 0.1, 0.34, 0.9)]
    [-1, 0, 0, 1, 2, 3]
    """
    if abs(label) < margin or label == 0:
        return 0
    return HARMFUL if label < 0 else min(math.ceil(label * GRADES), GRADES)


def pairs(labeled: LabeledQuery, *, margin: float = 0.0, sigmas: float = 0.0) -> list[tuple[int, int]]:
    """Return places (better, worse) of passages whose labels differ by more than chance.

    Args:
        labeled: the judged query.
        margin: least difference, exclusive.
        sigmas: the difference must also exceed so many standard errors of it. (Those of ΔSePer hold the baseline's
            error, which a difference does not have: this errs on the safe side.)

    Returns:
        By better, then worse label, best and worst first.
    """
    order = sorted(range(len(labeled.labels)), key=lambda at: -labeled.labels[at])
    return [
        (better, worse)
        for place, better in enumerate(order)
        for worse in reversed(order[place + 1 :])
        if labeled.labels[better] - labeled.labels[worse]
        > max(margin, sigmas * math.hypot(labeled.std_errors[better], labeled.std_errors[worse]))
    ]


def triplets(
    labeled: LabeledQuery, *, margin: float = 0.1, sigmas: float = 0.0
) -> Iterator[tuple[Passage, Passage, float]]:
    """Yield (positive, negative, difference of labels): the positive helps by the margin, and beats by it."""
    passages, labels = labeled.query.passages, labeled.labels
    for better, worse in pairs(labeled, margin=margin, sigmas=sigmas):
        if labels[better] >= margin:
            yield passages[better], passages[worse], labels[better] - labels[worse]


def split_by_help(labeled: LabeledQuery, margin: float = 0.1) -> tuple[list[int], list[int]]:
    """Return the places of positives and negatives, best first; what lies between is in neither.

    A positive has a label of at least ``margin``; a negative is at least ``margin`` below the least positive.
    """
    order = sorted(range(len(labeled.labels)), key=lambda at: -labeled.labels[at])
    positives = [at for at in order if labeled.labels[at] >= margin and labeled.labels[at] > 0]
    if not positives:
        return [], []
    ceiling = labeled.labels[positives[-1]] - margin
    return positives, [at for at in order if at not in positives and labeled.labels[at] <= ceiling]


def sure(labeled: LabeledQuery, max_std_error: float) -> LabeledQuery:
    """Return it without the passages whose label has a greater standard error."""
    return labeled.keep([at for at, error in enumerate(labeled.std_errors) if error <= max_std_error])


def shortened(labeled: LabeledQuery, most: int) -> LabeledQuery:
    """Return it with at most ``most`` (>= 2) passages: the best, the worst, and evenly between by label."""
    order = sorted(range(len(labeled.labels)), key=lambda at: -labeled.labels[at])
    if len(order) <= most:
        return labeled
    return labeled.keep([order[round(step * (len(order) - 1) / (most - 1))] for step in range(most)])


def informative(labeled: LabeledQuery, margin: float = 0.0) -> bool:
    """Whether its passages differ: the best label exceeds the worst by more than ``margin``."""
    return bool(labeled.labels) and max(labeled.labels) - min(labeled.labels) > margin


def helped(labeled: LabeledQuery, margin: float = 0.1) -> bool:
    """Whether some passage helps by ``margin``; an order of useless ones does not teach what to find."""
    return max(labeled.labels, default=0.0) >= margin
