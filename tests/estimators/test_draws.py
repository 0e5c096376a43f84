"""Weights by mass, standard errors and intervals: by hand, by slow loops, and by what they promise over many draws."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta

from seper_reward.estimators.draws import (
    difference,
    drawn_by_mass,
    drawn_by_weight,
    estimate,
    has_mass,
)
from seper_reward.types import Estimate, Leaf, Responses


def sampled(leaves, probs):
    """Return draws of the leaves named by letters, each a single token with its probability."""
    log_probs = [math.log(probs[leaf]) for leaf in leaves]
    return Responses(
        texts=tuple(leaves),
        token_log_probs=tuple(torch.tensor([log_prob]) for log_prob in log_probs),
        token_ids=tuple((ord(leaf),) for leaf in leaves),
        finished=(True,) * len(leaves),
        draw_log_probs=tuple(log_probs),
    )


PROBS = {"a": 0.5, "b": 0.2, "c": 0.1}  # and .2 that no test draws


def test_drawn_by_mass_singles_stand_for_the_unseen():
    draws = drawn_by_mass(sampled("abaca", PROBS))
    assert draws.responses.texts == ("a", "b", "c")
    assert draws.counts.tolist() == [3, 1, 1]
    assert draws.unseen_mass == pytest.approx(0.2)
    assert draws.weights.tolist() == pytest.approx([0.5, 0.2 + 0.1, 0.1 + 0.1])
    assert draws.stand_ins.tolist() == [0.0, 1.0, 1.0]


def test_drawn_by_mass_without_singles():
    draws = drawn_by_mass(sampled("abab", PROBS))
    assert draws.weights.tolist() == pytest.approx([0.5 / 0.7, 0.2 / 0.7])
    found = estimate(draws, torch.tensor([1.0, 0.0]))
    assert found.value == pytest.approx(5 / 7)
    # nothing is known of .3: it may support the answer as a whole, or not at all
    assert 0.5 <= found.low < 0.51 < 0.79 < found.high <= 0.8


def test_estimate_by_hand():
    found = estimate(drawn_by_mass(sampled("abaca", PROBS)), torch.tensor([1.0, 0.0, 1.0]))
    assert found.value == pytest.approx(0.5 + 0.2)
    # one single supports, one does not: Beta(1.5, 1.5) for .2 of unseen mass
    assert found.std_error == pytest.approx(0.2 * math.sqrt(1 / 16))
    low, high = beta.ppf([0.025, 0.975], 1.5, 1.5)
    assert (found.low, found.high) == pytest.approx((0.6 + 0.2 * low, 0.6 + 0.2 * high))


def test_estimate_by_weight_is_the_interval_of_jeffreys():
    draws = drawn_by_weight(sampled("aabbbbbbbb", PROBS), torch.full((10,), 0.1))
    found = estimate(draws, torch.tensor([1.0, 0.0]))
    assert found.value == pytest.approx(0.2)
    # Brown, Cai and DasGupta 2001, section 3.1.3
    assert (found.low, found.high) == pytest.approx((beta.ppf(0.025, 2.5, 8.5), beta.ppf(0.975, 2.5, 8.5)))
    assert found.std_error == pytest.approx(math.sqrt(2.5 * 8.5 / 11**2 * 11 / 10**2))


def test_drawn_by_weight_unequal_weights_are_fewer_draws():
    draws = drawn_by_weight(sampled("abc", PROBS), torch.tensor([0.5, 0.3, 0.2]))
    assert draws.weights.tolist() == pytest.approx([0.5, 0.3, 0.2])
    assert float(draws.stand_ins.sum()) == pytest.approx(1 / (0.25 + 0.09 + 0.04))
    assert float(draws.seen.sum()) == 0.0


def test_drawn_by_mass_scales_more_than_all_mass():
    draws = drawn_by_mass(sampled("ab", {"a": 0.76, "b": 0.26}))
    assert draws.unseen_mass == pytest.approx(0.0, abs=1e-12)
    assert draws.weights.tolist() == pytest.approx([0.76 / 1.02, 0.26 / 1.02])


def test_difference_by_hand():
    found = difference(Estimate(0.7, 0.03, 0.6, 0.75), Estimate(0.2, 0.04, 0.1, 0.4))
    assert found.value == pytest.approx(0.5)
    assert found.std_error == pytest.approx(0.05)
    assert found.low == pytest.approx(0.5 - math.hypot(0.1, 0.2))
    assert found.high == pytest.approx(0.5 + math.hypot(0.05, 0.1))


def test_has_mass_needs_token_ids():
    assert not has_mass(Responses(("a", "b"), (torch.zeros(1),) * 2))
    assert not has_mass(Responses(("a",), (torch.zeros(1),), ((1,),), (True,)))
    draws = drawn_by_weight(Responses(("a", "b", "a"), (torch.zeros(1),) * 3), torch.full((3,), 1 / 3))
    assert draws.counts.tolist() == [2, 1]


@st.composite
def samples(draw):
    weights = draw(st.lists(st.floats(0.01, 1.0), min_size=1, max_size=8))
    probs = {chr(97 + at): weight / sum(weights) for at, weight in enumerate(weights)}
    leaves = draw(st.lists(st.sampled_from(sorted(probs)), min_size=1, max_size=12))
    row = sampled(leaves, probs)
    distinct = len(set(leaves))
    values = draw(st.lists(st.floats(0, 1), min_size=distinct, max_size=distinct))
    return row, torch.tensor(values, dtype=torch.float64)


@given(samples())
def test_estimate_keeps_its_bounds(case):
    row, values = case
    draws = drawn_by_mass(row)
    found = estimate(draws, values)
    known, unseen = float(draws.seen @ values), draws.unseen_mass
    assert float(draws.weights.sum()) == pytest.approx(1.0)
    for number in (found.low, found.value, found.high):
        assert known - 1e-9 <= number <= known + unseen + 1e-9
    assert found.low <= found.value <= found.high
    assert 0.0 <= found.std_error <= unseen / 2 + 1e-9


def test_drawn_by_mass_known_leaf_stands_for_nothing():
    leaf = Leaf("d", (ord("d"),), math.log(0.05), math.log(0.05), -1.0)
    row = replace(sampled("abaca", PROBS), known_leaves=(leaf,))
    draws = drawn_by_mass(row)
    assert draws.responses.texts == ("a", "b", "c", "d")
    assert draws.counts.tolist() == [3, 1, 1, 0]
    assert draws.unseen_mass == pytest.approx(0.15)
    assert draws.stand_ins.tolist() == [0.0, 1.0, 1.0, 0.0]
    assert draws.weights.tolist() == pytest.approx([0.5, 0.2 + 0.075, 0.1 + 0.075, 0.05])


def test_drawn_by_mass_known_leaf_with_several_ends():
    ids = ((1, 7), (1, 8), (2, 7), (1, 7), (3, 7))  # the last one is spelled otherwise
    probs = {(1, 7): 0.3, (1, 8): 0.1, (2, 7): 0.2, (3, 7): 0.1}
    log_probs = tuple(math.log(probs[each]) for each in ids)
    known = Leaf("a", (1,), math.log(0.45), math.log(0.45), -1.0), Leaf("x", (9,), -math.inf, -math.inf, -9.0)
    token_log_probs = tuple(torch.tensor([each]) for each in log_probs)
    row = Responses(("a", "a", "b", "a", "a"), token_log_probs, ids, (True,) * 5, log_probs, known_leaves=known)
    draws = drawn_by_mass(row)
    assert draws.responses.texts == ("a", "b", "a")
    assert draws.counts.tolist() == [3, 1, 1]
    assert draws.seen.tolist() == pytest.approx([0.45, 0.2, 0.1])
    assert draws.stand_ins.tolist() == [0.0, 1.0, 1.0]


def test_drawn_by_mass_known_leaf_that_was_not_drawn():
    leaf = Leaf("d", (ord("d"),), math.log(0.05), math.log(0.05), -1.0)
    draws = drawn_by_mass(replace(sampled("aa", PROBS), known_leaves=(leaf,)))
    assert draws.weights.tolist() == pytest.approx([0.95, 0.05])
    only_gold = Leaf("a", (), math.log(0.5), math.log(0.5), -1.0)
    draws = drawn_by_mass(replace(sampled("aabb", PROBS), known_leaves=(only_gold,)))
    assert draws.weights.tolist() == pytest.approx([0.5, 0.5])  # all that is unseen is taken for the like of b


def test_drawn_by_mass_of_impossible_draws():
    row = replace(sampled("ab", PROBS), draw_log_probs=(-9999.0, -9999.0))
    assert drawn_by_mass(row).weights.tolist() == [0.5, 0.5]
    twice = drawn_by_mass(replace(sampled("aa", PROBS), draw_log_probs=(-9999.0, -9999.0)))
    assert 0 <= estimate(twice, torch.ones(1)).std_error <= 0.5
