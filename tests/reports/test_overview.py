"""What a folder of labels shows at a glance, by hand."""

import pytest

from seper_reward.labels.rows import labeled_query
from seper_reward.reports.overview import (
    by_grade,
    by_group_and_role,
    extremes,
    histogram,
    label_reliability,
    labeled_passages,
    of_positives,
    relevant_by_label,
)
from seper_reward.types import LabeledQuery, Passage, Query


def row(number, passages, group=None, seper=0.5):
    """Return a label row of ΔSePer; a passage is (label, half its interval, its other fields)."""
    return {
        "id": f"q{number}", "question": f"Who is {number}?", "answers": ["Ida"],
        **({"metadata": {"group": group}} if group else {}),
        "baseline": {"seper": seper, "std_error": 0.0},
        "passages": [
            {"passage_id": str(place), "title": "", "text": f"Text {place}.", "delta_seper": label,
             "std_error": half / 2, "low": label - half, "high": label + half, **fields}
            for place, (label, half, fields) in enumerate(passages)
        ],
    }  # fmt: skip


SUPPORTING, OTHER = {"metadata": {"role": "supporting"}}, {"metadata": {"role": "other"}}
ROWS = [
    row(0, [(0.8, 0.1, SUPPORTING), (0.0, 0.2, OTHER), (-0.4, 0.1, OTHER)], "known"),
    row(1, [(0.6, 0.5, SUPPORTING), (0.9, 0.5, SUPPORTING)], "known", seper=0.1),
    row(2, [(0.1, 0.02, {})], seper=0.2),
]


@pytest.fixture
def passages():
    return labeled_passages([labeled_query(each, "delta_seper") for each in ROWS], "delta_seper", margin=0.05)


def test_labeled_passages_by_hand(passages):
    verdicts = ["helpful", "unsure", "harmful", "helpful", "helpful", "helpful"]
    assert [each.verdict for each in passages] == verdicts
    assert [(each.question, each.place) for each in passages] == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (2, 0)]
    assert [each.role for each in passages] == ["supporting", "other", "other", "supporting", "supporting", "all"]
    assert [each.relevant for each in passages] == [True, False, False, True, True, None]
    assert [each.baseline for each in passages] == [0.5, 0.5, 0.5, 0.1, 0.1, 0.2]
    assert passages[-1].group == "all"
    # labels without errors are their own interval
    plain = {**row(0, [(1.0, 0.0, {"gold": 1.0})]), "labeler": "gold", "baseline": {}}
    for name in ("low", "high"):
        del plain["passages"][0][name]
    (passage,) = labeled_passages([labeled_query(plain, "gold")], "gold")
    assert (passage.low, passage.high, passage.verdict, passage.baseline) == (1.0, 1.0, "helpful", None)


def test_by_grade_and_of_positives_are_of_exported_labels():
    rows = [labeled_query(each, "delta_seper") for each in ROWS]
    measured = ((0.9, 0.6), (0.2, 0.6), (-0.5, 0.4))
    fields = [
        {"seper_gain": belief + gain / 2, "delta_belief": belief, "question_gain": gain} for belief, gain in measured
    ]
    exported = [labeled_query(row(0, [(0, 0, each) for each in fields]), "seper_gain"), *rows[1:]]
    passages = labeled_passages(rows, "delta_seper", exported=exported)
    assert [each.label for each in passages[:3]] == [0.8, 0.0, -0.4]
    # evidence .9, .2 · 3 / 10, whose passage knows the question but not the answer, and -.5 · exp(-.3) = -.37
    assert [(each.exported, each.grade, each.positive) for each in passages[:3]] == [
        (1.2, 3, True),
        (0.5, 0, False),
        (-0.3, -1, False),
    ]
    # with q1's .6 and .9, of which .6 is grade 2 and .9 grade 3; q2 has .1 and no mark
    assert by_grade(passages) == [
        {"grade": 3, "passages": 2, "judged": 2, "relevant": 2},
        {"grade": 2, "passages": 1, "judged": 1, "relevant": 1},
        {"grade": 0, "passages": 2, "judged": 1, "relevant": 0},
        {"grade": -1, "passages": 1, "judged": 1, "relevant": 0},
    ]
    assert of_positives(passages) == {"passages": 3, "judged": 3, "relevant": 3, "questions": 2}


def test_histogram_bins_hold_their_lower_bound(passages):
    bins = histogram(passages, [-0.5, 0.0, 0.1, 0.9])
    assert [dict(each) for each in bins] == [{"harmful": 1}, {"unsure": 1}, {"helpful": 4}]


def test_by_group_and_role_by_hand(passages):
    rows = by_group_and_role(passages)
    assert [(each["group"], each["role"]) for each in rows] == [
        ("known", "supporting"),
        ("known", "other"),
        ("all", "all"),
    ]
    supporting, other, alone = rows
    assert (supporting["questions"], supporting["passages"]) == (2, 3)
    assert supporting["mean"].value == pytest.approx((0.8 + 0.6 + 0.9) / 3, abs=1e-4)  # over passages, not questions
    # two questions: a resample is one of them alone (.8 or .75), or both
    assert supporting["mean"].interval == pytest.approx([0.75, 0.8])
    assert (supporting["helpful"], other["harmful"]) == (1.0, 0.5)
    assert other["mean"].value == pytest.approx(-0.2)
    assert alone["mean"].interval is None


def test_extremes_are_sure_and_of_different_questions(passages):
    # .8 ± .1 is before .9 ± .5, of which .6 ± .5 is of the same question
    assert [(each.question, each.place) for each in extremes(passages, "helpful", 5)] == [(0, 0), (1, 1), (2, 0)]
    assert [(each.question, each.place) for each in extremes(passages, "helpful", 2)] == [(0, 0), (1, 1)]
    assert [each.label for each in extremes(passages, "harmful", 5)] == [-0.4]


def labeled(labels, errors, baseline_error=0.0):
    passages = tuple(Passage(f"{place}") for place in range(len(labels)))
    return LabeledQuery(Query("q", "Who?", ("Ida",), passages), labels, errors, baseline_error)


def test_label_reliability_by_hand():
    # variances 0.18 (1 degree of freedom) and 0.01 (2): pooled (0.18 + 2 · 0.01) / 3; errors² without the baseline's
    # .03² are .04² twice and .1² three times
    found = label_reliability(
        [labeled((0.6, 0.0), (0.05, 0.05), 0.03), labeled((0.1, 0.0, 0.2), (0.1, 0.1, 0.1)), labeled((0.9,), (0.1,))]
    )
    noise = (2 * 0.04**2 + 3 * 0.1**2) / 5
    assert found["questions"] == 2
    assert found["reliability"] == pytest.approx(1 - noise / (0.2 / 3), abs=1e-4)
    # .6 > 2 · .04 · √2; .2 < 2 · .1 · √2
    assert found["sure_pairs"] == 0.25
    # Q = .18 / .04² is far beyond chi-square of 1 degree of freedom; 2 · .01 / .01 = 2 of 2 has p = .37
    assert found["differing"] == 0.5
    assert found["std_error"] == 0.1


def test_label_reliability_without_errors_or_signal():
    unknown = {"reliability": None, "sure_pairs": None, "differing": None, "std_error": None}
    assert label_reliability([labeled((1.0, 0.0), (0.0, 0.0))]) == {"questions": 1, **unknown}
    assert label_reliability([labeled((1.0,), (0.5,))]) == {"questions": 0, **unknown}
    assert label_reliability([labeled((0.1, 0.0), (0.3, 0.3))])["reliability"] == 0.0


def test_relevant_by_label_by_hand(passages):
    low, middle, high = relevant_by_label(passages, [-1.0, -0.1, 0.2, 1.0])
    assert (low["n"], low["share"], middle["n"], high["n"], high["share"]) == (1, 0.0, 1, 3, 1.0)  # q2 has no mark
    # Wilson's interval of 3 of 3: from n / (n + z²) to 1
    assert high["interval"] == pytest.approx([3 / (3 + 1.959964**2), 1.0], abs=1e-4)
