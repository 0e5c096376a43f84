"""Does ΔSePer depend on the entailment model that judges, or on how the reader is asked (SePer, Figure 7)?"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tqdm.auto import tqdm

from seper_reward.estimators.judge import BeliefJudge, EntailmentModel, SampledQuestion
from seper_reward.evaluate.contexts import marked_contexts, none_asked
from seper_reward.evaluate.similarity import SimilarityKernel
from seper_reward.reader.prompts import PromptStyle
from seper_reward.runtime.cache import Cache
from seper_reward.runtime.messages import tell_left_out
from seper_reward.scorer import SePerScorer
from seper_reward.statistics import PooledPearson, mean
from seper_reward.types import Asked, Passage, Query, Responses, UnscorableError, unwrap

_SOFT, _HARD = "delta_seper_soft", "delta_seper_hard"


@dataclass(frozen=True)
class _Asked:
    """A question in its contexts (first without passages), and the responses there by name of the prompt."""

    query: Query
    responses: Mapping[str, list[Responses]]


def robustness(
    scorer: SePerScorer,
    queries: Sequence[Query],
    entailments: Mapping[str, Callable[[], EntailmentModel]],
    prompts: Mapping[str, PromptStyle],
) -> dict[str, Any]:
    """Correlate ΔSePer with people's marks under other entailment models and prompts (SePer, Figure 7).

    Entailment models judge the same responses; another prompt has responses of its own, judged by the scorer's model.

    Args:
        scorer: Scorer whose prompt and entailment model the others are compared with.
        queries: Questions whose passages have ``relevant`` in their metadata.
        entailments: What loads each entailment model, by name; one is in memory at a time.
        prompts: Styles of the prompt by name.

    Returns:
        ``reference``, ``entailment`` and ``prompt`` (the last two by name), with ``soft`` and ``hard``: Pearson's r of
        ΔSePer with the contexts' relevance and its 95 % bootstrap ``interval`` over questions; ``with_reference``, the
        same of soft ΔSePer with the reference's; and ``baseline_seper``, the mean over questions. ``n``, the number
        of contexts; ``questions``; and ``left_out``, the questions that the reader cannot be asked in some prompt.

    Raises:
        ValueError: Marks are missing or equal, or no question can be asked.
        OSError: A model cannot be loaded.
    """
    contexts = marked_contexts(queries)
    asked: list[_Asked] = []
    relevance: list[float] = []
    owner: list[int] = []
    for query, query_contexts in zip(tqdm(queries, desc="sampling", unit="question"), contexts, strict=True):
        try:
            row = _sampled(scorer, query, [context.passages for context in query_contexts], prompts)
        except UnscorableError as error:
            tell_left_out(query.id, error)
            continue
        owner += [len(asked)] * len(query_contexts)
        relevance += [context.relevance for context in query_contexts]
        asked.append(row)
    if not asked:
        raise none_asked(queries)
    reference = _gains(scorer.judge, asked, "", "the reference")

    def described(gains: Mapping[str, list[float]]) -> dict[str, Any]:
        marked = PooledPearson({_SOFT: gains[_SOFT], _HARD: gains[_HARD]}, relevance, owner)
        alike = PooledPearson({_SOFT: gains[_SOFT]}, reference[_SOFT], owner)
        return {
            "soft": marked.described(_SOFT),
            "hard": marked.described(_HARD),
            "with_reference": alike.described(_SOFT),
            "baseline_seper": mean(gains["baseline"]),
        }

    return {
        "reference": described(reference),
        "entailment": {
            name: described(_gains(_judge(scorer, load()), asked, "", name)) for name, load in entailments.items()
        },
        "prompt": {name: described(_gains(scorer.judge, asked, name, f"prompt {name}")) for name in prompts},
        "n": len(relevance),
        "questions": len(asked),
        "left_out": len(queries) - len(asked),
    }


def _sampled(
    scorer: SePerScorer, query: Query, sets: Sequence[Sequence[Passage]], prompts: Mapping[str, PromptStyle]
) -> _Asked:
    asked = Asked(query.question, query.answers, ((), *map(tuple, sets)))
    known = [scorer.known_answers(query.answers)]
    readers = {"": scorer.reader, **{name: scorer.reader.with_style(style) for name, style in prompts.items()}}
    return _Asked(
        query,
        {name: unwrap(reader.responses([asked], known)[0]) for name, reader in readers.items()},
    )


def _judge(scorer: SePerScorer, model: EntailmentModel) -> BeliefJudge:
    # similarities are faster than the cache
    cache: Cache | None = None if isinstance(model, SimilarityKernel) else scorer.cache
    return BeliefJudge(model, scorer.estimator, cache)


def _gains(judge: BeliefJudge, asked: Sequence[_Asked], prompt: str, title: str) -> dict[str, list[float]]:
    """Return soft and hard ΔSePer of all contexts, and soft SePer without passages of all questions."""
    found: dict[str, list[float]] = {_SOFT: [], _HARD: [], "baseline": []}
    for row in tqdm(asked, desc=f"judging: {title}", unit="question"):
        question = SampledQuestion(row.query.question, row.query.answers, row.responses[prompt])
        ((baseline, *beliefs),) = judge.beliefs([question])
        found[_SOFT] += [belief.seper - baseline.seper for belief in beliefs]
        found[_HARD] += [belief.seper_hard - baseline.seper_hard for belief in beliefs]
        found["baseline"].append(baseline.seper)
    return found
