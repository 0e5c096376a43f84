"""The pairs of texts to be scored for entailment, and the belief computed from the scores: pure functions."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from seper_reward.estimators.clustering import cluster_ids, predictive_entropy, semantic_entropy
from seper_reward.estimators.draws import (
    Draws,
    drawn_by_mass,
    drawn_by_weight,
    estimate,
    has_mass,
    log_odds,
)
from seper_reward.estimators.seper import (
    Estimator,
    entailment_kernel,
    join_answers,
    match_clusters,
    no_contradiction,
    response_weights,
    without_end_token,
)
from seper_reward.types import Answers, Belief, Responses, answer_aliases, answer_items

Pair = tuple[str, str]  # premise, hypothesis


def first_pairs(options: Estimator, sampled: Responses, answers: Answers) -> set[Pair]:
    """Return the pairs to be judged first: of responses and answers, and of drawn responses in one direction."""
    texts, aliases = {*sampled.texts, *(leaf.text for leaf in sampled.known_leaves)}, answer_aliases(answers)
    among = itertools.combinations(sorted(sampled.texts), 2)  # a text that occurs twice is paired with itself
    backward = itertools.product(aliases, texts) if _reads_backward(options) else ()
    return {*itertools.product(texts, aliases), *backward, *among}


def second_pairs(options: Estimator, sampled: Responses, probs: Mapping[Pair, Tensor]) -> set[Pair]:
    """Return the reverse of each pair of responses whose first direction entails; equivalence needs both."""
    pairs = itertools.combinations(sorted(set(sampled.texts)), 2)
    return {(two, one) for one, two in pairs if _entails(options, probs[one, two])}


def belief(options: Estimator, sampled: Responses, answers: Answers, probs: Mapping[Pair, Tensor]) -> Belief:
    """Compute the belief in the gold answer, which has A aliases, from S sampled responses.

    ``probs`` are class probabilities ``(K,)``, entailment first, of the pairs of ``first_pairs`` and ``second_pairs``.
    """
    draws = weigh(options, sampled)
    texts = draws.responses.texts
    support, agrees = _support(options, texts, answers, probs)
    ids = response_clusters(options, texts, probs)
    gold = match_clusters(ids, agrees, _threshold(options), options.judged_by, draws.counts)
    items = list(map(len, answer_items(answers)))
    best = join_answers(draws.weights, support, options.aliases, items)
    matched = join_answers(draws.weights, gold[ids].double(), options.hard_aliases or options.aliases, items)
    soft = estimate(draws, best)
    # entropies do not use the gold answer's own probability
    own = drawn_by_mass(replace(sampled, known_leaves=())) if _by_mass(options, sampled) else draws
    clusters = dict(zip(draws.responses.texts, ids.tolist(), strict=True))
    own_ids = ids if own is draws else torch.tensor([clusters[text] for text in own.responses.texts])
    return Belief(
        soft=soft,
        hard=estimate(draws, matched),
        log_odds=log_odds(soft.value),
        answer_log_prob=_answer_log_prob(options, sampled),
        question_log_prob=sampled.question_log_prob,
        entropy=float(predictive_entropy(sampled.token_log_probs)),
        semantic_entropy=float(semantic_entropy(own.weights, own_ids)),
        unseen_mass=draws.unseen_mass if _by_mass(options, sampled) else None,
        sampled=draws.responses,
        counts=tuple(draws.counts.tolist()),
        weights=tuple(draws.weights.tolist()),
        cluster_ids=tuple(ids.tolist()),
        support=tuple(map(tuple, support.tolist())),
        best_support=tuple(join_answers(draws.weights, support, "any", items).tolist()),
    )


def response_clusters(options: Estimator, texts: Sequence[str], probs: Mapping[Pair, Tensor]) -> Tensor:
    """Return the semantic cluster of each of S texts, ``(S,)`` as in ``cluster_ids``; ``probs`` as in ``belief``."""
    # pairs whose first direction does not entail, and pairs with a text that was not drawn, are not in probs
    both = [[(one, two) in probs and _entails(options, probs[one, two]) for two in texts] for one in texts]
    return cluster_ids(torch.tensor(both), options.clusters)  # of (S, S) bool


def weigh(options: Estimator, sampled: Responses) -> Draws:
    """Return the distinct responses of a sample, weighted according to the options."""
    if _by_mass(options, sampled):
        return drawn_by_mass(sampled)
    log_probs: Sequence[Tensor] = sampled.token_log_probs
    if options.end_token == "left_out":
        log_probs = without_end_token(log_probs, sampled.finished)
    weighting = "uniform" if options.weighting == "mass" else options.weighting
    return drawn_by_weight(sampled, response_weights(log_probs, weighting), join=options.judged_texts == "cleaned")


def _answer_log_prob(options: Estimator, sampled: Responses) -> float | None:
    """Return the best known alias's mean log-probability, which belongs to weights by mass; else ``None``."""
    known = sampled.known_leaves if options.weighting == "mass" else ()
    return max((leaf.mean_log_prob for leaf in known), default=None)


def _by_mass(options: Estimator, sampled: Responses) -> bool:
    """Return whether responses are weighted by their own mass; if it is unknown, all weigh the same."""
    return options.weighting == "mass" and has_mass(sampled)


def _support(
    options: Estimator, responses: Sequence[str], answers: Answers, probs: Mapping[Pair, Tensor]
) -> tuple[Tensor, Tensor]:
    """Return the support of each alias by each response, for soft and for hard SePer, ``(S, A)`` each."""
    aliases = answer_aliases(answers)
    forward = _table(probs, responses, aliases)  # (S, A, K)
    backward = _table(probs, aliases, responses).transpose(0, 1) if _reads_backward(options) else None

    def kernel(score: Callable[[Tensor], Tensor]) -> Tensor:
        return entailment_kernel(score(forward), None if backward is None else score(backward), options.kernel)

    support = ((kernel(_probability) - options.floor) / (1 - options.floor)).clamp(min=0.0)
    if options.match == "no_contradiction" and backward is not None:
        return support, no_contradiction(forward, backward).float()
    if options.match == "equivalent" and backward is not None:
        return support, torch.minimum(_probability(forward), _probability(backward))
    return support, kernel(_agreement(options))


def _reads_backward(options: Estimator) -> bool:
    return options.kernel != "forward" or options.match in ("equivalent", "no_contradiction")


def _entails(options: Estimator, class_probs: Tensor) -> bool:
    return bool(_agreement(options)(class_probs) >= _threshold(options))


def _agreement(options: Estimator) -> Callable[[Tensor], Tensor]:
    return _probability if options.match in ("threshold", "equivalent") else _likeliest


def _threshold(options: Estimator) -> float:
    """Return the minimum agreement of a match; 0.5 if agreement is 0 or 1: half of a cluster's members are enough."""
    return options.threshold if options.match in ("threshold", "equivalent") else 0.5


def _table(probs: Mapping[Pair, Tensor], premises: Sequence[str], hypotheses: Sequence[str]) -> Tensor:
    rows = [torch.stack([probs[premise, hypothesis] for hypothesis in hypotheses]) for premise in premises]
    return torch.stack(rows)  # (premises, hypotheses, K)


def _probability(class_probs: Tensor) -> Tensor:
    return class_probs[..., 0]


def _likeliest(class_probs: Tensor) -> Tensor:
    return (class_probs.argmax(-1) == 0).float()
