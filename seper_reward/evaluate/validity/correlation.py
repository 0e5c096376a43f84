"""Does ΔSePer agree with people's marks of relevance better than other measures (SePer, arXiv:2503.01478, Table 2)?"""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from tqdm.auto import tqdm

from seper_reward.data.answers import exact_match
from seper_reward.evaluate.statistics import PooledPearson, mean, rounded_or_none
from seper_reward.evaluate.validity.contexts import marked_contexts, none_asked
from seper_reward.evaluate.validity.llm_judge import LLMJudge
from seper_reward.evaluate.validity.measures import Measures
from seper_reward.reader.prompted import ahead
from seper_reward.reader.sampler import GREEDY
from seper_reward.runtime.messages import tell_left_out
from seper_reward.scorer import SePerScorer
from seper_reward.types import Asked, Query, UnscorableError

_OURS = "delta_seper_soft"


def correlation(scorer: SePerScorer, queries: Sequence[Query], *, judge: LLMJudge | None = None) -> dict[str, Any]:
    """Correlate ΔSePer and its rivals with the passages' mark ``relevant`` (SePer, arXiv:2503.01478, Table 2).

    The relevance of a relevant passage is one over the number of relevant passages of its question. Where there are
    several, all of them together are a further context, of relevance 1. Each measure (see ``Measures``) is the
    difference with and without the passages, from the same samples.

    Args:
        scorer: Scorer that measures the beliefs.
        queries: Questions whose passages have ``relevant`` (bool) in their metadata.
        judge: Language model that judges responses, for the measure ``llm_judge``; ``None`` leaves it out.

    Returns:
        By measure: ``pearson``, ``p_value`` (which takes contexts for independent), ``interval`` (95 %, bootstrap over
        questions), ``mean`` by relevance, and ``contexts``, how many have the measure. ``lead``: Pearson of
        ``delta_seper_soft`` less that of its best rival (``over``), with an interval that takes this rival as given.
        ``judge``: how many responses were ``asked`` about and how many replies ``not_understood``; contexts none of
        whose responses has a verdict lack the measure. ``baseline_seper``, the mean over questions; ``n``, the number
        of contexts; ``questions``; and ``left_out``, the questions that the reader cannot be asked.

    Raises:
        ValueError: A question has no mark, a mark is neither true nor false, all marks are equal, or no question can
            be asked.
        OSError: rouge-score, sacrebleu or sentence-transformers is not installed.
    """
    contexts = marked_contexts(queries)
    measures = Measures(scorer, judge)
    rows: list[dict[str, float]] = []
    relevance: list[float] = []
    owner: list[int] = []
    baselines: list[float] = []
    coming = ahead(scorer.reader, ([query] for query in queries))
    bar = tqdm(coming, total=len(queries), desc="measuring", unit="question")
    for (query,), query_contexts in zip(bar, contexts, strict=True):
        try:
            baseline, gains = measures.gains(query, [context.passages for context in query_contexts])
        except UnscorableError as error:
            tell_left_out(query.id, error)
            continue
        rows += gains
        relevance += [context.relevance for context in query_contexts]
        owner += [len(baselines)] * len(gains)
        baselines.append(baseline.seper)
    if not rows:
        raise none_asked(queries)
    # of an answer that is a list there is no delta_belief
    names = [name for name in rows[0] if all(name in row for row in rows)]
    columns = {name: [row[name] for row in rows] for name in names}
    return {
        **_correlated(columns, relevance, owner),
        **({} if judge is None else {"judge": {"asked": judge.asked, "not_understood": judge.not_understood}}),
        "baseline_seper": mean(baselines),
        "n": len(relevance),
        "questions": len(baselines),
        "left_out": len(queries) - len(baselines),
    }


def unknown_to(scorer: SePerScorer, queries: Sequence[Query]) -> list[Query]:
    """Return the questions that the reader does not answer rightly without passages.

    Its likeliest response decides, by exact match. It is none of the responses that a correlation is measured on: a
    choice by these would also choose among their errors.

    Args:
        scorer: Scorer of the reader.
        queries: Questions with gold answers.

    Raises:
        ValueError: There is no such question.
    """
    reader = scorer.with_sampling(**GREEDY).reader
    unknown = []
    for query in tqdm(queries, desc="answering without passages", unit="question"):
        (found,) = reader.responses([Asked(query.question, (), ((),))])
        # an error is reported when the question is measured
        if isinstance(found, UnscorableError) or exact_match(found[0].texts[0], query.answers) < 1:
            unknown.append(query)
    if not unknown:
        raise ValueError(
            f"the reader answers all {len(queries)} questions without passages; set leave_out_known=false"
        )
    return unknown


def _correlated(
    columns: Mapping[str, Sequence[float]], relevance: Sequence[float], owner: Sequence[int]
) -> dict[str, Any]:
    resampled = PooledPearson(columns, relevance, owner)
    everyone = range(max(owner) + 1)
    pearson = {name: float(resampled.pearson(name, everyone)) for name in columns}
    best = max(
        (name for name in columns if not name.startswith("delta_")),
        key=lambda name: -1.0 if math.isnan(pearson[name]) else pearson[name],
    )
    lead = partial(resampled.lead, _OURS, best)
    return {
        "pearson": {name: rounded_or_none(value) for name, value in pearson.items()},
        "interval": {name: resampled.interval(partial(resampled.pearson, name)) for name in columns},
        "p_value": {name: resampled.p_value(name) for name in columns},
        "lead": {
            "over": best,
            "pearson": rounded_or_none(float(lead(everyone))),
            "interval": resampled.interval(lead),
        },
        "mean": {name: _mean_by_relevance(values, relevance) for name, values in columns.items()},
        "contexts": {name: sum(not math.isnan(value) for value in values) for name, values in columns.items()},
    }


def _mean_by_relevance(values: Sequence[float], relevance: Sequence[float]) -> dict[str, float | None]:
    known = [(value, mark) for value, mark in zip(values, relevance, strict=True) if not math.isnan(value)]
    by_level = {level: [value for value, mark in known if mark == level] for level in sorted(set(relevance))}
    return {f"{level:.3g}": mean(found) if found else None for level, found in by_level.items()}
