"""Does ΔSePer agree with people? Correlation with relevance marks."""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tqdm.auto import tqdm

from .scorer import SePerScorer
from .types import Query


def correlation(scorer: SePerScorer, queries: Sequence[Query]) -> dict[str, Any]:
    """Correlate ΔSePer with the passages' mark ``relevant`` (SePer, arXiv:2503.01478, section 4, Table 2).

    Args:
        scorer: measures the beliefs.
        queries: with ``relevant`` (bool) in the metadata of each passage.

    Returns:
        ``pearson`` and ``p_value`` by estimator, means of ΔSePer by mark, and ``n`` passages.

    Raises:
        ValueError: a mark is missing, or all marks are equal.
    """
    from scipy.stats import pearsonr

    marks = [_mark(query, position) for query in queries for position in range(len(query.passages))]
    if len(set(marks)) < 2:
        raise ValueError(f"passages must be marked relevant and not relevant, got only {set(marks) or 'none'}")
    utilities = [
        judged
        for query in tqdm(queries, desc="measuring", unit="question")
        for judged in scorer.query_utilities(query)
    ]
    columns = {
        "delta_seper_soft": [judged.delta_seper for judged in utilities],
        "delta_seper_hard": [judged.delta_seper_hard for judged in utilities],
    }
    tests = {name: pearsonr(values, marks) for name, values in columns.items()}
    return {
        "pearson": {name: _number(round(float(test.statistic), 4)) for name, test in tests.items()},
        "p_value": {name: _number(float(test.pvalue)) for name, test in tests.items()},
        "mean": {
            name: {
                "relevant": _mean([value for value, mark in zip(values, marks, strict=True) if mark]),
                "other": _mean([value for value, mark in zip(values, marks, strict=True) if not mark]),
            }
            for name, values in columns.items()
        },
        "baseline_seper": _mean([judged.baseline_seper for judged in utilities]),
        "n": len(marks),
        "questions": len(queries),
    }


def choose_passages(query: Query, count: int) -> Query:
    """Keep ``count`` passages: the relevant ones first, then the others, each in their order."""
    ranked = sorted(range(len(query.passages)), key=lambda position: not _mark(query, position))
    kept = sorted(ranked[:count])
    return replace(query, passages=tuple(query.passages[position] for position in kept))


def split_of(identity: str) -> str:
    """Return ``train``, ``dev`` or ``test`` from sha1(id): 12, 2 and 2 sixteenths."""
    digit = hashlib.sha1(identity.encode()).hexdigest()[0]
    return "train" if digit < "c" else "dev" if digit < "e" else "test"


def _mark(query: Query, position: int) -> bool:
    passage = query.passages[position]
    mark = passage.metadata.get("relevant")
    if not isinstance(mark, bool):
        raise ValueError(
            f"question id={query.id!r}, passages[{position}]: expected 'relevant': true or false, got {mark!r}"
        )
    return mark


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value  # a constant ΔSePer correlates with nothing; NaN is no JSON


def _mean(values: Sequence[float]) -> float:
    return round(sum(values) / len(values), 4)
