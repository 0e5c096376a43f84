"""Intervals over questions and seeds, by hand and against scipy's tests, and what has none."""

import math

import numpy as np
import pytest
from scipy import stats

from tests.benchmarks.experiments.seeds import interval_over_questions_and_seeds


def test_the_interval_over_questions_and_seeds_by_hand():
    trained = [[0.5, 0.7, 0.6], [0.7, 0.9, 0.8]]  # (S, Q)
    untrained = [0.4, 0.6, 0.8]
    # seeds: means .6 and .8, variance .02, squared error .01 with 1 degree of freedom; questions: leads .2, .2, -.1,
    # variance .03, squared error .01 with 2 degrees of freedom; together .0004 / (.0001 / 1 + .0001 / 2) of them
    half = stats.t.ppf(0.975, 8 / 3) * math.sqrt(0.02)
    found = interval_over_questions_and_seeds(trained, untrained)
    assert found == pytest.approx([0.1 - half, 0.1 + half], abs=1e-4)
    assert interval_over_questions_and_seeds(untrained, trained) == pytest.approx([-found[1], -found[0]])


def test_the_interval_is_welchs_where_questions_are_alike_and_the_paired_one_without_seeds():
    random = np.random.default_rng(3)
    one, two = random.normal(0.6, 0.03, 3), random.normal(0.5, 0.01, 4)
    welch = stats.ttest_ind(one, two, equal_var=False).confidence_interval()
    found = interval_over_questions_and_seeds(np.outer(one, np.ones(5)), np.outer(two, np.ones(5)))
    assert found == pytest.approx([welch.low, welch.high], abs=1e-4)
    first, other = random.normal(0.6, 0.1, 20), random.normal(0.5, 0.1, 20)
    paired = stats.ttest_rel(first, other).confidence_interval()
    assert interval_over_questions_and_seeds(first, other) == pytest.approx([paired.low, paired.high], abs=1e-4)


def test_what_has_no_interval_over_seeds():
    assert interval_over_questions_and_seeds([[0.5], [0.6]], [0.4]) is None  # one question
    assert interval_over_questions_and_seeds([[0.5, 0.6]], [0.4, 0.1]) is None  # one seed
    assert interval_over_questions_and_seeds([[0.5, 0.6]] * 2, [0.5, 0.6]) is None  # nothing varies
