"""From labels to what losses take: by hand, on uneven cases."""

import math
from dataclasses import replace

import pytest

from seper_reward.labels.targets import (
    by_marks,
    by_path,
    gains,
    grade,
    lists_to_learn,
    pairs,
    split_by_help,
    triplets,
)
from seper_reward.retrieval import next_hop
from seper_reward.types import Estimate, LabeledQuery, Passage, Query, SetLabel
from trainers.ranking.run import shortened
from trainers.ranking.tables import label_statistics


def judged(labels, errors=None, ids="abcdefgh", baseline_error=0.0):
    passages = tuple(Passage(f"text {name}", id=name) for name, _ in zip(ids, labels, strict=False))
    errors = tuple(errors or [0.0] * len(labels))
    return LabeledQuery(Query("q", "Who?", ("Ann",), passages), tuple(labels), errors, baseline_error)


def test_grade_by_hand():
    labels = [-1.0, -0.1, -0.09, 0.0, 0.09, 0.1, 0.39, 0.4, 0.69, 0.7, 1.0]  # thirds of [.1, 1]
    assert [grade(label, margin=0.1) for label in labels] == [-1, -1, 0, 0, 0, 1, 1, 2, 2, 3, 3]
    assert [grade(label) for label in (-0.3, -0.29, 0.29, 0.3, 0.54, 0.77)] == [-1, 0, 0, 1, 2, 3]
    assert [grade(label, margin=0.0) for label in (-0.01, 0.0, 0.01)] == [-1, 0, 1]
    assert grade(1.4) == 3  # the difference to a passage that harms
    assert grade(round(0.3 + 0.7 / 3, 6)) == 2  # as label rows have it


def test_pairs_by_hand():
    row = judged([0.1, 0.7, -0.3, 0.65])
    assert pairs(row) == [(1, 2), (1, 0), (1, 3), (3, 2), (3, 0), (0, 2)]
    assert pairs(row, margin=0.1) == [(1, 2), (1, 0), (3, 2), (3, 0), (0, 2)]
    assert pairs(judged([0.5, 0.5])) == []


def test_pairs_leave_out_chance():
    row = judged([0.6, 0.2, 0.0], errors=[0.3, 0.4, 0.1])
    # 1.5 standard errors: .75 of (0, 1), .474 of (0, 2), .618 of (1, 2)
    assert pairs(row, sigmas=1.5) == [(0, 2)]


def test_pairs_leave_out_the_baselines_error():
    row = judged([0.6, 0.2], errors=[0.5, 0.4], baseline_error=0.4)
    assert row.passage_errors == pytest.approx((0.3, 0.0))
    assert pairs(row, sigmas=1.3) == [(0, 1)]  # .39; with the baseline's error twice it would be .83
    assert pairs(row, sigmas=1.4) == []
    assert row.keep([1]).passage_errors == pytest.approx((0.0,))


def test_triplets_have_a_positive_that_helps():
    def by_ids(labels, margin):
        found = triplets(judged(labels), margin=margin)
        return [(positive.id, negative.id, round(lead, 6)) for positive, negative, lead in found]

    # a over b teaches harm, but a is no positive
    assert by_ids([0.05, -0.6, 0.4], margin=0.3) == [("c", "b", 1.0), ("c", "a", 0.35)]
    # without a margin, what changes nothing is no positive
    assert by_ids([0.0, -0.4, -0.1], margin=0.0) == []
    assert by_ids([0.0, 0.01], margin=0.0) == [("b", "a", 0.01)]


def test_split_by_help_leaves_the_doubtful_out():
    row = judged([0.12, 0.05, 0.9, -0.4, 0.0])
    assert split_by_help(row, margin=0.1) == ([2, 0], [4, 3])
    assert split_by_help(row) == ([2], [0, 1, 4, 3])  # 0.3
    assert split_by_help(judged([0.05, -0.4])) == ([], [])
    assert split_by_help(judged([0.0, -0.4]), margin=0.0) == ([], [])


def test_split_by_help_chooses_by_evidence():
    row = replace(judged([2.0, 1.25, 0.2, 3.0, 1.8]), evidence=(0.8, 0.1, -0.6, 0.4, 0.2))
    # b and c have at most .8 - .5 and 2 - .5; the labels of d and e are greater
    assert split_by_help(row, margin=0.5) == ([0], [1, 2])
    assert [(good.id, bad.id, lead) for good, bad, lead in triplets(row, margin=0.5)] == [
        ("a", "c", 1.8),
        ("a", "b", 0.75),
    ]
    # thirds of [.5, 1]
    assert gains(row, margin=0.5) == [2, 0, -1, 0, 0]
    assert split_by_help(row.keep([2, 3, 0]), margin=0.4) == ([1, 2], [0])
    assert label_statistics([row], 0.4)["share_helpful"] == 0.4


def test_shortened_keeps_both_ends():
    row = shortened(judged([0.0, 0.9, -0.5, 0.1, 0.3]), 3)
    assert (row.labels, [passage.id for passage in row.query.passages]) == ((0.9, 0.1, -0.5), ["b", "d", "c"])
    assert shortened(row, 3) is row


def beside(shown, passage, gain, error, given_error=None, utility=0.0, utility_error=0.12):
    """Return the label of a passage beside others; its interaction has no part in these tests."""
    details = {} if given_error is None else {"given_std_error": given_error}
    gained, of_all = (Estimate(value, se, value, value) for value, se in ((gain, error), (utility, utility_error)))
    return SetLabel(shown, passage, gained, of_all, Estimate(9.0, 9.0, 9.0, 9.0), details)


def with_paths():
    singles = judged([0.3, 0.0, -0.2, 0.1], errors=[0.13, 0.12, 0.15, 0.12], baseline_error=0.12)
    sets = (
        beside((0, 1), 1, 0.6, 0.1, 0.06, utility=0.9),
        beside((3, 0), 0, 0.25, 0.2, utility=0.35),
        beside((2, 0), 2, -0.4, 0.07, 0.06, utility=-0.1),  # shown first, and still beside a
        beside((0, 3, 2), 2, 0.05, 0.3, 0.04, utility=0.4, utility_error=0.13),
        beside((1, 0), 1, 0.5, 0.2, 0.06, utility=0.8),  # the other order of what came first
        beside((3, 0, 1), 1, 0.7, 0.11, 0.04, utility=1.05, utility_error=0.15),
        beside((2, 1), 1, 0.1, 0.2, utility=-0.1),
    )
    return replace(singles, sets=sets)


def test_by_path_by_hand():
    """The best set is a, b, d: those three lead to 1.05, and c at most to .4, beside a and d."""
    row = with_paths()
    first, *hops = by_path(row)
    assert first.context == ()
    assert first.labeled.labels == (1.05, 1.05, 0.4, 1.05)
    assert first.labeled.baseline_error == 0.12
    # sqrt(.15² - .12²) = .09 and sqrt(.13² - .12²) = .05 are the errors of those sets
    assert first.labeled.std_errors == pytest.approx((0.15, 0.15, 0.13, 0.15))
    assert [("".join(each.id for each in hop.context), hop.labeled.labels) for hop in hops] == [
        ("a", pytest.approx([each - 0.3 for each in (1.05, 0.4, 1.05)])),
        ("b", pytest.approx([each - 0.0 for each in (1.05, -0.1, 1.05)])),  # though b was never given
        ("d", pytest.approx([each - 0.1 for each in (1.05, 1.05, 0.4)])),  # beside d, b only with a
        ("ab", pytest.approx([1.05 - 0.9])),
        ("da", pytest.approx([each - 0.35 for each in (1.05, 0.4)])),  # as the best set was shown
    ]  # and nothing beside c, which is not in it
    beside_a, beside_both = hops[0].labeled, hops[-1].labeled
    assert [each.id for each in beside_a.query.passages] == ["b", "c", "d"]
    assert (beside_a.query.id, beside_a.query.question) == ("q", "Who?")
    assert beside_a.passage_errors == pytest.approx((0.09, 0.05, 0.09))  # what a alone is worth is common to all,
    assert beside_a.std_errors == pytest.approx([math.hypot(error, 0.05) for error in (0.09, 0.05, 0.09)])  # ± .05
    assert [each.id for each in beside_both.query.passages] == ["b", "c"]
    assert [hop.labeled.baseline_error for hop in hops] == pytest.approx([0.05, 0.0, 0.0, 0.0, 0.0])
    assert all(not hop.labeled.sets for hop in (first, *hops))


def test_by_path_of_seper_gain_has_the_evidence_of_sets():
    """By hand: beliefs .1, .2, 0 of passages and .6, .1 of pairs; the question's gains are .4, 0, 1, 1.2 and 2.2."""
    singles = judged([0.3, 0.2, 0.5])
    row = replace(
        singles,
        evidence=(0.1, 0.2, 0.0),
        details=tuple({"delta_belief": belief} for belief in (0.1, 0.2, 0.0)),
        sets=tuple(
            replace(beside((0, at), at, 0.0, 0.0, utility=1.2), details={"utility_belief": belief})
            for at, belief in ((1, 0.6), (2, 0.1))
        ),
    )
    first, *hops = by_path(row)
    assert first.labeled.labels == (1.2, 1.2, 1.2)
    best = 2 * math.exp(3.3)
    single, with_second, with_third = 0.1 * 2 * math.exp(0.6) / best, 0.6 * 7 * math.exp(1.8) / best, 0.1
    pairs = with_second, with_third
    assert first.labeled.evidence == pytest.approx((pairs[0], pairs[0], pairs[1]))
    beside_first = next(hop.labeled for hop in hops if hop.context == (row.query.passages[0],))
    assert beside_first.evidence == pytest.approx([pair - single for pair in pairs])


def test_by_path_of_question_gain_has_the_posterior_of_all_contexts():
    singles = judged([0.5, 0.2])
    row = replace(
        singles,
        evidence=(0.6, 0.4),
        details=({"delta_belief": 0.9}, {"delta_belief": 0.1}),
        sets=(beside((0, 1), 1, 0.0, 0.0, utility=1.0),),
    )
    total = math.exp(1.0) + math.exp(0.4) + math.exp(2.0)
    assert by_path(row)[0].labeled.evidence == pytest.approx([math.exp(2.0) / total] * 2)
    assert by_path(replace(row, sets=()))[0].labeled.evidence == (0.6, 0.4)


def test_by_path_keeps_labels_of_what_leads_nowhere():
    singles = judged([0.3, 0.0, 0.2])
    row = replace(singles, sets=(
        beside((0, 1), 1, -0.2, 0.0, utility=0.1, utility_error=0.0),
        beside((0, 2), 2, 0.4, 0.0, utility=0.7, utility_error=0.0),
    ))  # fmt: skip
    first, beside_a, beside_c = by_path(row)
    assert first.labeled.labels == (0.7, 0.1, 0.7)
    assert beside_a.labeled.labels == pytest.approx((-0.2, 0.4))
    assert beside_c.labeled.labels == pytest.approx((0.5,))
    (only,) = by_path(singles)
    assert only.labeled.labels == singles.labels


def test_by_marks_by_hand():
    hops = by_marks(judged([0.0, 1.0, 0.0, 1.0]))
    assert [("".join(each.id for each in hop.context), hop.labeled.labels) for hop in hops] == [
        ("", (0.0, 1.0, 0.0, 1.0)),
        ("b", (0.0, 0.0, 1.0)),
        ("d", (0.0, 1.0, 0.0)),
    ]
    assert [each.id for each in hops[1].labeled.query.passages] == ["a", "c", "d"]


def test_lists_to_learn():
    row, plain = with_paths(), judged([0.5, 0.0])
    assert lists_to_learn([row, plain], "singles", next_hop) == [row, plain]
    paths = lists_to_learn([row, plain], "paths", next_hop)
    contexts = ["", "a", "b", "d", "ab", "da", ""]
    assert [each.query.question for each in paths] == [
        " [SEP] ".join(["Who?", *(f"text {name}" for name in context)]) for context in contexts
    ]
    assert [each.query.id for each in paths] == ["q", "q|a", "q|b", "q|d", "q|a+b", "q|d+a", "q"]
    assert [each.labels for each in paths] == [hop.labeled.labels for each in (row, plain) for hop in by_path(each)]
    with pytest.raises(ValueError, match="next to given ones for learn_from=paths, got none of 1"):
        lists_to_learn([plain], "paths", next_hop)
    marks = replace(judged([1.0, 0.0, 1.0]), graded=True)
    assert [each.labels for each in lists_to_learn([marks], "paths", next_hop)] == [
        (1.0, 0.0, 1.0), (0.0, 1.0), (1.0, 0.0)
    ]  # fmt: skip
