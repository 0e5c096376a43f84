"""Compare credits of a search agent's searches with what its answers lose without the results."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import rankdata

from seper_reward.batching import measure_shared
from seper_reward.command import Record, questions_and_corpus, reporting
from seper_reward.evaluate.interventions import (
    ARMS,
    MAX_NEW_TOKENS,
    MEASURES,
    REMOVED,
    SUPPORT,
    Agent,
    Case,
    CreditedSearch,
    credited_searches,
)
from seper_reward.options import CreditOptions, EngineOptions, ReaderOptions, pick
from seper_reward.reader.engine.engine_sampler import load_sampler
from seper_reward.reader.prompted import PromptedReader
from seper_reward.reader.sampler import isolated
from seper_reward.reports.figures import plot_intervals
from seper_reward.reports.tables import interval_cell, lead_text, markdown_table, questions_text
from seper_reward.retrieval import load_retriever
from seper_reward.reward.logs import read_usable_rollouts
from seper_reward.runtime.distributed import process_state
from seper_reward.runtime.hashing import content_key
from seper_reward.runtime.json_files import write_lines
from seper_reward.runtime.messages import tell_left_out
from seper_reward.scorer import load_scorer
from seper_reward.statistics import interval_over_questions, rounded, rounded_or_none
from seper_reward.types import Query, UnscorableError

_NAME = "evaluate credit"
_BLOCK = 8  # questions that share batches; a killed run loses at most one block
_RESAMPLES = 1000
TARGET = f"{REMOVED}, {SUPPORT}"  # the effect that all measures of credits use unless they name another one
OUTCOME = "outcome"


@dataclass(frozen=True)
class CreditComparison(Record):
    """Credits of searches compared with the true effect of their results on the agent's answers.

    Values are ``{"value", "interval"}``, with a 95 % bootstrap interval over questions.

    Attributes:
        agent: Name of the agent.
        reader: Name of the separate reader.
        continuations: Number of sampled answers per intervention.
        questions: Number of questions.
        searches: Number of searches.
        left_out: Number of rollouts that are longer than a window.
        surely: Number of searches that surely helped (``helpful``) or harmed: the effect exceeds ``margin`` and 1.96
            standard errors.
        correct: Correctness of the answers by intervention and measure.
        effects: Mean effect of a result by intervention and measure.
        ceiling: Greatest Spearman correlation that a credit can reach with effects of so many continuations: the root
            of the reliability of the effect by halves (Spearman-Brown).
        credits: By credit, ``spearman`` by effect, ``lead`` (in Spearman over the outcome's), ``sign`` (share of sure
            effects with this sign; a credit of 0 counts half), ``slope`` (of the effect on the credit), ``harmful``
            (share of surely harmful searches with a credit below 0), ``splits`` (Spearman by part of the searches) and
            ``tokens`` per search.
        splits: Number of searches by part.
        by_search: The searches.
    """

    agent: str
    reader: str
    continuations: int
    questions: int
    searches: int
    left_out: int
    surely: Mapping[str, int]
    correct: Mapping[str, Mapping[str, Any]]
    effects: Mapping[str, Mapping[str, Any]]
    ceiling: Mapping[str, Any]
    credits: Mapping[str, Mapping[str, Any]]
    splits: Mapping[str, int]
    by_search: Sequence[CreditedSearch]

    def as_dict(self) -> dict[str, Any]:
        """Return the content of the JSON file, without single searches."""
        return {name: value for name, value in super().as_dict().items() if name != "by_search"}

    def table(self) -> str:
        """Return correctness, effects and the measures of credits as Markdown."""
        about = (
            f"{questions_text(self.questions, self.left_out)}, {self.searches} searches, {self.continuations} "
            f"continuations each; {self.surely['helpful']} surely helpful, {self.surely['harmful']} surely harmful; "
            f"greatest possible correlation {interval_cell(self.ceiling)}"
        )
        arms = [
            [
                arm,
                *(
                    interval_cell(found[f"{arm}, {name}"]) if f"{arm}, {name}" in found else ""
                    for found in (self.correct, self.effects)
                    for name in MEASURES
                ),
            ]
            for arm in ARMS
        ]
        measured = [
            [
                name,
                interval_cell(row["spearman"][TARGET]),
                ""
                if name == OUTCOME
                else lead_text({**row["lead"], "lead": row["lead"]["value"]})
                if row["lead"]["value"] is not None
                else "–",
                *(interval_cell(row[each]) for each in ("sign", "slope", "harmful")),
                f"{row['tokens']:.0f}",
            ]
            for name, row in self.credits.items()
        ]
        others = [each for each in self.effects if each != TARGET]
        by_effect = [
            [name, *(interval_cell(row["spearman"][each]) for each in others)] for name, row in self.credits.items()
        ]
        by_split = [
            [name, *(interval_cell(row["splits"][each]) for each in self.splits)] for name, row in self.credits.items()
        ]
        header = ["credit", "Spearman", "lead over outcome", "sign", "slope", "harmful found", "tokens"]
        return "\n\n".join(
            [
                about,
                markdown_table(
                    ["result", *(f"correct, {each}" for each in MEASURES), *(f"effect, {each}" for each in MEASURES)],
                    arms,
                ),
                markdown_table(header, measured),
                markdown_table(["Spearman with the effect", *others], by_effect),
                markdown_table(
                    ["Spearman by part", *(f"{each} ({count})" for each, count in self.splits.items())], by_split
                ),
            ]
        )

    def plot(self, path: Path) -> None:
        """Plot the correlations of credits with both effects on E; the path's extension sets the format."""
        panels = {
            f"Spearman, result {each.partition(',')[0]}": {
                "": {
                    name: (row["spearman"][each]["value"], row["spearman"][each]["interval"])
                    for name, row in self.credits.items()
                }
            }
            for each in self.effects
            if each.endswith(SUPPORT)
        }
        plot_intervals(panels, path, ours=("delta_seper", "agent_delta_seper", "delta_belief"))


def command(config: CreditOptions) -> str:
    """Run ``seper-reward evaluate credit``."""
    queries, corpus = questions_and_corpus(replace(config, limit=None))
    with reporting(_NAME, config) as report:
        scorer = load_scorer(config, config.seed)
        model, at, address = config.agent.partition("@http")
        sampler = load_sampler(
            model,
            options=pick(ReaderOptions, config, revision=None, chat_template=None),
            engine=EngineOptions([f"http{address}"] if at else []),
            num_samples=config.continuations, max_new_tokens=MAX_NEW_TOKENS, seed=config.seed,
        )  # fmt: skip
        reader = PromptedReader(sampler, max_passage_tokens=config.agent_passage_tokens, cache=scorer.cache)
        agent = Agent(reader, load_retriever(config.retriever, corpus))
        cases = cases_of(queries, config)
        measure = partial(credited_searches, agent, scorer, list(corpus.values()))
        found = measure_shared(cases, lambda batch: isolated(measure, list(batch)), "intervening", size=_BLOCK)
        rows = []
        for case, searches in zip(cases, found, strict=True):
            if isinstance(searches, UnscorableError):
                tell_left_out(case.query.id, searches)
            else:
                rows.append(searches)
        result = compare_credits(
            rows, margin=config.margin, agent=sampler.name, reader=scorer.sampler.name,
            continuations=config.continuations, left_out=len(cases) - len(rows),
        )  # fmt: skip
        report(result)
    if config.searches and process_state().is_main_process:
        write_lines(Path(config.searches), map(asdict, result.by_search))
    return f"seper-reward audit-searches {config.rollouts}" if config.rollouts else ""


def cases_of(queries: Sequence[Query], config: CreditOptions) -> list[Case]:
    """Return the questions, or the rollouts of the log, in the order of a hash of their ids, up to the limit."""
    by_question = {query.question: query for query in queries}
    if config.rollouts is None:
        cases = [
            Case(query, min(config.max_searches, query.metadata.get("hops", config.max_searches))) for query in queries
        ]
    else:
        gold = {question: query.answers for question, query in by_question.items()}
        cases = [
            Case(
                replace(by_question.get(each.question, Query(each.question, each.question, ())), answers=each.answers),
                len(each.turns),
                each,
            )
            for each in read_usable_rollouts(config.rollouts, config, gold)
            if each.turns
        ]
    return sorted(cases, key=lambda case: content_key("credit", case.query.id))[: config.limit]


def compare_credits(
    found: Sequence[Sequence[CreditedSearch]],
    *,
    margin: float,
    agent: str = "",
    reader: str = "",
    continuations: int = 0,
    left_out: int = 0,
) -> CreditComparison:
    """Compare credits with the true effects of the searches of each rollout.

    Raises:
        ValueError: There is no search.
    """
    rows = [row for searches in found for row in searches]
    if not rows:
        raise ValueError("expected rollouts with searches that can be measured, got none; see the messages above")
    places: dict[str, list[int]] = {}
    for at, row in enumerate(rows):
        places.setdefault(row.id, []).append(at)
    groups = list(map(np.array, places.values()))

    def over(statistic: Callable[[Any], float]) -> dict[str, Any]:
        """Return a statistic of searches, given by their numbers, and its interval over questions."""
        interval = interval_over_questions(
            lambda drawn: statistic(np.concatenate([groups[at] for at in drawn])), len(groups), resamples=_RESAMPLES
        )
        return {"value": rounded_or_none(statistic(np.concatenate(groups))), "interval": interval}

    def mean_of(values: Any, chosen: Any = True) -> dict[str, Any]:
        values = np.where(chosen, np.asarray(values, dtype=float), np.nan)
        return over(lambda at: mean_or_nan(values[at]))

    effects = {name: np.array([row.effects[name] for row in rows]) for name in rows[0].effects}
    target = effects[TARGET]
    sure = np.maximum(margin, 1.96 * np.array([row.std_errors[TARGET] for row in rows]))
    helped, harmed = target > sure, target < -sure
    parts = {
        **{
            f"{hops} hops": [row.hops == hops for row in rows]
            for hops in sorted({row.hops for row in rows if row.hops})
        },
        **{name: [row.known == known for row in rows] for name, known in (("known", True), ("not known", False))},
        **{
            f"search {number}": [row.search == number for row in rows]
            for number in sorted({row.search for row in rows})
        },
    }
    columns = {name: np.array([row.credits[name] for row in rows]) for name in rows[0].credits}

    def correlation(own: Any, effect: Any, chosen: Any = True) -> dict[str, Any]:
        own = np.where(chosen, own, np.nan)
        return over(lambda at: spearman(own[at], effect[at]))

    def described(name: str, own: Any) -> dict[str, Any]:
        return {
            "spearman": {each: correlation(own, effect) for each, effect in effects.items()},
            "lead": over(lambda at: spearman(own[at], target[at]) - spearman(columns[OUTCOME][at], target[at])),
            "sign": mean_of((1 + np.sign(own) * np.sign(target)) / 2, helped | harmed),
            "slope": over(lambda at: slope(own[at], target[at])),
            "harmful": mean_of(own < 0, harmed),
            "splits": {part: correlation(own, target, chosen) for part, chosen in parts.items()},
            "tokens": rounded(float(np.mean([row.tokens[name] for row in rows]))),
        }

    halves = np.array([row.halves for row in rows])
    return CreditComparison(
        agent=agent,
        reader=reader,
        continuations=continuations,
        questions=len(groups),
        searches=len(rows),
        left_out=left_out,
        surely={"helpful": int(helped.sum()), "harmful": int(harmed.sum())},
        correct={name: mean_of([row.correct[name] for row in rows]) for name in rows[0].correct},
        effects={name: mean_of(values) for name, values in effects.items()},
        ceiling=over(lambda at: ceiling(spearman(*halves[at].T))),
        credits={name: described(name, own) for name, own in columns.items()},
        splits={part: sum(values) for part, values in parts.items()},
        by_search=rows,
    )


def spearman(values: Any, others: Any) -> float:
    """Return Spearman's rank correlation of the pairs without NaN; NaN if one side is constant."""
    known = ~np.isnan(values)
    values, others = values[known].round(9), others[known].round(9)
    if len(values) < 2 or min(np.ptp(values), np.ptp(others)) == 0:
        return math.nan
    return float(np.corrcoef(rankdata(values), rankdata(others))[0, 1])


def slope(values: Any, target: Any) -> float:
    """Return the slope of the regression of a target on a credit, over pairs without NaN; 1 is calibrated."""
    known = ~np.isnan(values)
    centered = values[known] - values[known].mean() if known.any() else values[known]
    spread = float((centered**2).sum())
    return float((centered * target[known]).sum()) / spread if spread else math.nan


def ceiling(halves: float) -> float:
    """Return the root of the reliability of a mean of two halves with this correlation; 0 without reliability."""
    return math.sqrt(max(0.0, 2 * halves / (1 + halves)))


def mean_or_nan(values: Any) -> float:
    """Return the mean of the numbers that are not NaN; NaN without any."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else math.nan
