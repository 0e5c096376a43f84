"""A trained reranker as labeler: to distil it into a bi-encoder (arXiv:2010.02666)."""

import functools
from pathlib import Path
from typing import Any

from seper_reward.models import weights_hash
from seper_reward.reader.prompts import passage_text
from seper_reward.runtime.imports import need
from seper_reward.types import LabeledQuery, Query


class CrossEncoderLabeler:
    """Labels a passage by a cross-encoder's raw score (logit): unbounded, 0 means nothing, no standard error.

    Args:
        model: a ``CrossEncoder`` of sentence-transformers with one output.
        name: what to call it in logs.
    """

    def __init__(self, model: Any, name: str = "cross_encoder") -> None:
        self.name, self._model = name, model

    @functools.cached_property
    def weights_hash(self) -> str:
        """Hash of the model's weights, computed once."""
        return weights_hash(self._model)

    @classmethod
    def from_pretrained(cls, folder: str) -> "CrossEncoderLabeler":
        """Load it from a folder that ``trainers.reranker`` or sentence-transformers saved.

        Raises:
            OSError: sentence-transformers is not installed, or the folder holds no such model.
        """
        return cls(need("sentence_transformers", "retrieval").CrossEncoder(folder), Path(folder).name)

    def label(self, query: Query) -> LabeledQuery:
        """Return the scores."""
        from torch import nn

        pairs = [(query.question, passage_text(passage)) for passage in query.passages]
        scores = self._model.predict(pairs, activation_fn=nn.Identity(), show_progress_bar=False)
        return LabeledQuery(query, tuple(map(float, scores)), (0.0,) * len(pairs))
