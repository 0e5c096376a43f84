"""Statistics that evaluations share: intervals over questions, and rounding that JSON can hold."""

import math
from collections.abc import Callable, Sequence
from typing import Any

_DIGITS = 4


def interval_over_questions(
    statistic: Callable[[Any], float], questions: int, *, resamples: int = 9999
) -> list[float] | None:
    """Return the 95 % percentile bootstrap interval of a statistic, over resamples of whole questions.

    Args:
        statistic: Takes an integer array of question numbers, drawn with replacement, and returns a number or NaN.
            Rows of one question are not independent, so they are to be taken or left together.
        questions: How many questions there are.
        resamples: How many resamples are drawn; always the same ones, so that intervals are paired.

    Returns:
        Lower and upper bound, rounded to 4 digits; ``None`` for a single question, or where the statistic is NaN in
        every resample or the same in all.
    """
    import numpy as np
    from scipy.stats import bootstrap

    if questions < 2:
        return None
    found = bootstrap(
        (np.arange(questions),), statistic, n_resamples=resamples, vectorized=False, method="percentile",
        rng=np.random.default_rng(0),
    )  # fmt: skip
    draws = found.bootstrap_distribution
    draws = draws[~np.isnan(draws)]
    if not len(draws) or draws.min() == draws.max():
        return None
    return [rounded(float(bound)) for bound in np.percentile(draws, (2.5, 97.5))]


def rounded(value: float) -> float:
    """Return a number rounded to 4 digits."""
    return round(value, _DIGITS)


def rounded_or_none(value: float) -> float | None:
    """Return a number rounded to 4 digits, and NaN, which is no JSON, as ``None``."""
    return None if math.isnan(value) else rounded(value)


def mean(values: Sequence[float]) -> float:
    """Return the mean of at least one number, rounded to 4 digits."""
    return rounded(sum(values) / len(values))
