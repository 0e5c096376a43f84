"""Retrievers of which only the last layer learns: what is below it is run once for each text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainingArguments
from sentence_transformers.base.modules import Dense
from torch import Tensor
from torch.nn.functional import normalize

from seper_reward.options import setting
from seper_reward.retrieval import DenseRetriever
from seper_reward.retrieval.dense import build_index
from seper_reward.retrieval.embeddings import Embedder
from seper_reward.types import LabeledQuery, Passage
from trainers.ranking.evaluation import RankingEvaluator
from trainers.ranking.losses import ListCollator, TextVectors, vectors_by_text
from trainers.ranking.run import teacher_rows
from trainers.retriever import RetrieverConfig, fit, train_once


@dataclass(frozen=True)
class HeadConfig(RetrieverConfig):
    """Settings of a retriever of which perhaps only the last layer learns."""

    only_head: bool = setting(
        False,
        "Whether only the model's last linear layer learns, such as that of new_head; what is below it is run once "
        "for each text of the training.",
    )


class Split(NamedTuple):
    """A bi-encoder in two: the ``body``, and the ``head`` that takes its vectors. Both share the weights with it."""

    body: SentenceTransformer
    head: SentenceTransformer


def split_at_head(model: SentenceTransformer) -> Split:
    """Divide a bi-encoder before its last linear layer; only that layer can learn then."""
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


def below_head(split: Split, rows: Sequence[Mapping[str, Any]]) -> TextVectors:
    """Return the vectors that the head takes, for all texts of ``teacher_rows``, in the dtype of its weights."""
    vectors = vectors_by_text(split.body, rows, unit=False)
    return {
        side: {text: vector.to(split.head.dtype) for text, vector in found.items()} for side, found in vectors.items()
    }


@dataclass
class HeadCollator(ListCollator):
    """Makes batches whose texts are the vectors that the head takes.

    Attributes:
        below: What ``below_head`` returned.
    """

    below: TextVectors = field(default_factory=dict)

    def encoded(self, name: str, texts: list[str], prompt: str | None) -> dict[str, Any]:
        """Return the vectors of one side, ``query`` or ``passages``."""
        return {"sentence_embedding": torch.stack([self.below[name][text] for text in texts])}


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
    """Return the index of a corpus by a model of which only the head learns; all processes must call this together."""
    split = split_at_head(model)
    texts = [passage.full_text for passage in corpus.values()]
    below = Embedder(split.body, unit=False).passages(texts, cache_dir, share=True)
    return build_index(_above(split.head, torch.from_numpy(below)).numpy())


def learn(
    model: SentenceTransformer,
    labeled: Sequence[LabeledQuery],
    config: HeadConfig,
    arguments: SentenceTransformerTrainingArguments,
    evaluator: RankingEvaluator | None = None,
) -> list[dict[str, float]]:
    """Train as ``train_once``, or only the last layer if the settings say so."""
    if not config.only_head:
        return train_once(model, labeled, config, arguments, evaluator)
    rows = teacher_rows(labeled, config)
    split = split_at_head(model.to(arguments.device))
    below = below_head(split, rows)
    before = through(split.head, below) if config.loss == "kl_regularized" else None
    collator = HeadCollator(preprocess_fn=model.preprocess, reference=before, below=below)
    return fit(split.head, rows, config, arguments, collator, evaluator)


def retriever_of(
    model: SentenceTransformer, config: HeadConfig, corpus: Mapping[str, Passage], embeddings: Path, keep: bool = False
) -> DenseRetriever:
    """Return a retriever over a corpus; all processes must call this together.

    The folder has embeddings if the same weights are used again (``keep``); with ``only_head``, it has the vectors
    below the head.
    """
    if config.only_head:
        return DenseRetriever(model, corpus, index=index_above(model, corpus, embeddings))
    return DenseRetriever(model, corpus, share=True, cache_dir=embeddings if keep else None)
