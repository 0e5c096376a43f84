"""Does ΔSePer agree with people? Correlation with relevance marks, and with planted wrong answers."""

import hashlib
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tqdm.auto import tqdm

from seper_reward.data.answers import AnswerMetric, exact_match, rouge_l
from seper_reward.scorer import SePerScorer
from seper_reward.types import Belief, Passage, Query

_RESAMPLES = 1000  # of the bootstrap
_KNOWN = 0.5  # baseline SePer from which a reader counts as knowing the answer


@dataclass(frozen=True)
class Context:
    """Passages shown together, and what people say they are worth: in [0, 1], 1 = enough to answer."""

    passages: tuple[Passage, ...]
    relevance: float


def correlation(scorer: SePerScorer, queries: Sequence[Query]) -> dict[str, Any]:
    """Correlate ΔSePer and its rivals with the passages' mark ``relevant`` (SePer, arXiv:2503.01478, Table 2).

    A relevant passage is worth one over the number of relevant passages of its question; where there are several,
    all of them together are a further context, worth 1. Each measure is the difference with and without the
    passages, from the same samples: ``delta_seper_soft``, ``delta_seper_hard``, ``exact_match`` and ``rouge_l`` of
    the responses, ``answer_log_prob`` (mean per token of the likeliest alias), and ``entropy`` and
    ``semantic_entropy`` (how far they fell; ``entropy`` is one only if samples are drawn at temperature 1).

    Args:
        scorer: measures the beliefs.
        queries: with ``relevant`` (bool) in the metadata of each passage.

    Returns:
        ``pearson``, ``p_value`` (as if contexts were independent), ``interval`` (95 %, bootstrap over questions) and
        ``mean`` by relevance, each by measure; ``lead``: Pearson of ``delta_seper_soft`` less that of its best rival,
        with its interval, given that rival;
        ``baseline_seper``, ``n`` contexts, ``questions``.

    Raises:
        ValueError: a mark is missing, or all marks are equal.
        OSError: rouge-score is not installed.
    """
    from scipy.stats import ConstantInputWarning, pearsonr

    contexts = [contexts_of(query) for query in queries]
    found = {context.relevance for row in contexts for context in row}
    if len(found) < 2:
        raise ValueError(f"passages must be marked relevant and not relevant, got only {found or 'none'}")
    rouge = rouge_l()
    rows: list[dict[str, float]] = []
    owner: list[int] = []
    baselines: list[float] = []
    for number, (query, shown) in enumerate(
        zip(tqdm(scorer.ahead(queries), total=len(queries), desc="measuring", unit="question"), contexts, strict=True)
    ):
        sets = [(), *(context.passages for context in shown)]
        baseline, *beliefs = _measures(scorer, query, sets, rouge)
        baselines.append(baseline["delta_seper_soft"])
        for context, belief in zip(shown, beliefs, strict=True):
            rows.append({name: belief[name] - baseline[name] for name in belief} | {"relevance": context.relevance})
            owner.append(number)
    relevance = [row.pop("relevance") for row in rows]
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConstantInputWarning)  # its correlation is then null in the result
        tests = {name: pearsonr(values, relevance) for name, values in columns.items()}
    resampled = _bootstrap(columns, relevance, owner)
    rivals = [name for name in columns if not name.startswith("delta_seper")]
    best = max(rivals, key=lambda name: _or_lowest(float(tests[name].statistic)))
    return {
        "pearson": {name: _number(float(test.statistic)) for name, test in tests.items()},
        "interval": {name: _interval(draws) for name, draws in resampled.items()},
        "p_value": {name: None if math.isnan(test.pvalue) else float(test.pvalue) for name, test in tests.items()},
        "lead": {
            "over": best,
            "pearson": _number(float(tests["delta_seper_soft"].statistic) - float(tests[best].statistic)),
            "interval": _interval(
                [ours - theirs for ours, theirs in zip(resampled["delta_seper_soft"], resampled[best], strict=True)]
            ),
        },
        "mean": {
            name: {
                f"{worth:.3g}": _mean([value for value, mark in zip(values, relevance, strict=True) if mark == worth])
                for worth in sorted(set(relevance))
            }
            for name, values in columns.items()
        },
        "baseline_seper": _mean(baselines),
        "n": len(relevance),
        "questions": len(queries),
    }


def counterfactual(scorer: SePerScorer, queries: Sequence[Query]) -> dict[str, Any]:
    """Compare passages with a planted wrong answer with supporting ones (RGB, Chen et al., arXiv:2309.01431).

    Args:
        scorer: measures the beliefs.
        queries: with ``relevant`` in the metadata of each passage, and ``counterfactual: true`` where an answer was
            planted; other passages are left out.

    Returns:
        ``share_lower``: of questions whose planted passages have a lower mean ΔSePer than their supporting ones.
        ``delta_seper``: mean of means ``supporting``, ``counterfactual``, and ``counterfactual_known`` over the
        ``known_questions`` whose baseline SePer is at least 0.5. ``questions``, and ``left_out``, which lack a kind.
    """
    supporting: list[float] = []
    planted: list[float] = []
    baselines: list[float] = []
    for query in tqdm(queries, desc="measuring", unit="question"):
        kinds = [_kind(query, position) for position in range(len(query.passages))]
        if not {"supporting", "counterfactual"} <= set(kinds):
            continue
        kept = [position for position, kind in enumerate(kinds) if kind]
        utilities = scorer.query_utilities(replace(query, passages=tuple(query.passages[at] for at in kept)))
        by_kind = {
            kind: _mean([judged.delta_seper for at, judged in zip(kept, utilities, strict=True) if kinds[at] == kind])
            for kind in ("supporting", "counterfactual")
        }
        supporting.append(by_kind["supporting"])
        planted.append(by_kind["counterfactual"])
        baselines.append(utilities[0].baseline_seper)
    if not planted:
        raise ValueError("expected questions with passages marked 'relevant' and passages marked 'counterfactual'")
    known = [value for value, baseline in zip(planted, baselines, strict=True) if baseline >= _KNOWN]
    return {
        "share_lower": _mean([float(wrong < right) for wrong, right in zip(planted, supporting, strict=True)]),
        "delta_seper": {
            "supporting": _mean(supporting),
            "counterfactual": _mean(planted),
            "counterfactual_known": _mean(known) if known else None,
        },
        "baseline_seper": _mean(baselines),
        "known_questions": len(known),
        "questions": len(planted),
        "left_out": len(queries) - len(planted),
    }


def contexts_of(query: Query) -> list[Context]:
    """Return each passage by itself and, where several are relevant, those together.

    Raises:
        ValueError: a passage lacks the mark ``relevant``.
    """
    marks = [_mark(query, position) for position in range(len(query.passages))]
    together = tuple(passage for passage, mark in zip(query.passages, marks, strict=True) if mark)
    alone = [
        Context((passage,), 1 / len(together) if mark else 0.0)
        for passage, mark in zip(query.passages, marks, strict=True)
    ]
    return [*alone, Context(together, 1.0)] if len(together) > 1 else alone


def choose_passages(query: Query, count: int) -> Query:
    """Keep ``count`` passages: the relevant ones first, then the others, each in their order.

    Raises:
        ValueError: there are more relevant passages than ``count``; what is left would be worth less than it is.
    """
    needed = sum(_mark(query, position) for position in range(len(query.passages)))
    if count < max(needed, 1):
        raise ValueError(f"question id={query.id!r} has {needed} relevant passages, more than {count}; keep more")
    ranked = sorted(range(len(query.passages)), key=lambda position: not _mark(query, position))
    kept = sorted(ranked[:count])
    return replace(query, passages=tuple(query.passages[position] for position in kept))


def split_of(identity: str) -> str:
    """Return ``train``, ``dev`` or ``test`` from sha1(id): 12, 2 and 2 sixteenths."""
    first = hashlib.sha1(identity.encode()).hexdigest()[0]
    return "train" if first < "c" else "dev" if first < "e" else "test"


def _measures(
    scorer: SePerScorer,
    query: Query,
    sets: Sequence[Sequence[Passage]],
    rouge: AnswerMetric,
) -> list[dict[str, float]]:
    """Return all measures of each set of passages, higher = the reader is better off."""
    beliefs = scorer.beliefs(query.question, query.answers, sets)
    log_probs = scorer.answer_log_probs(query.question, query.answers, sets)
    return [
        {
            "delta_seper_soft": belief.seper,
            "delta_seper_hard": belief.seper_hard,
            "exact_match": expected_metric(belief, query.answers, exact_match),
            "rouge_l": expected_metric(belief, query.answers, rouge),
            "answer_log_prob": max(log_prob),
            "entropy": -belief.entropy,
            "semantic_entropy": -belief.semantic_entropy,
        }
        for belief, log_prob in zip(beliefs, log_probs, strict=True)
    ]


def expected_metric(belief: Belief, answers: Sequence[str], metric: AnswerMetric) -> float:
    """Return the metric's mean over the sampled responses, by their weights."""
    return sum(weight * metric(text, answers) for text, weight in zip(belief.responses, belief.weights, strict=True))


def _bootstrap(
    columns: dict[str, list[float]], relevance: Sequence[float], owner: Sequence[int]
) -> dict[str, list[float]]:
    """Return Pearson's r of each column in resamples of whole questions (passages of one are not independent)."""
    import numpy as np

    values = np.array([*columns.values(), relevance])  # (columns + 1, n)
    of_question = [np.flatnonzero(np.array(owner) == number) for number in range(max(owner) + 1)]
    rng = np.random.default_rng(0)
    draws = []
    for _ in range(_RESAMPLES):
        taken = np.concatenate(
            [of_question[number] for number in rng.integers(len(of_question), size=len(of_question))]
        )
        with np.errstate(invalid="ignore", divide="ignore"):  # a constant column correlates with nothing
            draws.append(np.corrcoef(values[:, taken])[-1, :-1])
    return {name: [float(draw[at]) for draw in draws] for at, name in enumerate(columns)}


def _interval(draws: Sequence[float]) -> list[float] | None:
    import numpy as np

    finite = [draw for draw in draws if not math.isnan(draw)]
    if not finite:
        return None
    return [round(float(np.percentile(finite, share)), 4) for share in (2.5, 97.5)]


def _kind(query: Query, position: int) -> str | None:
    if _mark(query, position, "counterfactual", default=False):
        return "counterfactual"
    return "supporting" if _mark(query, position) else None


def _mark(query: Query, position: int, name: str = "relevant", default: bool | None = None) -> bool:
    mark = query.passages[position].metadata.get(name, default)
    if not isinstance(mark, bool):
        raise ValueError(
            f"question id={query.id!r}, passages[{position}]: expected {name!r}: true or false, got {mark!r}"
        )
    return mark


def _number(value: float) -> float | None:
    return None if math.isnan(value) else round(value, 4)  # a constant correlates with nothing; NaN is no JSON


def _or_lowest(value: float) -> float:
    return -1.0 if math.isnan(value) else value


def _mean(values: Sequence[float]) -> float:
    return round(sum(values) / len(values), 4)
