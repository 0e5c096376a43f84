"""Dense retrieval is exact search."""

import numpy as np
import pytest
import torch

from seper_reward.retrieval import (
    BM25Retriever,
    DenseRetriever,
    FusedRetriever,
    dense,
    embeddings,
    load_encoder,
    load_retriever,
    save_index,
)
from seper_reward.retrieval.dense import build_index
from seper_reward.retrieval.embeddings import Embedder
from seper_reward.types import Passage
from tests.tiny_models import make_two_encoders


def test_dense_retriever_is_exact_search(tiny_encoder):
    from sentence_transformers import SentenceTransformer

    encoder = SentenceTransformer(str(tiny_encoder), device="cpu")
    texts = ["the mill by the river", "sheep on a hill", "a ferry in the fog", "the ferry sank", "bread and salt"]
    corpus = {str(at): Passage(text, id=str(at)) for at, text in enumerate(texts)}
    questions = ["who owns the mill", "when did the ferry sink"]
    found = DenseRetriever(encoder, corpus, dtype=torch.float32).retrieve(questions, 3)
    vectors = encoder.encode([passage.full_text for passage in corpus.values()], normalize_embeddings=True)
    for question, passages in zip(questions, found, strict=True):
        scores = vectors @ encoder.encode(question, normalize_embeddings=True)
        assert [passage.id for passage in passages] == [str(at) for at in np.argsort(-scores)[:3]]
    assert len(DenseRetriever(encoder, corpus).retrieve(questions, 99)[0]) == 5
    assert DenseRetriever(encoder, corpus).retrieve([], 2) == []
    with pytest.raises(ValueError, match="top_k must be at least 1, got 0"):
        DenseRetriever(encoder, corpus).retrieve(questions, 0)


def test_load_retriever_by_name(tiny_encoder):
    corpus = {name: Passage(f"the {name} in the fog", id=name) for name in ("mill", "ferry")}
    assert isinstance(load_retriever("bm25", corpus), BM25Retriever)
    found = load_retriever(str(tiny_encoder), corpus)
    assert isinstance(found, DenseRetriever)
    assert len(found.retrieve(["mill"], 2)[0]) == 2
    fused = load_retriever(f"bm25+{tiny_encoder}", corpus)
    assert isinstance(fused, FusedRetriever)
    assert fused.retrieve(["mill"], 1) == [(corpus["mill"],)]
    with pytest.raises(
        OSError, match="retriever='no-such/encoder' could not be loaded: expected bm25, minilm, an index"
    ):
        load_retriever("no-such/encoder", corpus)
    with pytest.raises(ValueError, match=r"retriever='bm25\+': expected names joined by plus signs, got an empty one"):
        load_retriever("bm25+", corpus)


@pytest.mark.parametrize("fast", [torch.float32, torch.bfloat16])
def test_embedder_uses_the_dtype_that_is_fast(tiny_encoder, monkeypatch, fast):
    from sentence_transformers import SentenceTransformer

    encoder = SentenceTransformer(str(tiny_encoder), device="cpu")
    seen = []
    encoder[0].register_forward_hook(
        lambda *_: seen.append(torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else torch.float32)
    )
    monkeypatch.setattr(embeddings, "fast_dtype", lambda device: fast)
    corpus = {name: Passage(f"the {name} in the fog", id=name) for name in ("mill", "ferry")}
    retriever = DenseRetriever(encoder, corpus)
    assert retriever.retrieve(["the ferry in the fog"], 1) == [(corpus["ferry"],)]
    assert seen == [fast, fast]  # the corpus, then the question
    embedded = retriever.index.reconstruct_n(0, 2)
    exact = encoder.encode([passage.full_text for passage in corpus.values()], normalize_embeddings=True)
    assert np.allclose(embedded, exact, atol=0.02)
    assert np.allclose(embedded, exact, atol=1e-6) == (fast == torch.float32)


def clustered(rows, seed=0):
    """Unit vectors about 60 centres, as of passages about 60 topics."""
    random = np.random.default_rng(seed)
    vectors = random.normal(size=(60, 24))[np.arange(rows) % 60] + 0.5 * random.normal(size=(rows, 24))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


@pytest.mark.parametrize("whole", [True, False])
def test_build_index_finds_the_nearest(whole):
    vectors = clustered(3000)
    scores, rows = build_index(vectors, whole).search(vectors[:200], 5)
    exact = np.argsort(-(vectors[:200] @ vectors.T), axis=1)[:, :5]
    assert (rows[:, 0] == np.arange(200)).all()  # each itself
    overlap = np.mean([len({*one} & {*other}) / 5 for one, other in zip(rows, exact, strict=True)])
    assert overlap == 1 if whole else overlap > 0.9
    assert np.allclose(scores[:, 0], 1, atol=1e-5)


def test_build_index_of_large_corpora_is_approximate(monkeypatch):
    vectors = clustered(300)
    assert type(build_index(vectors)).__name__ == "IndexFlat"
    monkeypatch.setattr(dense, "EXACT_BELOW", 300)
    assert type(build_index(vectors)).__name__ == "IndexIVFFlat"


def test_load_index_needs_no_corpus(tiny_encoder, tmp_path):
    texts = ["the mill by the river", "sheep on a hill", "a ferry in the fog"]
    corpus = {str(at): Passage(text, id=str(at)) for at, text in enumerate(texts)}
    made = load_retriever(str(tiny_encoder), corpus)
    save_index(tmp_path, made, str(tiny_encoder))
    assert load_retriever(str(tmp_path)).retrieve(["the ferry"], 3) == made.retrieve(["the ferry"], 3)
    with pytest.raises(ValueError, match="retriever 'bm25' needs a corpus"):
        load_retriever("bm25")
    rows = (tmp_path / "passages.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "passages.jsonl").write_text("".join(rows[:2]))
    with pytest.raises(ValueError, match=r"index must hold 2 vectors, one per passage, of the encoder's .* got 3"):
        load_retriever(str(tmp_path))
    (tmp_path / "index.faiss").write_bytes(b"no index")
    with pytest.raises(OSError, match=r"index.faiss: expected an index that faiss wrote"):
        load_retriever(str(tmp_path))
    (tmp_path / "index.json").write_text("{}")
    with pytest.raises(ValueError, match=r"index.json: expected .\"encoder\": NAME"):
        load_retriever(str(tmp_path))


def test_dense_retriever_refuses_other_similarities(tiny_encoder):
    from sentence_transformers import SentenceTransformer

    encoder = SentenceTransformer(str(tiny_encoder), similarity_fn_name="euclidean", device="cpu")
    with pytest.raises(ValueError, match="must be 'cosine' or 'dot', got 'euclidean'"):
        DenseRetriever(encoder, {"1": Passage("short", id="1")})


def test_embedder_uses_prompts_and_two_encoders(tiny_encoder, tmp_path):
    from sentence_transformers import SentenceTransformer

    folder = make_two_encoders(tiny_encoder, tmp_path / "two")
    queries, passages = SentenceTransformer(str(folder), device="cpu")[0].sub_modules.values()
    queries, passages = (SentenceTransformer(modules=[*each], device="cpu") for each in (queries, passages))
    corpus = {str(at): Passage(text, id=str(at)) for at, text in enumerate(["the mill", "a ferry in the fog"])}
    retriever = load_retriever(str(folder), corpus)
    (scores,), _ = retriever.index.search(Embedder(load_encoder(str(folder))).questions(["who owns the mill?"]), 2)
    question = queries.encode("query: who owns the mill?")
    by_hand = passages.encode(["passage: the mill", "passage: a ferry in the fog"]) @ question
    assert np.allclose(scores, sorted(by_hand, reverse=True), rtol=0.02)
    assert not np.allclose(by_hand, passages.encode(["the mill", "a ferry in the fog"]) @ question, rtol=0.02)
