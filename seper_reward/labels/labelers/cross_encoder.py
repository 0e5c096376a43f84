"""A trained reranker as labeler, for distillation into a bi-encoder (arXiv:2010.02666)."""

import functools
from typing import TYPE_CHECKING

import torch

from seper_reward.labels.labelers.base import PassageLabeler
from seper_reward.runtime.hashing import hash_with_tokenizer, weights_hash
from seper_reward.runtime.imports import need
from seper_reward.types import LabeledQuery, Query

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder


class CrossEncoderLabeler(PassageLabeler):
    """Labels a passage by the logit of a ``CrossEncoder`` with one output; 0 has no meaning, and errors are 0."""

    name = "cross_encoder"
    needs_answers = False

    def __init__(self, model: "CrossEncoder") -> None:
        self._model = model

    @classmethod
    def from_pretrained(cls, folder: str) -> "CrossEncoderLabeler":
        """Load the cross-encoder in a folder; ``OSError`` if there is none."""
        return cls(need("sentence_transformers", "retrieval").CrossEncoder(folder))

    @functools.cached_property
    def weights_hash(self) -> str:
        """Hash of the model's weights, and of how it divides and cuts texts, computed once."""
        return hash_with_tokenizer([weights_hash(self._model), self._model.max_seq_length], self._model.tokenizer)

    @property
    def fingerprint(self) -> dict[str, object]:
        """Everything in this labeler that affects a label, JSON-able."""
        return {"labeler": self.name, "weights": self.weights_hash}

    @property
    def device(self) -> torch.device:
        """Device of the model."""
        return torch.device(self._model.device)

    def label(self, query: Query) -> LabeledQuery:
        """Return the score of each passage."""
        pairs = [(query.question, passage.full_text) for passage in query.passages]
        scores = self._model.predict(pairs, activation_fn=torch.nn.Identity(), show_progress_bar=False)
        return LabeledQuery(query, tuple(map(float, scores)), (0.0,) * len(pairs))
