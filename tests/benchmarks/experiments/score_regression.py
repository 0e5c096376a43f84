"""Regression of a cross-encoder's score on the label itself, so that 0 means as good as no passage."""

import statistics
from collections.abc import Sequence
from typing import Any

import torch
from sentence_transformers import CrossEncoder
from sentence_transformers.cross_encoder import CrossEncoderTrainingArguments
from sentence_transformers.util import batch_to_device
from torch import Tensor, nn

from seper_reward.labels.targets import lists_to_learn, shortened
from seper_reward.retrieval import next_hop
from seper_reward.types import LabeledQuery
from trainers.ranking.data import RankingConfig
from trainers.reranker import fit


def regression_rows(
    labeled: Sequence[LabeledQuery], config: RankingConfig, error_floor: float
) -> list[dict[str, Any]]:
    """Return ``{query, passages, labels}`` rows for regression, with (label, weight) in the place of each label.

    A label weighs 1 / (std_error² + error_floor²), scaled so that the mean weight is 1. Its error is the whole one,
    with that of the baseline, as the label itself is the target and not its difference to others. For the same reason
    labels are not rounded, shrunk or shifted, and questions whose labels hardly differ are kept: where no passage
    changes anything, or all do alike, there is the zero to learn from. In a next hop 0 is as good as the given ones;
    these were chosen as the best of several noisy ones, so that what others add to them is measured a little too low.

    Args:
        labeled: The labelled queries.
        config: Settings; ``learn_from`` says which labels are learned, and ``list_size`` is the most passages of a
            row, chosen by ``shortened``.
        error_floor: Error that every label has besides its own, > 0, such as that of the judge.

    Raises:
        ValueError: No label is left, or labels of sets are to be learned from, and there are none.
    """
    labeled = lists_to_learn(labeled, config.learn_from, next_hop, marks=config.labeler == "gold")
    if config.list_size is not None:
        labeled = [shortened(row, config.list_size) for row in labeled]
    labeled = [row for row in labeled if row.labels]
    if not labeled:
        raise ValueError("expected questions with labels, got none; label questions with passages")
    precisions = [[1 / (error**2 + error_floor**2) for error in row.std_errors] for row in labeled]
    mean = statistics.fmean(precision for row in precisions for precision in row)
    return [
        {
            "query": row.query.question,
            "passages": [passage.full_text for passage in row.query.passages],
            "labels": [[label, each / mean] for label, each in zip(row.labels, own, strict=True)],
        }
        for row, own in zip(labeled, precisions, strict=True)
    ]


def weighted_mse(scores: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
    """Squared error of scores against labels, weighted.

    Args:
        scores: ``(P,)`` scores of the passages of a batch.
        labels: ``(P,)`` labels, on the scale that the scores shall have.
        weights: ``(P,)`` weights, >= 0, with a mean of 1 over the training set rather than over the batch: a batch of
            unsure labels moves the model less.

    Returns:
        Scalar >= 0: the sum of weighted squared errors over P.
    """
    return (weights * (scores - labels).square()).mean()


class RegressionLoss(nn.Module):
    """``weighted_mse`` of a cross-encoder's raw scores, for sentence-transformers' trainer.

    sentence-transformers' own ``MSELoss`` has no weights.

    Args:
        model: The cross-encoder, with one score per pair.
    """

    def __init__(self, model: CrossEncoder) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, inputs: list[Any], labels: list[Tensor], prompt: str | None = None, task: str | None = None
    ) -> Tensor:
        """Return the loss of a batch of questions, lists of passages and ``(P, 2)`` labels with weights."""
        queries, lists = inputs
        pairs = [(query, passage) for query, passages in zip(queries, lists, strict=True) for passage in passages]
        features = batch_to_device(self.model.preprocess(pairs, prompt=prompt, task=task), self.model.device)
        scores = self.model(features)["scores"].view(-1).float()
        targets, weights = torch.cat(labels).to(scores).unbind(-1)
        return weighted_mse(scores, targets, weights)


def train(
    model: CrossEncoder,
    labeled: Sequence[LabeledQuery],
    config: RankingConfig,
    error_floor: float,
    arguments: CrossEncoderTrainingArguments,
) -> list[dict[str, float]]:
    """Train the model in place, whose scores are its raw ones afterwards, also when it is loaded again.

    Raises:
        ValueError: There are no labels to learn from.
    """
    model.activation_fn = nn.Identity()  # one score has a sigmoid otherwise, and then no zero
    return fit(model, regression_rows(labeled, config, error_floor), RegressionLoss(model), arguments)
