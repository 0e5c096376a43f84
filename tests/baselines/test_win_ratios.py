"""Win ratios and errors by hand, and their identity."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seper_reward.baselines.win_ratios import (
    Errors,
    decompose_errors,
    error_win_ratios,
    mean_win_and_lose_ratios,
    relative_win_ratios,
    upper_bounds,
)

RIGHT = [
    [1, 1, 0, 0, 1],
    [1, 0, 0, 1, 0],
    [1, 1, 1, 1, 1],
]


def test_relative_win_ratios_by_hand():
    ratios = relative_win_ratios(RIGHT)
    # the first is wrong twice, of which the second has one right; the second is wrong three times
    assert ratios[1, 0] == 1 / 2
    assert ratios[0, 1] == 2 / 3
    assert ratios[2, 0] == ratios[2, 1] == 1.0
    assert math.isnan(ratios[0, 2])  # the third is never wrong
    assert all(math.isnan(ratios[at, at]) for at in range(3))
    wins, loses = mean_win_and_lose_ratios(RIGHT)
    assert wins.tolist() == pytest.approx([2 / 3, 1 / 2, 1.0])  # over those that are wrong at all
    assert loses[:2].tolist() == pytest.approx([(1 / 2 + 1) / 2, (2 / 3 + 1) / 2])
    assert math.isnan(loses[2])
    assert math.isnan(mean_win_and_lose_ratios([[1, 0]])[0][0])  # there is no other source


SOURCES = st.tuples(*[st.booleans()] * 4)  # right, held, grounded, short


@given(st.lists(st.tuples(SOURCES, SOURCES, SOURCES), min_size=1, max_size=12))
def test_error_win_ratios_are_a_slow_loops(rows):
    """Eq. 5 question by question: Σ (1 - I_i) I_j I* / Σ I_j I* for each kind of error (Appendix B)."""
    errors = {  # whether a source makes the error, and whether its question counts for it
        "retriever error": lambda right, held, grounded: (not held, True),
        "hallucination": lambda right, held, grounded: (not grounded, True),
        "extraction error": lambda right, held, grounded: (not right and grounded, held),
        "lucky guess": lambda right, held, grounded: (right, not held and not grounded),
    }
    arrays = [[[source[at] for source in row] for row in rows] for at in range(4)]
    found = error_win_ratios(*(list(zip(*array, strict=True)) for array in arrays))
    for name, error in errors.items():
        for i, j in itertools.permutations(range(3), 2):
            wins = made = 0
            for row in rows:
                (mine, counts), (theirs, counts_for_them) = error(*row[i][:3]), error(*row[j][:3])
                if all(source[3] for source in row) and counts and counts_for_them and theirs:
                    made += 1
                    wins += not mine
            if made:
                assert found[name][i, j] == pytest.approx(wins / made)
            else:
                assert math.isnan(found[name][i, j])


@given(st.integers(1, 4), st.lists(st.lists(st.booleans(), min_size=4, max_size=4), min_size=1, max_size=3))
def test_upper_bounds_are_means_over_pools(size, rows):
    right = [list(each) for each in zip(*rows, strict=True)]  # (4, Q)
    pools = list(itertools.combinations(right, size))
    expected = [sum(any(source[at] for source in pool) for pool in pools) / len(pools) for at in range(len(rows))]
    assert upper_bounds(right)[size - 1].tolist() == pytest.approx(expected)


def test_decompose_errors_by_hand():
    right = [True, True, False, False, False, True, False, False]
    held = [True, True, True, True, True, False, False, False]
    grounded = [True, False, True, True, False, False, True, False]
    found = decompose_errors(right, held, grounded)
    assert found == Errors(
        wrong=5 / 8, retriever=3 / 8, hallucination=1 / 5, extraction=2 / 5, ungrounded=2 / 3, lucky=1 / 2
    )


def identity(errors):
    with_answer = (1 - errors.retriever) * (errors.hallucination + errors.extraction)
    return with_answer + errors.retriever * (1 - errors.lucky * errors.ungrounded)


@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.booleans()), min_size=1, max_size=12))
def test_decompose_errors_adds_up(rows):
    possible = [row for row in rows if not (row[0] and row[2] and not row[1])]
    if possible:
        errors = decompose_errors(*zip(*possible, strict=True))
        assert identity(errors) == pytest.approx(errors.wrong)
