"""Rules that decide whether to use a passage at all, and what each does.

A gate has a score and a threshold: above it a question is read with a passage, else without. Rules know the questions
by what is decided on (``Decided``) and are judged by what a reader makes of every choice (``measure``).
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from seper_reward.evaluate.rankings import downstream
from seper_reward.scorer import SePerScorer
from seper_reward.statistics import lead_over_questions, mean, rounded
from seper_reward.types import Belief, LabeledQuery, Passage, Query
from tests.benchmarks.experiments.regression import Predictor
from trainers.thresholds import Curve, curve, gated

METRICS = ("seper", "exact_match")
NEVER, ALWAYS = "never", "always"


class Gate(NamedTuple):
    """A rule that gives a question a passage where a score is above a threshold.

    Attributes:
        passages: Whose best passage it is: of ``retrieved``, ``reranked`` or ``measured``.
        score: Name of the score.
        threshold: The threshold; ``None``: the best one of the dev questions.
    """

    passages: str
    score: str
    threshold: float | None = None


class Decided(NamedTuple):
    """What each of Q questions could be read with, and what gates know of it.

    Attributes:
        queries: The Q questions.
        passages: Q best passages, each alone or none, by who chose them.
        scores: Q scores by name; higher = rather with a passage.
    """

    queries: list[Query]
    passages: dict[str, list[tuple[Passage, ...]]]
    scores: dict[str, list[float]]


#: Q values by metric and by who chose the passages.
Values = Mapping[str, Mapping[str, Sequence[float]]]


def gates(labeler: str) -> dict[str, Gate]:
    """Return the gates that are compared, by name; that of the trained model is named after its labels."""
    return {
        "entropy": Gate("retrieved", "entropy"),
        "semantic_entropy": Gate("retrieved", "semantic_entropy"),
        "semantic_entropy_reranked": Gate("reranked", "semantic_entropy"),
        "baseline_seper": Gate("retrieved", "baseline_seper"),
        f"{labeler}_of_retrieved": Gate("retrieved", "predicted_of_retrieved"),
        labeler: Gate("reranked", "predicted"),
        f"{labeler}_above_0": Gate("reranked", "predicted", 0.0),
        "measured": Gate("measured", "measured"),
    }


def decide(predictor: Predictor, labeled: Sequence[LabeledQuery], without: Sequence[Belief]) -> Decided:
    """Choose passages and score questions by all that gates know.

    Args:
        predictor: The trained model, which predicts labels.
        labeled: The questions with the labels of their retrieved passages, in the retriever's order.
        without: What the reader believes without a passage; a user knows its entropies without the gold answer.
    """
    queries = [row.query for row in labeled]
    predicted = predictor(queries, without)
    top = [_greatest(row) for row in predicted]
    best = [_greatest(row.labels) for row in labeled]
    return Decided(
        queries,
        {
            "none": [()] * len(queries),
            "retrieved": [(query.passages[0],) for query in queries],
            "reranked": [(query.passages[at],) for query, at in zip(queries, top, strict=True)],
            "measured": [(query.passages[at],) for query, at in zip(queries, best, strict=True)],
        },
        {
            "entropy": [belief.entropy for belief in without],
            "semantic_entropy": [belief.semantic_entropy for belief in without],
            "baseline_seper": [-belief.seper for belief in without],
            "predicted_of_retrieved": [row[0] for row in predicted],
            "predicted": [row[at] for row, at in zip(predicted, top, strict=True)],
            "measured": [row.labels[at] for row, at in zip(labeled, best, strict=True)],
        },
    )


def _greatest(values: Sequence[float]) -> int:
    return max(range(len(values)), key=values.__getitem__)


def measure(scorer: SePerScorer, decided: Decided) -> dict[str, dict[str, list[float]]]:
    """Measure a reader with each choice of passages: Q values by metric and by who chose them.

    A question that the reader cannot be asked has NaN. All processes must call this together.
    """
    rows = {name: downstream(scorer, decided.queries, chosen) for name, chosen in decided.passages.items()}
    return {
        metric: {
            name: [math.nan if row[metric] is None else row[metric] for row in read] for name, read in rows.items()
        }
        for metric in METRICS
    }


def thresholds(rules: Mapping[str, Gate], decided: Decided, values: Values) -> dict[str, float]:
    """Return the threshold of each gate: its own, or the one with the greatest SePer of these (dev) questions."""
    return {
        name: _curve(gate, decided, values["seper"]).best_threshold() if gate.threshold is None else gate.threshold
        for name, gate in rules.items()
    }


def compare_rules(
    rules: Mapping[str, Gate], limits: Mapping[str, float], decided: Decided, values: Values
) -> dict[str, dict[str, Any]]:
    """Return what each rule does on some (test) questions.

    Args:
        rules: Gates by name.
        limits: Their thresholds.
        decided: The questions.
        values: What a reader makes of them.

    Returns:
        By rule, with ``never`` and ``always`` (the retriever's or the reranker's best passage): mean ``seper`` and
        ``exact_match``, ``share_with_passage``, and for gates ``area``, that under the curve of SePer, and
        ``threshold`` (``None`` where the dev questions say never or always); in ``by_question`` the Q values of SePer,
        in ``curves`` coverage and mean by metric.
    """
    fixed = {NEVER: "none", ALWAYS: "retrieved", f"{ALWAYS}_reranked": "reranked"}
    found: dict[str, dict[str, Any]] = {
        name: {
            **{metric: mean(values[metric][chosen]) for metric in METRICS},
            "share_with_passage": 0.0 if chosen == "none" else 1.0,
            "area": None,
            "threshold": None,
            "by_question": list(values["seper"][chosen]),
        }
        for name, chosen in fixed.items()
    }
    for name, gate in rules.items():
        scores, limit = decided.scores[gate.score], limits[name]
        curves = {metric: _curve(gate, decided, values[metric]) for metric in METRICS}
        by_metric = {
            metric: gated(scores, values[metric]["none"], values[metric][gate.passages], limit) for metric in METRICS
        }
        found[name] = {
            **{metric: mean(row) for metric, row in by_metric.items()},
            "share_with_passage": mean([float(score > limit) for score in scores]),
            "area": rounded(curves["seper"].area),
            "threshold": rounded(limit) if math.isfinite(limit) else None,
            "by_question": by_metric["seper"],
            "curves": {
                "coverage": [rounded(share) for share in curves["seper"].coverage],
                **{metric: [rounded(value) for value in each.value] for metric, each in curves.items()},
            },
        }
    return found


def _curve(gate: Gate, decided: Decided, values: Mapping[str, Sequence[float]]) -> Curve:
    return curve(decided.scores[gate.score], values["none"], values[gate.passages])


def answered(decided: Decided, measured: Mapping[str, Values]) -> tuple[Decided, dict[str, Values]]:
    """Return the questions that every reader could be asked with every choice, and their values by reader."""
    table = np.array([row for values in measured.values() for metric in values.values() for row in metric.values()])
    kept = np.flatnonzero(~np.isnan(table).any(axis=0)).tolist()

    def at(rows: Sequence[Any]) -> list[Any]:
        return [rows[place] for place in kept]

    def of_all(columns: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
        return {name: at(rows) for name, rows in columns.items()}

    values: dict[str, Values] = {
        reader: {metric: of_all(columns) for metric, columns in row.items()} for reader, row in measured.items()
    }
    return Decided(at(decided.queries), of_all(decided.passages), of_all(decided.scores)), values


def gating_results(
    labeler: str, limits: Mapping[str, float], decided: Decided, measured: Mapping[str, Values]
) -> dict[str, Any]:
    """Return what the rules do with every reader.

    Args:
        labeler: Name of the labels, and of the gate that learned them.
        limits: Thresholds by gate.
        decided: The test questions.
        measured: Their values by reader; the first reader made the labels.

    Returns:
        ``gating``: by rule, the numbers of ``compare_rules``; those of readers that made no labels have ``_READER``
        behind their names. ``leads``: by reader and rule, how far the trained gate leads it in SePer
        (``lead_over_questions``). ``by_question``: by reader and rule, the Q values of SePer. ``curves``: by gate, of
        the first reader.
    """
    table: dict[str, dict[str, Any]] = {}
    values_of, curves = {}, {}
    for reader, values in measured.items():
        rows = compare_rules(gates(labeler), limits, decided, values)
        values_of[reader] = {name: [rounded(value) for value in row.pop("by_question")] for name, row in rows.items()}
        drawn = {name: row.pop("curves") for name, row in rows.items() if "curves" in row}
        if reader == next(iter(measured)):
            table, curves = rows, drawn
            continue
        for name, row in rows.items():
            table[name] |= {f"{key}_{Path(reader).name}": row[key] for key in (*METRICS, "area")}
    return {
        "gating": table,
        "leads": _leads(values_of, labeler),
        "by_question": values_of,
        "curves": curves,
    }


def _leads(values: Mapping[str, Mapping[str, Sequence[float]]], labeler: str) -> dict[str, dict[str, Any]]:
    return {
        reader: {name: lead_over_questions(rules[labeler], other) for name, other in rules.items() if name != labeler}
        for reader, rules in values.items()
    }


def over_folds(found: Sequence[Mapping[str, Any]], labeler: str) -> dict[str, Any]:
    """Return what the rules do on the test questions of all folds together.

    Args:
        found: The ``results.json`` of each fold.
        labeler: Name of the labels, and of the gate that learned them.

    Returns:
        As ``gating_results``: in ``gating`` the mean over all test questions, where the area is the mean of the folds'
        areas, weighted by their test questions, and there is no threshold; in ``curves`` the same mean of the folds'
        curves. ``questions``: numbers of questions, those of the splits summed over folds.
    """
    counts = [row["questions"]["test"] for row in found]
    coverage = np.linspace(0, 1, max(counts) + 1)

    def pooled(rule: str, column: str) -> float | None:
        numbers = [row["gating"][rule][column] for row in found]
        return None if None in numbers else rounded(float(np.average(numbers, weights=counts)))

    def mean_curve(rule: str, metric: str) -> list[float]:
        each = [row["curves"][rule] for row in found]
        drawn = [np.interp(coverage, curve["coverage"], curve[metric]) for curve in each]
        return [rounded(value) for value in np.average(drawn, axis=0, weights=counts).tolist()]

    rules, columns = found[0]["gating"], [name for name in found[0]["gating"][labeler] if name != "threshold"]
    values = {
        reader: {rule: [value for row in found for value in row["by_question"][reader][rule]] for rule in rules}
        for reader in found[0]["by_question"]
    }
    return {
        "gating": {rule: {column: pooled(rule, column) for column in columns} for rule in rules},
        "leads": _leads(values, labeler),
        "by_question": values,
        "curves": {
            rule: {
                "coverage": [rounded(share) for share in coverage.tolist()],
                **{metric: mean_curve(rule, metric) for metric in METRICS},
            }
            for rule in found[0]["curves"]
        },
        "questions": {name: sum(row["questions"][name] for row in found) for name in found[0]["questions"]},
    }
