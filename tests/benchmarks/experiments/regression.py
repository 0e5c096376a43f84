"""Labels predicted by ridge regression on embeddings and a reader's answers: for too few labels to fine-tune."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sentence_transformers import SentenceTransformer

from seper_reward.data.answers import normalize_answer, share_held
from seper_reward.runtime.json_files import read_json, write_json
from seper_reward.types import Belief, LabeledQuery, Passage, Query

PENALTIES = (0.001, 0.01, 0.1, 1.0, 10.0)  # per unit of the labels' mean weight
FOLDS = 5

#: A function that predicts the labels of each query's passages, from what a reader believes without a passage, too.
Predictor = Callable[[Sequence[Query], Sequence[Belief]], list[list[float]]]


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


class PassageRegression:
    """Predicts labels from what a bi-encoder knows of a question and a passage, and from the reader's own answers.

    The features are the question's embedding (does the reader know such things by itself?), its product with the
    passage's, element by element, and their sum, the cosine (is this what was asked?); and from the answers that the
    reader gives without a passage, which need no gold answer, how unsure it is of them (semantic entropy), that times
    the cosine, how often it gives one that the passage states, and how often it gives its usual one where the passage
    states another. Each kind of features has a mean square of 1 over the training pairs.

    Args:
        encoder: The bi-encoder; it is not trained.
        scales: Numbers that the kinds of features are multiplied with.
        ridge: The regression.
        closed_book: Whether the reader's answers are among the features.
    """

    def __init__(self, encoder: SentenceTransformer, scales: Sequence[float], ridge: Ridge, closed_book: bool) -> None:
        self._encoder, self._scales, self._closed_book, self.ridge = encoder, tuple(scales), closed_book, ridge

    @classmethod
    def fit(
        cls,
        encoder: SentenceTransformer,
        labeled: Sequence[LabeledQuery],
        beliefs: Sequence[Belief],
        *,
        error_floor: float,
        closed_book: bool = True,
    ) -> "PassageRegression":
        """Fit labels with the weights 1 / (std_error² + error_floor²).

        Args:
            encoder: The bi-encoder.
            labeled: The labelled queries.
            beliefs: What the reader believes of each without a passage; without ``closed_book`` they have no effect.
            error_floor: Error that every label has besides its own, > 0.
            closed_book: Whether the reader's answers are among the features.

        Raises:
            ValueError: There are labels of fewer than two questions.
        """
        blocks = _blocks(encoder, [row.query for row in labeled], beliefs, closed_book)
        scales = [_scale(block) for block in blocks]
        groups: Any = np.repeat(np.arange(len(labeled)), [len(row.labels) for row in labeled])
        labels = np.array([label for row in labeled for label in row.labels])
        errors = np.array([error for row in labeled for error in row.std_errors])
        weights = 1 / (errors**2 + error_floor**2)
        ridge = cross_validated_ridge(_scaled(blocks, scales), labels, weights, groups)
        return cls(encoder, scales, ridge, closed_book)

    @classmethod
    def load(cls, path: Path, encoder: SentenceTransformer) -> "PassageRegression":
        """Load what ``save`` wrote; the encoder is the one that it was fitted with."""
        found = read_json(path)
        ridge = Ridge(np.array(found["coefficients"]), found["intercept"], found["penalty"])
        return cls(encoder, found["scales"], ridge, found["closed_book"])

    def save(self, path: Path) -> None:
        """Write scales and coefficients as JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        ridge = {**self.ridge._asdict(), "coefficients": self.ridge.coefficients.tolist()}
        write_json(path, {"closed_book": self._closed_book, "scales": self._scales, **ridge})

    def __call__(self, queries: Sequence[Query], beliefs: Sequence[Belief]) -> list[list[float]]:
        """Return the predicted label of each passage of each query.

        Args:
            queries: The queries.
            beliefs: What the reader believes of each without a passage; only the responses that were drawn count, so
                that gold answers do not matter.
        """
        blocks = _blocks(self._encoder, queries, beliefs, self._closed_book)
        left = iter(self.ridge.predict(_scaled(blocks, self._scales)).tolist())
        return [[next(left) for _ in query.passages] for query in queries]


def _blocks(
    encoder: SentenceTransformer, queries: Sequence[Query], beliefs: Sequence[Belief], closed_book: bool
) -> list[Any]:
    """Return the kinds of features of all N pairs of question and passage, each ``(N, *)``."""
    options = {"normalize_embeddings": True, "show_progress_bar": False}
    questions = encoder.encode_query([query.question for query in queries], **options)
    texts = [passage.full_text for query in queries for passage in query.passages]
    passages = encoder.encode_document(texts, **options).astype(float)  # (N, D)
    rows: np.ndarray = np.repeat(np.arange(len(queries)), [len(query.passages) for query in queries])  # (N,)
    repeated = questions[rows].astype(float)  # (N, D)
    products = repeated * passages
    cosines = products.sum(-1, keepdims=True)  # (N, 1)
    blocks = [repeated, products, cosines]
    if closed_book:
        shares = [_cluster_shares(belief) for belief in beliefs]
        unsure = np.array([[-(row * np.log(row)).sum()] for row in shares])[rows]  # (N, 1)
        sure = np.array([[row.max(initial=0.0)] for row in shares])[rows]
        pairs = [(belief, each) for query, belief in zip(queries, beliefs, strict=True) for each in query.passages]
        stated = np.array([[stated_share(belief, passage)] for belief, passage in pairs])
        blocks += [unsure, unsure * cosines, stated, sure * (1 - stated)]
    return blocks


def stated_share(belief: Belief, passage: Passage) -> float:
    """Return the share of the drawn responses that a passage states, word for word, normalised; in [0, 1].

    Weights of responses are not used: where the gold answer's probability is known, they know it, too.
    """
    drawn = sum(belief.counts)
    stated = (
        count
        for text, count in zip(belief.responses, belief.counts, strict=True)
        if count and normalize_answer(text) and share_held(passage.full_text, [text])
    )
    return sum(stated) / drawn if drawn else 0.0


def _cluster_shares(belief: Belief) -> Any:
    """Return the shares of the drawn responses that each answer has, in all its wordings; all above 0."""
    counts = np.bincount(belief.cluster_ids, belief.counts)
    return counts[counts > 0] / max(counts.sum(), 1)


def _scale(block: Any) -> float:
    """Return the number that gives features a mean square of 1; 0 for features that are 0 but for rounding."""
    size = float(np.sqrt((block**2).sum(-1).mean()))
    return 1 / size if size > 1e-6 else 0.0


def _scaled(blocks: Sequence[Any], scales: Sequence[float]) -> Any:
    return np.concatenate([block * scale for block, scale in zip(blocks, scales, strict=True)], axis=-1)
