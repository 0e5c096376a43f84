"""Intervals over questions against a loop, and what has none."""

import math

import numpy as np
import pytest

from seper_reward.evaluation.statistics import interval_over_questions, rounded_or_none


def test_the_interval_of_a_mean_is_that_of_its_normal_approximation():
    values = np.random.default_rng(1).normal(0.3, 2.0, size=400)
    low, high = interval_over_questions(lambda numbers: float(values[numbers].mean()), 400)
    half = 1.96 * values.std() / math.sqrt(400)
    assert (low, high) == pytest.approx((values.mean() - half, values.mean() + half), abs=0.03)


def test_rows_of_one_question_are_taken_together():
    values = np.array([0.0, 0.0, 0.0, 1.0, 1.0, 1.0])
    of_question = [np.arange(3), np.arange(3, 6)]
    drawn = []

    def mean(numbers):
        drawn.append(values[np.concatenate([of_question[number] for number in numbers])].mean())
        return float(drawn[-1])

    assert interval_over_questions(mean, 2, resamples=200) == [0.0, 1.0]
    assert set(drawn) == {0.0, 0.5, 1.0}


def test_intervals_are_paired():
    values = np.random.default_rng(2).normal(size=50)
    one, other = [], []
    interval_over_questions(
        lambda numbers: one.append(tuple(numbers)) or float(values[numbers].mean()), 50, resamples=9
    )
    interval_over_questions(
        lambda numbers: other.append(tuple(numbers)) or float(values[numbers].sum()), 50, resamples=9
    )
    assert one == other


def test_what_has_no_interval():
    assert interval_over_questions(lambda numbers: 1.0, 1) is None
    assert interval_over_questions(lambda numbers: 1.0, 5, resamples=20) is None
    assert interval_over_questions(lambda numbers: math.nan, 5, resamples=20) is None
    draws = iter([math.nan, 1.0, 2.0] * 20)
    assert interval_over_questions(lambda numbers: next(draws), 5, resamples=19) == [1.0, 2.0]
    assert [rounded_or_none(value) for value in (math.nan, 0.123456)] == [None, 0.1235]
