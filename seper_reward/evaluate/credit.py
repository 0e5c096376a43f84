"""Compare credits of a search agent's searches with what its answers lose without the results."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from seper_reward.batching import measure_shared
from seper_reward.command import Record, questions_and_corpus, reporting
from seper_reward.evaluate.interventions import REMOVED, SUPPORT, SWAPPED, Case, CreditedSearch, credited_searches
from seper_reward.options import CreditOptions, EngineOptions, ReaderOptions, pick
from seper_reward.reader.engine.engine_sampler import load_sampler
from seper_reward.reader.prompted import PromptedReader
from seper_reward.reader.sampler import isolated
from seper_reward.reports.figures import plot_intervals
from seper_reward.reports.tables import interval_cell, markdown_table, questions_text
from seper_reward.retrieval import load_retriever
from seper_reward.reward.logs import read_usable_rollouts
from seper_reward.reward.search_agent import MAX_NEW_TOKENS, SearchAgent
from seper_reward.runtime.distributed import process_state
from seper_reward.runtime.hashing import content_key
from seper_reward.runtime.json_files import write_lines
from seper_reward.runtime.messages import tell_left_out
from seper_reward.scorer import load_scorer
from seper_reward.statistics import slope, spearman, statistic_over_questions
from seper_reward.types import Query

_NAME = "evaluate credit"
_BLOCK = 8  # questions that share batches; a killed run loses at most one block
_TARGET, _OTHER = f"{REMOVED}, {SUPPORT}", f"{SWAPPED}, {SUPPORT}"
_OUTCOME = "outcome"
_LEAD = "lead over outcome"
_OURS = ("delta_seper", "agent_delta_seper", "delta_belief")
_SURE = 1.96  # standard errors
Value = Mapping[str, Any]


@dataclass(frozen=True)
class CreditComparison(Record):
    """Credits of searches compared with the true effect of their results on the agent's answers (docs/credit.md).

    A ``Value`` is ``{"value", "interval"}``, with a 95 % bootstrap interval over questions. Effects and correctness
    are by intervention and measure. Measures of credits that name no effect are for that of removal on E.
    """

    agent: str
    reader: str
    questions: int
    searches: int
    left_out: int  # questions or rollouts that are longer than a window
    helpful: int  # searches that surely help: the effect exceeds the margin and 1.96 standard errors
    harmful: int  # searches that surely harm
    correct: Mapping[str, Value]
    effects: Mapping[str, Value]  # mean over searches
    ceiling: Value  # greatest Spearman of a credit, as the effect is measured with errors: the root of its reliability
    # by credit: `measures`, and Spearman by `effects` and by `parts` of the searches
    credits: Mapping[str, Mapping[str, Mapping[str, Value]]]
    tokens: Mapping[str, float]  # that models read and write per search, by credit
    parts: Mapping[str, int]  # number of searches
    by_search: Sequence[CreditedSearch]

    def as_dict(self) -> dict[str, Any]:
        """Return the content of the JSON file, without single searches."""
        return {name: value for name, value in super().as_dict().items() if name != "by_search"}

    def table(self) -> str:
        """Return correctness and effects, and the measures of credits, as Markdown."""
        counts = (
            f"{questions_text(self.questions, self.left_out)}, {self.searches} searches, {self.helpful} surely "
            f"helpful and {self.harmful} surely harmful; a credit's Spearman is at most {interval_cell(self.ceiling)}"
        )
        arms = [
            [name, interval_cell(row), interval_cell(self.effects[name]) if name in self.effects else ""]
            for name, row in self.correct.items()
        ]
        tables = [counts, markdown_table(["result", "correct", "effect of the result"], arms)]
        titles = {"measures": "credit", "effects": "Spearman with the effect", "parts": "Spearman by part"}
        for kind, title in titles.items():
            rows = [[name, *map(interval_cell, row[kind].values())] for name, row in self.credits.items()]
            columns = list(next(iter(self.credits.values()))[kind])
            if kind == "measures":
                rows = [[*row, f"{self.tokens[row[0]]:.0f}"] for row in rows]
                columns.append("tokens")
            if kind == "parts":
                columns = [f"{part} ({self.parts[part]})" for part in columns]
            tables.append(markdown_table([title, *columns], rows))
        return "\n\n".join(tables)

    def plot(self, path: Path) -> None:
        """Plot the correlations with the effects on E; the path's extension sets the format (svg, png, pdf)."""
        values = {
            effect: {name: tuple(row["effects"][effect].values()) for name, row in self.credits.items()}
            for effect in (_TARGET, _OTHER)
        }
        panels: Any = {f"Spearman with the effect: {effect}": {"": row} for effect, row in values.items()}
        plot_intervals(panels, path, ours=_OURS)


def command(config: CreditOptions) -> str:
    """Run ``seper-reward evaluate credit``."""
    queries, corpus = questions_and_corpus(config)
    cases = _cases(queries, config)
    with reporting(_NAME, config) as report:
        scorer = load_scorer(config, config.seed)
        model, at, address = config.agent.partition("@http")
        sampler = load_sampler(
            model,
            options=pick(ReaderOptions, config, revision=None, chat_template=None),
            engine=EngineOptions([f"http{address}"] if at else []),
            num_samples=config.continuations,
            max_new_tokens=MAX_NEW_TOKENS,
            seed=config.seed,
        )
        reader = PromptedReader(sampler, max_passage_tokens=config.agent_passage_tokens, cache=scorer.cache)
        agent = SearchAgent(reader, load_retriever(config.retriever, corpus))
        measure = partial(credited_searches, agent, scorer, list(corpus.values()))
        found = measure_shared(cases, lambda batch: isolated(measure, list(batch)), "intervening", size=_BLOCK)
        errors = {case.query.id: each for case, each in zip(cases, found, strict=True) if isinstance(each, Exception)}
        for name, error in errors.items():
            tell_left_out(name, error)
        rows = [row for each in found if not isinstance(each, Exception) for row in each]
        result = compare_credits(rows, config.margin, len(errors), config.agent, config.reader)
        report(result)
    if config.searches and process_state().is_main_process:
        write_lines(Path(config.searches), map(asdict, result.by_search))
    return ""


def _cases(queries: Sequence[Query], config: CreditOptions) -> list[Case]:
    """Return the questions, or the rollouts of the log, ordered by a hash of their ids, up to the number of the sample."""
    if config.rollouts is None:
        most = config.max_searches
        cases = [Case(query, min(most, query.metadata.get("hops", most))) for query in queries]
    else:
        known = {query.question: query for query in queries}
        gold = {question: query.answers for question, query in known.items()}
        cases = [
            Case(replace(known.get(each.question, Query(each.question, each.question, ())), answers=each.answers),
                 len(each.turns), each)
            for each in read_usable_rollouts(config.rollouts, config, gold)
        ]  # fmt: skip
    return sorted(cases, key=lambda case: content_key("credit", case.query.id))[: config.sample]


def compare_credits(
    rows: Sequence[CreditedSearch], margin: float, left_out: int = 0, agent: str = "", reader: str = ""
) -> CreditComparison:
    """Compare the credits of searches with their true effects.

    The least size of a sure effect is ``margin``; without a search ``ValueError`` is raised.
    """
    if not rows:
        raise ValueError("expected searches that can be measured, got none; see the messages above")
    over = partial(statistic_over_questions, [row.id for row in rows])
    effects = {name: np.array([row.effects[name] for row in rows]) for name in rows[0].effects}
    named = {name: np.array([row.credits[name] for row in rows]) for name in rows[0].credits}
    halves = np.array([row.halves for row in rows])
    target, outcome = effects[_TARGET], named[_OUTCOME]
    least = np.maximum(margin, _SURE * np.array([row.std_errors[_TARGET] for row in rows]))
    helpful, harmful = target > least, target < -least
    parts = _parts(rows)

    def mean(values: Any, chosen: Any = None) -> Value:
        own = np.asarray(values, dtype=float) if chosen is None else np.where(chosen, values, math.nan)
        return over(lambda at: float(np.nanmean(own[at])) if not np.isnan(own[at]).all() else math.nan)

    def correlation(own: Any, effect: Any) -> Value:
        return over(lambda at: spearman(own[at], effect[at]))

    def described(own: Any) -> dict[str, dict[str, Value]]:
        measures = {
            "Spearman": correlation(own, target),
            _LEAD: over(lambda at: spearman(own[at], target[at]) - spearman(outcome[at], target[at])),
            "sign right": mean((1 + np.sign(own) * np.sign(target)) / 2, helpful | harmful),
            "slope": over(lambda at: slope(own[at], target[at])),
            "harmful found": mean(own < 0, harmful),
        }
        by_part = {part: correlation(np.where(chosen, own, math.nan), target) for part, chosen in parts.items()}
        by_effect = {name: correlation(own, effect) for name, effect in effects.items()}
        return {"measures": measures, "effects": by_effect, "parts": by_part}

    def ceiling(at: Any) -> float:
        found = spearman(*halves[at].T)
        return math.sqrt(max(0.0, 2 * found / (1 + found)))

    return CreditComparison(
        agent=agent,
        reader=reader,
        questions=len({row.id for row in rows}),
        searches=len(rows),
        left_out=left_out,
        helpful=int(helpful.sum()),
        harmful=int(harmful.sum()),
        correct={name: mean([row.correct[name] for row in rows]) for name in rows[0].correct},
        effects={name: mean(effect) for name, effect in effects.items()},
        ceiling=over(ceiling),
        credits={name: described(own) for name, own in named.items()},
        tokens={name: sum(row.tokens[name] for row in rows) / len(rows) for name in named},
        parts={part: int(chosen.sum()) for part, chosen in parts.items()},
        by_search=rows,
    )


def _parts(rows: Sequence[CreditedSearch]) -> dict[str, Any]:
    """Return which searches belong to each part, by hops, number of the search, and what the agent knows."""
    hops = {
        f"{each} hops": [row.hops == each for row in rows] for each in sorted({row.hops or 0 for row in rows}) if each
    }
    numbers = {f"search {each}": [row.search == each for row in rows] for each in sorted({row.search for row in rows})}
    known = {name: [row.known == each for row in rows] for name, each in (("known", True), ("not known", False))}
    return {part: np.array(chosen) for part, chosen in {**hops, **numbers, **known}.items()}
