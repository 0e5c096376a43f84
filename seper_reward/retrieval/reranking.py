"""Rerankers: order the candidates of a question, best first."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import torch

from seper_reward.retrieval.dense import DenseRetriever
from seper_reward.runtime.imports import need
from seper_reward.runtime.pretrained import embedded_encoder_folder, helpful_errors, no_accelerator
from seper_reward.types import Passage

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder, SentenceTransformer

MINILM = "minilm"
_SCORES_PAIRS = "ForSequenceClassification"  # suffix of the architecture names of cross-encoders


class Reranker(Protocol):
    """Orders the candidates of a question."""

    def rerank(self, question: str, passages: Sequence[Passage]) -> tuple[Passage, ...]:
        """Return all passages, best first; equal ones keep their order."""


class CrossEncoderReranker:
    """Orders passages by a cross-encoder's score of question and passage together; the model has one output."""

    def __init__(self, model: "CrossEncoder") -> None:
        self._model = model

    def rerank(self, question: str, passages: Sequence[Passage]) -> tuple[Passage, ...]:
        """Return all passages, best first; equal ones keep their order."""
        if not passages:
            return ()
        pairs = [(question, passage.full_text) for passage in passages]
        scores = self._model.predict(pairs, activation_fn=torch.nn.Identity(), show_progress_bar=False)
        order = sorted(range(len(passages)), key=lambda place: -float(scores[place]))
        return tuple(passages[place] for place in order)


class BiEncoderReranker:
    """Orders passages by the similarity of a bi-encoder's embeddings."""

    def __init__(self, encoder: "SentenceTransformer") -> None:
        self._encoder = encoder

    def rerank(self, question: str, passages: Sequence[Passage]) -> tuple[Passage, ...]:
        """Return all passages, best first."""
        if not passages:
            return ()
        candidates = {str(place): passage for place, passage in enumerate(passages)}
        (ranked,) = DenseRetriever(self._encoder, candidates).retrieve([question], len(passages))
        return ranked


def load_reranker(name: str) -> Reranker:
    """Return a reranker by name: ``"minilm"``, which compares embeddings, or a cross-encoder's folder or hub id.

    Raises ``ValueError`` if the model is not a cross-encoder: its scores would come from a new, random head.
    """
    library = need("sentence_transformers", "retrieval")
    device = "cpu" if no_accelerator() else None
    if name == MINILM:
        return BiEncoderReranker(library.SentenceTransformer(str(embedded_encoder_folder()), device=device))
    with helpful_errors("reranker", name, f"{MINILM}, or a cross-encoder's folder or hub id"):
        model = library.CrossEncoder(name, device=device)
    architectures = getattr(model.config, "architectures", None) or []
    if not any(architecture.endswith(_SCORES_PAIRS) for architecture in architectures) or model.num_labels != 1:
        raise ValueError(
            f"reranker={name!r} must be a cross-encoder with one score per pair, got {', '.join(architectures)} with "
            f"{model.num_labels}; train one with `seper-reward train reranker`, or use {MINILM}"
        )
    return CrossEncoderReranker(model)
