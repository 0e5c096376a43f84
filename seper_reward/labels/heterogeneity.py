"""Test whether the labels of a question differ by more than chance, and shrink them to their mean. Pure.

A question's labels are like the studies of a meta-analysis: numbers with standard errors, whose true values may be
equal. All labels of a question get the same error, the root of their mean squared error. A few samples can agree by
chance and then have an error near 0; weighting each label by its own error would let such cases dominate.
"""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import replace

from scipy.special import chdtrc

from seper_reward.types import LabeledQuery


def heterogeneity_p_value(labeled: LabeledQuery) -> float:
    """Return the probability that labels differ at least as much as these if the passages are equally good, in [0, 1].

    Cochran's test (Biometrics 10, 1954) with one variance for all labels. Q = Σ(label - mean)² / mean squared error is
    compared with chi-square of P - 1 degrees of freedom. The baseline's error is left out. The result is 0 if no label
    has an error (no difference can be chance), and 1 for a single passage.
    """
    error = _mean_square(labeled.passage_errors)
    if not error:
        return 0.0
    freedom = len(labeled.labels) - 1
    return float(chdtrc(freedom, freedom * statistics.variance(labeled.labels) / error)) if freedom else 1.0


def shrunk(labeled: LabeledQuery) -> LabeledQuery:
    """Return the query with labels shrunk to their mean by the share of their variance that is noise.

    A label becomes mean + τ² / (τ² + σ²) · (label - mean), where σ² is the mean squared error of the labels, without
    the baseline's, and τ² = max(0, variance of the labels - σ²) the variance of the true values (Hedges and Olkin,
    Statistical Methods for Meta-Analysis, 1985, ch. 9). Order, mean and standard errors do not change, nor do labels
    without errors.
    """
    error = _mean_square(labeled.passage_errors)
    if not error or len(labeled.labels) < 2:
        return labeled
    mean = statistics.fmean(labeled.labels)
    real = max(0.0, statistics.variance(labeled.labels) - error)
    share = real / (real + error)
    return replace(labeled, labels=tuple(mean + share * (label - mean) for label in labeled.labels))


def beyond_chance(
    labeled: Iterable[LabeledQuery], *, heterogeneity: float = 1.0, shrink: bool = False
) -> list[LabeledQuery]:
    """Return the queries whose passages differ by more than chance, with ``shrink`` with ``shrunk`` labels.

    ``heterogeneity`` is the largest p-value, in (0, 1]: about this share of the queries whose passages are equally
    good is returned; 1 returns all.
    """
    queries = [query for query in labeled if heterogeneity_p_value(query) <= heterogeneity]
    return [shrunk(query) for query in queries] if shrink else queries


def _mean_square(errors: Sequence[float]) -> float:
    return statistics.fmean(error**2 for error in errors) if errors else 0.0
