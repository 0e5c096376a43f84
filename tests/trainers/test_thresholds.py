"""Risk-coverage curves by hand and against a slow loop, and thresholds with ties."""

import math
from itertools import pairwise, permutations

import numpy as np
import pytest

from trainers.thresholds import curve, gated

# the passage helps the first question by .6 and the third by .1; it harms the second by .5
WITHOUT, WITH = (0.1, 0.9, 0.5), (0.7, 0.4, 0.6)


def test_a_curve_by_hand():
    found = curve((0.8, -0.4, 0.2), WITHOUT, WITH)  # order: first, third, second
    assert found.coverage == pytest.approx((0.0, 1 / 3, 2 / 3, 1.0))
    assert found.value == pytest.approx((1.5 / 3, 2.1 / 3, 2.2 / 3, 1.7 / 3))
    assert found.thresholds == pytest.approx((math.inf, 0.5, -0.1, -math.inf))
    assert found.area == pytest.approx((1.5 + 2.1 + 2.1 + 2.2 + 2.2 + 1.7) / 3 / 6)
    assert found.best_threshold() == pytest.approx(-0.1)


def test_a_threshold_is_applied_above_not_at():
    assert gated((0.8, -0.4, 0.2), WITHOUT, WITH, 0.2) == [0.7, 0.9, 0.5]
    assert gated((0.8, -0.4, 0.2), WITHOUT, WITH, 0.19) == [0.7, 0.9, 0.6]
    assert gated((0.8, -0.4, 0.2), WITHOUT, WITH, math.inf) == [0.1, 0.9, 0.5]


def test_equal_scores_are_as_by_lot():
    """A slow loop: the mean area over all orders of the questions whose scores are equal."""
    random = np.random.default_rng(4)
    without, after = random.random(6), random.random(6)
    scores = (0.5, 0.2, 0.2, 0.2, 0.9, -1.0)
    areas = []
    for tied in permutations((1, 2, 3)):
        order = [4, 0, *tied, 5]
        values = [np.mean([(after if order.index(q) < n else without)[q] for q in range(6)]) for n in range(7)]
        areas.append(np.mean([(left + right) / 2 for left, right in pairwise(values)]))
    found = curve(scores, without, after)
    assert found.area == pytest.approx(np.mean(areas))
    assert found.coverage == pytest.approx((0, 1 / 6, 2 / 6, 5 / 6, 1))


def test_a_gate_by_lot_has_the_mean_of_never_and_always():
    found = curve((0.3, 0.3, 0.3), WITHOUT, WITH)
    assert found.area == pytest.approx((1.5 + 1.7) / 6)
    assert found.best_threshold() == -math.inf  # always is better here


def test_of_equal_thresholds_the_middle_one():
    # a passage changes only the first and the last question: three shares between are equally good
    found = curve((5.0, 4.0, 3.0, 1.0), (0.0, 0.3, 0.3, 0.9), (0.7, 0.3, 0.3, 0.2))
    assert found.thresholds[1:4] == (4.5, 3.5, 2.0)
    assert found.best_threshold() == 3.5
    # sums that are equal but for rounding are equal
    assert curve((3.0, 2.0, 1.0), (0.1, 0.2, 0.3), (0.3, 0.2, 0.1)).best_threshold() == 1.5


def test_a_passage_that_only_harms_is_never_used():
    assert curve((1.0, 2.0), (0.9, 0.8), (0.1, 0.2)).best_threshold() == math.inf


def test_what_is_no_curve():
    with pytest.raises(ValueError, match="at least one, got 0, 0 and 0"):
        curve((), (), ())
    with pytest.raises(ValueError, match="got 1, 2 and 1"):
        curve((1.0,), (0.1, 0.2), (0.3,))
    with pytest.raises(ValueError, match="got NaN"):
        curve((math.nan,), (0.1,), (0.3,))
