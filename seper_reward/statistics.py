"""Statistics for evaluations: intervals over questions, correlations, and rounding. Pure functions."""

import math
import warnings
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import DegenerateDataWarning, bootstrap, kendalltau, pearsonr, rankdata

_DIGITS = 4
_BATCH = 100  # resamples per batch
_POOLED_RESAMPLES, _RATIO_RESAMPLES = 1000, 1999
_ROUNDING = 1e-12  # range of a constant, relative to it


@dataclass(frozen=True)
class Statistic:
    """A number and its 95 % bootstrap interval over questions, rounded to 4 digits; ``None`` if undefined."""

    value: float | None
    interval: list[float] | None = None

    def __str__(self) -> str:
        """Return the number with 3 decimals and its interval, a dash for ``None``.

        >>> str(Statistic(0.7741, [0.712, 0.831]))
        '0.774 [0.712, 0.831]'
        """
        if self.value is None:
            return "–"
        return f"{self.value:.3f}" + ("" if self.interval is None else " [{:.3f}, {:.3f}]".format(*self.interval))


def interval_over_questions(
    statistic: Callable[[np.ndarray], object], questions: int, *, resamples: int = 9999, vectorized: bool = False
) -> list[float] | None:
    """Return the 95 % percentile bootstrap interval of a statistic, over resamples of whole questions.

    Args:
        statistic: Function of an integer array of question numbers, chosen with replacement; returns a number or NaN.
            It must use all rows of a question together, since they are not independent.
        questions: Number of questions.
        resamples: Number of resamples; they are always the same, so intervals of two statistics are comparable.
        vectorized: Whether the statistic accepts several resamples at once, ``(R, questions)``, and returns R numbers.

    Returns:
        Lower and upper bound, rounded to 4 digits; ``None`` for a single question, or if the statistic is NaN in every
        resample or equal in all.
    """
    if questions < 2:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DegenerateDataWarning)  # resamples in which the statistic is NaN are dropped
        result = bootstrap(
            (np.arange(questions),), (lambda numbers, axis: statistic(numbers)) if vectorized else statistic,
            n_resamples=resamples, vectorized=vectorized, batch=_BATCH if vectorized else None, method="percentile",
            rng=np.random.default_rng(0),
        )  # fmt: skip
    values = result.bootstrap_distribution
    values = values[~np.isnan(values)]
    if not len(values) or values.min() == values.max():
        return None
    return [rounded(float(bound)) for bound in np.percentile(values, (2.5, 97.5))]


def mean_over_questions(values: ArrayLike) -> Statistic:
    """Return the mean of ``(Q,)`` numbers; undefined without a question."""
    values = np.asarray(values, dtype=float)
    if not len(values):
        return Statistic(None)
    interval = interval_over_questions(lambda numbers: values[numbers].mean(-1), len(values), vectorized=True)
    return Statistic(rounded(float(values.mean())), interval)


def ratio_over_questions(questions: Sequence[Hashable], parts: Sequence[tuple[float, float]]) -> Statistic:
    """Return a ratio of sums, such as a share of some rows; ``parts`` are numerator and denominator of each row.

    It is undefined without a denominator, and its interval if all questions are equal.
    """
    places = {question: place for place, question in enumerate(dict.fromkeys(questions))}
    sums = np.zeros((2, len(places)))
    for question, part in zip(questions, parts, strict=True):
        sums[:, places[question]] += part
    if not sums[1].sum():
        return Statistic(None)

    def ratio(terms: np.ndarray) -> np.ndarray:
        with np.errstate(invalid="ignore", divide="ignore"):
            return terms[0] / terms[1]

    interval = None
    if len(set(ratio(sums[:, sums[1] > 0]))) > 1:
        interval = interval_over_questions(
            lambda numbers: ratio(sums[:, numbers].sum(-1)),
            len(places),
            resamples=_RATIO_RESAMPLES,
            vectorized=True,
        )
    return Statistic(rounded(float(sums[0].sum() / sums[1].sum())), interval)


def statistic_over_questions(questions: Sequence[Hashable], statistic: Callable[[np.ndarray], float]) -> Statistic:
    """Return a statistic of row numbers; ``questions`` are those of the rows."""
    by_question: dict[Hashable, list[int]] = {}
    for number, question in enumerate(questions):
        by_question.setdefault(question, []).append(number)
    groups = [np.array(numbers) for numbers in by_question.values()]

    def drawn(numbers: np.ndarray) -> float:
        return statistic(np.concatenate([groups[number] for number in numbers]))

    return _with_interval(drawn, len(groups), _POOLED_RESAMPLES)


def pearson(values: np.ndarray, others: np.ndarray) -> float:
    """Return Pearson's correlation of the pairs without NaN; NaN for a constant."""
    pairs = _known_pairs(values, others)
    if any(not len(column) or np.ptp(column) <= _ROUNDING * np.abs(column).max() for column in pairs):
        return math.nan
    return float(np.corrcoef(*pairs)[0, 1])


def pearson_p_value(values: np.ndarray, others: np.ndarray) -> float | None:
    """Return the p-value of ``pearson``, assuming independent pairs; ``None`` if undefined."""
    undefined = math.isnan(pearson(values, others))
    return None if undefined else float(pearsonr(*_known_pairs(values, others)).pvalue)


def spearman(values: np.ndarray, others: np.ndarray) -> float:
    """Return Spearman's rank correlation of the pairs without NaN, ties with their mean rank; NaN for a constant."""
    return pearson(*(rankdata(column.round(9)) for column in _known_pairs(values, others)))  # equal numbers stay ties


def slope(values: np.ndarray, target: np.ndarray) -> float:
    """Return the slope of the regression of a target on values, over the pairs without NaN; NaN for a constant."""
    values, target = _known_pairs(values, target)
    if not len(values) or np.ptp(values) == 0:
        return math.nan
    centered = values - values.mean()
    return float((centered * target).sum() / (centered**2).sum())


def _known_pairs(values: np.ndarray, others: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    known = ~(np.isnan(values) | np.isnan(others))
    return values[known], others[known]


def lead_over_questions(first: ArrayLike, other: ArrayLike) -> Statistic:
    """Return the mean lead of one choice over another, ``(Q,)`` each."""
    return mean_over_questions(np.asarray(first, dtype=float) - np.asarray(other, dtype=float))


def rank_correlation(values: ArrayLike, others: ArrayLike, *, resamples: int = 1000) -> dict[str, Statistic]:
    """Return rank correlations of two measures of the same questions.

    ``values`` and ``others`` are ``(Q,)``. Returns ``kendall`` (tau-b;
    Kendall, Biometrika 33, 1945) and ``spearman`` (rho).
    """
    columns = [np.asarray(measure, dtype=float) for measure in (values, others)]

    def correlation(of: Callable[[np.ndarray, np.ndarray], float]) -> Statistic:
        return _with_interval(lambda at: of(*(column[at] for column in columns)), len(columns[0]), resamples)

    return {"kendall": correlation(_tau), "spearman": correlation(spearman)}


def order_correlation(values: np.ndarray, others: np.ndarray, *, resamples: int = 1000) -> Statistic:
    """Return Kendall's tau-b between the rankings of systems by the means of two measures.

    ``values`` and ``others`` are ``(R, Q)``, R systems on the same Q questions. It is
    undefined if a measure has the same mean for all systems, in particular for a single system.
    """
    columns = [np.asarray(measure, dtype=float) for measure in (values, others)]
    return _with_interval(
        lambda at: _tau(*(column[:, at].mean(-1) for column in columns)), columns[0].shape[1], resamples
    )


def _tau(values: np.ndarray, others: np.ndarray) -> float:
    # sums in different order differ in the last digits; without rounding, equal numbers would not be ties
    return float(kendalltau(values.round(12), others.round(12)).statistic) if values.size > 1 else math.nan


def _with_interval(
    statistic: Callable[[np.ndarray], Any], questions: int, resamples: int, vectorized: bool = False
) -> Statistic:
    value = float(statistic(np.arange(questions))) if questions else math.nan
    if math.isnan(value):
        return Statistic(None)
    interval = interval_over_questions(statistic, questions, resamples=resamples, vectorized=vectorized)
    return Statistic(rounded(value), interval)


def rounded(value: float) -> float:
    """Return a number rounded to 4 digits."""
    return round(value, _DIGITS)


def rounded_or_none(value: float) -> float | None:
    """Return a number rounded to 4 digits; ``None`` for NaN, which JSON does not support."""
    return None if math.isnan(value) else rounded(value)


def mean(values: Sequence[float]) -> float:
    """Return the mean of at least one number, rounded to 4 digits."""
    return rounded(sum(values) / len(values))


def mean_or_none(values: Iterable[float | None]) -> float | None:
    """Return the mean of the numbers other than ``None`` and NaN, rounded to 4 digits; ``None`` without any."""
    known = [value for value in values if value is not None and not math.isnan(value)]
    return mean(known) if known else None
