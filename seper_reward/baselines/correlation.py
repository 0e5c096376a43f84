"""Correlate ΔSePer and other measures with human relevance labels (SePer, arXiv:2503.01478, Table 2)."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from seper_reward.baselines.measures import Measures
from seper_reward.baselines.options import CorrelationOptions
from seper_reward.batching import measure_shared
from seper_reward.command import Record, by_name, marked_questions, reporting
from seper_reward.data.answers import exact_match
from seper_reward.data.marks import relevance_of
from seper_reward.judge.judge import Judge
from seper_reward.reader.sampler import GREEDY
from seper_reward.reports.figures import plot_intervals
from seper_reward.reports.tables import markdown_table, questions_text
from seper_reward.runtime.messages import plural, tell_left_out
from seper_reward.scorer import SePerScorer, load_judge
from seper_reward.statistics import (
    Statistic,
    mean,
    mean_or_none,
    pearson,
    pearson_p_value,
    statistic_over_questions,
)
from seper_reward.types import Asked, Passage, Query, UnscorableError

_NAME = "baseline correlation"
_DELTA_SEPER = ("delta_seper_soft", "delta_seper_hard")


@dataclass(frozen=True)
class Context:
    """Passages that a reader sees together, and their relevance by human labels in [0, 1]; 1 is enough to answer."""

    passages: tuple[Passage, ...]
    relevance: float


@dataclass(frozen=True)
class Correlation(Record):
    """Agreement of measures of what passages change with human labels, on the questions of one file."""

    pearson: Mapping[str, Statistic]  # Pearson's r by measure; undefined for a constant
    p_value: Mapping[str, float | None]  # assumes independent contexts
    rival: str  # the best other measure than those of the belief
    lead: Statistic  # `pearson` of `delta_seper_soft` less that of the rival, whose choice counts as fixed
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
        few = f" (n={self.contexts[measure]})" if self.contexts[measure] < self.n else ""
        return f"{self.pearson[measure]}{few}"

    def line(self, name: str) -> str:
        """Return the numbers that are not in the table, for a file of this name."""
        parts = [
            f"{name}: {questions_text(self.questions, self.left_out)}, baseline SePer {self.baseline_seper:.3f}",
            f"ΔSePer soft leads its best rival, {self.rival}, by {self.lead}",
        ]
        if self.known_left_out:
            parts.append(
                f"{plural(self.known_left_out, 'question')} left out, which the reader answers without passages"
            )
        return "; ".join(parts)


@dataclass(frozen=True)
class CorrelationByFile(Record):
    """The correlations of several files, by their names."""

    files: Mapping[str, Correlation]

    def table(self) -> str:
        """Return Pearson's r of each measure with human labels, one column per file."""
        measures = list(dict.fromkeys(name for result in self.files.values() for name in result.pearson))
        rows = [
            [f"**{name}**" if name in _DELTA_SEPER else name, *(result.cell(name) for result in self.files.values())]
            for name in measures
        ]
        header = ["gain with the passages", *(f"{name} (n={result.n})" for name, result in self.files.items())]
        lines = [result.line(name) for name, result in self.files.items()]
        return "\n\n".join([markdown_table(header, rows), *lines])

    def plot(self, path: Path) -> None:
        """Plot Pearson's r of each measure with its interval, one panel per file."""
        panels = {f"Pearson with marks, {name}": {"": result.pearson} for name, result in self.files.items()}
        plot_intervals(panels, path, _DELTA_SEPER)


def command(config: CorrelationOptions) -> str:
    """Run ``seper-reward baseline correlation``."""
    if not config.file:
        raise ValueError("--file is required: questions whose passages have the field 'relevant'")
    sets = {
        name: [choose_passages(query, config.passages_per_question) for query in marked_questions(config, file)]
        for name, file in by_name(config.file).items()
    }
    with reporting(_NAME, config) as report:
        scorer = SePerScorer.from_pretrained(config)
        named = config.llm_judge
        model = None if named == "none" else load_judge(replace(config, judge=named), scorer.sampler)
        judge = None if model is None else Judge(model, scorer.cache)
        files = {}
        for name, queries in sets.items():
            chosen = unknown_to(scorer, queries) if config.leave_out_known else queries
            result = correlation(scorer, chosen, judge=judge)
            files[name] = replace(result, known_left_out=len(queries) - len(chosen))
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
    contexts = list(map(contexts_of, queries))
    levels = {context.relevance for query_contexts in contexts for context in query_contexts}
    if len(levels) < 2:  # nothing correlates
        raise ValueError(f"passages must be marked relevant and not relevant, got only {levels or 'none'}")
    measures = Measures(scorer, judge)

    def gains(batch: Sequence[Asked]) -> list[tuple[float, list[dict[str, float]]] | UnscorableError]:
        results = measures.gains(batch)
        return [
            gain if isinstance(gain, UnscorableError) else (gain.beliefs[0].seper, gain.changes) for gain in results
        ]

    requests = [
        Asked(query.question, query.answers, ((), *(context.passages for context in query_contexts)))
        for query, query_contexts in zip(queries, contexts, strict=True)
    ]
    measured = measure_shared(requests, gains, "measuring", size=scorer.batch_size, scorer=scorer)
    changes: list[dict[str, float]] = []
    relevance: list[float] = []
    owner: list[int] = []
    baselines: list[float] = []
    for query, query_contexts, result in zip(queries, contexts, measured, strict=True):
        if isinstance(result, UnscorableError):
            tell_left_out(query.id, result)
            continue
        baseline, query_changes = result
        changes += query_changes
        relevance += [context.relevance for context in query_contexts]
        owner += [len(baselines)] * len(query_changes)
        baselines.append(baseline)
    if not changes:
        raise ValueError(
            f"the reader can be asked none of {plural(len(queries), 'question')}; shorten them, or use a reader with "
            "a longer window"
        )
    columns = {name: np.array([change[name] for change in changes]) for name in changes[0]}
    for name in ("delta_belief", "question_gain"):  # some readers return no likelihood
        if np.isnan(columns[name]).all():
            del columns[name]
    return correlation_of(columns, np.array(relevance), owner, baselines, left_out=len(queries) - len(baselines))


def correlation_of(
    columns: Mapping[str, np.ndarray],
    relevance: np.ndarray,
    owner: Sequence[int],
    baselines: Sequence[float],
    left_out: int = 0,
) -> Correlation:
    """Correlate the changes of measures with the relevance of C contexts of Q questions.

    Args:
        columns: ``(C,)`` changes by measure, NaN if unknown.
        relevance: ``(C,)`` in [0, 1].
        owner: ``(C,)`` number of each context's question, in [0, Q).
        baselines: ``(Q,)`` SePer without passages.
        left_out: Number of questions that could not be measured.
    """

    def correlated(values: np.ndarray, less: np.ndarray | None = None) -> Statistic:
        return statistic_over_questions(
            owner,
            lambda at: (
                pearson(values[at], relevance[at]) - (0.0 if less is None else pearson(less[at], relevance[at]))
            ),
        )

    by_measure = {name: correlated(values) for name, values in columns.items()}
    known = {name: statistic.value for name, statistic in by_measure.items() if statistic.value is not None}
    rivals = [name for name in columns if not name.startswith("delta_")]
    rival = max(rivals, key=lambda name: known.get(name, -1.0))
    ours = np.where(np.isnan(columns[rival]), math.nan, columns[_DELTA_SEPER[0]])  # in contexts that have both
    marked = {f"{level:.3g}": relevance == level for level in np.unique(relevance)}
    return Correlation(
        pearson=by_measure,
        p_value={name: pearson_p_value(values, relevance) for name, values in columns.items()},
        rival=rival,
        lead=correlated(ours, columns[rival]),
        mean={
            name: {level: mean_or_none(itertools.compress(values, among)) for level, among in marked.items()}
            for name, values in columns.items()
        },
        contexts={name: int((~np.isnan(values)).sum()) for name, values in columns.items()},
        baseline_seper=mean(baselines),
        n=len(relevance),
        questions=len(baselines),
        left_out=left_out,
    )


def contexts_of(query: Query) -> list[Context]:
    """Return a question's contexts: each passage alone and, if several are relevant, all of these together."""
    marks = relevance_of(query)
    together = tuple(passage for passage, mark in zip(query.passages, marks, strict=True) if mark)
    alone = [
        Context((passage,), 1 / len(together) if mark else 0.0)
        for passage, mark in zip(query.passages, marks, strict=True)
    ]
    return [*alone, Context(together, 1.0)] if len(together) > 1 else alone


def choose_passages(query: Query, count: int | None) -> Query:
    """Keep ``count`` passages (``None``: all) in their order, relevant ones first; ``ValueError`` for too few."""
    if count is None:
        return query
    marks = relevance_of(query)
    relevant = sum(marks)
    if count < max(relevant, 1):
        raise ValueError(f"question id={query.id!r} has {relevant} relevant passages, more than {count}; keep more")
    ranked = sorted(range(len(query.passages)), key=lambda place: not marks[place])
    return replace(query, passages=tuple(query.passages[place] for place in sorted(ranked[:count])))


def unknown_to(scorer: SePerScorer, queries: Sequence[Query]) -> list[Query]:
    """Return the questions whose likeliest response without passages is not an exact match; ``ValueError`` if none.

    This response is not among those that a correlation is measured on: selecting questions by these would also select
    their sampling errors.
    """
    reader = scorer.with_sampling(**GREEDY).reader
    requests = [Asked(query.question, (), ((),)) for query in queries]
    measured = measure_shared(requests, reader.responses, "answering without passages")
    # errors are logged when the question is measured
    unknown = [
        query
        for query, responses in zip(queries, measured, strict=True)
        if isinstance(responses, UnscorableError) or exact_match(responses[0].texts[0], query.answers) < 1
    ]
    if not unknown:
        raise ValueError(
            f"the reader answers all of {plural(len(queries), 'question')} without passages; set leave_out_known=false"
        )
    return unknown
