"""Embeddings are kept by weights and texts, and made once."""

import numpy as np
import pytest
import torch

from seper_reward.retrieval import embeddings
from seper_reward.retrieval.embeddings import Embedder


@pytest.fixture
def encoder(tiny_encoder):
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(tiny_encoder), device="cpu")


@pytest.fixture
def embedded(encoder, monkeypatch):
    """The texts that a forward pass has seen since."""
    seen, encode = [], encoder.encode_document
    monkeypatch.setattr(encoder, "encode_document", lambda texts, **more: seen.extend(texts) or encode(texts, **more))
    return seen


TEXTS = [f"the mill number {number}" + " by the river" * (number % 3) for number in range(10)]


def test_embedder_passages_are_embedded_once(encoder, embedded, tmp_path, monkeypatch):
    monkeypatch.setattr(embeddings, "CHUNK", 4)
    embedder = Embedder(encoder, dtype=torch.float32)
    plain = embedder.passages(TEXTS)
    assert plain.shape == (10, encoder.get_embedding_dimension())
    assert plain.dtype == np.float32
    assert np.allclose(plain, encoder.encode(TEXTS, normalize_embeddings=True), atol=1e-6)
    embedded.clear()
    assert np.allclose(embedder.passages(TEXTS, tmp_path), plain, atol=1e-6)
    assert embedded == TEXTS
    embedded.clear()
    assert np.allclose(embedder.passages([*TEXTS, "a ferry"], tmp_path)[:10], plain, atol=1e-6)
    assert embedded == [*TEXTS[8:], "a ferry"]  # the last chunk alone has changed
    assert not list(tmp_path.glob("*.tmp"))


def test_embedder_stores_vectors_by_all_that_decides_them(encoder, embedded, tmp_path):
    Embedder(encoder, dtype=torch.float32).passages(TEXTS, tmp_path)
    Embedder(encoder, dtype=torch.bfloat16).passages(TEXTS, tmp_path)
    with torch.no_grad():
        next(encoder.parameters()).add_(0.1)
    Embedder(encoder, dtype=torch.float32).passages(TEXTS, tmp_path)
    encoder.max_seq_length = 4
    Embedder(encoder, dtype=torch.float32).passages(TEXTS, tmp_path)
    encoder.truncate_dim = 2
    assert Embedder(encoder, dtype=torch.float32).passages(TEXTS, tmp_path).shape == (10, 2)
    assert embedded == TEXTS * 5


def test_embedder_in_two_runs_at_once(encoder, tmp_path, monkeypatch):
    """Another run writes the same vectors while a file of ours is open."""
    save = np.save

    def after_another_run(file, vectors, **more):
        monkeypatch.setattr(np, "save", save)
        Embedder(encoder, dtype=torch.float32).passages(TEXTS, tmp_path)
        save(file, vectors, **more)

    monkeypatch.setattr(np, "save", after_another_run)
    assert Embedder(encoder, dtype=torch.float32).passages(TEXTS, tmp_path).shape[0] == len(TEXTS)
    assert [path.suffix for path in tmp_path.iterdir()] == [".npy"]


def test_embedder_resumes_an_interrupted_run(encoder, tmp_path, monkeypatch):
    monkeypatch.setattr(embeddings, "CHUNK", 4)
    embedder, encode, seen = Embedder(encoder, dtype=torch.float32), encoder.encode_document, []

    def breaks(texts, **more):
        if TEXTS[8] in texts and "" not in seen:
            seen.append("")
            raise KeyboardInterrupt
        seen.extend(texts)
        return encode(texts, **more)

    monkeypatch.setattr(encoder, "encode_document", breaks)
    with pytest.raises(KeyboardInterrupt):
        embedder.passages(TEXTS, tmp_path)
    embedder.passages(TEXTS, tmp_path)
    assert seen == [*TEXTS[:8], "", *TEXTS[8:]]
