"""Do the passages of a question differ by more than chance, and which part of their differences is real? Pure.

A question's labels are what a meta-analysis calls studies: numbers with standard errors, whose true values are equal
or not. All labels of a question are given one error, the root of their mean squared error. Few samples may agree by
chance and then show an error near 0; if each label was weighted by its own error, such accidents would rule.
"""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import replace

from seper_reward.types import LabeledQuery


def heterogeneity_p_value(labeled: LabeledQuery) -> float:
    """Return the probability of labels that differ at least so much, if the passages were equally good.

    Cochran's test (Biometrics 10, 1954) with one variance for all labels: Q = Σ(label - mean)² / mean squared error is
    compared with chi-square of P - 1 degrees of freedom. The baseline's error has no part in it.

    Args:
        labeled: The labelled query.

    Returns:
        Number in [0, 1]; 0 if no label has an error, since nothing is then known to be chance; 1 for a single passage.
    """
    from scipy.stats import chi2

    error = _mean_square(labeled.passage_errors)
    if not error:
        return 0.0
    freedom = len(labeled.labels) - 1
    return float(chi2.sf(freedom * statistics.variance(labeled.labels) / error, freedom)) if freedom else 1.0


def shrunk(labeled: LabeledQuery) -> LabeledQuery:
    """Return the query with labels drawn to their mean by the part of their differences that is noise.

    A label becomes mean + τ² / (τ² + σ²) · (label - mean), where σ² is the mean squared error of the labels, without
    the baseline's, and τ² = max(0, variance of the labels - σ²) the variance of the true values (Hedges and Olkin,
    Statistical Methods for Meta-Analysis, 1985, ch. 9). Order and mean stay. Labels without errors stay as they are.

    Args:
        labeled: The labelled query; its standard errors stay, too.
    """
    return replace(labeled, labels=tuple(drawn_to_mean(labeled.labels, labeled.passage_errors)))


def drawn_to_mean(values: Sequence[float], errors: Sequence[float]) -> list[float]:
    """Return numbers drawn to their mean as by ``shrunk``, by their standard errors."""
    error = _mean_square(errors)
    if not error or len(values) < 2:
        return list(values)
    mean = statistics.fmean(values)
    real = max(0.0, statistics.variance(values) - error)
    share = real / (real + error)
    return [mean + share * (value - mean) for value in values]


def beyond_chance(
    labeled: Iterable[LabeledQuery], *, heterogeneity: float = 1.0, shrink: bool = False
) -> list[LabeledQuery]:
    """Return the queries whose passages differ by more than chance.

    Args:
        labeled: Labelled queries.
        heterogeneity: Greatest p-value of ``heterogeneity_p_value``, in (0, 1]; of queries whose passages are equally
            good, about this share is returned; 1 returns all.
        shrink: Whether the labels are then ``shrunk``.
    """
    kept = [row for row in labeled if heterogeneity_p_value(row) <= heterogeneity]
    return [shrunk(row) for row in kept] if shrink else kept


def _mean_square(errors: Sequence[float]) -> float:
    return statistics.fmean(error**2 for error in errors) if errors else 0.0
