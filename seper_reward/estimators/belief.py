"""The pairs of texts to be judged for a belief, and the belief computed from their scores: pure functions."""

import itertools
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from typing import Protocol

import torch
from torch import Tensor

from seper_reward.estimators.clustering import cluster_ids, predictive_entropy, semantic_entropy
from seper_reward.estimators.draws import Draws, drawn_by_mass, drawn_by_weight, estimate, has_mass
from seper_reward.estimators.seper import (
    Estimator,
    entailment_kernel,
    join_answers,
    match_clusters,
    no_contradiction,
    response_weights,
    without_end_token,
)
from seper_reward.types import Answers, Belief, Pair, Responses


class Judgements(Protocol):
    """Class probabilities of the pairs of ``pairs_of`` and ``reverse_pairs``."""

    def rows(self, pairs: Sequence[Pair]) -> Tensor:
        """Return the class probabilities of pairs, ``(n, K)``."""

    def table(self, question: str, premises: Sequence[str], hypotheses: Sequence[str]) -> Tensor:
        """Return the class probabilities of all premises and hypotheses, ``(premises, hypotheses, K)``."""


def pairs_of(options: Estimator, question: str, answers: Answers, sampled: Responses) -> set[Pair]:
    """Return the pairs that decide a belief: of responses and answers, and of drawn responses in one direction."""
    drawn = set(sampled.texts)
    texts = drawn | {leaf.text for leaf in sampled.known_leaves}
    forward = {Pair(question, text, alias) for text in texts for alias in answers}
    backward = {Pair(question, alias, text) for _, text, alias in forward} if _reads_backward(options) else set()
    return forward | backward | _one_way(question, drawn)


def reverse_pairs(
    options: Estimator, question: str, answers: Answers, sampled: Responses, judged: Judgements
) -> set[Pair]:
    """Return the other direction of those pairs of drawn responses that agree: a link needs both."""
    return set(map(_reverse, _agreeing(options, _one_way(question, sampled.texts), judged)))


def belief(options: Estimator, question: str, answers: Answers, sampled: Responses, judged: Judgements) -> Belief:
    """Compute the belief in the gold answer, which has A aliases, from S sampled responses.

    ``judged`` are the judged pairs of ``pairs_of`` and of ``reverse_pairs``.
    """
    draws = weigh(options, sampled)
    texts = draws.responses.texts
    support, agrees = _support(options, question, texts, answers, judged)
    ids = response_clusters(options, question, texts, judged, drawn=int((draws.counts > 0).sum()))
    gold = match_clusters(ids, agrees, _threshold(options), options.judged_by, draws.counts)
    best = join_answers(draws.weights, support, options.aliases)
    matched = join_answers(draws.weights, gold[ids].double(), options.hard_aliases or options.aliases)
    soft = estimate(draws, best)
    # entropies do not use the gold answer's own probability
    leafless = drawn_by_mass(replace(sampled, known_leaves=())) if _by_mass(options, sampled) else draws
    known = sampled.known_leaves if options.weighting == "mass" else ()
    clusters = dict(zip(draws.responses.texts, ids.tolist(), strict=True))
    leafless_ids = ids if leafless is draws else torch.tensor([clusters[text] for text in leafless.responses.texts])
    return Belief(
        soft=soft,
        hard=estimate(draws, matched),
        answer_log_prob=max((leaf.mean_log_prob for leaf in known), default=None),
        question_log_prob=sampled.question_log_prob,
        entropy=float(predictive_entropy(sampled.token_log_probs)),
        semantic_entropy=float(semantic_entropy(leafless.weights, leafless_ids)),
        unseen_mass=draws.unseen_mass if _by_mass(options, sampled) else None,
        sampled=draws.responses,
        counts=tuple(draws.counts.tolist()),
        weights=tuple(draws.weights.tolist()),
        cluster_ids=tuple(ids.tolist()),
        support=tuple(map(tuple, support.tolist())),
        best_support=tuple(join_answers(draws.weights, support, "any").tolist()),
    )


def response_clusters(
    options: Estimator, question: str, texts: Sequence[str], judged: Judgements, drawn: int | None = None
) -> Tensor:
    """Return the semantic cluster of each of S texts, ``(S,)`` as in ``cluster_ids``.

    The first ``drawn`` texts were drawn (default: all); each of the others is a cluster of its own.
    """
    drawn_texts = texts[:drawn]
    forward = _agreeing(options, _one_way(question, drawn_texts), judged)
    backward = _agreeing(options, set(map(_reverse, forward)), judged)
    linked = backward | set(map(_reverse, backward))
    links = [[Pair(question, one, two) in linked for two in drawn_texts] for one in drawn_texts]
    entails = torch.zeros(len(texts), len(texts), dtype=torch.bool)  # (S, S)
    entails[: len(links), : len(links)] = torch.tensor(links).view(len(links), len(links))
    return cluster_ids(entails, options.clusters)


def _one_way(question: str, texts: Iterable[str]) -> set[Pair]:
    return {Pair(question, *both) for both in itertools.combinations_with_replacement(sorted(set(texts)), 2)}


def _reverse(pair: Pair) -> Pair:
    return Pair(pair.question, pair.hypothesis, pair.premise)


def _agreeing(options: Estimator, pairs: Collection[Pair], judged: Judgements) -> set[Pair]:
    """Return the pairs whose premise entails the hypothesis."""
    agreement = _agreement(options)(judged.rows(list(pairs)))
    return set(itertools.compress(pairs, (agreement >= _threshold(options)).tolist()))


def weigh(options: Estimator, sampled: Responses) -> Draws:
    """Return the distinct responses of a sample, weighted according to the options."""
    if _by_mass(options, sampled):
        return drawn_by_mass(sampled)
    log_probs: Sequence[Tensor] = sampled.token_log_probs
    if options.end_token == "left_out":
        log_probs = without_end_token(log_probs, sampled.finished)
    weighting = "uniform" if options.weighting == "mass" else options.weighting
    return drawn_by_weight(sampled, response_weights(log_probs, weighting), join=options.judged_texts == "cleaned")


def _by_mass(options: Estimator, sampled: Responses) -> bool:
    """Return whether responses are weighted by their own mass; if it is unknown, all weigh the same."""
    return options.weighting == "mass" and has_mass(sampled)


def _support(
    options: Estimator, question: str, responses: Sequence[str], answers: Answers, judged: Judgements
) -> tuple[Tensor, Tensor]:
    """Return the support of each alias by each response, for soft and for hard SePer, ``(S, A)`` each."""
    forward = judged.table(question, responses, answers)  # (S, A, K)
    backward = judged.table(question, answers, responses).transpose(0, 1) if _reads_backward(options) else None

    def kernel(score: Callable[[Tensor], Tensor]) -> Tensor:
        return entailment_kernel(score(forward), None if backward is None else score(backward), options.kernel)

    support = kernel(_probability)
    if options.match == "no_contradiction" and backward is not None:
        return support, no_contradiction(forward, backward).float()
    if options.match == "equivalent" and backward is not None:
        return support, torch.minimum(_probability(forward), _probability(backward))
    return support, kernel(_agreement(options))


def _reads_backward(options: Estimator) -> bool:
    return options.kernel != "forward" or options.match in ("equivalent", "no_contradiction")


def _agreement(options: Estimator) -> Callable[[Tensor], Tensor]:
    return _probability if options.match in ("threshold", "equivalent") else _likeliest


def _threshold(options: Estimator) -> float:
    """Return the minimum agreement of a match; 0.5 if agreement is 0 or 1: half of a cluster's members are enough."""
    return options.threshold if options.match in ("threshold", "equivalent") else 0.5


def _probability(class_probs: Tensor) -> Tensor:
    return class_probs[..., 0]


def _likeliest(class_probs: Tensor) -> Tensor:
    return (class_probs.argmax(-1) == 0).float()
