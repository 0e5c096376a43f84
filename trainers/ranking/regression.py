"""Labels predicted by ridge regression on a bi-encoder's embeddings, for too few labels to fine-tune a model."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sentence_transformers import SentenceTransformer

from seper_reward.runtime.json_files import read_json, write_json
from seper_reward.types import LabeledQuery, Query

PENALTIES = (0.001, 0.01, 0.1, 1.0, 10.0)  # per unit of the labels' mean weight
FOLDS = 5

#: A function that predicts the labels of each query's passages.
Predictor = Callable[[Sequence[Query]], list[list[float]]]


class Ridge(NamedTuple):
    """A linear function of D features.

    Attributes:
        coefficients: ``(D,)`` weights.
        intercept: Prediction where all features are 0.
        penalty: Penalty that it was fitted with.
    """

    coefficients: Any
    intercept: float
    penalty: float

    def predict(self, features: Any) -> Any:
        """Return the ``(N,)`` predictions for ``(N, D)`` features."""
        return features @ self.coefficients + self.intercept


def fit_ridge(features: Any, labels: Any, weights: Any, penalty: float) -> Ridge:
    """Fit a weighted ridge regression, whose intercept is not penalised.

    Args:
        features: ``(N, D)``.
        labels: ``(N,)``.
        weights: ``(N,)`` weights > 0 of the squared errors.
        penalty: Penalty of the squared coefficients, beside the mean of the weighted squared errors, > 0.
    """
    shares = weights / weights.sum()
    center, mean = shares @ features, float(shares @ labels)
    # the dual form: there are fewer labels than features
    rows = np.sqrt(shares)[:, None] * (features - center)
    targets = np.sqrt(shares) * (labels - mean)
    dual = np.linalg.solve(rows @ rows.T + penalty * np.eye(len(rows)), targets)
    coefficients = rows.T @ dual
    return Ridge(coefficients, mean - float(center @ coefficients), penalty)


def cross_validated_ridge(features: Any, labels: Any, weights: Any, groups: Any) -> Ridge:
    """Fit a ridge regression with the penalty that predicts the labels of left-out groups best.

    Args:
        features: ``(N, D)``.
        labels: ``(N,)``.
        weights: ``(N,)`` weights > 0 of the squared errors.
        groups: ``(N,)`` number of the question that a row belongs to; all rows of one are left out together.

    Raises:
        ValueError: There are fewer than two groups.
    """
    named, numbers = np.unique(groups, return_inverse=True)  # questions without labels leave gaps
    if len(named) < 2:
        raise ValueError(f"expected labels of at least two questions, got {len(named)}; give more")
    folds = min(FOLDS, len(named))
    fold = numbers % folds
    errors = dict.fromkeys(PENALTIES, 0.0)
    for penalty in PENALTIES:
        for number in range(folds):
            out = fold == number
            found = fit_ridge(features[~out], labels[~out], weights[~out], penalty)
            errors[penalty] += float(weights[out] @ (found.predict(features[out]) - labels[out]) ** 2)
    return fit_ridge(features, labels, weights, min(errors, key=errors.__getitem__))


class EmbeddingRegression:
    """Predicts labels from what a bi-encoder knows of a question and a passage.

    The features are the question's embedding (does the reader know such things by itself?), its product with the
    passage's, element by element, and their sum, the cosine (is this what was asked?). Each of the three has a mean
    square of 1 over the training pairs.

    Args:
        encoder: The bi-encoder; it is not trained.
        scales: Numbers that the three kinds of features are multiplied with.
        ridge: The regression.
    """

    def __init__(self, encoder: SentenceTransformer, scales: Sequence[float], ridge: Ridge) -> None:
        self._encoder, self._scales, self.ridge = encoder, tuple(scales), ridge

    @classmethod
    def fit(
        cls, encoder: SentenceTransformer, labeled: Sequence[LabeledQuery], error_floor: float
    ) -> "EmbeddingRegression":
        """Fit labels with the weights 1 / (std_error² + error_floor²).

        Args:
            encoder: The bi-encoder.
            labeled: The labelled queries.
            error_floor: Error that every label has besides its own, > 0.

        Raises:
            ValueError: There are labels of fewer than two questions.
        """
        blocks = _embedded(encoder, [row.query for row in labeled])
        scales = [float(1 / np.sqrt((block**2).sum(-1).mean())) for block in blocks]
        groups: Any = np.repeat(np.arange(len(labeled)), [len(row.labels) for row in labeled])
        labels = np.array([label for row in labeled for label in row.labels])
        errors = np.array([error for row in labeled for error in row.std_errors])
        weights = 1 / (errors**2 + error_floor**2)
        ridge = cross_validated_ridge(_scaled(blocks, scales), labels, weights, groups)
        return cls(encoder, scales, ridge)

    @classmethod
    def load(cls, path: Path, encoder: SentenceTransformer) -> "EmbeddingRegression":
        """Load what ``save`` wrote; the encoder is the one that it was fitted with."""
        found = read_json(path)
        ridge = Ridge(np.array(found["coefficients"]), found["intercept"], found["penalty"])
        return cls(encoder, found["scales"], ridge)

    def save(self, path: Path) -> None:
        """Write scales and coefficients as JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        ridge = {**self.ridge._asdict(), "coefficients": self.ridge.coefficients.tolist()}
        write_json(path, {"scales": self._scales, **ridge})

    def __call__(self, queries: Sequence[Query]) -> list[list[float]]:
        """Return the predicted label of each passage of each query."""
        predicted = self.ridge.predict(_scaled(_embedded(self._encoder, queries), self._scales)).tolist()
        left = iter(predicted)
        return [[next(left) for _ in query.passages] for query in queries]


def _embedded(encoder: SentenceTransformer, queries: Sequence[Query]) -> list[Any]:
    """Return the three kinds of features of all pairs of question and passage, each ``(N, *)``."""
    options = {"normalize_embeddings": True, "show_progress_bar": False}
    questions = encoder.encode_query([query.question for query in queries], **options)
    texts = [passage.full_text for query in queries for passage in query.passages]
    passages = encoder.encode_document(texts, **options).astype(float)  # (N, D)
    repeated = np.repeat(questions, [len(query.passages) for query in queries], axis=0).astype(float)  # (N, D)
    products = repeated * passages
    return [repeated, products, products.sum(-1, keepdims=True)]


def _scaled(blocks: Sequence[Any], scales: Sequence[float]) -> Any:
    return np.concatenate([block * scale for block, scale in zip(blocks, scales, strict=True)], axis=-1)
