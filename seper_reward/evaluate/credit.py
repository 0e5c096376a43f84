"""Compare credits of a search agent's searches with what its answers lose without the results."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from seper_reward.batching import measure_shared
from seper_reward.command import Record, questions_and_corpus, reporting
from seper_reward.data.answers import exact_match, holds_answer
from seper_reward.estimators.utility import utility
from seper_reward.evaluate.interventions import ARMS, KEPT, REMOVED, SWAPPED, Case, intervene
from seper_reward.evaluate.logs import read_usable_rollouts
from seper_reward.evaluate.search_agent import MAX_NEW_TOKENS, SearchAgent
from seper_reward.options import CreditOptions, ReaderOptions, split_address
from seper_reward.reader.engine.engine_sampler import load_sampler
from seper_reward.reader.prompted import PromptedReader
from seper_reward.reader.sampler import isolated
from seper_reward.reports.figures import plot_intervals
from seper_reward.reports.tables import markdown_table, questions_text
from seper_reward.retrieval import load_retriever
from seper_reward.reward.credit import Credit, advantages_over_reader
from seper_reward.runtime.distributed import process_state
from seper_reward.runtime.hashing import content_key
from seper_reward.runtime.json_files import write_lines
from seper_reward.runtime.messages import plural, tell_left_out
from seper_reward.scorer import SePerScorer, beliefs_of
from seper_reward.statistics import Statistic, rounded, slope, spearman, statistic_over_questions
from seper_reward.types import KNOWN, Belief, Passage, Query, unwrap

_BLOCK = 8  # questions that share batches; a killed run loses at most one block
MEASURES = SUPPORT, EXACT = "E", "exact match"
_TARGET, _OTHER = f"{REMOVED}, {SUPPORT}", f"{SWAPPED}, {SUPPORT}"
_SURE = 1.96  # standard errors


@dataclass(frozen=True)
class CreditedSearch:
    """A search with its true effect and its credits; effects are by intervention and measure (``"removed, E"``)."""

    id: str  # of the question
    question: str
    search: int  # number of the search in the rollout, from 1
    query: str
    hops: int | None  # of the question, if known
    known: bool  # whether the agent is right without a search, by samples that neither effects nor credits use
    correct: Mapping[str, float]  # mean correctness of the continuations
    effects: Mapping[str, float]  # correctness with the result minus correctness without it
    std_errors: Mapping[str, float]  # of the effects, over continuations
    halves: tuple[float, float]  # effect of removal on E in the continuations of even and of odd number
    credits: Mapping[str, float | None]  # None if unknown
    tokens: Mapping[str, float]  # that models read and write for each credit


@dataclass(frozen=True)
class CreditComparison(Record):
    """Credits of searches compared with the true effect of their results on the agent's answers (docs/evaluate.md).

    If a measure of a credit names no effect, it is for that of removal on E.
    """

    unwritten = ("by_search",)
    agent: str
    reader: str
    questions: int
    searches: int
    left_out: int  # questions or rollouts that are longer than a window
    helpful: int  # searches that surely help: the effect exceeds the margin and 1.96 standard errors
    harmful: int  # searches that surely harm
    correct: Mapping[str, Statistic]
    effects: Mapping[str, Statistic]  # mean over searches
    ceiling: Statistic  # greatest Spearman of a credit: the root of the reliability of the measured effect
    # by credit: `measures`, and Spearman by `effects` and by `parts` of the searches
    credits: Mapping[str, Mapping[str, Mapping[str, Statistic]]]
    tokens: Mapping[str, float]  # that models read and write per search, by credit
    parts: Mapping[str, int]  # number of searches
    by_search: Sequence[CreditedSearch]

    def table(self) -> str:
        """Return correctness and effects, and the measures of credits, as Markdown."""
        counts = (
            f"{questions_text(self.questions, self.left_out)}, {plural(self.searches, 'search')}, "
            f"{self.helpful} surely helpful and {self.harmful} surely harmful; "
            f"a credit's Spearman is at most {self.ceiling}"
        )
        arms = [[name, correct, self.effects.get(name, "")] for name, correct in self.correct.items()]
        tables = [counts, markdown_table(["result", "correct", "effect of the result"], arms)]
        titles = {"measures": "credit", "effects": "Spearman with the effect", "parts": "Spearman by part"}
        for kind, title in titles.items():
            rows: list[list[Any]] = [[name, *by_kind[kind].values()] for name, by_kind in self.credits.items()]
            columns = list(next(iter(self.credits.values()))[kind])
            if kind == "measures":
                rows = [[*cells, f"{self.tokens[cells[0]]:.0f}"] for cells in rows]
                columns.append("tokens")
            if kind == "parts":
                columns = [f"{part} ({self.parts[part]})" for part in columns]
            tables.append(markdown_table([title, *columns], rows))
        return "\n\n".join(tables)

    def plot(self, path: Path) -> None:
        """Plot the correlations with the effects on E; the path's extension sets the format (svg, png, pdf)."""
        values = {
            effect: {name: by_kind["effects"][effect] for name, by_kind in self.credits.items()}
            for effect in (_TARGET, _OTHER)
        }
        panels = {f"Spearman with the effect: {effect}": {"": by_credit} for effect, by_credit in values.items()}
        plot_intervals(panels, path, ours=("delta_seper", "agent_delta_seper", "seper_gain", "delta_belief"))


def command(config: CreditOptions) -> str:
    """Run ``seper-reward evaluate credit``."""
    queries, corpus = questions_and_corpus(config)
    cases = _cases(queries, config)
    with reporting("evaluate credit", config) as report:
        scorer = SePerScorer.from_pretrained(config)
        model, servers = split_address(config.agent, "agent")
        options = ReaderOptions(
            reader=model,
            engine=servers,
            num_samples=config.continuations,
            temperature=1.0,
            max_new_tokens=MAX_NEW_TOKENS,
            seed=config.seed,
            max_batch_tokens=config.max_batch_tokens,
            **config.loading,
        )
        reader = PromptedReader(
            load_sampler(options), max_passage_tokens=config.agent_passage_tokens, cache=scorer.cache
        )
        agent = SearchAgent(reader, load_retriever(config.retriever, corpus))
        measure = partial(credited_searches, agent, scorer, list(corpus.values()))
        credited = measure_shared(cases, lambda batch: isolated(measure, list(batch)), "intervening", size=_BLOCK)
        errors = {
            case.query.id: error for case, error in zip(cases, credited, strict=True) if isinstance(error, Exception)
        }
        for name, error in errors.items():
            tell_left_out(name, error)
        all_searches = [search for searches in credited if not isinstance(searches, Exception) for search in searches]
        result = compare_credits(all_searches, config.margin, len(errors), config.agent, config.reader)
        report(result)
    if config.searches and process_state().is_main_process:
        write_lines(Path(config.searches), map(asdict, result.by_search))
    return ""


def _cases(queries: Sequence[Query], config: CreditOptions) -> list[Case]:
    """Return the questions, or the rollouts of the log, as many as the sample has, by a hash of their ids."""
    if config.rollouts is None:
        most = config.max_searches
        cases = [Case(query, min(most, query.metadata.get("hops", most))) for query in queries]
    else:
        known = {query.question: query for query in queries}
        gold = {question: query.answers for question, query in known.items()}
        cases = [
            Case(replace(known.get(rollout.question, Query(rollout.question, rollout.question, ())),
                         answers=rollout.answers), len(rollout.turns), rollout)
            for rollout in read_usable_rollouts(config.rollouts, config, gold)
        ]  # fmt: skip
    return sorted(cases, key=lambda case: content_key("credit", case.query.id))[: config.sample]


def credited_searches(
    agent: SearchAgent, scorer: SePerScorer, corpus: Sequence[Passage], cases: Sequence[Case]
) -> list[list[CreditedSearch]]:
    """Measure the effect and the credits of the searches of rollouts, with a separate reader, whose judge gives E."""
    rollouts = intervene(agent, corpus, cases)
    requests = [rollout.asked for rollout in rollouts]
    measured = map(unwrap, scorer.measure(requests, len(rollouts)))
    sampled = [
        (request.question, request.answers, responses)
        for rollout, request in zip(rollouts, requests, strict=True)
        for responses in rollout.now
    ]
    agent_beliefs = iter(beliefs_of(scorer.judge, scorer.estimator, sampled))
    helps = iter(
        agent.judge_results(
            [
                (rollout.query.question, rollout.turns[:end])
                for rollout in rollouts
                for end in range(1, len(rollout.turns) + 1)
            ]
        )
    )
    credited = []
    for rollout, request, reader in zip(rollouts, requests, measured, strict=True):
        supports = zip(request.texts, reader.supports, strict=True)
        right = {text: (support, exact_match(text, request.answers)) for text, support in supports}
        beliefs = list(itertools.islice(agent_beliefs, len(rollout.now)))
        prompts = [scorer.reader.prompts.build(request.question, context) for context in request.contexts]
        last = len(rollout.turns)
        whole, outcome = reader.beliefs[last], right[rollout.answer][0]
        seper = [belief.seper for belief in reader.beliefs[: last + 1]]
        gains = tuple(after - before for before, after in itertools.pairwise(seper))
        advantages = advantages_over_reader(Credit((*[1] * last, 0), gains, outcome), seper)
        costs = _costs("reader", scorer.reader, prompts[: last + 1], reader.beliefs[: last + 1])
        costs |= _costs("left out", scorer.reader, prompts[last:], reader.beliefs[last:])
        costs |= _costs("agent", agent.reader, rollout.prompts, beliefs)
        searches = []
        for end, turn in enumerate(rollout.turns, 1):
            helpful, tokens = next(helps)
            text = " ".join(passage.full_text for passage in turn.passages)
            named = _by_beliefs(reader.beliefs[end - 1 : end + 1], beliefs[end - 1 : end + 1], costs) | {
                "leave_one_out": (utility(whole, reader.beliefs[last + end]).delta_seper, costs["left out"]),
                "turn_advantage": (advantages[end - 1], costs["reader"]),
                "outcome": (2 * outcome - 1, 0.0),
                "contains": (float(holds_answer(text, request.answers)), 0.0),
                "judgment": (helpful - 0.5, tokens),
            }
            searches.append(
                CreditedSearch(
                    rollout.query.id,
                    request.question,
                    end,
                    turn.query,
                    rollout.query.metadata.get("hops"),
                    float(np.mean([right[text][0] for text in rollout.bare])) >= KNOWN,
                    **effects({arm: [right[text] for text in rollout.ends[end, arm]] for arm in ARMS}),
                    credits={name: value for name, (value, _) in named.items()},
                    tokens={name: cost for name, (_, cost) in named.items()},
                )
            )
        credited.append(searches)
    return credited


def effects(right: Mapping[str, Sequence[tuple[float, float]]]) -> dict[str, Any]:
    """Return the effects of a search from E and exact match of N >= 2 independent continuations of each arm."""
    scores = {f"{arm}, {name}": np.array(right[arm])[:, at] for arm in ARMS for at, name in enumerate(MEASURES)}
    kept_scores = {f"{arm}, {name}": scores[f"{KEPT}, {name}"] for arm in (REMOVED, SWAPPED) for name in MEASURES}
    change = scores[f"{KEPT}, {SUPPORT}"] - scores[f"{REMOVED}, {SUPPORT}"]
    return {
        "correct": {name: rounded(float(values.mean())) for name, values in scores.items()},
        "effects": {name: rounded(float(values.mean() - scores[name].mean())) for name, values in kept_scores.items()},
        "std_errors": {
            name: rounded(math.sqrt((values.var(ddof=1) + scores[name].var(ddof=1)) / len(values)))
            for name, values in kept_scores.items()
        },
        "halves": (rounded(float(change[::2].mean())), rounded(float(change[1::2].mean()))),
    }


def _by_beliefs(
    reader: Sequence[Belief], agent: Sequence[Belief], costs: Mapping[str, float]
) -> dict[str, tuple[float | None, float]]:
    """Return credits by the beliefs before and after a search, each with its number of tokens."""
    gain, agent_gain = utility(reader[1], reader[0]), utility(agent[1], agent[0])
    probs = [math.exp(belief.answer_log_prob) for belief in agent if belief.answer_log_prob is not None]
    return {
        "delta_seper": (gain.delta_seper, costs["reader"]),
        "agent_delta_seper": (agent_gain.delta_seper, costs["agent"]),
        "seper_gain": (None if gain.seper_gain is None else gain.seper_gain.value, costs["reader"]),
        "delta_belief": (None if gain.delta_belief is None else gain.delta_belief.value, costs["reader"]),
        "question_gain": (gain.question_gain, costs["reader prompts"]),
        "igpo": (probs[1] - probs[0] if len(probs) == 2 else None, costs["agent prompts"]),
    }


def _costs(name: str, reader: PromptedReader, prompts: Sequence[str], beliefs: Sequence[Belief]) -> dict[str, float]:
    """Return the number of tokens per search of the prompts of beliefs, and with their responses."""
    counted = [zip(belief.counts, belief.sampled.token_log_probs, strict=True) for belief in beliefs]
    drawn = sum(count * len(log_probs) for count, log_probs in itertools.chain.from_iterable(counted))
    read, searches = sum(map(len, reader.sampler.tokenizer(list(prompts)).input_ids)), len(prompts) - 1
    return {f"{name} prompts": read / searches, name: (read + drawn) / searches}


def compare_credits(
    searches: Sequence[CreditedSearch], margin: float, left_out: int = 0, agent: str = "", reader: str = ""
) -> CreditComparison:
    """Compare the credits of at least one search with their true effects, which are sure above ``margin``."""
    if not searches:
        raise ValueError("expected searches that can be measured, got none; see the messages above")
    over = partial(statistic_over_questions, [search.id for search in searches])
    effects = {name: np.array([search.effects[name] for search in searches]) for name in searches[0].effects}
    named = {
        name: np.array([search.credits[name] for search in searches], dtype=float) for name in searches[0].credits
    }
    halves = np.array([search.halves for search in searches])
    target, outcome = effects[_TARGET], named["outcome"]
    least = np.maximum(margin, _SURE * np.array([search.std_errors[_TARGET] for search in searches]))
    helpful, harmful = target > least, target < -least
    parts = _parts(searches)

    def mean(values: ArrayLike, chosen: ArrayLike | None = None) -> Statistic:
        masked = np.asarray(values, dtype=float) if chosen is None else np.where(chosen, values, math.nan)
        return over(lambda at: float(np.nanmean(masked[at])) if not np.isnan(masked[at]).all() else math.nan)

    def correlation(credit: np.ndarray, effect: np.ndarray) -> Statistic:
        return over(lambda at: spearman(credit[at], effect[at]))

    def described(credit: np.ndarray) -> dict[str, dict[str, Statistic]]:
        measures = {
            "Spearman": correlation(credit, target),
            "lead over outcome": over(lambda at: spearman(credit[at], target[at]) - spearman(outcome[at], target[at])),
            "sign right": mean((1 + np.sign(credit) * np.sign(target)) / 2, helpful | harmful),
            "slope": over(lambda at: slope(credit[at], target[at])),
            "harmful found": mean(credit < 0, harmful),
        }
        by_part = {part: correlation(np.where(chosen, credit, math.nan), target) for part, chosen in parts.items()}
        by_effect = {name: correlation(credit, effect) for name, effect in effects.items()}
        return {"measures": measures, "effects": by_effect, "parts": by_part}

    def ceiling(at: np.ndarray) -> float:
        rho = spearman(*halves[at].T)
        return math.sqrt(max(0.0, 2 * rho / (1 + rho)))

    return CreditComparison(
        agent=agent,
        reader=reader,
        questions=len({search.id for search in searches}),
        searches=len(searches),
        left_out=left_out,
        helpful=int(helpful.sum()),
        harmful=int(harmful.sum()),
        correct={name: mean([search.correct[name] for search in searches]) for name in searches[0].correct},
        effects={name: mean(effect) for name, effect in effects.items()},
        ceiling=over(ceiling),
        credits={name: described(credit) for name, credit in named.items()},
        tokens={name: sum(search.tokens[name] for search in searches) / len(searches) for name in named},
        parts={part: int(chosen.sum()) for part, chosen in parts.items()},
        by_search=searches,
    )


def _parts(searches: Sequence[CreditedSearch]) -> dict[str, Any]:
    """Return which searches belong to each part, by hops, number of the search, and what the agent knows."""
    hops, numbers, known = zip(*((search.hops, search.search, search.known) for search in searches), strict=True)
    parts = {f"{hop}-hop": (hops, hop) for hop in sorted(set(filter(None, hops)))}
    parts |= {f"search {number}": (numbers, number) for number in sorted(set(numbers))}
    parts |= {"known": (known, True), "not known": (known, False)}
    return {part: np.array([value == wanted for value in values]) for part, (values, wanted) in parts.items()}
