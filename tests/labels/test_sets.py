"""Labels of sets: by hand with a scripted measure, on a real reader against separate measurements, and in files."""

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
from seper_reward.types import Estimate, Passage, Query, UnscorableError
from tests.helpers import labels_of

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
        self.read_so_far.append([[[passage.id for passage in row] for row in asked.contexts] for asked in requests])
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


def test_set_labeler_by_hand(tiny_scorer):
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


def test_set_labeler_measures_each_pair_in_one_order(tiny_scorer):
    labeled = SetLabeler(Scripted(tiny_scorer), SetOptions()).label(QUERY)
    assert labeled.fields["reader_calls"] == 4 + 3
    found = found_by(labeled, (1,), 2)
    assert found.shown == (2, 1)  # the better one was given first
    assert found.utility.value == pytest.approx(0.8)
    assert found_by(labeled, (2,), 1).shown == (2, 1)  # the same measurement


def test_set_labeler_of_depth_three_goes_on_from_the_best_pair(tiny_scorer):
    scripted = Scripted(tiny_scorer)
    labeled = SetLabeler(scripted, SetOptions(given_top=1, depth=3)).label(QUERY)
    assert [(each.given, each.passage) for each in labeled.sets] == [((2,), 0), ((2,), 1), ((2, 1), 0)]
    assert scripted.read_so_far[2:] == [[[["end", "hop", "other"]]]]


def test_set_labeler_batches_fail_alone(tiny_scorer):
    labeler = SetLabeler(Scripted(tiny_scorer), SetOptions(given_top=1))
    queries = [QUERY, replace(QUERY, id="bad", question="fails"), replace(QUERY, id="bare", passages=())]
    one, bad, bare = labeler.label_batch(queries)
    assert one == labeler.label(QUERY)
    assert isinstance(bad, UnscorableError)
    assert (bare.labels, bare.sets) == ((), ())
    with pytest.raises(UnscorableError):
        labeler.label(queries[1])


def contexts_of(label):
    return [tuple(QUERY.passages[at] for at in places) for places in (label.shown, label.given, ())]


@pytest.mark.parametrize("kind", [DeltaSePerLabeler, ERAGLabeler, LikelihoodLabeler])
def test_set_labeler_keeps_labels_of_single_passages(kind, tiny_scorer):
    labeled = SetLabeler(kind(tiny_scorer), SetOptions(given_top=2)).label(QUERY)
    assert replace(labeled, sets=(), fields={}) == kind(tiny_scorer).label(QUERY)
    for label in labeled.sets:
        assert label.interaction.value == pytest.approx(label.gain.value - labeled.labels[label.passage], abs=1e-6)


def test_set_labels_of_delta_seper_are_differences_of_beliefs(tiny_scorer):
    for label in SetLabeler(DeltaSePerLabeler(tiny_scorer), SetOptions(given_top=2)).label(QUERY).sets:
        # as if the given passages were one longer passage, measured by its own
        with_, without, none = tiny_scorer.beliefs(QUERY.question, QUERY.answers, contexts_of(label))
        assert label.gain.value == pytest.approx(utility(with_, without).delta_seper, abs=1e-6)
        assert label.utility.value == pytest.approx(with_.seper - none.seper, abs=1e-6)
        assert label.gain.std_error == pytest.approx(math.hypot(with_.std_error, without.std_error), abs=1e-6)
        assert label.details["seper"] == pytest.approx(with_.seper, abs=1e-6)


def test_labels_of_sets_are_read_back_from_a_folder(tmp_path, tiny_scorer):
    labeler = load_labeler("delta_seper", lambda: tiny_scorer, SetOptions())
    assert labeler.name == "seper_gain"
    summary = LabelRun(tmp_path, labeler, [QUERY, replace(QUERY, id="other", question="Who built it?")]).run()
    assert summary["sets"] == {"labels": 12, "reader_calls": 14}
    row = labels_of(tmp_path)[0]
    best, *others = sorted(row["passages"], key=lambda passage: (-passage["seper_gain"], passage["passage_id"]))
    assert row["sets"][0]["given"] == [best["passage_id"]]
    assert {each["passage_id"] for each in row["sets"][:2]} == {passage["passage_id"] for passage in others}
    assert {"seper_gain", "std_error", "low", "high", "seper", "interaction", "shown"} <= row["sets"][0].keys()
    (read, _), truth = load_labels(tmp_path).labeled(), labeler.label(QUERY)
    for one, other in zip(read.sets, truth.sets, strict=True):
        assert (one.shown, one.passage) == (other.shown, other.passage)
        assert one.gain.value == pytest.approx(other.gain.value, abs=1e-6)
        assert one.interaction.high == pytest.approx(other.interaction.high, abs=1e-6)
    # the sets have the labeler's own label
    assert load_labels(tmp_path).labeled("delta_seper_hard")[0].sets == ()
    # fewer passages keep the sets of those that are left
    first = (0, 1) if read.labels[2] > read.labels[0] else (1, 0)  # the better one was given
    assert {label.shown for label in read.keep([2, 0]).sets} == {first}


def test_load_labeler_refuses_sets_without_a_reader(tiny_scorer):
    with pytest.raises(ValueError, match="'gold' does not use a reader"):
        load_labeler("gold", lambda: tiny_scorer, SetOptions())
