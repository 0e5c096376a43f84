"""Intervals of trained systems over questions and seeds. Pure functions."""

import math
from typing import Any

import numpy as np
from scipy.stats import t

from seper_reward.statistics import rounded


def interval_over_questions_and_seeds(first: Any, other: Any) -> list[float] | None:
    """Return the 95 % t-interval of the lead of one trained system over another, over questions and seeds.

    A seed covers all randomness of a run: of its training and, if each run has separate labels, of the samples behind
    the labels.

    The choice of questions and the seeds of either system are three independent sources of randomness: their squared
    standard errors add up, and the degrees of freedom follow Welch (Biometrika 34, 1947) and Satterthwaite (Biometrics
    Bulletin 2, 1946). The effect of a seed on single questions counts in two of the three, so the interval is rather
    too wide than too narrow.
    """
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
