"""The plan of sets: which contexts it measures, and the smallest set that suffices."""

import itertools
import random

import pytest

from seper_reward.labels.plans import SetOptions, plan_sets, smallest_sufficient
from seper_reward.types import Estimate


def worth(value):
    return Estimate(value, 0.0, value, value)


def carried_out(options, values):
    """Run a plan on what sets of passages are worth, by frozenset; return its groups and what it labels."""
    passages = 1 + max(map(max, filter(None, values)))
    measured = {(): worth(values[frozenset()])}
    measured |= {(place,): worth(values[frozenset([place])]) for place in range(passages)}
    plan, groups = plan_sets(options, passages, measured), []
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


def test_a_single_passage_has_no_sets():
    groups, labelled = carried_out(SetOptions(), additive(0.4))
    assert (list(itertools.chain(*groups)), labelled) == ([], [])


def test_the_smallest_sufficient_set():
    measured = {(): worth(0.0), (0,): worth(0.5), (1,): worth(0.86), (2,): worth(0.87), (0, 1): worth(0.9)}
    assert smallest_sufficient(measured, exactly) == (2,)
    assert smallest_sufficient({**measured, (0, 1): worth(0.93)}, exactly) == (0, 1)
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


@pytest.mark.parametrize("wrong", [{"given_top": 0}, {"depth": 4}])
def test_options_out_of_range(wrong):
    with pytest.raises(ValueError, match=r"expected|must be"):
        SetOptions(**wrong)
