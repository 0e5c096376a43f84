"""Beliefs of many questions in many contexts."""

from collections.abc import Sequence

from seper_reward.batching import measure_shared
from seper_reward.estimators.utility import SUPPORTS
from seper_reward.reward.rollouts import Rollout
from seper_reward.runtime.messages import tell_left_out
from seper_reward.scorer import SePerScorer
from seper_reward.types import Asked, Belief, Passage, Query, UnscorableError, unwrap

Context = tuple[Passage, ...]
_ANSWERS = 64  # answers that are judged together


def measured(
    scorer: SePerScorer, queries: Sequence[Query], contexts: Sequence[Sequence[Context]], *, title: str = "measuring"
) -> list[dict[Context, Belief] | None]:
    """Measure the beliefs of questions by context, equal ones once; ``None`` for one that cannot be measured."""
    unique = [list(dict.fromkeys(sets)) for sets in contexts]
    requests = [Asked(query.question, query.answers, tuple(sets)) for query, sets in zip(queries, unique, strict=True)]
    results: list[dict[Context, Belief] | None] = []
    shared = measure_shared(
        requests, lambda batch: scorer.measure(batch, len(batch)), title, size=scorer.batch_size, scorer=scorer
    )
    for query, sets, result in zip(queries, unique, shared, strict=True):
        if isinstance(result, UnscorableError):
            tell_left_out(query.id, result)
            results.append(None)
        else:
            results.append(dict(zip(sets, result.beliefs, strict=True)))
    return results


def known_before(scorer: SePerScorer, queries: Sequence[Query]) -> list[float | None]:
    """Return each question's SePer without passages, by other samples than ``measured`` takes.

    Gains of questions that are chosen by this have no bias: the samples that are subtracted in a gain would also
    choose their sampling errors. ``None`` if the question cannot be measured, with a line in the log.
    """
    other = scorer.with_sampling(seed=scorer.sampler.options.seed + 1)
    beliefs = measured(other, queries, [[()]] * len(queries), title="measuring what the reader knows")
    return [None if by_context is None else by_context[()].seper for by_context in beliefs]


def right_answers(scorer: SePerScorer, rollouts: Sequence[Rollout]) -> list[bool]:
    """Return whether the judge finds each answer equal to the gold answer (support above .5); processes share them."""
    requests = [Asked(rollout.question, rollout.answers, (), (rollout.answer,)) for rollout in rollouts]
    judged = measure_shared(requests, scorer.measure, "judging answers", size=_ANSWERS)
    return [unwrap(result).supports[0] > SUPPORTS for result in judged]
