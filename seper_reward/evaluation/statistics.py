"""Statistics that evaluations share: confidence intervals over questions, and rounding."""

import math
from collections.abc import Callable, Sequence
from typing import Any

_DIGITS = 4


def interval_over_questions(
    statistic: Callable[[Any], float], questions: int, *, resamples: int = 9999
) -> list[float] | None:
    """Return the 95 % percentile bootstrap interval of a statistic, over resamples of whole questions.

    Args:
        statistic: Function of an integer array of question numbers, chosen with replacement; returns a number or NaN.
            Rows of one question are not independent, so that it must take all rows of a question together.
        questions: Number of questions.
        resamples: Number of resamples; always the same ones, so that intervals of two statistics are comparable.

    Returns:
        Lower and upper bound, rounded to 4 digits; ``None`` for a single question, or where the statistic is NaN in
        every resample or the same in all.
    """
    import numpy as np
    from scipy.stats import bootstrap

    if questions < 2:
        return None
    result = bootstrap(
        (np.arange(questions),), statistic, n_resamples=resamples, vectorized=False, method="percentile",
        rng=np.random.default_rng(0),
    )  # fmt: skip
    values = result.bootstrap_distribution
    values = values[~np.isnan(values)]
    if not len(values) or values.min() == values.max():
        return None
    return [rounded(float(bound)) for bound in np.percentile(values, (2.5, 97.5))]


def rounded(value: float) -> float:
    """Return a number rounded to 4 digits."""
    return round(value, _DIGITS)


def rounded_or_none(value: float) -> float | None:
    """Return a number rounded to 4 digits; ``None`` for NaN, which JSON cannot hold."""
    return None if math.isnan(value) else rounded(value)


def mean(values: Sequence[float]) -> float:
    """Return the mean of at least one number, rounded to 4 digits."""
    return rounded(sum(values) / len(values))
