"""Votes among a reader's answers with several retrievers (EoR, arXiv:2405.20680). Pure.

An answer's score is its similarity to the other answers, times the weight of its retriever.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

Pooling = Literal["mean", "max", "majority", "plurality"]
VotePreset = Literal["paper", "official", "default"]
Similarity = Literal["exact_match", "containment", "bertscore", "entailment", "entailment_with_question"]
SIMILARITIES: tuple[Similarity, ...] = get_args(Similarity)
_ALIKE = 0.8  # answers vote for each other above this similarity (Appendix C.4)
_DROPPED = 0.1  # weight up to which a retriever's answer cannot win; if all are dropped, none is
_MOST_OF_A_RETRIEVER = 0.6  # upper bound of a weight in the search


@dataclass(frozen=True)
class VoteOptions:
    """Options of a vote.

    The pooling turns an answer's similarities to the other answers into its support: their ``"mean"`` or ``"max"``; or
    1 for an answer with at least half of the votes of the other answers (``"majority"``), or with the most votes
    (``"plurality"``), else 0. An answer votes for all others with a similarity above 0.8. If the weights of some
    retrievers are above 0.1, only their answers can win.
    """

    # their weighted mean is the similarity of two answers
    similarities: tuple[Similarity, ...] = ("exact_match", "bertscore", "entailment", "entailment_with_question")
    pooling: Pooling = "mean"
    dropped_vote: bool = False  # whether answers of dropped retrievers still vote
    weighted_votes: bool = True  # whether an answer votes with its retriever's weight instead of 1
    abstentions_aside: bool = True  # whether blank and abstaining answers neither vote nor win, unless all are such
    most_of_a_similarity: float = 1.0  # upper bound of a similarity's weight in the search
    least_of_exact_match: float = 0.0  # lower bound of the weight of the first similarity

    def __post_init__(self) -> None:
        if not self.similarities or set(self.similarities) - set(SIMILARITIES):
            raise ValueError(f"similarities must be some of {', '.join(SIMILARITIES)}, got {self.similarities}")
        if self.pooling not in get_args(Pooling):
            raise ValueError(f"pooling must be one of {', '.join(get_args(Pooling))}, got {self.pooling!r}")

    @classmethod
    def preset(cls, name: VotePreset, pooling: Pooling = "mean") -> "VoteOptions":
        """Return published options, or ours (``"default"``), by name."""
        if name not in _PRESETS:
            raise ValueError(f"preset must be one of {', '.join(_PRESETS)}, got {name!r}")
        return cls(pooling=pooling, **_PRESETS[name])

    @property
    def places(self) -> list[int]:
        """Positions of the similarities in ``SIMILARITIES``."""
        return [SIMILARITIES.index(name) for name in self.similarities]

    def bounds(self, retrievers: int) -> list[tuple[float, float]]:
        """Return lower and upper bound of each weight: of the M similarities, then of the retrievers."""
        alike = [(0.0, self.most_of_a_similarity)] * len(self.similarities)
        alike[0] = (self.least_of_exact_match, self.most_of_a_similarity)
        return [*alike, *[(0.0, _MOST_OF_A_RETRIEVER)] * retrievers]


_PUBLISHED: dict[str, Any] = {"weighted_votes": False, "abstentions_aside": False}
_PRESETS: dict[str, dict[str, Any]] = {
    "paper": {
        **_PUBLISHED,
        "similarities": ("exact_match", "bertscore", "entailment"),
        "dropped_vote": True,
        "most_of_a_similarity": 0.6,
    },
    "official": {
        **_PUBLISHED,
        "similarities": ("containment", "bertscore", "entailment", "entailment_with_question"),
        "least_of_exact_match": 0.01,
    },
    "default": {},
}


@dataclass(frozen=True)
class VoteWeights:
    """Weights of M similarities, defined up to a factor, and of R retrievers."""

    similarities: tuple[float, ...]
    retrievers: tuple[float, ...]


def vote_scores(similarity: np.ndarray, silent: np.ndarray, weights: VoteWeights, options: VoteOptions) -> np.ndarray:
    """Return ``(Q, R)`` the score of each answer, >= 0, and -inf for answers that cannot win.

    ``similarity`` is ``(Q, K, R, R)``, in [0, 1], by ``SIMILARITIES``; ``silent`` ``(Q, R)`` marks abstaining answers.
    """
    shares = np.asarray(weights.similarities, dtype=float)
    shares = shares / shares.sum() if shares.sum() else np.full(len(shares), 1 / len(shares))
    alike = np.einsum("m,qmij->qij", shares, np.asarray(similarity, dtype=float)[:, options.places])
    strength = np.asarray(weights.retrievers, dtype=float)
    eligible = strength > _DROPPED
    if not eligible.any():
        eligible = np.ones_like(eligible)
    speaks = ~np.asarray(silent, dtype=bool)  # (Q, R)
    if not options.abstentions_aside:
        speaks = np.ones_like(speaks)
    speaks = np.where((speaks & eligible).any(axis=1, keepdims=True), speaks, True)
    votes = np.where(speaks & (eligible | options.dropped_vote), strength if options.weighted_votes else 1.0, 0.0)
    candidates = speaks & eligible
    return np.where(candidates, strength * support(alike, votes, candidates, options), -np.inf)


def winners(scores: np.ndarray, weights: VoteWeights) -> np.ndarray:
    """Return ``(Q,)`` whose answer wins by ``scores``; ties go to the greater weight, then to the first."""
    return (scores + 1e-9 * np.asarray(weights.retrievers, dtype=float)).argmax(axis=1)


def support(alike: np.ndarray, votes: np.ndarray, candidates: np.ndarray, options: VoteOptions) -> np.ndarray:
    """Return ``(Q, R)`` the support of each answer by the other answers, in [0, 1], by the pooling.

    ``alike`` is ``(Q, R, R)`` in [0, 1]; ``votes`` ``(Q, R)`` >= 0; ``candidates`` ``(Q, R)`` marks those that can
    win.
    """
    others = votes[:, None, :] * (1 - np.eye(votes.shape[1]))  # (Q, R, R): weight of j's vote for i
    if options.pooling == "mean":
        return _ratio((alike * others).sum(-1), others.sum(-1))
    if options.pooling == "max":
        return _ratio((alike * others).max(-1), others.max(axis=(-2, -1))[:, None])
    count = (others * (alike > _ALIKE)).sum(-1)
    if options.pooling == "majority":
        return 1.0 * ((2 * count >= others.sum(-1)) & (count > 0))
    return 1.0 * (count >= np.where(candidates, count, -np.inf).max(-1, keepdims=True))


def search_weights(similarity: np.ndarray, silent: np.ndarray, right: np.ndarray, options: VoteOptions) -> VoteWeights:
    """Return weights with which the winner is most often ``right``, ``(R, Q)``, for questions with known answers."""
    hits = np.asarray(right, dtype=float)
    count, questions = len(options.similarities), np.arange(hits.shape[1])

    def split(weights: Sequence[float] | np.ndarray) -> VoteWeights:
        return VoteWeights(tuple(weights[:count]), tuple(weights[count:]))

    def accuracy(weights: np.ndarray) -> float:
        candidate = split(weights)
        return float(hits[winners(vote_scores(similarity, silent, candidate, options), candidate), questions].mean())

    equal = [options.most_of_a_similarity / 2] * count
    starts = [[*equal, *strength] for strength in _starting_strengths(hits)]
    return split(_search(accuracy, starts, options.bounds(len(hits))))


def _search(
    accuracy: Callable[[np.ndarray], float], starts: Sequence[Sequence[float]], bounds: Sequence[tuple[float, float]]
) -> tuple[float, ...]:
    """Return D weights with a high accuracy, by the simplex method of Nelder and Mead (Computer Journal 7, 1965).

    Accuracy is a step function, so a small simplex sees no change. The first simplex has, next to the start, one
    corner for each weight in which this weight is switched off, or on if it was off, as in the official code.
    """
    from scipy.optimize import minimize

    low, high = (np.array(side, dtype=float) for side in zip(*bounds, strict=True))
    results = []
    for start in starts:
        first = np.clip(np.asarray(start, dtype=float), low, high)
        simplex = np.vstack([first, *(_switch(first, at, low, high) for at in range(len(first)))])
        options = {"initial_simplex": simplex, "xatol": 1e-3, "fatol": 1e-6}
        results.append(
            minimize(lambda point: -accuracy(point), first, method="Nelder-Mead", bounds=list(bounds), options=options)
        )
    best = min(results, key=lambda result: float(result.fun))
    return tuple(map(float, best.x))


def _starting_strengths(right: np.ndarray) -> list[np.ndarray]:
    """Return two starting points ``(R,)`` of a search: proportional to accuracy, and the best retriever alone."""
    accuracies = np.asarray(right, dtype=float).mean(axis=1)
    best = accuracies.max()
    proportional = accuracies / best if best else np.ones_like(accuracies)
    alone = np.arange(len(accuracies)) == accuracies.argmax()
    return [_MOST_OF_A_RETRIEVER * proportional, _MOST_OF_A_RETRIEVER * alone]


def _switch(weights: np.ndarray, place: int, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    other = weights.copy()
    other[place] = low[place] if weights[place] > low[place] else high[place]
    return other


def _ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    return np.divide(part, whole, out=np.zeros(np.broadcast_shapes(np.shape(part), np.shape(whole))), where=whole > 0)
