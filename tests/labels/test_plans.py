"""Plans of sets: which contexts they measure, and Shapley values by hand, by axioms and by a slow loop."""

import itertools
import math
import random
import statistics

import pytest

from seper_reward.labels.plans import (
    SetOptions,
    make_plan,
    permutations,
    prefixes,
    shapley_values,
    smallest_sufficient,
)
from seper_reward.types import Estimate


def worth(value):
    return Estimate(value, 0.0, value, value)


def carried_out(options, values):
    """Run a plan on what sets of passages are worth, by frozenset; return its groups and what it labels."""
    passages = 1 + max(map(max, filter(None, values)))
    measured = {(): worth(values[frozenset()])}
    measured |= {(place,): worth(values[frozenset([place])]) for place in range(passages)}
    plan, groups = make_plan(options, passages, measured, "seed"), []
    while True:
        try:
            new = next(plan)
        except StopIteration as end:
            return groups, end.value
        groups += new
        measured |= {context: worth(values[frozenset(context)]) for group in new for context in group}


def additive(*gains):
    places = range(len(gains))
    return {
        frozenset(chosen): sum(gains[place] for place in chosen)
        for size in range(len(gains) + 1)
        for chosen in itertools.combinations(places, size)
    }


def test_conditional_gives_the_best_passages_to_each_other_one():
    groups, labelled = carried_out(SetOptions(given_top=2), additive(0.1, 0.5, 0.3, 0.0))
    # 1 is the best and 2 the next; the pair of both is measured once, in the order that was first
    assert groups == [[(1, 0), (1, 2), (1, 3)], [(2, 0), (2, 3)]]
    assert labelled == [((1,), 0), ((1,), 2), ((1,), 3), ((2,), 0), ((2,), 1), ((2,), 3)]


def test_depth_three_goes_on_from_the_best_pairs():
    groups, labelled = carried_out(SetOptions(given_top=1, depth=3), additive(0.1, 0.5, 0.3, 0.0))
    assert groups == [[(1, 0), (1, 2), (1, 3)], [(1, 2, 0), (1, 2, 3)]]
    assert labelled[3:] == [((1, 2), 0), ((1, 2), 3)]


def test_pairs_and_leave_one_out():
    values = additive(0.1, 0.5, 0.3)
    groups, labelled = carried_out(SetOptions("pairs"), values)
    assert groups == [[(0, 1), (0, 2)], [(1, 2)]]
    assert set(labelled) == {((one,), other) for one, other in itertools.permutations(range(3), 2)}
    groups, labelled = carried_out(SetOptions("leave_one_out"), values)
    assert groups == [[(0, 1, 2), (1, 2), (0, 2), (0, 1)]]
    assert labelled == [((1, 2), 0), ((0, 2), 1), ((0, 1), 2)]


@pytest.mark.parametrize("plan", ["conditional", "pairs", "leave_one_out", "shapley"])
def test_a_single_passage_has_no_sets(plan):
    groups, labelled = carried_out(SetOptions(plan), additive(0.4))
    assert (list(itertools.chain(*groups)), labelled) == ([], [])


def test_shapley_shares_sets_among_orders():
    groups, labelled = carried_out(SetOptions("shapley", permutations=6), additive(0.1, 0.5, 0.3))
    assert groups == [[(0, 1), (0, 1, 2), (0, 2), (1, 2)]]  # six orders, four new sets
    assert len(labelled) == len(set(labelled)) == 9
    orders = permutations(5, 8, "seed")
    assert len(set(orders)) == 8
    assert orders == permutations(5, 8, "seed") != permutations(5, 8, "other")


def test_shapley_values_by_hand():
    # the second passage helps only behind the first: each earns half of what both do together
    values = {(): 0.0, (0,): 0.0, (1,): 0.0, (0, 1): 1.0}
    errors = {(): 0.1, (0,): 0.2, (1,): 0.3, (0, 1): 0.4}

    def gain(before, passage):
        return values[tuple(sorted((*before, passage)))] - values[before]

    one, other = shapley_values(list(itertools.permutations(range(2))), gain, errors.__getitem__)
    assert (one.value, other.value) == (0.5, 0.5)
    # (v(0) - v() + v(01) - v(1)) / 2
    assert one.std_error == pytest.approx(math.sqrt(0.1**2 + 0.2**2 + 0.3**2 + 0.4**2) / 2)
    assert one.high - one.value == pytest.approx(1.96 * one.std_error, abs=1e-4)


def test_shapley_values_against_the_slow_sum_over_sub_sets():
    draw = random.Random(3)
    passages = 4
    values = {
        chosen: draw.random() for size in range(passages + 1) for chosen in itertools.combinations(range(4), size)
    }

    def gain(before, passage):
        return values[tuple(sorted((*before, passage)))] - values[before]

    found = shapley_values(permutations(passages, 24, "x"), gain, lambda context: 0.0)
    for passage in range(passages):
        others = [place for place in range(passages) if place != passage]
        slow = sum(
            math.factorial(size) * math.factorial(passages - size - 1) / math.factorial(passages)
            * gain(chosen, passage)
            for size in range(passages)
            for chosen in itertools.combinations(others, size)
        )  # fmt: skip
        assert found[passage].value == pytest.approx(slow)
    whole = values[0, 1, 2, 3] - values[()]
    assert sum(each.value for each in found) == pytest.approx(whole)  # efficiency
    sampled = shapley_values(permutations(passages, 6, "x"), gain, lambda context: 0.0)
    assert sum(each.value for each in sampled) == pytest.approx(whole)  # of every order, so of every sample


def test_intervals_of_sampled_orders_hold_the_value():
    draw = random.Random(5)
    values = {
        frozenset(chosen): draw.random() for size in range(6) for chosen in itertools.combinations(range(5), size)
    }

    def gain(before, passage):
        return values[frozenset((*before, passage))] - values[frozenset(before)]

    truth = shapley_values(permutations(5, 120, "x"), gain, lambda context: 0.0)
    held = [
        one.low <= true.value <= one.high
        for seed in range(60)
        for one, true in zip(
            shapley_values(permutations(5, 12, str(seed)), gain, lambda context: 0.0), truth, strict=True
        )
    ]
    assert statistics.fmean(held) > 0.9


def test_prefixes_stand_in_the_questions_order():
    assert prefixes((2, 0, 1)) == [((), 2), ((2,), 0), ((0, 2), 1)]


def test_the_smallest_sufficient_set():
    measured = {(): worth(0.0), (0,): worth(0.5), (1,): worth(0.86), (2,): worth(0.87), (0, 1): worth(0.9)}
    assert smallest_sufficient(measured, exactly) == (2,)
    assert smallest_sufficient(measured, exactly, tolerance=0.01) == (0, 1)
    assert smallest_sufficient({(): worth(0.0), (0,): worth(0.02)}, exactly) == ()  # nothing helps, nothing is needed


def exactly(context):
    return 0.0


def test_what_errors_explain_needs_no_second_passage():
    """One passage is worth .6, alone and in every pair, some of which look better by chance."""
    noise = random.Random(0)
    for error in (0.03, 0.1):
        right = 0
        for _ in range(300):
            contexts = [(), *((at,) for at in range(6)), *((0, at) for at in range(1, 6))]
            measured = {each: worth((0.6 if 0 in each else 0.0) + noise.gauss(0, error)) for each in contexts}
            right += smallest_sufficient(measured, lambda context, error=error: error) == (0,)
        assert right > 220


def test_errors_leave_what_is_plainly_better():
    measured = {(): worth(0.0), (0,): worth(0.3), (0, 1): worth(0.9)}
    assert smallest_sufficient(measured, lambda context: 0.1) == (0, 1)
    assert smallest_sufficient(measured, lambda context: 0.25) == (0,)


@pytest.mark.parametrize(
    "wrong", [{"plan": "triples"}, {"given_top": 0}, {"depth": 4}, {"permutations": 1}, {"both_orders": 1.5}]
)
def test_options_out_of_range(wrong):
    with pytest.raises(ValueError, match=r"expected|must be"):
        SetOptions(**wrong)
