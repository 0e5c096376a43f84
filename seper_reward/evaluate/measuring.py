"""Beliefs of many questions in many contexts."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from tqdm.auto import tqdm

from seper_reward.batching import measure_shared, shared_beliefs
from seper_reward.reward.rollouts import Rollout
from seper_reward.runtime.messages import tell_left_out
from seper_reward.scorer import SePerScorer
from seper_reward.types import Asked, Belief, Passage, Query, UnscorableError, unwrap

Context = tuple[Passage, ...]
T = TypeVar("T")
_ANSWERS = 64  # answers that are judged together


def measured(
    scorer: SePerScorer, queries: Sequence[Query], contexts: Sequence[Sequence[Context]], *, title: str = "measuring"
) -> list[dict[Context, Belief] | None]:
    """Measure the beliefs of questions by context, equal ones once; ``None`` for one that cannot be measured."""
    distinct = [list(dict.fromkeys(each)) for each in contexts]
    asked = [Asked(query.question, query.answers, tuple(own)) for query, own in zip(queries, distinct, strict=True)]
    found: list[dict[Context, Belief] | None] = []
    for query, own, beliefs in zip(queries, distinct, shared_beliefs(scorer, asked, title), strict=True):
        if isinstance(beliefs, UnscorableError):
            tell_left_out(query.id, beliefs)
            found.append(None)
        else:
            found.append(dict(zip(own, beliefs, strict=True)))
    return found


def known_before(scorer: SePerScorer, queries: Sequence[Query]) -> list[float | None]:
    """Return each question's SePer without passages, by other samples than ``measured`` takes.

    Gains of questions that are chosen by this have no bias: the samples that are subtracted in a gain would also
    choose their sampling errors. ``None`` if the question cannot be measured, with a line in the log.
    """
    other = scorer.with_sampling(seed=scorer.sampler.options.seed + 1)
    beliefs = measured(other, queries, [[()]] * len(queries), title="measuring what the reader knows")
    return [None if found is None else found[()].seper for found in beliefs]


def right_answers(scorer: SePerScorer, rollouts: Sequence[Rollout]) -> list[bool]:
    """Return whether the judge finds each answer equal to the gold answer (support above .5); processes share them."""
    asked = [Asked(each.question, each.answers, (), (each.answer,)) for each in rollouts]
    found = measure_shared(asked, scorer.measure, "judging answers", size=_ANSWERS)
    return [unwrap(each).supports[0] > 0.5 for each in found]


def each_scorable(queries: Sequence[Query], function: Callable[[Query], T], *, title: str) -> list[tuple[Query, T]]:
    """Return the questions with the result of a function for each; those that it cannot score are left out."""
    found = []
    for query in tqdm(queries, desc=title, unit="question"):
        try:
            found.append((query, function(query)))
        except UnscorableError as error:
            tell_left_out(query.id, error)
    return found
