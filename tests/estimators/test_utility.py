"""ΔSePer from beliefs."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from seper_reward import Belief
from seper_reward.estimators.utility import answer_evidence, delta_belief, stated_log_prob, utility
from seper_reward.types import Estimate, Responses


def believed(soft, hard=0.0, error=0.0):
    """Return a belief whose intervals are two standard errors wide on both sides."""
    estimates = [Estimate(value, error, value - 2 * error, value + 2 * error) for value in (soft, hard)]
    return Belief(*estimates)


def test_utility_difference_and_error_by_hand():
    judged = utility(believed(0.7, 0.6, 0.03), believed(0.2, 0.5, 0.04), "p1")
    assert judged.delta_seper == pytest.approx(0.5)
    assert judged.delta_seper_hard == pytest.approx(0.1)
    assert judged.std_error == judged.hard.std_error == pytest.approx(0.05)  # 3-4-5
    assert (judged.soft.low, judged.soft.high) == pytest.approx((0.4, 0.6))
    assert (judged.hard.low, judged.hard.high) == pytest.approx((0.0, 0.2))
    assert (judged.seper, judged.baseline_seper, judged.passage_id) == (0.7, 0.2, "p1")


def test_utility_question_gain_by_hand():
    given, bare = (replace(believed(0.5), answer_log_prob=-1.0, question_log_prob=mean) for mean in (-1.25, -3.0))
    assert utility(given, bare).question_gain == pytest.approx(1.75)
    assert utility(bare, given).question_gain == pytest.approx(-1.75)
    moved = utility(replace(given, soft=Estimate(0.7, 0.03, 0.6, 0.8)), bare)  # belief 0.5 without the passage
    assert moved.seper_gain.value == pytest.approx(0.2 / 2 + 0.5 * 1.75)  # the answer is as likely as before
    assert moved.seper_gain.std_error == moved.delta_belief.std_error == pytest.approx(0.03 / 2)
    assert moved.seper_gain.low - moved.delta_belief.low == pytest.approx(0.5 * 1.75)
    assert moved.seper_gain.high - moved.delta_belief.high == pytest.approx(0.5 * 1.75)
    assert utility(given, believed(0.5)).seper_gain is None
    assert utility(replace(given, answer_log_prob=None), bare).seper_gain is None
    assert utility(given, believed(0.5)).question_gain is utility(believed(0.5), given).question_gain is None


def test_utility_against_itself_is_zero():
    belief = believed(0.4, 0.4, 0.1)
    assert utility(belief, belief).soft == utility(belief, belief).hard == Estimate(0.0, 0.0, 0.0, 0.0)


def test_delta_belief_by_hand():
    soft = Estimate(0.4, 0.1, 0.2, 0.5)
    found = delta_belief(soft, math.log(0.3), math.log(0.1))
    assert found.value == pytest.approx((0.4 + 0.2 / 0.4) / 2)
    assert (found.std_error, found.low, found.high) == pytest.approx((0.05, (0.2 + 0.5) / 2, (0.5 + 0.5) / 2))
    assert delta_belief(soft, math.log(0.1), math.log(0.1)).value == pytest.approx(0.2)
    assert delta_belief(soft, -800.0, 0.0).value == pytest.approx((0.4 - 1) / 2)
    assert delta_belief(soft, None, -1.0) is delta_belief(soft, -1.0, None) is None


def test_stated_log_prob_of_the_likeliest_supporting_response():
    rows = tuple(map(torch.tensor, ([-0.5, -0.1, -9.0], [-0.2, -9.0], [-0.01, -9.0], [-0.02], [-0.05])))
    sampled = Responses(
        ("15 April 1912", "1912", "1913", "in 191", "about 1912"), rows, finished=(True, True, True, False, True)
    )
    belief = replace(
        believed(0.5), answer_log_prob=-2.0, sampled=sampled, counts=(1, 1, 1, 1, 0),
        best_support=(1.0, 0.5, 0.4, 1.0, 1.0),
    )  # fmt: skip
    assert stated_log_prob(belief) == pytest.approx(
        -0.2
    )  # without the ends; the others differ, have no end or were not drawn
    first = replace(belief, best_support=(1.0, 0.0, 0.4, 1.0, 1.0))
    assert stated_log_prob(first) == pytest.approx((-0.5 - 0.1) / 2)
    assert stated_log_prob(replace(belief, best_support=(0.0,) * 5)) == -2.0
    assert stated_log_prob(replace(belief, answer_log_prob=-0.1)) == -0.1
    assert stated_log_prob(replace(belief, answer_log_prob=None)) is None
    bare = replace(believed(0.1), answer_log_prob=-2.0)
    assert utility(first, bare).delta_belief.value == pytest.approx((0.4 + math.tanh((-0.3 + 2.0) / 2)) / 2)


CONTEXTS = st.lists(st.tuples(st.floats(-1, 1), st.floats(-2000, 2000)), max_size=6)


@given(CONTEXTS)
def test_answer_evidence_has_the_beliefs_sign_and_is_no_greater(contexts):
    beliefs, gains = [belief for belief, _ in contexts], [gain for _, gain in contexts]
    evidence = answer_evidence(beliefs, gains)
    pairs = list(zip(evidence, beliefs, strict=True))
    assert all(abs(one) <= abs(belief) and one * belief >= 0 for one, belief in pairs)
    assert not contexts or any(one == belief for one, belief in pairs)  # of the best context


@given(CONTEXTS, st.integers(0, 5), st.floats(0, 0.5))
def test_answer_evidence_rises_with_the_belief_and_takes_from_the_others(contexts, place, more):
    beliefs, gains = [0.5, *(belief for belief, _ in contexts)], [0.2, *(gain for _, gain in contexts)]
    place %= len(beliefs)
    raised = [belief + more * (at == place) for at, belief in enumerate(beliefs)]
    before, after = answer_evidence(beliefs, gains), answer_evidence(raised, gains)
    for at, belief in enumerate(beliefs):
        if belief >= 0:
            assert after[at] >= before[at] - 1e-9 if at == place else after[at] <= before[at] + 1e-9
