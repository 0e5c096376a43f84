"""Labels of sets: by hand with a scripted measure, on a real reader against separate measurements, and in files."""

import json
import math
from dataclasses import replace

import pytest

from seper_reward import load_labels
from seper_reward.estimators.utility import utility
from seper_reward.labels.labelers import DeltaSePerLabeler, ERAGLabeler, LikelihoodLabeler, load_labeler
from seper_reward.labels.labelers.base import ReaderLabeler
from seper_reward.labels.labelers.sets import SetLabeler
from seper_reward.labels.run import LabelRun
from seper_reward.options import SetOptions
from seper_reward.types import Asked, Estimate, Passage, Query, UnscorableError

HOP = Passage("The mill was built by Ann Lee.", id="hop")
END = Passage("Ann Lee was born in Oslo.", id="end")
OTHER = Passage("Sheep graze.", id="other")
QUERY = Query("q", "Where was the builder of the mill born?", ("Oslo",), (OTHER, HOP, END))


WORTH = {"": 0.1, "hop": 0.1, "end": 0.5, "other": 0.0, "end hop": 0.9, "end other": 0.4, "hop other": 0.1}


class Scripted(ReaderLabeler):
    """The first passage says nothing by itself, and all together with the second."""

    name = "scripted"

    def __init__(self, scorer):
        self.scorer, self.read_so_far = scorer, []

    def read(self, requests, batch_size):
        self.read_so_far.append(
            [[[passage.id for passage in row] for row in request.contexts] for request in requests]
        )
        return [
            UnscorableError("no") if "fails" in request.question else [self._reading(row) for row in request.contexts]
            for request in requests
        ]

    def _reading(self, passages):
        value = WORTH.get(" ".join(sorted(passage.id for passage in passages)), 0.7)
        late = passages[-1:] == (END,) and len(passages) == 2  # the reader likes the answer at the end
        return Estimate(value + 0.02 * late, 0.1, value - 0.2, value + 0.2)

    def gain(self, reading, baseline):
        change = reading.value - baseline.value
        return Estimate(change, math.hypot(reading.std_error, baseline.std_error), change - 0.3, change + 0.3)

    def error(self, reading):
        return reading.std_error


def found_by(label, given, passage):
    (found,) = [each for each in label.sets if each.given == given and each.passage == passage]
    return found


def test_what_a_passage_adds_by_hand(tiny_scorer):
    scripted = Scripted(tiny_scorer)
    labeled = SetLabeler(scripted, SetOptions(given_top=1)).label(QUERY)
    assert labeled.labels == pytest.approx((-0.1, 0.0, 0.4))
    found = found_by(labeled, (2,), 1)
    assert found.shown == (2, 1)
    assert found.gain.value == pytest.approx(0.9 - 0.5)
    assert found.gain.std_error == pytest.approx(math.hypot(0.1, 0.1))
    assert found.utility.value == pytest.approx(0.9 - 0.1)
    assert found.interaction.value == pytest.approx(0.9 - 0.5 - 0.1 + 0.1)
    assert found.interaction.std_error == pytest.approx(0.2)  # of four measurements with errors of .1
    assert found.details["given_std_error"] == 0.1
    assert {(each.given, each.passage) for each in labeled.sets} == {((2,), 0), ((2,), 1)}
    assert labeled.fields["sufficient_set"] == {"passage_ids": ["end", "hop"], "utility": pytest.approx(0.8)}
    assert labeled.fields["reader_calls"] == 6
    # the single passages in one batch, then those beside the best one in another
    assert scripted.read_so_far == [[[[], ["other"], ["hop"], ["end"]]], [[["end", "other"], ["end", "hop"]]]]


def test_each_pair_is_measured_in_one_order(tiny_scorer):
    labeled = SetLabeler(Scripted(tiny_scorer), SetOptions()).label(QUERY)
    assert labeled.fields["reader_calls"] == 4 + 3
    found = found_by(labeled, (1,), 2)
    assert found.shown == (2, 1)  # the better one was given first
    assert found.utility.value == pytest.approx(0.8)
    assert found_by(labeled, (2,), 1).shown == (2, 1)  # the same measurement


def test_depth_three_goes_on_from_the_best_pair(tiny_scorer):
    scripted = Scripted(tiny_scorer)
    labeled = SetLabeler(scripted, SetOptions(given_top=1, depth=3)).label(QUERY)
    assert [(each.given, each.passage) for each in labeled.sets] == [((2,), 0), ((2,), 1), ((2, 1), 0)]
    assert scripted.read_so_far[2:] == [[[["end", "hop", "other"]]]]


def test_questions_of_a_batch_are_measured_side_by_side_and_fail_alone(tiny_scorer):
    labeler = SetLabeler(Scripted(tiny_scorer), SetOptions(given_top=1))
    queries = [QUERY, replace(QUERY, id="bad", question="fails"), replace(QUERY, id="bare", passages=())]
    one, bad, bare = labeler.label_batch(queries)
    assert one == labeler.label(QUERY)
    assert isinstance(bad, UnscorableError)
    assert (bare.labels, bare.sets) == ((), ())
    with pytest.raises(UnscorableError):
        labeler.label(queries[1])


@pytest.mark.parametrize("kind", [DeltaSePerLabeler, ERAGLabeler, LikelihoodLabeler])
def test_a_label_beside_given_passages_is_a_difference_of_measurements(kind, tiny_scorer):
    singles = kind(tiny_scorer)
    labeled = SetLabeler(singles, SetOptions(given_top=2)).label(QUERY)
    assert replace(labeled, sets=(), fields={}) == singles.label(QUERY)
    for each in labeled.sets:
        # as if the given passages were one longer passage, measured by its own
        shown, given = (tuple(QUERY.passages[at] for at in places) for places in (each.shown, each.given))
        if kind is DeltaSePerLabeler:
            with_, without, none = tiny_scorer.beliefs(QUERY.question, QUERY.answers, [shown, given, ()])
            assert each.gain.value == pytest.approx(utility(with_, without).delta_seper, abs=1e-6)
            assert each.utility.value == pytest.approx(with_.seper - none.seper, abs=1e-6)
            assert each.gain.std_error == pytest.approx(math.hypot(with_.std_error, without.std_error), abs=1e-6)
            assert each.details["seper"] == pytest.approx(with_.seper, abs=1e-6)
        if kind is LikelihoodLabeler:
            asked = Asked(QUERY.question, QUERY.answers, (shown, given))
            (rows,) = tiny_scorer.reader.answer_log_probs([asked], [QUERY.answers])
            assert each.gain.value == pytest.approx(rows[0][0] - rows[1][0], abs=1e-5)
        single = labeled.labels[each.passage]
        assert each.interaction.value == pytest.approx(each.gain.value - single, abs=1e-6)


def test_labels_of_sets_come_back_from_a_folder(tmp_path, tiny_scorer):
    labeler = load_labeler("delta_seper", lambda: tiny_scorer, SetOptions())
    run = LabelRun(tmp_path / "out", labeler, [QUERY, replace(QUERY, id="other", question="Who built it?")])
    summary = run.run()
    assert summary["sets"] == {"labels": 12, "reader_calls": 14}
    row = json.loads((tmp_path / "out" / "labels.jsonl").read_text().splitlines()[0])
    best, *others = sorted(row["passages"], key=lambda each: (-each["delta_seper"], each["passage_id"]))
    assert row["sets"][0]["given"] == [best["passage_id"]]
    assert {each["passage_id"] for each in row["sets"][:2]} == {each["passage_id"] for each in others}
    assert {"delta_seper", "std_error", "low", "high", "seper", "interaction", "shown"} <= row["sets"][0].keys()
    found = load_labels(tmp_path / "out").labeled()[0]
    truth = labeler.label(QUERY)
    assert [(each.shown, each.passage) for each in found.sets] == [(each.shown, each.passage) for each in truth.sets]
    for one, other in zip(found.sets, truth.sets, strict=True):
        assert one.gain.value == pytest.approx(other.gain.value, abs=1e-6)
        assert one.interaction.high == pytest.approx(other.interaction.high, abs=1e-6)
    # the sets have the labeler's own label
    assert load_labels(tmp_path / "out").labeled("delta_seper_hard")[0].sets == ()
    # fewer passages keep the sets of those that are left
    first = (0, 1) if found.labels[2] > found.labels[0] else (1, 0)  # the better one was given
    assert {each.shown for each in found.keep([2, 0]).sets} == {first}


def test_marks_ask_no_reader(tiny_scorer):
    with pytest.raises(ValueError, match="'gold' does not use a reader"):
        load_labeler("gold", lambda: tiny_scorer, SetOptions())
