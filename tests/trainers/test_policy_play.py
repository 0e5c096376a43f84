"""The tuned threshold by hand, against a slow loop, and with ties."""

import math

import numpy as np
import pytest

from trainers.policy_play import best_threshold

# a search helps the first question by .6 and the third by .1; it harms the second by .5
WITHOUT, SEARCHING = (0.1, 0.9, 0.5), (0.7, 0.4, 0.6)


def test_by_hand():
    # searching for the first question gives 2.1, also for the third 2.2, for all 1.7
    assert best_threshold((0.8, -0.4, 0.2), WITHOUT, SEARCHING) == pytest.approx(-0.1)


def test_no_other_threshold_is_better():
    random = np.random.default_rng(4)
    for _ in range(20):
        scores, without, searching = random.integers(0, 4, 6) / 4, random.random(6), random.random(6)

        def reward(limit, rows=(scores, without, searching)):
            return sum(after if score > limit else before for score, before, after in zip(*rows, strict=True))

        found = best_threshold(scores, without, searching)
        assert reward(found) == pytest.approx(max(map(reward, (-1, 0.1, 0.3, 0.6, 2))))


def test_of_equal_scores_all_search_or_none():
    assert best_threshold((0.3, 0.3, 0.3), WITHOUT, SEARCHING) == -math.inf  # always is better here


def test_of_equal_thresholds_the_middle_one():
    # a search changes only the first and the last question: three thresholds between are equally good
    assert best_threshold((5.0, 4.0, 3.0, 1.0), (0.0, 0.3, 0.3, 0.9), (0.7, 0.3, 0.3, 0.2)) == 3.5
    # sums that are equal but for rounding are equal
    assert best_threshold((3.0, 2.0, 1.0), (0.1, 0.2, 0.3), (0.3, 0.2, 0.1)) == 1.5


def test_a_search_that_only_harms_is_never_made():
    assert best_threshold((1.0, 2.0), (0.9, 0.8), (0.1, 0.2)) == math.inf


def test_bad_input():
    with pytest.raises(ValueError, match="at least one, got 0, 0 and 0"):
        best_threshold((), (), ())
    with pytest.raises(ValueError, match="got 1, 2 and 1"):
        best_threshold((1.0,), (0.1, 0.2), (0.3,))
    with pytest.raises(ValueError, match="got NaN"):
        best_threshold((math.nan,), (0.1,), (0.3,))
