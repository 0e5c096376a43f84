"""Ridge regression against a slow search and limits, its penalty, and what it learns from embeddings."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

from seper_reward.types import Belief, Estimate, LabeledQuery, Passage, Query, Responses
from tests.benchmarks.experiments.regression import (
    PENALTIES,
    PassageRegression,
    cross_validated_ridge,
    fit_ridge,
    stated_share,
)

RANDOM = np.random.default_rng(6)
FEATURES = RANDOM.normal(size=(12, 3))
LABELS = RANDOM.normal(size=12)
WEIGHTS = RANDOM.uniform(0.2, 3.0, size=12)


def test_it_is_the_minimum_of_the_penalised_error():
    """A slow search for coefficients and an intercept without a penalty."""

    def loss(parameters):
        errors = FEATURES @ parameters[:3] + parameters[3] - LABELS
        return WEIGHTS @ errors**2 / WEIGHTS.sum() + 0.1 * parameters[:3] @ parameters[:3]

    slow = minimize(loss, np.zeros(4), tol=1e-12).x
    found = fit_ridge(FEATURES, LABELS, WEIGHTS, 0.1)
    assert [*found.coefficients, found.intercept] == pytest.approx(slow, abs=1e-4)
    assert found.predict(FEATURES[:2]) == pytest.approx(FEATURES[:2] @ slow[:3] + slow[3], abs=1e-4)


def test_a_great_penalty_leaves_the_weighted_mean():
    found = fit_ridge(FEATURES, LABELS, WEIGHTS, 1e9)
    assert found.predict(FEATURES) == pytest.approx([WEIGHTS @ LABELS / WEIGHTS.sum()] * 12, abs=1e-6)


def test_the_penalty_is_chosen_by_questions_left_out():
    random = np.random.default_rng(7)
    features, groups = random.normal(size=(40, 8)), np.repeat(np.arange(10), 4)
    weights = np.ones(40)
    exact = cross_validated_ridge(features, features @ np.arange(8.0), weights, groups)
    assert exact.penalty == min(PENALTIES)
    # features that tell questions apart predict their labels, but not those of a question left out
    named, levels = random.normal(size=(10, 8))[groups], random.normal(size=10)[groups]
    assert cross_validated_ridge(named, levels, weights, groups).penalty == max(PENALTIES)
    # questions 1 to 4 of each five have no labels
    assert cross_validated_ridge(named, levels, weights, 5 * groups).penalty == max(PENALTIES)
    with pytest.raises(ValueError, match="at least two questions, got 1"):
        cross_validated_ridge(features, levels, weights, np.zeros(40, dtype=int))


class Encoder:
    """Unit vectors of six numbers by text, in the place of a network."""

    def __init__(self):
        self.vectors = {}

    def add(self, text, vector):
        self.vectors[text] = np.asarray(vector) / np.linalg.norm(vector)

    def encode_query(self, texts, **options):
        return np.stack([self.vectors[text] for text in texts]).astype("float32")

    encode_document = encode_query


def answers(shares):
    """A belief with a cluster for each response, which was drawn so many of ten times."""
    texts, counts = tuple(shares), tuple(round(10 * share) for share in shares.values())
    return Belief(
        Estimate(0.5, 0.1, 0.3, 0.7), Estimate(0.5, 0.1, 0.3, 0.7), sampled=Responses(texts, ()), counts=counts,
        weights=(1 / max(1, len(texts)),) * len(texts), cluster_ids=tuple(range(len(texts))),
    )  # fmt: skip


def test_it_learns_to_mistrust_a_passage_that_contradicts_what_the_reader_is_sure_of(tmp_path):
    """Embeddings tell nothing: all texts have random ones. A sure reader is right, an unsure one knows nothing."""
    random, encoder, labeled, beliefs = np.random.default_rng(9), Encoder(), [], []
    for number in range(80):
        question, sure = f"question {number}", number % 2
        texts = (f"It was Ann {number}.", f"It was Bob {number}.")
        for text in (question, *texts):
            encoder.add(text, random.normal(size=6))
        query = Query(question, question, ("x",), tuple(map(Passage, texts)))
        labeled.append(LabeledQuery(query, (0.1, -0.8) if sure else (0.6, 0.6), (0.1, 0.1)))
        beliefs.append(answers({f"ann {number}": 0.9, "Cid": 0.1} if sure else {"Cid": 0.4, "Dan": 0.3, "Eve": 0.3}))
    queries = [row.query for row in labeled]
    trained = PassageRegression.fit(encoder, labeled[:60], beliefs[:60], error_floor=0.1)
    predicted = np.array(trained(queries[60:], beliefs[60:]))
    assert predicted[1::2, 0].min() > 0 > predicted[1::2, 1].max()  # what it says is stated; another is
    assert predicted[::2].min() > 0.3
    trained.save(tmp_path / "regression.json")
    loaded = PassageRegression.load(tmp_path / "regression.json", encoder)
    assert loaded(queries[60:], beliefs[60:]) == predicted.tolist()


def test_share_of_answers_that_a_passage_states():
    belief = answers({"Ann Lee": 0.5, "the ANN": 0.2, "": 0.1, "An": 0.2})
    assert stated_share(belief, Passage("So Ann Lee ran.")) == pytest.approx(0.7)  # no part of a word, no empty answer
    assert stated_share(belief, Passage("He ran.", "Ann")) == pytest.approx(0.2)  # a title states, too
    assert stated_share(answers({}), Passage("So Ann Lee ran.")) == 0.0


def test_gold_answers_tell_the_regression_nothing():
    """The weights of a belief know how likely the gold answer is, drawn or not; the gate must not."""
    encoder, labeled = Encoder(), []
    for text in ("question 0", "question 1", "It was Ann."):
        encoder.add(text, np.ones(6))
    for number in range(2):
        query = Query(str(number), f"question {number}", ("x",), (Passage("It was Ann."),))
        labeled.append(LabeledQuery(query, (float(number),), (0.1,)))
    known = answers({"Cid": 0.7, "Dan": 0.3})
    leaf = replace(
        known, sampled=Responses(("Cid", "Dan", "Ann"), ()), counts=(7, 3, 0), weights=(0.1, 0.1, 0.8),
        cluster_ids=(0, 1, 2), semantic_entropy=0.6,
    )  # fmt: skip
    trained = PassageRegression.fit(encoder, labeled, [known, answers({"Ann": 1.0})], error_floor=0.1)
    (query, *_) = (row.query for row in labeled)
    assert trained([query], [leaf]) == trained([query], [known])


def test_it_learns_which_questions_need_a_passage_and_which_passage(tmp_path):
    """Every other question is one that the reader knows; it is spoiled by a passage that is not on the topic."""
    random, encoder, labeled = np.random.default_rng(8), Encoder(), []
    encoder.add("Fog.", random.normal(size=6))
    for number in range(60):
        question, passage = f"question {number}", f"passage {number}"
        known = number % 2
        vector = np.array([2.0 if known else -2.0, *random.normal(size=5)])
        encoder.add(question, vector)
        encoder.add(passage, vector + 0.1 * random.normal(size=6))
        query = Query(question, question, ("x",), (Passage(passage), Passage("Fog.")))
        labeled.append(LabeledQuery(query, (-0.1, -0.8) if known else (0.7, 0.0), (0.1, 0.1)))
    beliefs = [answers({"Oslo": 1.0})] * 60
    trained = PassageRegression.fit(encoder, labeled[:50], beliefs[:50], error_floor=0.1, closed_book=False)
    predicted = np.array(trained([row.query for row in labeled[50:]], beliefs[50:]))
    truth = np.array([row.labels for row in labeled[50:]])
    assert np.abs(predicted - truth).mean() < 0.2  # a constant errs by .4
    assert (predicted[:, 0] > predicted[:, 1]).all()
    assert predicted[::2, 0].min() > max(0.0, predicted[1::2, 0].max())
    trained.save(tmp_path / "regression.json")
    loaded = PassageRegression.load(tmp_path / "regression.json", encoder)
    uneven = [labeled[50].query, replace(labeled[51].query, passages=labeled[51].query.passages[:1])]
    assert loaded(uneven, beliefs[:2]) == [
        pytest.approx(predicted[0].tolist()),
        pytest.approx(predicted[1, :1].tolist()),
    ]
