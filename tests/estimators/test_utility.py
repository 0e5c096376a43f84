"""ΔSePer from beliefs."""

import pytest

from seper_reward import Belief
from seper_reward.estimators.utility import utility


def test_difference_and_its_error_by_hand():
    judged = utility(Belief(0.7, 0.6, 0.03), Belief(0.2, 0.5, 0.04), "p1")
    assert judged.delta_seper == pytest.approx(0.5)
    assert judged.delta_seper_hard == pytest.approx(0.1)
    assert judged.std_error == pytest.approx(0.05)  # 3-4-5
    assert (judged.seper, judged.baseline_seper, judged.passage_id) == (0.7, 0.2, "p1")


def test_a_misleading_passage_is_negative():
    assert utility(Belief(0.1, 0.0, 0.0), Belief(0.9, 1.0, 0.0)).delta_seper == pytest.approx(-0.8)


def test_nothing_moved_against_itself():
    belief = Belief(0.4, 0.4, 0.1)
    assert (utility(belief, belief).delta_seper, utility(belief, belief).std_error) == (0.0, 0.0)
