"""Correlate ΔSePer and other measures with people's marks of relevance."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from seper_reward.batching import measure_shared
from seper_reward.command import Record, by_name, marked_questions, reporting
from seper_reward.data.answers import exact_match
from seper_reward.evaluate.contexts import baseline_and_contexts, marked_contexts, none_asked, with_passages
from seper_reward.evaluate.measures import Measures
from seper_reward.judge.judge import Judge
from seper_reward.options import CorrelationOptions
from seper_reward.reader.sampler import GREEDY
from seper_reward.reports.figures import plot_intervals
from seper_reward.reports.tables import interval_cell, markdown_table
from seper_reward.runtime.messages import plural, tell_left_out
from seper_reward.scorer import SePerScorer, judge_options, load_judge, load_scorer
from seper_reward.statistics import PooledPearson, mean, rounded_or_none
from seper_reward.types import Asked, Query, UnscorableError

_NAME = "evaluate correlation"
_DELTA_SEPER = ("delta_seper_soft", "delta_seper_hard")


@dataclass(frozen=True)
class Correlation(Record):
    """Agreement of measures of what passages change with people's marks, on the questions of one file."""

    pearson: Mapping[str, float | None]  # Pearson's r by measure; None for a constant
    interval: Mapping[str, list[float] | None]  # its 95 % bootstrap interval over questions, by measure
    p_value: Mapping[str, float | None]  # assumes independent contexts
    # `pearson` of `delta_seper_soft` less that of the best other measure, `over`; `interval` treats its choice as
    # fixed
    lead: Mapping[str, Any]
    mean: Mapping[str, Mapping[str, float | None]]  # mean gain by measure and relevance
    contexts: Mapping[str, int]  # number of contexts that have the measure
    baseline_seper: float  # without passages, mean over questions
    n: int  # number of contexts
    questions: int
    left_out: int  # questions that are longer than the reader's window
    known_left_out: int = 0  # questions that the reader answers without passages

    def cell(self, measure: str) -> str:
        """Return the correlation of a measure as a cell of a table."""
        if measure not in self.pearson:
            return "–"
        text = interval_cell({"pearson": self.pearson[measure], "interval": self.interval[measure]})
        return text if self.contexts[measure] == self.n else f"{text} (n={self.contexts[measure]})"

    def line(self, name: str) -> str:
        """Return the numbers that are not in the table, for a file of this name."""
        left_out = f" ({self.left_out} left out)" if self.left_out else ""
        parts = [
            f"{name}: {plural(self.questions, 'question')}{left_out}, baseline SePer {self.baseline_seper:.3f}",
            f"ΔSePer soft leads its best rival, {self.lead['over']}, by {interval_cell(self.lead)}",
        ]
        if self.known_left_out:
            parts.append(
                f"{plural(self.known_left_out, 'question')} left out, which the reader answers without passages"
            )
        return "; ".join(parts)


@dataclass(frozen=True)
class CorrelationByFile(Record):
    """The correlations of several files, by their names."""

    optional = Correlation.optional
    files: Mapping[str, Correlation]

    def table(self) -> str:
        """Return Pearson's r of each measure with people's marks, one column per file."""
        measures = list(dict.fromkeys(name for found in self.files.values() for name in found.pearson))
        rows = [
            [f"**{name}**" if name in _DELTA_SEPER else name, *(found.cell(name) for found in self.files.values())]
            for name in measures
        ]
        header = ["gain with the passages", *(f"{name} (n={found.n})" for name, found in self.files.items())]
        lines = [found.line(name) for name, found in self.files.items()]
        return "\n\n".join([markdown_table(header, rows), *lines])

    def plot(self, path: Path) -> None:
        """Plot Pearson's r of each measure with its interval, one panel per file."""
        panels = {
            f"Pearson with marks, {name}": {
                "": {measure: (value, found.interval[measure]) for measure, value in found.pearson.items()}
            }
            for name, found in self.files.items()
        }
        plot_intervals(panels, path, _DELTA_SEPER)


def command(config: CorrelationOptions) -> str:
    """Run ``seper-reward evaluate correlation``."""
    if not config.file:
        raise ValueError("--file is required: questions whose passages have the field 'relevant'")
    sets = {
        name: with_passages(marked_questions(config, file), config.passages_per_question)
        for name, file in by_name(config.file).items()
    }
    with reporting(_NAME, config) as report:
        scorer = load_scorer(config, config.seed)
        named = config.llm_judge
        model = None if named == "none" else load_judge(named, judge_options(config), scorer.sampler)
        judge = None if model is None else Judge(model, scorer.cache)
        files = {}
        for name, queries in sets.items():
            asked = unknown_to(scorer, queries) if config.leave_out_known else queries
            found = correlation(scorer, asked, judge=judge)
            files[name] = replace(found, known_left_out=len(queries) - len(asked))
        report(CorrelationByFile(files))
    return f"seper-reward label --input {config.file[0]} --output_dir runs/label"


def correlation(scorer: SePerScorer, queries: Sequence[Query], *, judge: Judge | None = None) -> Correlation:
    """Correlate ΔSePer and other measures with the passages' mark ``relevant`` (SePer, arXiv:2503.01478, Table 2).

    The relevance of a relevant passage is one over the number of relevant passages of its question. If there are
    several, all of them together are a further context, of relevance 1. Each of ``Measures`` is the difference with
    and without the passages, from the same samples; ``judge`` adds ``llm_judge``. All processes must call this
    together. Raises ``ValueError`` if a mark is missing or invalid, all are equal, or all questions are too long for
    the reader.
    """
    contexts = marked_contexts(queries)
    measures = Measures(scorer, judge)

    def gains(batch: Sequence[Query]) -> list[tuple[float, list[dict[str, float]]] | UnscorableError]:
        found = measures.gains(list(map(baseline_and_contexts, batch)))
        return [each if isinstance(each, UnscorableError) else (each.beliefs[0].seper, each.rows) for each in found]

    measured = measure_shared(queries, gains, "measuring", size=scorer.batch_size, scorer=scorer)
    rows: list[dict[str, float]] = []
    relevance: list[float] = []
    owner: list[int] = []
    baselines: list[float] = []
    for query, query_contexts, found in zip(queries, contexts, measured, strict=True):
        if isinstance(found, UnscorableError):
            tell_left_out(query.id, found)
            continue
        baseline, own = found
        rows += own
        relevance += [context.relevance for context in query_contexts]
        owner += [len(baselines)] * len(own)
        baselines.append(baseline)
    if not rows:
        raise none_asked(queries)
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    for name in ("delta_belief", "question_gain"):  # some readers return no likelihood
        if all(map(math.isnan, columns[name])):
            del columns[name]
    return Correlation(
        **_correlate(columns, relevance, owner),
        baseline_seper=mean(baselines),
        n=len(relevance),
        questions=len(baselines),
        left_out=len(queries) - len(baselines),
    )


def unknown_to(scorer: SePerScorer, queries: Sequence[Query]) -> list[Query]:
    """Return the questions whose likeliest response without passages is not an exact match; ``ValueError`` if none.

    This response is not among those that a correlation is measured on: selecting questions by these would also select
    their sampling errors.
    """
    reader = scorer.with_sampling(**GREEDY).reader
    asked = [Asked(query.question, (), ((),)) for query in queries]
    measured = measure_shared(asked, reader.responses, "answering without passages")
    # errors are logged when the question is measured
    unknown = [
        query
        for query, found in zip(queries, measured, strict=True)
        if isinstance(found, UnscorableError) or exact_match(found[0].texts[0], query.answers) < 1
    ]
    if not unknown:
        raise ValueError(
            f"the reader answers all of {plural(len(queries), 'question')} without passages; set leave_out_known=false"
        )
    return unknown


def _correlate(
    columns: Mapping[str, Sequence[float]], relevance: Sequence[float], owner: Sequence[int]
) -> dict[str, Any]:
    resampled = PooledPearson(columns, relevance, owner)
    everyone = range(max(owner) + 1)
    pearson = {name: float(resampled.pearson(name, everyone)) for name in columns}
    best = max(
        (name for name in columns if not name.startswith("delta_")),
        key=lambda name: -1.0 if math.isnan(pearson[name]) else pearson[name],
    )
    lead = partial(resampled.lead, _DELTA_SEPER[0], best)
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
