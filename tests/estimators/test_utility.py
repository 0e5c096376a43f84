"""ΔSePer from beliefs."""

import pytest

from seper_reward import Belief
from seper_reward.estimators.utility import utility
from seper_reward.types import Estimate


def believed(soft, hard=0.0, error=0.0):
    """Return a belief whose intervals are two standard errors wide on both sides."""
    estimates = [Estimate(value, error, value - 2 * error, value + 2 * error) for value in (soft, hard)]
    return Belief(*estimates, log_odds=soft)


def test_difference_and_its_error_by_hand():
    judged = utility(believed(0.7, 0.6, 0.03), believed(0.2, 0.5, 0.04), "p1")
    assert judged.delta_seper == pytest.approx(0.5)
    assert judged.delta_seper_hard == pytest.approx(0.1)
    assert judged.std_error == judged.hard.std_error == pytest.approx(0.05)  # 3-4-5
    assert (judged.soft.low, judged.soft.high) == pytest.approx((0.4, 0.6))
    assert (judged.hard.low, judged.hard.high) == pytest.approx((0.0, 0.2))
    assert judged.delta_log_odds == pytest.approx(0.5)
    assert (judged.seper, judged.baseline_seper, judged.passage_id) == (0.7, 0.2, "p1")


def test_a_misleading_passage_is_negative():
    assert utility(believed(0.1), believed(0.9, 1.0)).delta_seper == pytest.approx(-0.8)


def test_nothing_moved_against_itself():
    belief = believed(0.4, 0.4, 0.1)
    assert utility(belief, belief).soft == utility(belief, belief).hard == Estimate(0.0, 0.0, 0.0, 0.0)
