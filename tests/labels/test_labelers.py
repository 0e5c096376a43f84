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
from seper_reward.labels.rows import label_intervals, label_row
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


def length(response, answers):
    return min(len(response) / 100, 1.0)


# what a random reader judges cannot be understood: tests/labels/test_item.py has one that follows a script
NAMES = sorted({*LABELERS} - {"item"})


@pytest.mark.parametrize("name", NAMES)
def test_load_labeler_returns_the_protocol(name, tiny_scorer):
    judge = load_labeler(name, lambda: tiny_scorer)
    row = judge.label(QUERY)
    assert row.query is QUERY
    assert len(row.labels) == len(row.std_errors) == 3
    assert all(math.isfinite(value) for value in (*row.labels, *row.std_errors))
    assert judge.label(QUERY) == row


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("clicks", r"labeler must be one of delta_seper, .* or a reranker's folder, got 'clicks'"),
        ("item:ar_s:form=pointwise", "method=ar_s compares them in one reply"),
        ("item:b", "method of item must be one of vanilla, exp_a, imp_a"),
        ("item:a_s:rounds=two", "'a_s:rounds=two': expected a_s:NAME=VALUE,... with some of preset, prompts, rounds"),
        ("a_s:temperature=1", "got 'temperature=1'"),
        ("item:a_s:preset=best", "preset must be one of default, paper, official, got 'best'"),
        ("erag:token_f1:preset=best", "preset must be one of default, paper, official, got 'best'"),
    ],
)
def test_load_labeler_refuses_names_before_it_loads(name, message):
    with pytest.raises(ValueError, match=message):
        load_labeler(name, lambda: pytest.fail("loaded"))


def test_delta_belief_is_half_delta_seper_and_half_the_answers_change(tiny_scorer):
    ((baseline, *rows),) = tiny_scorer.reader.answer_log_probs([QUERY], [QUERY.answers])
    labeled = DeltaSePerLabeler(tiny_scorer, "delta_belief").label(QUERY)
    utilities = tiny_scorer.utilities([QUERY])[0]
    for judged, row, label, error in zip(utilities, rows, labeled.labels, labeled.std_errors, strict=True):
        p, q = (math.exp(stated_log_prob(belief)) for belief in (judged.belief, judged.baseline))
        assert p >= math.exp(max(row)) - 1e-6
        assert q >= math.exp(max(baseline)) - 1e-6
        assert label == pytest.approx((judged.delta_seper + (p - q) / (p + q)) / 2, abs=1e-4)
        assert error == judged.std_error / 2
    assert labeled.baseline_error == pytest.approx(labeled.baseline["std_error"] / 2)


def test_delta_seper_labeler_takes_a_long_reference_as_an_answer(tiny_scorer):
    reference = "Ida Voss runs the mill in Hallow. She took it over from her aunt, who had it for forty years. " * 12
    labels = label_row(DeltaSePerLabeler(tiny_scorer).label(replace(QUERY, answers=(reference.strip(),))))
    for passage in labels["passages"]:
        assert all(math.isfinite(passage[name]) for name in ("delta_seper", "delta_belief", "answer_log_prob"))
        assert passage["delta_belief"] != 0  # its likelihood moves where no response says all of it


def test_question_gain_is_a_label_without_an_error(tiny_scorer):
    labeled = DeltaSePerLabeler(tiny_scorer, "question_gain").label(QUERY)
    ((bare, *rows),) = tiny_scorer.reader.responses([QUERY])
    assert labeled.labels == pytest.approx([row.question_log_prob - bare.question_log_prob for row in rows], abs=1e-6)
    assert (set(labeled.std_errors), labeled.baseline_error) == ({0.0}, 0.0)
    assert label_intervals(labeled, "question_gain") == [(label, label) for label in labeled.labels]


def test_seper_gain_adds_half_of_the_questions_gain(tiny_scorer):
    labeled = DeltaSePerLabeler(tiny_scorer, "seper_gain").label(QUERY)
    ((bare, *rows),) = tiny_scorer.reader.responses([QUERY])
    utilities = tiny_scorer.utilities([QUERY])[0]
    for judged, row, label, error in zip(utilities, rows, labeled.labels, labeled.std_errors, strict=True):
        gain = row.question_log_prob - bare.question_log_prob
        assert label == pytest.approx(judged.delta_belief.value + gain / 2, abs=1e-4)
        assert error == judged.delta_belief.std_error == judged.std_error / 2
    assert labeled.baseline_error == labeled.baseline["std_error"] / 2 > 0
    first = PromptStyle("Question: {question}", "Question: {question}\nPassage: {reference}")
    asks_first = SePerScorer(tiny_scorer.sampler, tiny_scorer.entailment, prompt=first)
    with pytest.raises(UnscorableError, match="the prompt asks it before the passages"):
        DeltaSePerLabeler(asks_first, "seper_gain").label(QUERY)


def test_delta_seper_labeler_refuses_labels_that_it_cannot_know(tiny_scorer):
    paper = Estimator.preset("paper")
    scorer = SePerScorer(tiny_scorer.sampler, tiny_scorer.entailment, prompt="brief", estimator=paper)
    with pytest.raises(ValueError, match="and weighting=mass; or take delta_seper"):
        DeltaSePerLabeler(scorer, "delta_belief")
    with pytest.raises(ValueError, match="delta_seper_hard, delta_belief, seper_gain, question_gain, got"):
        DeltaSePerLabeler(tiny_scorer, "seper")


def test_erag_is_the_mean_metric_less_the_baselines(tiny_scorer):
    ((baseline, *rows),) = tiny_scorer.responses([QUERY])
    labeled = ERAGLabeler(tiny_scorer, length).label(QUERY)

    def mean(sampled):
        draws = drawn_by_mass(sampled)
        columns = zip(draws.weights.tolist(), draws.responses.texts, strict=True)
        return sum(weight * length(text, QUERY.answers) for weight, text in columns)

    assert labeled.labels == pytest.approx([mean(row) - mean(baseline) for row in rows])
    assert labeled.baseline["erag_length"] == pytest.approx(mean(baseline))
    assert len(set(labeled.labels)) > 1


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
    labeled = ERAGLabeler(says).label(Query("q", "Who?", ("Ann Lee",), (Passage("x"),)))
    assert labeled.labels == pytest.approx((0.25,))
    # with Jeffreys' observations 2.5 of 5 and 3.5 of 5 are right
    assert labeled.std_errors[0] == pytest.approx(math.sqrt(2.5 * 2.5 / 25 * 5 / 16 + 3.5 * 1.5 / 25 * 5 / 16))
    assert labeled.details[0]["low"] < 0.25 < labeled.details[0]["high"]
    assert labeled.baseline_error == labeled.baseline["std_error"] == pytest.approx(math.sqrt(2.5**2 / 25 * 5 / 16))


@pytest.mark.parametrize("preset", ["paper", "official"])
def test_published_erag_scores_one_greedy_response_alone(preset, tiny_scorer):
    labeler = ERAGLabeler(tiny_scorer, length, ERAGOptions.preset(preset))
    greedy = tiny_scorer.with_sampling(num_samples=1, temperature=0.0)
    (sampled,) = greedy.reader.responses([Asked(QUERY.question, (), QUERY.contexts[1:])])
    texts = [responses.texts[0] for responses in sampled]
    labeled = labeler.label(QUERY)
    assert labeled.labels == tuple(length(text, ()) for text in texts)
    assert len(set(labeled.labels)) > 1
    assert labeled.std_errors == (0.0, 0.0, 0.0)
    assert labeled.baseline == {}
    assert "baseline" not in label_row(labeled, labeler.name)
    assert labeler.fingerprint["sampling"]["temperature"] == 0.0


def test_erag_takes_a_metric_by_dotted_path(tiny_scorer):
    labeler = load_labeler("erag:tests.labels.test_labelers:length:preset=paper", lambda: tiny_scorer)
    assert labeler.name == "erag_length"
    assert labeler.fingerprint["metric"] == "tests.labels.test_labelers:length"
    published = ERAGLabeler(tiny_scorer, length, ERAGOptions.preset("paper"))
    assert labeler.label(QUERY).labels == published.label(QUERY).labels
    for path, message in {
        "nowhere:length": "cannot be imported",
        "math:no_such": "cannot be imported",
        "math:pi": "must be callable",
        ":length": "cannot be imported as package.module:name",
        "f2": "metric must be one of exact_match",
    }.items():
        with pytest.raises(ValueError, match=message):
            ERAGLabeler(tiny_scorer, path)


def test_contains_labeler_finds_answers_as_words():
    texts = ["Ann B. Lee did.", "Anna Lee did.", "Ann, Lee's aunt."]
    passages = (Passage("He did.", "Ann Lee"), *map(Passage, texts))
    query = Query("q", "Who?", ("Ann Lee", "Ann B. Lee"), passages)
    assert ContainsLabeler().label(query).labels == (1.0, 1.0, 0.0, 1.0)
    assert ContainsLabeler().label(replace(query, answers=("Bob", "He"))).labels == (1.0, 0.0, 0.0, 0.0)


def test_likelihood_is_that_of_the_likeliest_answer(tiny_scorer):
    ((baseline, *rows),) = tiny_scorer.reader.answer_log_probs([QUERY], [QUERY.answers])
    labeled = load_labeler("likelihood", lambda: tiny_scorer).label(QUERY)
    assert labeled.labels == pytest.approx([max(row) - max(baseline) for row in rows])
    assert labeled.std_errors == (0.0, 0.0, 0.0)


def test_gold_labeler_takes_marks_roles_and_grades():
    def labels(*marks):
        return GoldLabeler().label(Query("q", "Who?", ("a",), tuple(Passage("x", metadata=mark) for mark in marks)))

    assert labels({"relevant": True}, {"role": "supporting"}, {"role": "misleading"}).labels == (1.0, 1.0, 0.0)
    assert labels(*({"relevant": grade} for grade in (1, 3, 0, -2)), {}).labels == (1.0, 3.0, 0.0, 0.0, 0.0)
    with pytest.raises(BadRowError, match=r"expected 'relevant': true, false or a grade \(0, 1, 2, ...\), got 'yes'"):
        labels({"relevant": "yes"})


def test_passage_labeler_defines_one_of_both_methods():
    class Nothing(PassageLabeler):
        name = "nothing"

    with pytest.raises(TypeError, match=r"Nothing must define label\(query\) or label_batch\(queries\)"):
        Nothing().label_batch([QUERY])
