"""Vectors of training rows, computed once by a reference model."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor

from seper_reward.retrieval.embeddings import Embedder

#: Vectors of shape ``(D,)`` by text, for ``query`` and ``passages``.
TextVectors = Mapping[str, Mapping[str, Tensor]]


def vectors_by_text(
    model: SentenceTransformer, rows: Sequence[Mapping[str, Any]], unit: bool | None = None
) -> TextVectors:
    """Return the vectors of all texts of ``teacher_rows``; all processes must call this together.

    ``unit`` normalises them to length 1 (default: if the model's similarity needs it).
    """
    embedder = Embedder(model, unit=unit)
    queries = list(dict.fromkeys(row["query"] for row in rows))
    passages = list(dict.fromkeys(text for row in rows for text in row["passages"]))
    return {
        "query": dict(zip(queries, torch.from_numpy(embedder.questions(queries)), strict=True)),
        "passages": dict(zip(passages, torch.from_numpy(embedder.passages(passages, share=True)), strict=True)),
    }
