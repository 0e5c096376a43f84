"""The reranker's recipe on tiny models, and the way on: distilling it into a bi-encoder."""

import json
from dataclasses import replace

import pytest
import torch
from sentence_transformers import CrossEncoder

from seper_reward import load_labels
from seper_reward.judge.entailment import load_entailment
from seper_reward.options import ModelOptions
from seper_reward.retrieval import next_query
from seper_reward.runtime.pretrained import EMBEDDED
from seper_reward.types import LabeledQuery, Passage, Query
from tests.helpers import on_two_ranks
from trainers import reranker, retriever
from trainers.reranker import RerankerArguments, RerankerConfig, load_cross_encoder, rerank, train

MILL = Query(
    "q", "Who built the mill?", ("Ann",),
    (Passage("Sheep graze.", id="a"), Passage("Bob built it.", id="b"), Passage("Ann built it.", id="c")),
)  # fmt: skip


@pytest.fixture
def model(tiny_encoder):
    torch.manual_seed(3)
    return CrossEncoder(str(tiny_encoder), num_labels=1, device="cpu")


def arguments(folder, **options):
    return RerankerArguments(
        output_dir=str(folder), learning_rate=3e-3, max_steps=60, save_strategy="no", bf16=False,
        disable_tqdm=True, lr_scheduler_type="constant", **options,
    )  # fmt: skip


def test_train_learns_the_order_of_labels(model, tmp_path):
    before = {name: weight.clone() for name, weight in model.named_parameters()}
    labeled = [LabeledQuery(MILL, (0.02, -0.6, 0.8), (0.0, 0.0, 0.0))]
    log = train(model, labeled, RerankerConfig(), arguments(tmp_path, logging_steps=1))
    (order,) = rerank(model, [MILL.passages], [MILL])
    assert [passage.id for passage in order] == ["c", "a", "b"]  # what misleads is below what is useless
    assert log[-1]["loss"] < log[0]["loss"]
    assert any(not torch.equal(before[name], weight) for name, weight in model.named_parameters())


def test_rerank_orders_hop_by_hop():
    sheep, bob, ann = MILL.passages
    scores = {
        MILL.question: {sheep: 0.1, bob: 0.7, ann: 0.2},
        next_query(MILL.question, [bob]): {sheep: 0.9, ann: 0.2},
        next_query(MILL.question, [sheep]): {bob: 0.1, ann: 0.3},
        "Who?": {ann: -1.0, sheep: -2.0},
        next_query("Who?", [ann]): {sheep: 0.0},
    }

    class Scripted:
        def predict(self, pairs, **options):
            texts = {passage.full_text: passage for passage in MILL.passages}
            return [scores[question].get(texts[text], 9.0) for question, text in pairs]  # what was read scores best

    rankings, queries = [MILL.passages, (sheep, ann)], [MILL, replace(MILL, question="Who?")]
    assert rerank(Scripted(), rankings, queries) == [(bob, ann, sheep), (ann, sheep)]
    assert rerank(Scripted(), rankings, queries, hops=2) == [(bob, sheep, ann), (ann, sheep)]
    assert rerank(Scripted(), [], []) == []


def test_train_on_paths_learns_what_is_missing_given_what_was_read(model, tmp_path):
    marked = [LabeledQuery(MILL, (0.0, 1.0, 1.0), (0.0, 0.0, 0.0), graded=True)]
    train(model, marked, RerankerConfig(learn_from="paths", labeler="gold"), arguments(tmp_path))
    (order,) = rerank(model, [MILL.passages], [MILL], hops=2)
    assert order[2].id == "a"


@pytest.fixture
def tiny_start(tiny_entailment, monkeypatch):
    """Put the tiny entailment model in the place of the embedded one, and return it."""
    loaded = load_entailment(str(tiny_entailment), ModelOptions(dtype="float32", device="cpu"))
    monkeypatch.setattr(reranker, "load_entailment", lambda name, options: loaded)
    return loaded.model


def test_load_cross_encoder_keeps_what_the_judge_learned(tiny_start, tmp_path):
    """One score over the entailment model's body, which a list of fewer passages and tokens trains."""
    start = load_cross_encoder(EMBEDDED, 64)
    body = tiny_start.bert.state_dict()
    assert all(torch.equal(weight, body[name]) for name, weight in start.model.bert.state_dict().items())
    assert start.predict([(MILL.question, "Ann built it. " * 99)] * 2).shape == (2,)
    seen = []
    start.model.bert.embeddings.register_forward_hook(lambda _, given, embedded: seen.append(embedded.shape))
    labeled = [LabeledQuery(replace(MILL, passages=MILL.passages * 9), (0.0, -0.5, 0.8) * 9, (0.0,) * 27)]
    train(start, labeled, RerankerConfig(list_size=4), RerankerArguments(str(tmp_path), max_steps=1, bf16=False))
    assert seen[0][0] == 4
    assert seen[0][1] <= 64


def test_load_cross_encoder_is_whole_on_each_process(tiny_start, tmp_path):
    def load(rank):
        return load_cross_encoder(EMBEDDED, 64).model.bert.embeddings.word_embeddings.weight.sum().item()

    first, second = on_two_ranks(load, tmp_path)
    assert first == second == tiny_start.bert.embeddings.word_embeddings.weight.sum().item()


def test_main_trains_a_reranker_that_a_retriever_distils(retriever_settings, tmp_path, tiny_encoder, monkeypatch):
    ordered = []

    def recorded(model, rankings, *rest):
        ordered.extend(map(len, rankings))
        return rerank(model, rankings, *rest)

    monkeypatch.setattr(reranker, "rerank", recorded)
    retriever_settings += ["--limit", "12"]
    words = [*retriever_settings, "--retriever", str(tiny_encoder), "--output_dir", str(tmp_path / "reranker")]
    assert reranker.main([*words, "--top_k", "12"]) == 0
    assert set(ordered) == {12}  # as many as are labelled
    assert len(list((tmp_path / "reranker" / "embeddings").iterdir())) == 1  # the corpus, embedded once
    results = json.loads((tmp_path / "reranker" / "results.json").read_text())
    assert set(results) >= {"before", "after", "labels", "seconds", "log", "lead"}
    folder = tmp_path / "reranker" / "model"
    assert "Reranker trained on seper_gain labels" in (folder / "README.md").read_text()
    distilled = ["--labeler", str(folder), "--output_dir", str(tmp_path / "distilled")]
    assert retriever.main([*retriever_settings, *distilled]) == 0
    row = load_labels(tmp_path / "distilled").labeled()[0]  # the field of the labels is named after the folder
    score = CrossEncoder(str(folder), device="cpu").predict(
        [(row.query.question, row.query.passages[0].full_text)], activation_fn=torch.nn.Identity()
    )
    assert row.labels[0] == pytest.approx(float(score[0]), abs=1e-4)
