"""Vectors that are made once: of training rows by a reference model, and of all texts below a head that learns."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense
from torch import Tensor
from torch.nn.functional import normalize

from seper_reward.retrieval.dense import build_index
from seper_reward.retrieval.embeddings import Embedder
from seper_reward.types import Passage

#: Vectors of shape ``(D,)`` by text, for ``query`` and ``passages``.
TextVectors = Mapping[str, Mapping[str, Tensor]]


class Split(NamedTuple):
    """A bi-encoder in two: the ``body``, and the ``head`` that takes its vectors. Both share the weights with it."""

    body: SentenceTransformer
    head: SentenceTransformer


def split_at_head(model: SentenceTransformer) -> Split:
    """Divide a bi-encoder before its last linear layer; only that layer can learn then.

    Raises:
        ValueError: It has none that takes the vectors of whole texts.
    """
    modules = list(model)
    places = [
        place
        for place, module in enumerate(modules)
        if isinstance(module, Dense) and module.module_input_name == "sentence_embedding"
    ]
    if not places:
        raise ValueError("only_head needs a model with a linear layer at its end, as Dense of sentence-transformers")
    model.requires_grad_(False)
    modules[places[-1]].requires_grad_(True)
    below, above = modules[: places[-1]], modules[places[-1] :]
    body = SentenceTransformer(modules=below, device=str(model.device), prompts=model.prompts)
    head = SentenceTransformer(modules=above, device=str(model.device))
    head.model_card_data = model.model_card_data  # the trainer counts tokens for it, which a head cannot
    return Split(body, head)


def vectors_by_text(model: SentenceTransformer, rows: Sequence[Mapping[str, Any]], unit: bool = True) -> TextVectors:
    """Return the vectors of all texts of ``teacher_rows``; all processes must call this together.

    Args:
        model: The bi-encoder, or its body.
        rows: The rows.
        unit: Whether vectors get the length 1.
    """
    embedder = Embedder(model, unit=unit)
    queries = list(dict.fromkeys(row["query"] for row in rows))
    passages = list(dict.fromkeys(text for row in rows for text in row["passages"]))
    return {
        "query": dict(zip(queries, torch.from_numpy(embedder.questions(queries)), strict=True)),
        "passages": dict(zip(passages, torch.from_numpy(embedder.passages(passages, share=True)), strict=True)),
    }


def below_head(split: Split, rows: Sequence[Mapping[str, Any]]) -> TextVectors:
    """Return the vectors that the head takes, for all texts of ``teacher_rows``, in the dtype of its weights."""
    vectors = vectors_by_text(split.body, rows, unit=False)
    return {
        side: {text: vector.to(split.head.dtype) for text, vector in found.items()} for side, found in vectors.items()
    }


def through(head: SentenceTransformer, vectors: TextVectors) -> TextVectors:
    """Return the unit vectors that a head makes of a body's vectors, on the CPU."""
    found = {}
    for side, by_text in vectors.items():
        found[side] = dict(zip(by_text, _above(head, torch.stack(list(by_text.values()))), strict=True))
    return found


@torch.no_grad()
def _above(head: SentenceTransformer, below: Tensor) -> Tensor:
    """Return the unit vectors, on the CPU, that a head makes of ``below``, one row per text."""
    head.eval()
    vectors = head({"sentence_embedding": below.to(head.device, head.dtype)})["sentence_embedding"]
    return normalize(vectors.float(), dim=-1).cpu()


def index_above(model: SentenceTransformer, corpus: Mapping[str, Passage], cache_dir: Path | None = None) -> Any:
    """Return the index of a corpus by a model of which only the head learns; all processes must call this together.

    Args:
        model: The bi-encoder.
        corpus: Passages by id.
        cache_dir: Folder that keeps the vectors below the head, which serve all models of one body; ``None`` keeps
            none.
    """
    split = split_at_head(model)
    texts = [passage.full_text for passage in corpus.values()]
    below = Embedder(split.body, unit=False).passages(texts, cache_dir, share=True)
    return build_index(_above(split.head, torch.from_numpy(below)).numpy())
