"""Losses for training a bi-encoder on labels of passages, with any number of passages per question.

The losses are pure functions of scores and labels; ``ListLoss`` calls them in sentence-transformers' trainer, whose
own losses need the same number of passages for each question, or compare no lists.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.data_collator import SentenceTransformerDataCollator
from torch import Tensor, nn
from torch.nn.functional import normalize

from seper_reward.retrieval.embeddings import Embedder, compares_unit_vectors

#: Vectors of shape ``(D,)`` by text, for ``query`` and ``passages``.
TextVectors = Mapping[str, Mapping[str, Tensor]]
_REFERENCE = "reference"  # key of the untrained model's vectors in a batch
TEMPERATURE = 0.05  # divides similarities


def reverse_kl(scores: Tensor, labels: Tensor, *, temperature: float = TEMPERATURE) -> Tensor:
    """KL(student || teacher), the softmax of scores against that of labels, mean over questions, in nats.

    Scores and labels, the teacher's logits, are ``(Q, P)``, with NaN labels as padding; ``temperature`` > 0 divides
    the scores. As in REPLUG-LSR (arXiv:2301.12652, eq. 5), it seeks the teacher's mode, instead of covering all likely
    passages of the teacher.
    """
    there = ~labels.isnan()
    student = (scores / temperature).masked_fill(~there, -torch.inf).log_softmax(-1)
    teacher = labels.masked_fill(~there, -torch.inf).log_softmax(-1)
    differences = (student - teacher).masked_fill(~there, 0.0)  # -inf - -inf is NaN
    return (student.exp() * differences).sum(-1).mean()


def kl_regularized(scores: Tensor, labels: Tensor, reference: Tensor, *, temperature: float = TEMPERATURE) -> Tensor:
    """KL divergence from a reference's ranking reweighted by labels, mean over questions, in nats.

    Retrieval is a policy: the softmax of similarities over passages. The policy with the highest expected label minus
    T times its KL divergence from a reference policy is reference · exp(label / T), normalised (the objective of RLHF;
    arXiv:2305.18290, eq. 4). The loss is KL(student || this policy). A passage with label 0, such as another
    question's, keeps its place in the reference, if ``shrink`` does not move the zero point of the labels.

    Similarities ``scores`` of the model and ``reference`` of the untrained one, and labels, divided by T, are
    ``(Q, N)`` with all passages of the batch; NaN labels mask passages. ``temperature`` > 0 divides similarities.
    """
    return reverse_kl(scores, reference / temperature + labels, temperature=temperature)


class ListLoss(nn.Module):
    """A loss over lists of passages, for sentence-transformers' trainer.

    It is ``reverse_kl`` of each question's own passages, or with ``reference`` ``kl_regularized`` of all passages in
    the batch, with the reference's vectors from the collator. Labels are divided by ``label_temperature``.
    """

    def __init__(self, model: nn.Module, label_temperature: float = 1.0, reference: bool = False) -> None:
        super().__init__()
        self.model, self.label_temperature, self.reference = model, label_temperature, reference
        self._unit = compares_unit_vectors(model)

    def forward(self, features: list[dict[str, Tensor]], labels: Tensor) -> Tensor:
        """Embed the questions and all passages of a batch made by ``ListCollator``; return the loss."""
        references = [side.pop(_REFERENCE) for side in features] if self.reference else None
        texts = features[1]["input_ids"]  # a row for each text
        queries, passages = (self.model(side)["sentence_embedding"].float() for side in features)
        if self._unit:
            queries, passages = normalize(queries, dim=-1), normalize(passages, dim=-1)
        similarities, labels = queries @ passages.T, labels / self.label_temperature  # (Q, N) of all passages; (Q, P)
        there = ~labels.isnan()
        owner = there.nonzero()[:, 0]  # passages come question by question
        owned = owner == torch.arange(len(labels), device=owner.device)[:, None]  # (Q, N)
        if references is None:
            return reverse_kl(torch.zeros_like(labels).masked_scatter(there, similarities[owned]), labels)
        # a passage of another question is left out if this question has a passage with the same text
        number = texts.unique(dim=0, return_inverse=True)[1]  # type: ignore[no-untyped-call]
        own_text = (owned[:, :, None] & (number[:, None] == number[None])[None]).any(1)  # (Q, N)
        spread = torch.zeros_like(similarities).masked_fill(own_text, torch.nan).masked_scatter(owned, labels[there])
        return kl_regularized(similarities, spread, references[0] @ references[1].T)


@dataclass
class ListCollator(SentenceTransformerDataCollator):
    """Collates rows of ``query``, ``passages`` (to one list of texts) and ``labels``, ``(Q, P)`` padded with NaN."""

    reference: TextVectors | None = None  # of the untrained model

    def __call__(self, features: list[dict[str, Any]]) -> dict[str, Any]:
        """Return the batch."""
        columns = {
            "query": [feature["query"] for feature in features],
            "passages": [text for feature in features for text in feature["passages"]],
        }
        batch: dict[str, object] = {}
        prompts = self._resolve_prompts(batch) or {}
        for name, texts in columns.items():
            task = "query" if name == "query" else "document"  # the route of a model with two encoders
            encoded = self.preprocess_fn(texts, prompt=self._get_prompt_for_column(prompts, name), task=task)
            batch |= {f"{name}_{key}": value for key, value in encoded.items()}
            if self.reference is not None:
                batch[f"{name}_{_REFERENCE}"] = torch.stack([self.reference[name][text] for text in texts])
        labels = [torch.tensor(feature["labels"], dtype=torch.float32) for feature in features]
        batch["label"] = nn.utils.rnn.pad_sequence(labels, batch_first=True, padding_value=torch.nan)
        return batch


def vectors_by_text(model: SentenceTransformer, examples: Sequence[Mapping[str, Any]]) -> TextVectors:
    """Return the vectors of all texts of ``teacher_rows`` as ``Embedder``; all processes must call this together."""
    embedder = Embedder(model)
    queries = list(dict.fromkeys(example["query"] for example in examples))
    passages = list(dict.fromkeys(text for example in examples for text in example["passages"]))
    return {
        "query": dict(zip(queries, torch.from_numpy(embedder.questions(queries)), strict=True)),
        "passages": dict(zip(passages, torch.from_numpy(embedder.passages(passages, share=True)), strict=True)),
    }
