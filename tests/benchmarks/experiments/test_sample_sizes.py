"""Sample sizes, against the usual tables and simulations."""

import numpy as np
import pytest
from scipy import stats

from tests.benchmarks.experiments.sample_sizes import questions_for_lead


@pytest.mark.parametrize(("effect", "questions"), [(0.2, 199), (0.5, 34), (0.8, 15)])
def test_questions_for_a_lead_are_those_of_the_usual_tables(effect, questions):
    # matched pairs, two-sided, alpha .05, power .8: G*Power 3.1
    assert questions_for_lead(1.0, effect) == questions
    assert questions_for_lead(0.3, 0.3 * effect) == questions


def test_so_many_questions_show_the_lead_in_80_percent():
    random, sd, lead = np.random.default_rng(0), 0.3, 0.1
    questions = questions_for_lead(sd, lead)
    p_values = stats.ttest_1samp(random.normal(lead, sd, (20_000, questions)), 0.0, axis=1).pvalue
    assert (p_values < 0.05).mean() == pytest.approx(0.8, abs=0.01)
    fewer = stats.ttest_1samp(random.normal(lead, sd, (20_000, questions // 2)), 0.0, axis=1).pvalue
    assert (fewer < 0.05).mean() < 0.6


def test_a_great_lead_needs_three_questions():
    # with two, the power is .49: noncentral t with 1 degree of freedom and shift 8.49 beyond 12.7
    assert questions_for_lead(0.005, 0.03) == 3


def test_more_power_takes_more_questions():
    found = [questions_for_lead(0.3, 0.1, power=power) for power in (0.1, 0.5, 0.8, 0.95)]
    assert found == sorted(set(found))
    assert questions_for_lead(0.3, 0.1, alpha=0.01) > questions_for_lead(0.3, 0.1)
    assert questions_for_lead(0.0, 0.1) == questions_for_lead(1e-6, 1.0) == 2
    for wrong in ({"lead": 0.0}, {"paired_sd": -1.0}, {"power": 1.0}, {"power": 0.01}, {"alpha": 0.0}):
        with pytest.raises(ValueError, match="expected paired_sd >= 0, lead > 0"):
            questions_for_lead(**{"paired_sd": 0.3, "lead": 0.1, **wrong})
