"""Query-side trainings: their questions, labels, loss and table."""

import math

import numpy as np
import pytest
import torch

from seper_reward.data.splits import split_of
from seper_reward.retrieval import next_query
from seper_reward.runtime.json_files import read_json, write_json
from seper_reward.types import Query
from tests.benchmarks.experiments import query_side
from tests.benchmarks.experiments.conftest import TEXTS
from tests.benchmarks.experiments.query_side import (
    LABELS,
    UNTRAINED,
    Frame,
    leads_over,
    may_teach,
    may_test,
    measured,
    table,
    targets,
    train,
    train_all,
)
from trainers.options import RetrieverConfig
from trainers.ranking.losses import kl_regularized


def test_no_question_is_trained_on_and_tested_and_the_reader_knows_none_that_is_labelled():
    sets = ("popqa", "hotpotqa_distractor", "2wikimultihopqa", "nq_oracle_bm25neg")
    queries = [Query(f"q{at}", "Who?", ("Ann",), metadata={"set": name}) for name in sets for at in range(200)]
    taught = [query for query in queries if may_teach(query)]
    counts = [sum(query.metadata["set"] == name for query in taught) for name in sets]
    assert 80 < counts[0] < 120
    assert 30 < counts[1] < 70
    assert counts[3] == 0
    assert all(split_of(query.id) != "train" for query in taught if query.metadata["set"] != "popqa")
    nq = [query for query in queries[-200:] if may_test(query)]
    assert {split_of(query.id) for query in nq} == {"test"}


def test_the_question_learns_and_the_passages_stay(frame):
    model = query_side.load_encoder("embedded", 128)
    vectors = frame.vectors.clone()
    before = frame.rank(model, ["Who saw it?"], 4)[0]
    worst = before[-1]
    rows = [{"query": "Who saw it?", "passages": [each.text for each in before], "labels": [0.0, 0.0, 0.0, 1.0]}]
    train(model, frame, rows * 64, 0.2, seed=0, rate=1e-3)
    assert frame.rank(model, ["Who saw it?"], 4)[0][0] == worst
    assert (frame.vectors == vectors).all()


def test_train_leaves_out_what_a_second_search_has_read(frame, monkeypatch):
    """The passage that a query repeats is the nearest; the loss must not hold its place, nor any other's."""
    losses = []

    def loss(scores, labels, reference):
        losses.append(labels)
        return kl_regularized(scores, labels, reference)

    monkeypatch.setattr(query_side, "kl_regularized", loss)
    query = next_query("Who saw it?", [frame.passages[2]])
    rows = [{"query": query, "passages": TEXTS, "labels": [0.0] * 4}]
    train(query_side.load_encoder("embedded", 128), frame, rows, 0.2, seed=0)
    assert [labels.isnan().tolist() for labels in losses] == [[[False, False, True, False]]] * query_side.EPOCHS


def test_measures_are_those_of_the_marks(frame):
    rankings = frame.rank(query_side.load_encoder("embedded", 128), ["Who saw it?"], 4)
    (row,) = measured(rankings, frame.queries[:1], query_side.MEASURES)
    place = row["passages"].index("1")
    assert row["recall@1"] == float(place == 0)
    assert row["recall@20"] == 1.0
    assert row["ndcg@10"] == pytest.approx(1 / math.log2(place + 2))


def test_labels_by_hand(frame, tmp_path, monkeypatch):
    numbers = {
        "delta_seper": 0.3, "delta_seper_hard": 0.2, "delta_belief": 0.25, "seper_gain": 0.75, "question_gain": 1.0,
        "std_error": 0.1, "std_error_gain": 0.05, "answer_log_prob": -1.0, "responses": [],
    }  # fmt: skip
    passages = [
        {"passage_id": str(at), "title": "", "text": text, "metadata": {"relevant": at == 1}, **numbers}
        for at, text in enumerate(TEXTS)
    ]
    bare = {"answer_log_prob": -3.0, "std_error": 0.2, "responses": []}
    row = {"id": "q", "question": "Who saw it?", "answers": ["Ann"], "baseline": bare, "passages": passages}
    monkeypatch.setattr(query_side, "read_label_rows", lambda folder: {"x": row})

    def found(name):
        (labeled,) = targets(frame, tmp_path, name)
        return labeled.labels, labeled.std_errors

    assert found("seper_gain") == ((0.75,) * 4, (0.05,) * 4)
    assert found("likelihood") == ((2.0,) * 4, (0.0,) * 4)
    assert found("contains x bm25") == ((0.0, 1.0, 0.0, 0.0), (0.0,) * 4)
    assert found("bm25")[0][1] == 1.0  # the one passage with a word of the question that is no stop word
    assert found("human labels") == ((0.0, 1.0, 0.0, 0.0), (0.0,) * 4)


@pytest.mark.parametrize("weights", ["question", "all"])
def test_other_questions_are_ranked_by_what_was_trained(frame, tmp_path, monkeypatch, weights):
    vectors, rank = [], Frame.rank

    def spied(frame, model, questions, top, passages):
        vectors.append(passages)
        return rank(frame, model, questions, top, passages)

    monkeypatch.setattr(Frame, "rank", spied)
    train_all(frame, tmp_path, tmp_path / "trained", ["human labels"], RetrieverConfig(), weights=weights)
    trained = read_json(tmp_path / "trained" / "human labels-0.json")
    assert trained["rows"] == 1
    assert "tested" in [question["id"] for question in trained["questions"]]
    assert torch.equal(vectors[0], frame.vectors)
    assert torch.equal(vectors[1], frame.vectors) == (weights == "question")


def test_a_second_round_learns_from_labels_of_what_the_first_one_ranks_first(frame, tmp_path, monkeypatch):
    ranked, labelled = [], []
    rank, targets_anew = Frame.rank, query_side.targets_anew

    def spied(*args):
        ranked.append(rank(*args))
        return ranked[-1]

    def labelled_by(*args):
        labelled.extend(targets_anew(*args))
        return labelled

    monkeypatch.setattr(Frame, "rank", spied)
    monkeypatch.setattr(query_side, "targets_anew", labelled_by)
    monkeypatch.setattr(query_side, "TOP", 3)
    config = RetrieverConfig(rounds=2)
    train_all(frame, tmp_path, tmp_path / "trained", ["human labels"], config, weights="all")
    (row,) = labelled
    assert row.query.id == "learnt"
    assert row.query.passages == ranked[1][0]  # the first ranking is the untrained retriever's
    assert row.labels == tuple(float(passage.id == "1") for passage in ranked[1][0])


def test_other_candidates_are_labelled_by_the_reader(frame, tmp_path):
    rows = query_side.candidates(frame, query_side.load_encoder("embedded", 128))
    (labeled,) = query_side.targets_anew(frame, tmp_path, "seper_gain", rows)
    best = max(zip(labeled.labels, labeled.query.passages, strict=True))[1]
    assert best.text == "Ann saw the house."
    assert (tmp_path / "cache.sqlite").is_file()


def test_leads_over_other_trainings_are_of_the_same_labels(tmp_path):
    values = {
        ("two", "bm25"): 0.75, ("two", UNTRAINED): 0.0,
        ("one", "bm25"): 0.5, ("one", UNTRAINED): 0.0, ("one", "likelihood"): 0.25,
    }  # fmt: skip
    for (folder, name), value in values.items():
        row = {"set": "popqa", **dict.fromkeys(query_side.MEASURES, value)}
        (tmp_path / folder).mkdir(exist_ok=True)
        write_json(tmp_path / folder / f"{name}-0.json", {"questions": [{"id": f"q{at}", **row} for at in range(3)]})
    text = " ".join(leads_over(tmp_path / "two", tmp_path / "one").split())
    assert text.count("| 0.250 ") == len(query_side.MEASURES) + 2
    assert "likelihood" not in text
    write_json(tmp_path / "one" / "likelihood-0.json", {"questions": [{"id": "other", **row}]})
    with pytest.raises(ValueError, match="expected the same questions"):
        leads_over(tmp_path / "two", tmp_path / "one")


def test_the_table_has_means_and_leads_by_set(tmp_path):
    rng, sets = np.random.default_rng(0), ["popqa"] * 30 + ["nq_oracle_bm25neg"] * 20
    values = {}
    for name, seed in [(LABELS[0], 0), (LABELS[0], 1), (UNTRAINED, 0)]:
        values[name, seed] = rng.random(50)
        if name == UNTRAINED:
            values[name, seed][[3, 8, 40]] = 0.0  # the last is of NQ, which is in no column of the three sets
        questions = [{"id": "q", "set": each, **dict.fromkeys(query_side.MEASURES, float(value))}
                     for each, value in zip(sets, values[name, seed], strict=True)]  # fmt: skip
        write_json(tmp_path / f"{name}-{seed}.json", {"questions": questions})
    text = " ".join(table(tmp_path).split())  # without the padding of cells
    mean = (values[LABELS[0], 0][:30].mean() + values[LABELS[0], 1][:30].mean()) / 2
    assert "popqa (n=30)" in text
    assert f"| {LABELS[0]} | {mean:.3f} / {mean:.3f}" in text
    errs = (values[LABELS[0], 0][[3, 8]].mean() + values[LABELS[0], 1][[3, 8]].mean()) / 2
    assert "first passage irrelevant (n=2)" in text
    assert " / ".join([f"{errs:.3f}"] * len(query_side.MEASURES)) in text
    assert f"| {UNTRAINED} | {mean - values[UNTRAINED, 0][:30].mean():.3f} [" in text
