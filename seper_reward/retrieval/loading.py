"""Retrievers, and what they find, by the names that settings give them."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from seper_reward.retrieval.base import Retriever
from seper_reward.retrieval.bm25 import BM25Retriever
from seper_reward.retrieval.dense import DenseRetriever, WordLlamaEncoder
from seper_reward.retrieval.fusion import FusedRetriever
from seper_reward.runtime.imports import need
from seper_reward.runtime.pretrained import embedded_encoder_folder, helpful_errors, no_accelerator
from seper_reward.types import Passage


def load_retriever(name: str, corpus: Mapping[str, Passage]) -> Retriever:
    """Return a retriever over a corpus.

    Args:
        name: ``"bm25"``, ``"minilm"`` (dense, the embedded all-MiniLM-L6-v2), ``"wordllama"`` (mean embeddings of
            tokens, without a forward pass), the hub id or folder of another bi-encoder, or several of these with plus
            signs between them, as in ``"bm25+minilm"``, which are mixed (``FusedRetriever``).
        corpus: Passages by id.

    Raises:
        OSError: A bi-encoder cannot be loaded, or a library is not installed.
        ValueError: No passage has a word to search for.
    """
    if "+" in name and not Path(name).is_dir():
        return FusedRetriever([load_retriever(part, corpus) for part in name.split("+")])
    if name == "bm25":
        return BM25Retriever(corpus)
    if name == "wordllama":
        return DenseRetriever(WordLlamaEncoder.load(), corpus, dtype=torch.float32)
    source = str(embedded_encoder_folder()) if name == "minilm" else name
    library = need("sentence_transformers", "retrieval")
    with helpful_errors("retriever", name, "bm25, minilm, a local folder or a hub id, or wordllama"):
        encoder = library.SentenceTransformer(source, device="cpu" if no_accelerator() else None)
    return DenseRetriever(encoder, corpus)


def retrieve_sources(
    names: Sequence[str], corpus: Mapping[str, Passage], questions: Sequence[str]
) -> dict[str, list[tuple[Passage, ...]]]:
    """Return what each source finds for each question, best first.

    Args:
        names: ``"none"``, which retrieves nothing, or the name of a retriever (``load_retriever``) and how many
            passages it finds, as in ``"bm25@5"``. Each retriever is loaded and asked once.
        corpus: Passages by id.
        questions: The questions.

    Raises:
        ValueError: A name has another form.
        OSError: A retriever cannot be loaded.
    """
    depths = {name: _depth(name) for name in names}
    found: dict[str, list[tuple[Passage, ...]]] = {}
    for retriever in sorted({_retriever(name) for name in names} - {""}):
        most = max(depths[name] for name in names if _retriever(name) == retriever)
        found[retriever] = load_retriever(retriever, corpus).retrieve(questions, most)
    found[""] = [()] * len(questions)
    return {name: [passages[:depth] for passages in found[_retriever(name)]] for name, depth in depths.items()}


def _retriever(name: str) -> str:
    return "" if name == "none" else name.rpartition("@")[0]


def _depth(name: str) -> int:
    _, _, depth = name.rpartition("@")
    if name != "none" and not (_retriever(name) and depth.isdecimal() and int(depth) >= 1):
        raise ValueError(f"sources must be none or RETRIEVER@NUMBER such as bm25@5, got {name!r}")
    return 0 if name == "none" else int(depth)
