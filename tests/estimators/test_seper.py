"""Estimators against hand calculations, a slow loop, and the invariants of the definition."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from seper_reward import SePerScorer
from seper_reward.estimators import (
    Estimator,
    entailment_kernel,
    match_clusters,
    response_weights,
    seper_hard,
    seper_soft,
)
from seper_reward.estimators.seper import without_end_token
from seper_reward.labels.rows import belief_fields

WEIGHTS = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
SUPPORT = torch.tensor([[0.9, 0.1], [0.4, 0.2], [0.0, 0.7]], dtype=torch.float64)


def test_seper_soft_by_hand():
    # first answer .45 + .12 + 0 = .57, second .05 + .06 + .14 = .25
    assert float(seper_soft(WEIGHTS, SUPPORT, "mean")) == pytest.approx(0.41)
    assert float(seper_soft(WEIGHTS, SUPPORT, "max")) == pytest.approx(0.57)
    # the best answers of the responses .45 + .12 + .14
    assert float(seper_soft(WEIGHTS, SUPPORT, "any")) == pytest.approx(0.71)


def test_seper_hard_by_hand():
    ids = torch.tensor([1, 0, 1])
    gold = torch.tensor([[True, False, False], [False, True, False]])  # (C=2, A=3)
    # cluster masses .3 and .7: answers get .3, .7 and 0
    assert float(seper_hard(WEIGHTS, ids, gold, "mean")) == pytest.approx(1.0 / 3)
    assert float(seper_hard(WEIGHTS, ids, gold, "max")) == pytest.approx(0.7)
    assert float(seper_hard(WEIGHTS, ids, gold, "any")) == pytest.approx(1.0)


def test_response_weights_by_hand():
    log_probs = [torch.tensor([0.5, 0.5]).log(), torch.tensor([0.1]).log(), torch.tensor([0.8, 0.5, 0.1]).log()]
    products = [0.25, 0.1, 0.04]
    means = [0.5, 0.1, 0.04 ** (1 / 3)]
    assert response_weights(log_probs, "sequence").tolist() == pytest.approx([p / 0.39 for p in products])
    assert response_weights(log_probs, "mean_token").tolist() == pytest.approx([p / sum(means) for p in means])
    assert response_weights(log_probs, "uniform").tolist() == pytest.approx([1 / 3] * 3)


@pytest.mark.parametrize("weighting", ["sequence", "mean_token", "uniform"])
@pytest.mark.parametrize(
    "log_probs",
    [
        [torch.full((500,), -8.0), torch.full((500,), -9.0)],  # exp(-4000) underflows outside log space
        [torch.tensor([-800.0]), torch.tensor([-801.0])],
        [torch.tensor([]), torch.tensor([-1.0])],
        [torch.tensor([-math.inf]), torch.tensor([-math.inf, -2.0])],
        [torch.tensor([-math.inf]), torch.tensor([-2.0])],
    ],
)
def test_response_weights_stay_finite(weighting, log_probs):
    weights = response_weights(log_probs, weighting)
    assert torch.isfinite(weights).all()
    assert float(weights.sum()) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: response_weights([], "uniform"), "at least one response"),
        (lambda: response_weights([torch.tensor([math.nan])], "uniform"), "NaN"),
        (lambda: response_weights([torch.tensor([-1.0])], "softmax"), "weighting must be one of"),
        (lambda: seper_soft(WEIGHTS, SUPPORT[:2]), "must share S"),
        (lambda: seper_soft(WEIGHTS, torch.empty(3, 0)), "at least one answer"),
        (lambda: seper_soft(WEIGHTS, SUPPORT, "sum"), "aliases must be one of"),
        (lambda: seper_hard(WEIGHTS, torch.tensor([0, 1, 2]), torch.ones(2, 1).bool()), r"in \[0, 2\)"),
        (lambda: entailment_kernel(SUPPORT, None, "max"), "backward"),
        (lambda: Estimator(threshold=0.0), "threshold"),
        (lambda: Estimator.preset("mine"), "estimator must be one of"),
        *[
            (lambda name=name: Estimator(**{name: "mine"}), f"{name} must be one of")
            for name in vars(Estimator())
            if name != "threshold"
        ],
        (lambda: match_clusters(torch.tensor([0]), SUPPORT[:1], 0.5, "both"), "judged_by must be one of"),
        (lambda: without_end_token([torch.tensor([-1.0])], ()), "for each of 1 responses, got 0"),
    ],
)
def test_errors_name_what_is_wrong(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_without_end_token_by_hand():
    log_probs = [torch.tensor([0.5, 0.1]).log(), torch.tensor([0.5, 0.1]).log(), torch.tensor([0.2]).log()]
    kept = without_end_token(log_probs, [True, False, True])
    assert [row.exp().tolist() for row in kept] == [pytest.approx(row) for row in ([0.5], [0.5, 0.1], [0.2])]


def test_match_clusters_by_hand():
    # cluster 0 = samples 0 and 2: mean support .45 and .4; cluster 1 = sample 1: .4 and .2
    matched = match_clusters(torch.tensor([0, 1, 0]), SUPPORT, 0.35)
    assert matched.tolist() == [[True, True], [True, False]]
    # by their first members, samples 0 and 1: .9 and .1, .4 and .2
    first = match_clusters(torch.tensor([0, 1, 0]), SUPPORT, 0.35, "first")
    assert first.tolist() == [[True, False], [True, False]]


@pytest.mark.parametrize("options", [Estimator(aliases="any"), Estimator.preset("official", aliases="any")])
def test_belief_fields_add_up_with_any(tiny_scorer, options):
    scorer = SePerScorer(tiny_scorer.sampler, tiny_scorer.entailment, prompt="brief", estimator=options)
    (belief,) = scorer.beliefs("Who built the mill?", ["Peter Voss", "the monks", "Ann"], [()])
    row = belief_fields(belief)
    assert len({response["support"] for response in row["responses"]}) > 1
    total = sum(response["weight"] * response["support"] for response in row["responses"])
    assert row["seper"] == pytest.approx(total, abs=1e-6)


@st.composite
def beliefs(draw):
    samples, answers = draw(st.integers(1, 7)), draw(st.integers(1, 4))
    unit = st.floats(0, 1, allow_nan=False)
    log_probs = [
        torch.tensor(draw(st.lists(st.floats(-900, 0), min_size=0, max_size=4)), dtype=torch.float64)
        for _ in range(samples)
    ]
    support = torch.tensor([[draw(unit) for _ in range(answers)] for _ in range(samples)], dtype=torch.float64)
    ids = torch.tensor([draw(st.integers(0, 2)) for _ in range(samples)])
    ids = torch.unique(ids, return_inverse=True)[1]
    return log_probs, support, ids


def slow_soft(weights, support, aliases):
    masses = []
    for answer in range(support.shape[1]):
        mass = 0.0
        for sample in range(support.shape[0]):
            mass += float(weights[sample]) * float(support[sample][answer])
        masses.append(mass)
    if aliases == "any":
        return sum(float(weight) * max(row) for weight, row in zip(weights, support.tolist(), strict=True))
    return max(masses) if aliases == "max" else sum(masses) / len(masses)


def slow_hard(weights, ids, support, threshold, aliases):
    masses, gold = [0.0] * support.shape[1], set()
    for answer in range(support.shape[1]):
        for cluster in sorted(set(ids.tolist())):
            members = [sample for sample in range(len(ids)) if int(ids[sample]) == cluster]
            kernel = sum(float(support[sample][answer]) for sample in members) / len(members)
            if kernel >= threshold:
                masses[answer] += sum(float(weights[sample]) for sample in members)
                gold |= set(members)
    if aliases == "any":
        return sum(float(weights[sample]) for sample in gold)
    return max(masses) if aliases == "max" else sum(masses) / len(masses)


@given(beliefs(), st.sampled_from(["sequence", "mean_token", "uniform"]), st.sampled_from(["mean", "max", "any"]))
def test_seper_against_a_slow_loop(belief, weighting, aliases):
    log_probs, support, ids = belief
    weights = response_weights(log_probs, weighting)
    assert float(seper_soft(weights, support, aliases)) == pytest.approx(
        slow_soft(weights, support, aliases), abs=1e-9
    )
    indicator = (support > 0.5).double()  # 0/1 support: no rounding at the threshold
    hard = seper_hard(weights, ids, match_clusters(ids, indicator, 0.5), aliases)
    assert float(hard) == pytest.approx(slow_hard(weights, ids, indicator, 0.5, aliases), abs=1e-9)


@given(beliefs(), st.randoms(use_true_random=False), st.sampled_from(["mean", "max", "any"]))
def test_seper_ignores_order_of_samples_and_answers(belief, rng, aliases):
    log_probs, support, ids = belief
    samples = rng.sample(range(len(log_probs)), len(log_probs))
    answers = rng.sample(range(support.shape[1]), support.shape[1])
    before = response_weights(log_probs, "sequence")
    after = response_weights([log_probs[sample] for sample in samples], "sequence")
    shuffled = support[samples][:, answers]
    assert float(seper_soft(after, shuffled, aliases)) == pytest.approx(
        float(seper_soft(before, support, aliases)), abs=1e-9
    )
    indicator, shuffled_indicator = (support > 0.5).double(), (shuffled > 0.5).double()
    hard = seper_hard(before, ids, match_clusters(ids, indicator, 0.5), aliases)
    hard_after = seper_hard(after, ids[samples], match_clusters(ids[samples], shuffled_indicator, 0.5), aliases)
    assert float(hard_after) == pytest.approx(float(hard), abs=1e-9)


def test_match_clusters_counts_gold_answers_not_drawn(tiny_scorer):
    (belief,) = tiny_scorer.beliefs("Who built the mill?", ["Peter Voss"], [()])
    gold = belief.counts.index(0)
    assert belief.responses[gold] == "Peter Voss"
    assert belief.seper_hard >= belief.weights[gold] > 0
    ids, support = torch.tensor([0, 0, 1]), torch.tensor([[0.0], [0.0], [1.0]])
    assert match_clusters(ids, support, 0.5, counts=torch.tensor([3, 1, 0])).tolist() == [[False], [True]]
