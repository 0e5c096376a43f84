"""Labelers: one protocol, numbers checked against their definitions."""

import math
from dataclasses import replace

import pytest
import torch

from seper_reward import SePerScorer
from seper_reward.data.rows import BadRowError
from seper_reward.estimators.draws import drawn_by_mass
from seper_reward.estimators.seper import Estimator
from seper_reward.estimators.utility import stated_log_prob
from seper_reward.labels.labelers import (
    LABELERS,
    ContainsLabeler,
    DeltaSePerLabeler,
    ERAGLabeler,
    ERAGOptions,
    GoldLabeler,
    PassageLabeler,
    load_labeler,
)
from seper_reward.labels.labelers.sets import SetLabeler
from seper_reward.labels.rows import label_intervals, label_row, labeled_query
from seper_reward.options import SetOptions
from seper_reward.reader.prompts import PromptStyle
from seper_reward.types import Asked, Passage, Query, Responses, UnscorableError

QUERY = Query(
    "q",
    "Who built the mill?",
    ("Ann Lee", "Ann B. Lee"),
    (
        Passage("Ann Lee built the mill.", "Mill", "p1", {"relevant": True}),
        Passage("Sheep graze.", id="p2", metadata={"role": "unrelated"}),
        Passage("Bob built the mill.", id="p3"),
    ),
)


# what a random reader judges cannot be understood: tests/labels/test_item.py has one that follows a script
NAMES = sorted({*LABELERS} - {"item"})


@pytest.mark.parametrize("name", NAMES)
def test_every_labeler_keeps_the_protocol(name, tiny_scorer):
    judge = load_labeler(name, lambda: tiny_scorer)
    row = judge.label(QUERY)
    assert row.query is QUERY
    assert len(row.labels) == len(row.std_errors) == 3
    assert all(math.isfinite(value) for value in (*row.labels, *row.std_errors))
    assert judge.label(QUERY) == row


def test_unknown_labeler(tiny_scorer):
    with pytest.raises(
        ValueError, match=r"labeler must be one of delta_seper, .* or a reranker's folder, got 'clicks'"
    ):
        load_labeler("clicks", lambda: tiny_scorer)


def test_delta_seper_is_the_scorers(tiny_scorer):
    utilities = tiny_scorer.utilities([QUERY])[0]
    assert load_labeler("delta_seper", lambda: tiny_scorer).label(QUERY).labels == tuple(
        row.delta_seper for row in utilities
    )
    (row,) = load_labeler("delta_seper", lambda: tiny_scorer).label_batch([QUERY])
    assert row.baseline_error == utilities[0].baseline.std_error > 0
    assert row.passage_errors == pytest.approx([each.belief.std_error for each in utilities])
    hard = load_labeler("delta_seper", lambda: tiny_scorer, label="delta_seper_hard").label(QUERY)
    assert hard.labels == tuple(row.delta_seper_hard for row in utilities)


def test_delta_belief_is_half_delta_seper_and_half_the_answers_own_change(tiny_scorer):
    ((baseline, *rows),) = tiny_scorer.reader.answer_log_probs([QUERY], [QUERY.answers])
    found = load_labeler("delta_seper", lambda: tiny_scorer, label="delta_belief").label(QUERY)
    for judged, row, label, error in zip(
        tiny_scorer.utilities([QUERY])[0], rows, found.labels, found.std_errors, strict=True
    ):
        p, q = (math.exp(stated_log_prob(belief)) for belief in (judged.belief, judged.baseline))
        assert p >= math.exp(max(row)) - 1e-6
        assert q >= math.exp(max(baseline)) - 1e-6
        assert label == pytest.approx((judged.delta_seper + (p - q) / (p + q)) / 2, abs=1e-4)
        assert error == judged.std_error / 2
    assert found.baseline_error == pytest.approx(found.baseline["std_error"] / 2)
    reread = labeled_query(label_row(found, "delta_belief"), "delta_belief")
    assert reread.labels == pytest.approx(found.labels, abs=1e-6)
    assert reread.std_errors == pytest.approx(found.std_errors, abs=1e-6)


def test_the_questions_gain_is_a_label_without_an_error(tiny_scorer):
    labeler = DeltaSePerLabeler(tiny_scorer, "question_gain")
    found = labeler.label(QUERY)
    ((bare, *rows),) = tiny_scorer.reader.responses([QUERY])
    assert found.labels == pytest.approx([row.question_log_prob - bare.question_log_prob for row in rows], abs=1e-6)
    assert set(found.std_errors) == {0.0}
    assert found.baseline_error == 0.0
    row = label_row(found, "question_gain")
    reread = labeled_query(row, "question_gain")
    assert reread.labels == pytest.approx(found.labels, abs=1e-6)
    assert (set(reread.std_errors), reread.baseline_error) == ({0.0}, 0.0)
    assert label_intervals(reread, "question_gain") == [(label, label) for label in reread.labels]
    assert label_row(reread, "question_gain") == row


def test_seper_gain_adds_half_of_the_questions_gain(tiny_scorer):
    labeler = DeltaSePerLabeler(tiny_scorer, "seper_gain")
    found = labeler.label(QUERY)
    ((bare, *rows),) = tiny_scorer.reader.responses([QUERY])
    for judged, row, label, error in zip(
        tiny_scorer.utilities([QUERY])[0], rows, found.labels, found.std_errors, strict=True
    ):
        gain = row.question_log_prob - bare.question_log_prob
        assert label == pytest.approx(judged.combined.value + gain / 2, abs=1e-4)
        assert error == judged.combined.std_error == judged.std_error / 2
    assert found.baseline_error == found.baseline["std_error"] / 2 > 0
    reread = labeled_query(label_row(found, "seper_gain"), "seper_gain")
    assert reread.labels == pytest.approx(found.labels, abs=1e-6)
    assert reread.std_errors == pytest.approx(found.std_errors, abs=1e-6)
    assert labeler.fingerprint != DeltaSePerLabeler(tiny_scorer).fingerprint
    first = PromptStyle("Question: {question}", "Question: {question}\nPassage: {reference}")
    asks_first = SePerScorer(tiny_scorer.sampler, tiny_scorer.entailment, prompt=first)
    with pytest.raises(UnscorableError, match="the prompt asks it before the passages"):
        DeltaSePerLabeler(asks_first, "seper_gain").label(QUERY)


def test_delta_belief_needs_to_know_how_likely_the_answer_is(tiny_scorer):
    options = Estimator.preset("paper")
    paper = SePerScorer(tiny_scorer.sampler, tiny_scorer.entailment, prompt="brief", estimator=options)
    with pytest.raises(ValueError, match="and weighting=mass; or take delta_seper"):
        DeltaSePerLabeler(paper, "delta_belief")
    with pytest.raises(ValueError, match="delta_seper_hard, delta_belief, seper_gain, question_gain, got"):
        DeltaSePerLabeler(tiny_scorer, "seper")


def test_erag_is_the_mean_metric_less_the_baselines(tiny_scorer):
    def length(response, answers):
        return len(response) / (100 * len(answers))

    ((baseline, *rows),) = tiny_scorer.responses([QUERY])
    found = ERAGLabeler(tiny_scorer, length).label(QUERY)

    def mean(sampled):
        draws = drawn_by_mass(sampled)
        columns = zip(draws.weights.tolist(), draws.responses.texts, strict=True)
        return sum(weight * length(text, QUERY.answers) for weight, text in columns)

    assert found.labels == pytest.approx([mean(row) - mean(baseline) for row in rows])
    assert found.baseline["erag_length"] == pytest.approx(mean(baseline))
    assert len(set(found.labels)) > 1


class Says:
    """A scorer with a reader of whose responses nothing is known but their texts."""

    estimator = Estimator()

    def __init__(self, without, given):
        self.reader, self._texts = self, {False: without, True: given}

    def known_answers(self, answers):
        return ()

    def expect(self, asked, known):
        pass

    def responses(self, asked, answers):
        texts = [[self._texts[bool(shown)] for shown in each.contexts] for each in asked]
        return [[Responses(row, (torch.zeros(1),) * len(row)) for row in own] for own in texts]


def test_erags_standard_error_by_hand():
    says = Says(("Ann Lee",) * 2 + ("Bob",) * 2, ("Ann Lee",) * 3 + ("Bob",))
    found = ERAGLabeler(says).label(Query("q", "Who?", ("Ann Lee",), (Passage("x"),)))
    assert found.labels == pytest.approx((0.25,))
    # with Jeffreys' observations 2.5 of 5 and 3.5 of 5 are right
    assert found.std_errors[0] == pytest.approx(math.sqrt(2.5 * 2.5 / 25 * 5 / 16 + 3.5 * 1.5 / 25 * 5 / 16))
    assert found.details[0]["low"] < 0.25 < found.details[0]["high"]
    assert found.baseline_error == found.baseline["std_error"] == pytest.approx(math.sqrt(2.5 * 2.5 / 25 * 5 / 16))


def length(response, answers):
    return min(len(response) / 100, 1.0)


@pytest.mark.parametrize("preset", ["paper", "official"])
def test_published_erag_scores_one_greedy_response_and_subtracts_nothing(preset, tiny_scorer):
    labeler = ERAGLabeler(tiny_scorer, length, ERAGOptions.preset(preset))
    found = labeler.label(QUERY)
    greedy = tiny_scorer.with_sampling(num_samples=1, temperature=0.0)
    (sampled,) = greedy.reader.responses([Asked(QUERY.question, (), tuple(QUERY.contexts[1:]))])
    said = [row.texts[0] for row in sampled]
    assert found.labels == tuple(length(text, ()) for text in said)
    assert len(set(found.labels)) > 1
    assert found.std_errors == (0.0, 0.0, 0.0)
    assert found.baseline == {}
    assert "baseline" not in label_row(found, labeler.name)
    assert labeler.fingerprint["sampling"]["temperature"] == 0.0


def test_published_erag_never_asks_without_a_passage(tiny_scorer, monkeypatch):
    labeler = ERAGLabeler(tiny_scorer, length, ERAGOptions.preset("paper"))
    reader, asked = labeler.scorer.reader, []
    responses = reader.responses

    def spy(batch, act=lambda *_: None, *more):
        batch = list(batch)
        asked.extend(context for each in batch for context in each.contexts)
        return act(batch, *more)

    monkeypatch.setattr(reader, "expect", spy)
    monkeypatch.setattr(reader, "responses", lambda batch, answers: spy(batch, responses, answers))
    assert list(labeler.ahead([[QUERY]])) == [[QUERY]]
    labeler.label(QUERY)
    assert asked == [(passage,) for passage in QUERY.passages] * 2


def test_published_erag_of_sets_is_what_a_passage_adds_to_the_metric(tiny_scorer):
    labeler = SetLabeler(ERAGLabeler(tiny_scorer, length, ERAGOptions.preset("paper")), SetOptions())
    greedy = tiny_scorer.with_sampling(num_samples=1, temperature=0.0)
    labeled = labeler.label(QUERY)
    for each in labeled.sets:
        shown = [tuple(QUERY.passages[at] for at in places) for places in (each.shown, each.given)]
        (rows,) = greedy.reader.responses([Asked(QUERY.question, (), tuple(shown))])
        together, before = (length(row.texts[0], ()) for row in rows)
        assert each.utility.value == pytest.approx(together)
        assert each.gain.value == pytest.approx(together - before)
        assert each.gain.std_error == 0.0


def test_a_metric_of_a_users_own_by_dotted_path(tiny_scorer):
    labeler = load_labeler("erag:tests.labels.test_labelers:length:preset=paper", lambda: tiny_scorer)
    assert labeler.name == "erag_length"
    assert labeler.fingerprint["metric"] == "tests.labels.test_labelers:length"
    assert (
        labeler.label(QUERY).labels
        == ERAGLabeler(tiny_scorer, length, ERAGOptions.preset("paper")).label(QUERY).labels
    )
    for path, said in {
        "nowhere:length": "cannot be imported",
        "math:no_such": "cannot be imported",
        "math:pi": "must be callable",
        ":length": "must be package.module:name",
        "f2": "metric must be one of exact_match",
    }.items():
        with pytest.raises(ValueError, match=said):
            ERAGLabeler(tiny_scorer, path)


def test_passages_that_contain_the_answer_as_words():
    texts = ["Ann B. Lee did.", "Anna Lee did.", "Ann, Lee's aunt."]
    passages = (Passage("He did.", "Ann Lee"), *map(Passage, texts))
    query = Query("q", "Who?", ("Ann Lee", "Ann B. Lee"), passages)
    assert ContainsLabeler().label(query).labels == (1.0, 1.0, 0.0, 1.0)
    assert ContainsLabeler().label(replace(query, answers=("Bob", "He"))).labels == (1.0, 0.0, 0.0, 0.0)


def test_likelihood_is_that_of_the_likeliest_answer(tiny_scorer):
    ((baseline, *rows),) = tiny_scorer.reader.answer_log_probs([QUERY], [QUERY.answers])
    found = load_labeler("likelihood", lambda: tiny_scorer).label(QUERY)
    assert found.labels == pytest.approx([max(row) - max(baseline) for row in rows])
    assert found.std_errors == (0.0, 0.0, 0.0)


def test_gold_marks():
    assert GoldLabeler().label(QUERY).labels == (1.0, 0.0, 0.0)
    roles = [Passage("x", metadata={"role": role}) for role in ("supporting", "misleading")]
    assert GoldLabeler().label(Query("q", "Who?", ("a",), tuple(roles))).labels == (1.0, 0.0)
    grades = [Passage("x", metadata={"relevant": grade}) for grade in (1, 3, 0, -2)]
    assert GoldLabeler().label(Query("q", "Who?", ("a",), tuple(grades))).labels == (1.0, 3.0, 0.0, 0.0)
    with pytest.raises(BadRowError, match=r"expected 'relevant': true, false or a grade \(0, 1, 2, ...\), got 'yes'"):
        GoldLabeler().label(Query("q", "Who?", ("a",), (Passage("x", metadata={"relevant": "yes"}),)))


def test_a_labeler_defines_one_of_both_methods():
    class Nothing(PassageLabeler):
        name = "nothing"

    with pytest.raises(TypeError, match=r"Nothing must define label\(query\) or label_batch\(queries\)"):
        Nothing().label_batch([QUERY])
