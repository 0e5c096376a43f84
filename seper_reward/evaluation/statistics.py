"""Statistics that evaluations share: confidence intervals over questions and over seeds, and rounding. Pure."""

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


def interval_over_questions_and_seeds(first: Any, other: Any) -> list[float] | None:
    """Return the 95 % t-interval of how far one trained system leads another, over questions and seeds of training.

    The questions that were asked, and the seeds of either system, are three independent sources of chance: their
    squared standard errors add up, and the degrees of freedom are those of Welch (Biometrika 34, 1947) and
    Satterthwaite (Biometrics Bulletin 2, 1946). What a seed does to single questions counts in two of the three, so
    that the interval is too wide rather than too narrow.

    Args:
        first: ``(S, Q)`` measures of S runs of the system with seeds of their own, on the same Q questions; ``(Q,)``
            for a system without seeds, such as one that was not trained.
        other: The same of the system that is compared with it; S may differ.

    Returns:
        Lower and upper bound of the difference of means, first less other, rounded to 4 digits; ``None`` for a single
        question or a single seed, or where nothing varies.
    """
    import numpy as np
    from scipy.stats import t

    systems = [np.asarray(values, dtype=float) for values in (first, other)]
    one, two = (values.reshape(-1, values.shape[-1]).mean(axis=0) for values in systems)  # (Q,), means over seeds
    samples = [one - two, *(values.mean(axis=1) for values in systems if values.ndim == 2)]
    if min(map(len, samples)) < 2:
        return None
    squared_errors = [(float(sample.var(ddof=1)) / len(sample), len(sample) - 1) for sample in samples]
    variance = sum(part for part, _ in squared_errors)
    if not variance:
        return None
    freedom = variance**2 / sum(part**2 / free for part, free in squared_errors)
    lead, half = float((one - two).mean()), float(t.ppf(0.975, freedom)) * math.sqrt(variance)
    return [rounded(lead - half), rounded(lead + half)]


def rounded(value: float) -> float:
    """Return a number rounded to 4 digits."""
    return round(value, _DIGITS)


def rounded_or_none(value: float) -> float | None:
    """Return a number rounded to 4 digits; ``None`` for NaN, which JSON cannot hold."""
    return None if math.isnan(value) else rounded(value)


def mean(values: Sequence[float]) -> float:
    """Return the mean of at least one number, rounded to 4 digits."""
    return rounded(sum(values) / len(values))
