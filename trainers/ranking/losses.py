"""Losses for training a bi-encoder on labels of passages, with any number of passages per question.

The losses are pure functions of scores and labels; ``ListLoss`` calls them in sentence-transformers' trainer.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.data_collator import SentenceTransformerDataCollator
from torch import Tensor, nn
from torch.nn.functional import normalize

from seper_reward.retrieval.embeddings import Embedder, compares_unit_vectors

_NOTHING = -1e4  # logit of no probability mass; -inf would give NaN gradients
#: Vectors of shape ``(D,)`` by text, for ``query`` and ``passages``.
TextVectors = Mapping[str, Mapping[str, Tensor]]
_REFERENCE = "reference"  # key of the untrained model's vectors in a batch
TEMPERATURE = 0.05  # divides similarities
_ROUNDING = 1e-5  # tolerance: the difference of the labels 0.3 and 0.2 must reach a margin of 0.1


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


def contrastive(
    scores: Tensor, labels: Tensor, others: Tensor, *, temperature: float = TEMPERATURE, margin: float = 0.1
) -> Tensor:
    """InfoNCE with helpful passages as positives (arXiv:1807.03748), mean over the positives of the batch.

    A question may have several positives. Each is contrasted only with its own negatives, so positives whose labels
    differ by less than ``margin`` do not compete.

    Args:
        scores: ``(Q, P)`` similarities.
        labels: ``(Q, P)``; NaN as padding. A positive has a label of at least ``margin``; its negatives are the
            question's passages at least ``margin`` below it.
        others: ``(Q, N)`` similarities with the other questions' passages (in-batch negatives); -inf at masked
            positions.
        temperature: Number that divides the similarities, > 0.
        margin: Minimum label of a positive, and minimum distance to its negatives, > 0.

    Returns:
        Scalar >= 0, in nats; 0 (with a zero gradient) if no question has a positive.
    """
    positives = labels.nan_to_num(-torch.inf) >= margin - _ROUNDING
    # (Q, P, P): is the second a negative of the first?
    negatives = positives[:, :, None] & (labels[:, :, None] - labels[:, None, :] >= margin - _ROUNDING)
    own = (scores[:, None, :] / temperature).masked_fill(~negatives, _NOTHING).logsumexp(-1)  # (Q, P)
    foreign = (others / temperature).clamp(min=_NOTHING).logsumexp(-1, keepdim=True)  # (Q, 1)
    scaled = scores / temperature
    losses = torch.logaddexp(scaled, torch.logaddexp(own, foreign)) - scaled
    return losses.masked_fill(~positives, 0.0).sum() / positives.sum().clamp(min=1)


def kl_regularized(
    scores: Tensor,
    labels: Tensor,
    others: Tensor,
    reference: Tensor,
    reference_others: Tensor,
    *,
    temperature: float = TEMPERATURE,
) -> Tensor:
    """KL divergence from a reference's ranking reweighted by labels, mean over questions, in nats.

    Retrieval is a policy: the softmax of similarities over passages. The policy with the highest expected label minus
    T times its KL divergence from a reference policy is reference · exp(label / T), normalised (the objective of RLHF;
    arXiv:2305.18290, eq. 4). The loss is KL(student || this policy). A passage with label 0, or without a label, such
    as another question's, keeps its place in the reference. Unlike losses over a question's own passages, this loss
    depends on the zero point of the labels, which ``shrink`` moves towards a question's mean.

    Similarities ``scores`` and labels, divided by T, are ``(Q, P)``, with NaN labels as padding; ``others`` ``(Q, N)``
    are those with the other questions' passages, -inf at masked positions. The reference's are those of the untrained
    model. ``temperature`` > 0 divides similarities.
    """
    unlabeled = (reference_others / temperature).masked_fill(others.isinf(), torch.nan)
    best = torch.cat([reference / temperature + labels, unlabeled], -1)
    return reverse_kl(torch.cat([scores, others], -1), best, temperature=temperature)


class ListLoss(nn.Module):
    """A loss over each question's list of passages, for sentence-transformers' trainer.

    The loss is a function of the model's similarities ``(Q, P)`` and labels ``(Q, P)`` with NaN as padding; if
    ``in_batch``, also of the similarities with the other questions' passages; with ``reference``, also of both kinds
    of similarities of the reference, whose vectors come from the collator.
    """

    def __init__(
        self, model: nn.Module, loss: Callable[..., Tensor], in_batch: bool = False, reference: bool = False
    ) -> None:
        super().__init__()
        self.model, self.loss, self.in_batch, self.reference = model, loss, in_batch, reference
        self._unit = compares_unit_vectors(model)

    def forward(self, features: list[dict[str, Tensor]], labels: Tensor) -> Tensor:
        """Embed the questions and all passages of a batch made by ``ListCollator``; return the loss."""
        references = [side.pop(_REFERENCE) for side in features] if self.reference else None
        texts = features[1]["input_ids" if "input_ids" in features[1] else "sentence_embedding"]  # a row for each text
        queries, passages = (self.model(side)["sentence_embedding"].float() for side in features)
        if self._unit:
            queries, passages = normalize(queries, dim=-1), normalize(passages, dim=-1)
        there = ~labels.isnan()
        owner = there.nonzero()[:, 0]  # passages come question by question
        own = owner == torch.arange(len(labels), device=owner.device)[:, None]  # (Q, sum of P)

        def own_scores(similarities: Tensor) -> Tensor:
            return torch.zeros_like(labels).masked_scatter(there, similarities[own])

        similarities = queries @ passages.T  # (Q, sum of P)
        if not self.in_batch:
            return self.loss(own_scores(similarities), labels)
        # a passage of another question is not a negative if this question has a passage with the same text
        number = texts.unique(dim=0, return_inverse=True)[1]  # type: ignore[no-untyped-call]
        same = number[:, None] == number[None]
        own_text = (own[:, :, None] & same[None]).any(1)  # (Q, sum of P)
        given = [own_scores(similarities), labels, similarities.masked_fill(own_text, -torch.inf)]
        if references is not None:
            before = references[0] @ references[1].T
            given += [own_scores(before), before.masked_fill(own_text, -torch.inf)]
        return self.loss(*given)


@dataclass
class ListCollator(SentenceTransformerDataCollator):
    """Collates rows of ``query``, ``passages`` and ``labels``; all questions' passages form one list of texts.

    Labels become ``(Q, P)``, with NaN where a question has fewer passages than the longest list. A ``reference`` has
    the vectors of the untrained model.
    """

    reference: TextVectors | None = None

    def __call__(self, features: list[dict[str, Any]]) -> dict[str, Any]:
        """Return the batch."""
        columns = {
            "query": [row["query"] for row in features],
            "passages": [text for row in features for text in row["passages"]],
        }
        batch: dict[str, Any] = {}
        prompts = self._resolve_prompts(batch) or {}
        for name, texts in columns.items():
            encoded = self.encoded(name, texts, self._get_prompt_for_column(prompts, name))
            batch |= {f"{name}_{key}": value for key, value in encoded.items()}
            if self.reference is not None:
                batch[f"{name}_{_REFERENCE}"] = torch.stack([self.reference[name][text] for text in texts])
        rows = [torch.tensor(row["labels"], dtype=torch.float32) for row in features]
        batch["label"] = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=torch.nan)
        return batch

    def encoded(self, name: str, texts: list[str], prompt: str | None) -> dict[str, Any]:
        """Return the model's inputs for one side, ``query`` or ``passages``."""
        task = "query" if name == "query" else "document"  # the route of a model with two encoders
        return self.preprocess_fn(texts, prompt=prompt, task=task)  # type: ignore[no-any-return]


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
