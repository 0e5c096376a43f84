"""Do passages differ by more than chance: by hand, against a loop, and on simulated readers whose truth is known."""

import math

import pytest

from seper_reward.labels.heterogeneity import beyond_chance, heterogeneity_p_value, shrunk
from seper_reward.types import LabeledQuery, Passage, Query


def judged(labels, errors, baseline_error=0.0):
    """Return a labelled query; the errors are those of the passages' own beliefs."""
    query = Query("q", "Who?", ("Ann",), tuple(Passage(f"text {place}") for place in range(len(labels))))
    return LabeledQuery(
        query, tuple(labels), tuple(math.hypot(error, baseline_error) for error in errors), baseline_error
    )


ROW = judged([0.5, 0.1, 0.0], [0.1, 0.2, 0.1], baseline_error=0.3)  # mean .2, mean squared error .02


def test_heterogeneity_p_value_by_hand():
    # Q = (.09 + .01 + .04) / .02 = 7, and chi-square of 2 degrees of freedom exceeds it with probability exp(-7 / 2)
    assert heterogeneity_p_value(ROW) == pytest.approx(math.exp(-3.5))
    assert heterogeneity_p_value(judged([0.2, 0.2, 0.2], [0.1, 0.0, 0.1])) == 1.0


def test_shrunk_by_hand():
    # variance of the labels .07, so that .05 of it is real: they keep 5 / 7 of their distance to the mean
    assert shrunk(ROW).labels == pytest.approx([0.2 + 0.3 * 5 / 7, 0.2 - 0.1 * 5 / 7, 0.2 - 0.2 * 5 / 7])
    assert (shrunk(ROW).std_errors, shrunk(ROW).query) == (ROW.std_errors, ROW.query)
    assert shrunk(judged([0.1, 0.2], [0.3, 0.1])).labels == pytest.approx([0.15, 0.15])  # nothing of it is real


def test_shrunk_by_an_error_that_is_small_by_accident():
    agreeing = judged([0.0, 0.3, 0.1, 0.2], [0.0, 0.15, 0.1, 0.13])  # ten samples that agree by chance
    assert heterogeneity_p_value(agreeing) > 0.1
    assert max(shrunk(agreeing).labels) - min(shrunk(agreeing).labels) < 0.2


def test_beyond_chance_keeps_labels_without_errors_or_differences():
    for labels in ([1.0, 0.0, 0.0], [0.0, 0.0], [1.0], []):
        row = judged(labels, [0.0] * len(labels), baseline_error=0.2)
        assert beyond_chance([row], heterogeneity=0.01, shrink=True) == [row]
    single = judged([0.4], [0.1])
    assert heterogeneity_p_value(single) == 1.0
    assert shrunk(single) == single


def test_beyond_chance_filters_then_shrinks():
    alike = judged([0.1, 0.2], [0.3, 0.1])
    assert beyond_chance([ROW, alike]) == [ROW, alike]
    assert beyond_chance([ROW, alike], heterogeneity=0.04) == [ROW]
    assert beyond_chance([ROW, alike], heterogeneity=0.03) == []
    assert beyond_chance([ROW, alike], heterogeneity=0.04, shrink=True) == [shrunk(ROW)]
