"""Intervals and correlations over questions, against scipy, by hand, and what has none."""

import math

import numpy as np
import pytest
from scipy import stats

from seper_reward.statistics import (
    Statistic,
    interval_over_questions,
    lead_over_questions,
    mean_over_questions,
    order_correlation,
    pearson,
    pearson_p_value,
    rank_correlation,
    rounded_or_none,
    statistic_over_questions,
)


def test_rows_of_one_question_are_taken_together():
    values = np.array([0.0, 0.0, 0.0, 1.0, 1.0, 1.0])
    of_question = [np.arange(3), np.arange(3, 6)]
    drawn = []

    def mean(numbers):
        drawn.append(values[np.concatenate([of_question[number] for number in numbers])].mean())
        return float(drawn[-1])

    assert interval_over_questions(mean, 2, resamples=200) == [0.0, 1.0]
    assert set(drawn) == {0.0, 0.5, 1.0}


def test_what_has_no_interval():
    assert interval_over_questions(lambda numbers: 1.0, 1) is None
    assert interval_over_questions(lambda numbers: 1.0, 5, resamples=20) is None
    assert interval_over_questions(lambda numbers: math.nan, 5, resamples=20) is None
    draws = iter([math.nan, 1.0, 2.0] * 20)
    assert interval_over_questions(lambda numbers: next(draws), 5, resamples=19) == [1.0, 2.0]
    assert [rounded_or_none(value) for value in (math.nan, 0.123456)] == [None, 0.1235]


def test_means_and_leads_over_questions_by_hand():
    first, other = [0.9, 0.5, 0.4, 0.8], [0.5, 0.5, 0.3, 0.1]
    found = lead_over_questions(first, other)
    assert found.value == 0.3
    assert 0 <= found.interval[0] < 0.3 < found.interval[1] <= 0.7
    assert lead_over_questions(other, first).interval == [-found.interval[1], -found.interval[0]]
    assert mean_over_questions(first).value == 0.65
    one_by_one = interval_over_questions(lambda numbers: float(np.array(first)[numbers].mean()), 4)
    assert mean_over_questions(first).interval == pytest.approx(one_by_one, abs=0.01)
    assert lead_over_questions([0.5], [0.25]) == Statistic(0.25)
    assert lead_over_questions([], []) == Statistic(None)


def test_rank_correlations_are_scipys_in_every_resample():
    random = np.random.default_rng(7)
    values = random.integers(0, 4, size=30)  # with ties
    others = values + random.normal(scale=2.0, size=30).round()
    found = rank_correlation(values, others, resamples=200)
    for name, theirs in (("kendall", stats.kendalltau), ("spearman", stats.spearmanr)):
        assert found[name].value == pytest.approx(theirs(values, others).statistic, abs=1e-4)
        slow = interval_over_questions(
            lambda at, theirs=theirs: theirs(values[at], others[at]).statistic, 30, resamples=200
        )
        assert found[name].interval == pytest.approx(slow, abs=1e-4)


def test_a_rank_correlation_by_hand():
    # of the six pairs four agree and one does not; one is tied on the left
    found = rank_correlation([1.0, 1.0, 2.0, 3.0], [5.0, 6.0, 8.0, 7.0], resamples=9)
    assert found["kendall"].value == pytest.approx((4 - 1) / math.sqrt(5 * 6), abs=1e-4)


def test_the_order_of_systems_is_kendalls_tau_of_their_means():
    generator = np.random.default_rng(5)
    quality = np.array([0.1, 0.3, 0.3, 0.7, 0.9])
    values, others = (generator.integers(0, 4, (5, 60)) + 4 * quality[:, None] for _ in range(2))
    values[1] = values[2][::-1]  # equal means, summed in another order
    found = order_correlation(values, others, resamples=200)
    expected = stats.kendalltau(values.mean(axis=1).round(9), others.mean(axis=1).round(9)).statistic
    assert found.value == pytest.approx(expected, abs=1e-4)
    low, high = found.interval
    assert low < high <= 1
    assert low <= expected <= high


def test_the_interval_of_an_order_is_over_questions():
    values = np.array([[0.0, 1.0], [1.0, 0.0]])  # either system leads on one question
    found = order_correlation(values, values, resamples=500)
    assert found == Statistic(None)  # both means are the same
    found = order_correlation(values + np.array([[0.0], [0.5]]), np.array([[0.0, 0.0], [1.0, 1.0]]), resamples=500)
    assert (found.value, found.interval) == (1.0, [-1.0, 1.0])


def test_correlations_that_are_not_defined():
    nothing = Statistic(None)
    for values, others in (([1.0, 1.0], [0.0, 1.0]), ([], [])):
        assert rank_correlation(values, others) == {"kendall": nothing, "spearman": nothing}
    for values in ([[1.0, 2.0]], np.zeros((3, 0))):  # one system; no question
        assert order_correlation(values, values) == nothing


def test_unknown_values_leave_their_contexts_out():
    random = np.random.default_rng(8)
    target = random.integers(0, 2, 12).astype(float)
    owner = [at // 3 for at in range(12)]
    whole = target + random.normal(size=12)
    holes = whole + random.normal(size=12)
    holes[[1, 4, 5]] = math.nan
    known = ~np.isnan(holes)
    expected = stats.pearsonr(holes[known], target[known])
    assert pearson(holes, target) == pytest.approx(expected.statistic)
    assert pearson_p_value(holes, target) == pytest.approx(expected.pvalue)
    low, high = statistic_over_questions(owner, lambda at: pearson(holes[at], target[at])).interval
    assert low < expected.statistic < high
    constant, target = np.array([1.0, 1.0, math.nan]), np.array([0.0, 1.0, 0.5])
    assert statistic_over_questions([0, 1, 1], lambda at: pearson(constant[at], target[at])) == Statistic(None)
    assert pearson_p_value(constant, target) is None
