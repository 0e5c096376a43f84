"""Losses that teach a bi-encoder the labels of its passages; any number of passages a question.

The losses are functions of scores and labels; ``ListLoss`` feeds them from sentence-transformers' trainer.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from sentence_transformers.sentence_transformer.data_collator import SentenceTransformerDataCollator
from torch import Tensor, nn
from torch.nn.functional import logsigmoid, normalize

_NOTHING = -1e4  # log of no probability mass; -inf alone has no gradient
_ROUNDING = 1e-5  # labels are multiples of a resolution: 0.3 - 0.2 must reach a margin of 0.1


def kl_divergence(scores: Tensor, labels: Tensor, *, temperature: float = 0.05, reverse: bool = False) -> Tensor:
    """KL divergence between the softmax of labels (teacher) and of scores (student), mean over questions.

    Args:
        scores: ``(Q, P)`` similarities.
        labels: ``(Q, P)`` teacher logits; NaN where a question has no more passages.
        temperature: of the student, > 0.
        reverse: KL(student || teacher), as in REPLUG-LSR (arXiv:2301.12652, eq. 5): seeks the teacher's mode, instead
            of KL(teacher || student), which covers all that the teacher finds likely (Atlas, arXiv:2208.03299).

    Returns:
        Scalar >= 0, in nats.
    """
    there = ~labels.isnan()
    student = (scores / temperature).masked_fill(~there, -torch.inf).log_softmax(-1)
    teacher = labels.masked_fill(~there, -torch.inf).log_softmax(-1)
    from_, to = (student, teacher) if reverse else (teacher, student)
    differences = (from_ - to).masked_fill(~there, 0.0)  # -inf - -inf
    return (from_.exp() * differences).sum(-1).mean()


def margin_mse(scores: Tensor, labels: Tensor, *, temperature: float = 1.0) -> Tensor:
    """Squared error of score differences against label differences (Margin-MSE, arXiv:2010.02666, eq. 7).

    Over all pairs of passages of a question, where the original has one pair.

    Args:
        scores: ``(Q, P)`` similarities.
        labels: ``(Q, P)``; NaN where a question has no more passages.
        temperature: a difference of this much in score stands for 1 in label, > 0.

    Returns:
        Scalar >= 0: mean over the pairs of a question, then over questions.
    """
    there = ~labels.isnan()
    errors = scores / temperature - labels.nan_to_num()
    differences = errors[:, :, None] - errors[:, None, :]  # (Q, P, P): the two margins' difference
    pairs = (there[:, :, None] & there[:, None, :]).triu(1)
    return ((differences.square() * pairs).sum((1, 2)) / pairs.sum((1, 2)).clamp(min=1)).mean()


def ranknet(scores: Tensor, labels: Tensor, *, temperature: float = 0.05, margin: float = 0.1) -> Tensor:
    """Logistic loss of each pair whose labels differ by ``margin`` (RankNet, Burges et al., 2005).

    Pairs within the margin are left as they are: that useless passages have about equal labels, or that a reader who
    knows the answer needs none, does not teach the model to find them equally good.

    Args:
        scores: ``(Q, P)`` similarities.
        labels: ``(Q, P)``; NaN where a question has no more passages.
        temperature: of the scores, > 0.
        margin: > 0.

    Returns:
        Scalar >= 0, in nats: mean over the pairs of the batch; 0 (with a zero gradient) if there is none.
    """
    better = labels[:, :, None] - labels[:, None, :] >= margin - _ROUNDING  # (Q, P, P); false with NaN
    differences = (scores[:, :, None] - scores[:, None, :]) / temperature
    return -(logsigmoid(differences) * better).sum() / better.sum().clamp(min=1)


def contrastive(
    scores: Tensor,
    labels: Tensor,
    others: Tensor,
    *,
    temperature: float = 0.05,
    margin: float = 0.1,
) -> Tensor:
    """InfoNCE with helpful passages as positives (arXiv:1807.03748), mean over the positives of the batch.

    Args:
        scores: ``(Q, P)`` similarities.
        labels: ``(Q, P)``; NaN where a question has no more passages. Positives have at least ``margin``; negatives of
            a positive are at least ``margin`` below it (hard, where a retriever proposed them).
        others: ``(Q, N)`` similarities with the other questions' passages (in-batch negatives); -inf where none.
        temperature: > 0.
        margin: > 0.

    Returns:
        Scalar >= 0, in nats; 0 (with a zero gradient) if no question has a positive.
    """
    positives = labels.nan_to_num(-torch.inf) >= margin - _ROUNDING
    # (Q, P, P): is the second a negative of the first?
    negatives = positives[:, :, None] & (labels[:, :, None] - labels[:, None, :] >= margin - _ROUNDING)
    own = (scores[:, None, :] / temperature).masked_fill(~negatives, _NOTHING).logsumexp(-1)  # (Q, P)
    in_batch = (others / temperature).clamp(min=_NOTHING).logsumexp(-1, keepdim=True)  # (Q, 1)
    scaled = scores / temperature
    losses = torch.logaddexp(scaled, torch.logaddexp(own, in_batch.expand_as(own))) - scaled
    return losses.masked_fill(~positives, 0.0).sum() / positives.sum().clamp(min=1)


class ListLoss(nn.Module):
    """A loss over each question's list of passages, for sentence-transformers' trainer.

    Args:
        model: the bi-encoder.
        loss: of ``(scores, labels)``, cosine similarities ``(Q, P)`` and labels with NaN as padding.
        in_batch: the loss takes the similarities with the other questions' passages as its third argument.
    """

    def __init__(self, model: nn.Module, loss: Callable[..., Tensor], in_batch: bool = False) -> None:
        super().__init__()
        self.model, self.loss, self.in_batch = model, loss, in_batch

    def forward(self, features: list[dict[str, Tensor]], labels: Tensor) -> Tensor:
        """Embed the questions and all passages (``ListCollator``'s batch) and return the loss."""
        asked, read = features
        tokens = read["input_ids"]
        queries, passages = (
            normalize(self.model(part)["sentence_embedding"].float(), dim=-1) for part in (asked, read)
        )
        similarities = queries @ passages.T  # (Q, sum of P)
        there = ~labels.isnan()
        owner = there.nonzero()[:, 0]  # passages come question by question
        own = owner == torch.arange(len(queries), device=owner.device)[:, None]  # (Q, sum of P)
        scores = torch.zeros_like(labels).masked_scatter(there, similarities[own])
        if not self.in_batch:
            return self.loss(scores, labels)
        same = (tokens[:, None] == tokens[None]).all(-1)  # equal texts of two questions are no negatives
        mine_too = (own[:, :, None] & same[None]).any(1)  # (Q, sum of P)
        return self.loss(scores, labels, similarities.masked_fill(mine_too, -torch.inf))

    def get_config_dict(self) -> dict[str, Any]:
        """Return what the model card tells."""
        function = self.loss.func if isinstance(self.loss, partial) else self.loss
        return {"loss": function.__name__, **(self.loss.keywords if isinstance(self.loss, partial) else {})}


@dataclass
class ListCollator(SentenceTransformerDataCollator):
    """Batches rows of ``query``, ``passages`` and ``labels``: passages of all questions in one sequence of texts.

    Labels become ``(Q, P)``, with NaN where a question has fewer than the longest list.
    """

    def __call__(self, features: list[dict[str, Any]]) -> dict[str, Any]:
        """Return the batch."""
        columns = {
            "query": [row["query"] for row in features],
            "passages": [text for row in features for text in row["passages"]],
        }
        batch: dict[str, Any] = {}
        prompts = self._resolve_prompts(batch) or {}
        for name, texts in columns.items():
            encoded = self.preprocess_fn(texts, prompt=self._get_prompt_for_column(prompts, name), task=None)
            batch |= {f"{name}_{key}": value for key, value in encoded.items()}
        rows = [torch.tensor(row["labels"], dtype=torch.float32) for row in features]
        batch["label"] = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=torch.nan)
        return batch
