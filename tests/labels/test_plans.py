"""Plans run side by side, which sets are labelled, and the smallest set that suffices."""

import random

import pytest

from seper_reward.labels.plans import run_plans, sets_to_label, smallest_sufficient
from seper_reward.options import SetOptions
from seper_reward.types import Estimate, UnscorableError


def worth(value):
    return Estimate(value, 0.0, value, value)


def test_sets_to_label_by_hand():
    measured = {(): worth(0.0), (0,): worth(0.1), (1,): worth(0.5), (2,): worth(0.3), (3,): worth(0.0)}
    labelled = [((1,), 0), ((1,), 2), ((1,), 3), ((2,), 0), ((2,), 1), ((2,), 3)]
    assert sets_to_label(measured, 1, 2) == labelled  # 1 is the best and 2 the next
    measured |= {(1, 0): worth(0.6), (1, 2): worth(0.8), (1, 3): worth(0.5)}
    assert sets_to_label(measured, 2, 1) == [((1, 2), 0), ((1, 2), 3)]
    assert sets_to_label({(): worth(0.0), (0,): worth(0.4)}, 1, 3) == []


def asking(name, log, fails=False):
    """A plan of two rounds, which asks for two things and then for one."""
    first = yield [f"{name}1", f"{name}2"]
    second = yield [f"{name}3"] if first else []
    log.append((first, second))
    if fails:
        raise UnscorableError("no result")
    return name


def test_run_plans_shares_batches_and_fails_alone():
    batches, log = [], []

    def answer(requests):
        batches.append(requests)
        return [UnscorableError("unknown") if each == "b2" else each.upper() for each in requests]

    found = run_plans([asking("a", log), asking("b", log), asking("c", log, fails=True)], answer)
    assert batches == [["a1", "a2", "b1", "b2", "c1", "c2"], ["a3", "c3"]]
    assert log == [(["A1", "A2"], ["A3"]), (["C1", "C2"], ["C3"])]
    assert (found[0], str(found[1]), str(found[2])) == ("a", "unknown", "no result")
    assert run_plans([], answer) == []


def test_smallest_sufficient_by_hand():
    measured = {(): worth(0.0), (0,): worth(0.5), (1,): worth(0.86), (2,): worth(0.87), (0, 1): worth(0.9)}
    assert smallest_sufficient(measured, exactly) == (2,)
    assert smallest_sufficient({**measured, (0, 1): worth(0.93)}, exactly) == (0, 1)
    assert smallest_sufficient({(): worth(0.0), (0,): worth(0.02)}, exactly) == ()  # nothing helps, nothing is needed


def exactly(context):
    return 0.0


def test_smallest_sufficient_needs_no_second_passage_by_chance():
    """One passage is worth .6, alone and in every pair, some of which look better by chance."""
    noise = random.Random(0)
    for error in (0.03, 0.1):
        right = 0
        for _ in range(300):
            contexts = [(), *((at,) for at in range(6)), *((0, at) for at in range(1, 6))]
            measured = {each: worth((0.6 if 0 in each else 0.0) + noise.gauss(0, error)) for each in contexts}
            right += smallest_sufficient(measured, lambda context, error=error: error) == (0,)
        assert right > 220


def test_smallest_sufficient_keeps_what_is_plainly_better():
    measured = {(): worth(0.0), (0,): worth(0.3), (0, 1): worth(0.9)}
    assert smallest_sufficient(measured, lambda context: 0.1) == (0, 1)
    assert smallest_sufficient(measured, lambda context: 0.25) == (0,)


@pytest.mark.parametrize("wrong", [{"given_top": 0}, {"depth": 4}])
def test_set_options_refuse(wrong):
    with pytest.raises(ValueError, match=r"expected|must be"):
        SetOptions(**wrong)
