"""Does ΔSePer agree with people's marks of relevance better than other measures (SePer, arXiv:2503.01478, Table 2)?"""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from tqdm.auto import tqdm

from seper_reward.data.answers import AnswerMetric, best_alias_mean, exact_match, expected_metric, rouge_l
from seper_reward.data.marks import relevance_of
from seper_reward.estimators.utility import utility
from seper_reward.evaluation.statistics import PooledPearson, mean, rounded_or_none
from seper_reward.scorer import SePerScorer
from seper_reward.types import Belief, Passage, Query, answer_aliases


@dataclass(frozen=True)
class Context:
    """Passages that a reader sees together, and their relevance by people's marks in [0, 1]; 1 = enough to answer."""

    passages: tuple[Passage, ...]
    relevance: float


def correlation(scorer: SePerScorer, queries: Sequence[Query]) -> dict[str, Any]:
    """Correlate ΔSePer and its rivals with the passages' mark ``relevant`` (SePer, arXiv:2503.01478, Table 2).

    The relevance of a relevant passage is one over the number of relevant passages of its question. Where there are
    several, all of them together are a further context, of relevance 1. Each measure is the difference with and
    without the passages, from the same samples: ``delta_seper_soft``, ``delta_seper_hard`` and ``delta_log_odds``;
    ``exact_match`` and ``rouge_l`` of the responses; ``answer_log_prob``, the mean log-probability per token of the
    likeliest alias; and ``entropy`` and ``semantic_entropy``, whose sign is turned (``entropy`` is meaningful only at
    sampling temperature 1). ``delta_belief`` is half ΔSePer and half the relative change of the answer's likelihood;
    it is left out where the reader does not tell that.

    Args:
        scorer: Scorer that measures the beliefs.
        queries: Questions whose passages have ``relevant`` (bool) in their metadata.

    Returns:
        By measure: ``pearson``, ``p_value`` (which takes contexts for independent), ``interval`` (95 %, bootstrap over
        questions) and ``mean`` by relevance. ``lead``: Pearson of ``delta_seper_soft`` less that of its best rival
        (``over``), with an interval that takes this rival as given. ``baseline_seper``, the mean over questions;
        ``n``, the number of contexts; ``questions``.

    Raises:
        ValueError: A question has no mark, a mark is neither true nor false, or all marks are equal.
        OSError: rouge-score is not installed.
    """
    from scipy.stats import ConstantInputWarning, pearsonr

    contexts = [contexts_of(query) for query in queries]
    levels = {context.relevance for row in contexts for context in row}
    if len(levels) < 2:
        raise ValueError(f"passages must be marked relevant and not relevant, got only {levels or 'none'}")
    rouge = rouge_l()
    rows: list[dict[str, float]] = []
    owner: list[int] = []
    baselines: list[float] = []
    bar = tqdm(scorer.reader.ahead(queries), total=len(queries), desc="measuring", unit="question")
    for number, (query, query_contexts) in enumerate(zip(bar, contexts, strict=True)):
        sets = [(), *(context.passages for context in query_contexts)]
        baseline, *beliefs = scorer.beliefs(query.question, query.answers, sets)
        without, *with_passages = _measures(scorer, query, sets, [baseline, *beliefs], rouge)
        baselines.append(baseline.seper)
        for context, belief, row in zip(query_contexts, beliefs, with_passages, strict=True):
            moved = utility(belief, baseline).combined
            both = {} if moved is None else {"delta_belief": moved.value}
            differences = {name: row[name] - without[name] for name in row}
            rows.append(both | differences | {"relevance": context.relevance})
            owner.append(number)
    relevance = [row.pop("relevance") for row in rows]
    # of an answer that is a list there is no delta_belief
    names = [name for name in rows[0] if all(name in row for row in rows)]
    columns = {name: [row[name] for row in rows] for name in names}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConstantInputWarning)  # the correlation of a constant is null in the result
        tests = {name: pearsonr(values, relevance) for name, values in columns.items()}
    pearson = {name: float(test.statistic) for name, test in tests.items()}
    rivals = [name for name in columns if not name.startswith("delta_")]
    best = max(rivals, key=lambda name: -1.0 if math.isnan(pearson[name]) else pearson[name])
    resampled = PooledPearson(columns, relevance, owner)
    ours = "delta_seper_soft"
    return {
        "pearson": {name: rounded_or_none(value) for name, value in pearson.items()},
        "interval": {name: resampled.interval(partial(resampled.pearson, name)) for name in columns},
        "p_value": {name: None if math.isnan(test.pvalue) else float(test.pvalue) for name, test in tests.items()},
        "lead": {
            "over": best,
            "pearson": rounded_or_none(pearson[ours] - pearson[best]),
            "interval": resampled.interval(
                lambda numbers: resampled.pearson(ours, numbers) - resampled.pearson(best, numbers)
            ),
        },
        "mean": {
            name: {
                f"{level:.3g}": mean([value for value, mark in zip(values, relevance, strict=True) if mark == level])
                for level in sorted(set(relevance))
            }
            for name, values in columns.items()
        },
        "baseline_seper": mean(baselines),
        "n": len(relevance),
        "questions": len(queries),
    }


def contexts_of(query: Query) -> list[Context]:
    """Return a question's contexts: each passage by itself and, where several are relevant, those together.

    Raises:
        BadRowError: No passage of the question has a mark.
    """
    marks = relevance_of(query)
    together = tuple(passage for passage, mark in zip(query.passages, marks, strict=True) if mark)
    alone = [
        Context((passage,), 1 / len(together) if mark else 0.0)
        for passage, mark in zip(query.passages, marks, strict=True)
    ]
    return [*alone, Context(together, 1.0)] if len(together) > 1 else alone


def choose_passages(query: Query, count: int) -> Query:
    """Keep ``count`` passages in their order: all relevant ones, and the first of the others.

    Raises:
        ValueError: There are more relevant passages than ``count``; only all of them are enough to answer.
    """
    marks = relevance_of(query)
    relevant = sum(marks)
    if count < max(relevant, 1):
        raise ValueError(f"question id={query.id!r} has {relevant} relevant passages, more than {count}; keep more")
    ranked = sorted(range(len(query.passages)), key=lambda position: not marks[position])
    kept = sorted(ranked[:count])
    return replace(query, passages=tuple(query.passages[position] for position in kept))


def _measures(
    scorer: SePerScorer,
    query: Query,
    sets: Sequence[Sequence[Passage]],
    beliefs: Sequence[Belief],
    rouge: AnswerMetric,
) -> list[dict[str, float]]:
    """Return the measures of each set of passages, by name; higher = the passages help more."""
    log_probs = scorer.reader.answer_log_probs(query.question, answer_aliases(query.answers), sets)
    return [
        {
            "delta_seper_soft": belief.seper,
            "delta_seper_hard": belief.seper_hard,
            "delta_log_odds": belief.log_odds,
            "exact_match": expected_metric(belief, query.answers, exact_match),
            "rouge_l": expected_metric(belief, query.answers, rouge),
            "answer_log_prob": best_alias_mean(log_prob, query.answers),
            "entropy": -belief.entropy,
            "semantic_entropy": -belief.semantic_entropy,
        }
        for belief, log_prob in zip(beliefs, log_probs, strict=True)
    ]
