"""Only the last layer learns: what it learns, its checkpoints, and vectors that several retrievers share."""

import json
from pathlib import Path

import pytest
import torch
from sentence_transformers import SentenceTransformer

from seper_reward.retrieval import DenseRetriever
from seper_reward.retrieval.embeddings import Embedder
from seper_reward.runtime.parser import parse_options
from seper_reward.types import Passage
from tests.benchmarks.experiments import new_head
from tests.benchmarks.experiments.new_head import with_new_head
from tests.benchmarks.experiments.only_head import (
    HeadCollator,
    HeadConfig,
    below_head,
    learn,
    retriever_of,
    split_at_head,
    through,
)
from tests.trainers.test_ranking_losses import ROWS, features_and_labels
from trainers.models import load_encoder
from trainers.ranking.data import read_questions
from trainers.ranking.losses import ListCollator, ListLoss, vectors_by_text
from trainers.ranking.run import RankingRun
from trainers.retriever import RetrieverArguments, train_rounds


@pytest.fixture
def encoder(tiny_encoder):
    return SentenceTransformer(str(tiny_encoder), device="cpu").eval()


@pytest.fixture
def settings(retriever_settings):
    return retriever_settings


def weights(folder):
    return SentenceTransformer(str(folder), device="cpu").state_dict()


@pytest.mark.slow
def test_only_the_new_head_learns(settings, tmp_path, tiny_encoder, tiny_scorer):
    weak = tmp_path / "weak"
    assert new_head.main(["--model", str(tiny_encoder), "--dimension", "8", "--output_dir", str(weak)]) == 0
    settings = [*settings, "--model", str(weak), "--only_head", "true", "--max_steps", "4"]
    each_step = ["--eval_strategy", "steps", "--eval_steps", "1", "--save_steps", "1", "--save_total_limit", "9"]
    best = ["--load_best_model_at_end", "true", "--metric_for_best_model", "eval_ndcg@5", "--save_strategy", "steps"]
    words = [*settings, "--warmup_steps", "0", *each_step, *best]
    config, arguments = parse_options((HeadConfig, RetrieverArguments), words, "head")
    run = RankingRun(tmp_path / "run", tmp_path / "embeddings", read_questions(config), tiny_scorer, None)
    trained = train_rounds(run, config, arguments, learn=learn)
    before, after = weights(weak), trained.state_dict()
    changed = [name for name in before if not torch.equal(before[name], after[name])]
    assert [name.partition(".")[2] for name in changed] == ["linear.weight"]
    assert len(before[changed[0]]) == 8
    # checkpoints hold the head alone, and the best of them is taken
    checkpoints = tmp_path / "run" / "round-1" / "checkpoints"
    states = [json.loads(path.read_text()) for path in checkpoints.glob("*/trainer_state.json")]
    (found,) = {state["best_model_checkpoint"] for state in states if state["global_step"] == 4}
    heads = {path.name: next(iter(weights(path).values())) for path in checkpoints.glob("checkpoint-*")}
    assert len(heads) == 4
    assert [name for name, head in heads.items() if torch.equal(head, after[changed[0]])] == [Path(found).name]
    with pytest.raises(ValueError, match=r"needs a model with a linear layer at its end"):
        split_at_head(SentenceTransformer(str(tiny_encoder), device="cpu"))


def test_retrievers_of_one_body_share_what_is_below_the_head(tmp_path, tiny_encoder, monkeypatch):
    corpus = {str(at): Passage(text, id=str(at)) for at, text in enumerate(("The mill.", "A ferry.", "Ida Voss."))}
    body = load_encoder(str(tiny_encoder))
    models = [new_head.with_new_head(body, 8, seed) for seed in (0, 1)]
    expected = [DenseRetriever(model, corpus, dtype=torch.float32) for model in models]
    config = HeadConfig(only_head=True)
    questions = ["Who owns the mill?", "When does the ferry leave?"]
    found = []
    for model, whole in zip(models, expected, strict=True):
        if found:  # the first one has read the corpus for all
            monkeypatch.setattr(Embedder, "_passage_chunk", None)
        found.append(retriever_of(model, config, corpus, tmp_path))
        vectors, other = (each.index.reconstruct_n(0, 3) for each in (found[-1], whole))
        assert vectors == pytest.approx(other, abs=0.02)  # of bf16, where that is fast
        assert found[-1].retrieve(questions, 3) == whole.retrieve(questions, 3)
    assert len(list(tmp_path.glob("*.npy"))) == 1
    assert found[0].index.reconstruct(0) != pytest.approx(found[1].index.reconstruct(0), abs=0.05)


def test_a_head_on_vectors_made_once_learns_what_it_learns_on_tokens(encoder):
    model = with_new_head(encoder, 8, seed=0).eval()
    split = split_at_head(model)
    head, below = split.head, below_head(split, ROWS)
    assert below["query"].keys() == {"who built the mill", "when did it sink"}
    gradients = []
    on_tokens = ListCollator(preprocess_fn=encoder.preprocess, reference=vectors_by_text(model, ROWS))
    once = HeadCollator(preprocess_fn=encoder.preprocess, reference=through(head, below), below=below)
    for part, collator in ((model, on_tokens), (head, once)):
        ListLoss(part, 0.2, reference=True)(*features_and_labels(collator)).backward()
        gradients.append(head[0].linear.weight.grad.clone())
        head.zero_grad()
    assert gradients[0].abs().max() > 0.01
    assert torch.allclose(*gradients, rtol=0.1, atol=0.02 * gradients[0].abs().max().item())  # bodies run in bf16
