"""How much does SePer depend on which responses were drawn, by their number (SePer, Figure 3, Table 4)?

    python -m tests.benchmarks.experiments.repeats --config tests/benchmarks/experiments/configs/repeats.yaml

No response is in two repeats. Responses are sampled once per context, as a pool, and each repeat takes its own N in
their order: draws are independent, so N of them are N fresh ones.
"""

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from tqdm.auto import tqdm

from seper_reward.cli import run
from seper_reward.command import Record, marked_questions, reporting
from seper_reward.estimators.belief import weigh
from seper_reward.estimators.draws import has_mass
from seper_reward.estimators.seper import Estimator
from seper_reward.evaluate.contexts import marked_contexts, none_asked, with_passages
from seper_reward.options import PASSAGES_HELP, MarkedOptions, check_choice, setting
from seper_reward.reports.figures import legend_beside, new_figure, save_figure
from seper_reward.reports.tables import cell, markdown_table
from seper_reward.runtime.messages import tell_left_out
from seper_reward.runtime.parser import parse_options
from seper_reward.scorer import SePerScorer, beliefs_of, load_scorer
from seper_reward.statistics import mean, rounded, rounded_or_none
from seper_reward.types import Asked, Belief, Estimate, Passage, Query, Responses, UnscorableError, unwrap

_NAME = "tests.benchmarks.experiments.repeats"


@dataclass(frozen=True)
class Way:
    """How responses become SePer.

    Attributes:
        estimator: The options of SePer.
        known_answers: Whether the gold answers' own probabilities are used.
    """

    estimator: Estimator
    known_answers: bool = False


WAYS = {
    "official": Way(Estimator.preset("official")),
    "paper": Way(Estimator.preset("paper")),
    "uniform": Way(Estimator(weighting="uniform")),
    "mass": Way(Estimator()),
    "default": Way(Estimator(), known_answers=True),
}


@dataclass(frozen=True)
class _Measured:
    """SePer of one question by one way.

    Attributes:
        values: Soft SePer, ``(C, N, R)`` by context (first without passages), number of responses, and repeat.
        hard: Hard SePer, ``(C, N, R)``.
        truth: What more and more responses lead to, per context.
    """

    values: Tensor
    hard: Tensor
    truth: Sequence[Estimate]


@dataclass(frozen=True)
class RepeatsConfig(MarkedOptions):
    """Repeat ΔSePer on other samples: spread, error and correlation over N by estimator (SePer, Figure 3, Table 4)."""

    passages_per_question: int | None = setting(None, PASSAGES_HELP)
    counts: list[int] = setting([1, 2, 3, 5, 10, 15, 20], "Numbers N of responses, each >= 1.")
    repeats: int = setting(10, "How often each N is drawn, without a response in common, >= 2.")
    estimators: list[str] = setting(
        ["official", "paper", "uniform", "mass", "default"],
        "Estimators to compare: the presets official, paper and default; uniform (all responses weigh the same), mass "
        "(default without the probabilities of the gold answers).",
    )
    plot: str | None = setting(None, "Image file to plot correlation, spread and error into (default: none).")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.counts or not all(isinstance(count, int) and count >= 1 for count in self.counts):
            raise ValueError(f"counts must be whole numbers of at least 1, got {self.counts}")
        if self.repeats < 2:
            raise ValueError(f"repeats must be at least 2, got {self.repeats}")
        if Estimator.preset(self.estimator) != Estimator():
            raise ValueError(
                "repeats compares estimators itself; leave out the options of SePer, and name --estimators"
            )


@dataclass(frozen=True)
class Repeats(Record):
    """SePer by estimator and number of responses, over repeats on other responses.

    Attributes:
        ways: By name and N ``pearson`` of ΔSePer with the contexts' relevance, the mean over repeats, and
            ``pearson_sd`` over them; ``pearson_hard`` of hard ΔSePer; ``seper_sd``, the standard deviation of SePer
            over repeats (root of the mean variance over contexts); ``seper_cv`` and ``seper_hard_cv``, that of soft
            and hard SePer divided by their means (the coefficient of variation); and ``rmse`` and ``bias`` of SePer
            against the truth.
        pool: Number of responses in the pool.
        unseen_mass: Probability that the pool leaves unseen, mean over contexts.
        truth_std_error: Root of the mean squared standard error of the truth of the first way.
        contexts: Number of contexts.
        questions: Number of questions.
        left_out: Number of questions that do not fit into the reader's window.
    """

    ways: Mapping[str, Mapping[str, Mapping[str, Any]]]
    pool: int
    unseen_mass: float
    truth_std_error: float
    contexts: int
    questions: int
    left_out: int

    def table(self) -> str:
        """Return correlation, spread and error of SePer over repeats, one column per number of responses."""
        ways = self.ways
        counts = list(next(iter(ways.values())))
        titles = {
            "pearson": "Pearson with marks, mean over repeats",
            "pearson_sd": "its sd over repeats",
            "pearson_hard": "Pearson of hard ΔSePer with marks, mean over repeats",
            "seper_sd": "sd of SePer over repeats",
            "seper_cv": "coefficient of variation of SePer",
            "seper_hard_cv": "coefficient of variation of hard SePer",
            "rmse": "root mean squared error of SePer",
            "bias": "bias of SePer",
        }
        tables = [
            markdown_table(
                [title, *(f"N={count}" for count in counts)],
                [[name, *(cell(row[count][measure]) for count in counts)] for name, row in ways.items()],
            )
            for measure, title in titles.items()
            if any(row[count][measure] is not None for row in ways.values() for count in counts)
        ]
        left_out = f" ({self.left_out} left out)" if self.left_out else ""
        about = (
            f"{self.questions} questions, {self.contexts} contexts; pools of {self.pool} responses leave "
            f"{self.unseen_mass:.3f} of the probability unseen; the truth that errors are measured against has a "
            f"standard error of {self.truth_std_error:.4f}"
        )
        return "\n\n".join([*tables, about + left_out])

    def plot(self, path: Path) -> None:
        """Plot correlation, spread and error over the number of responses, and error over seconds, by estimator."""
        figure = new_figure(12, 3.8)
        pearson, spread, error = figure.subplots(1, 3)
        for name, found in self.ways.items():
            counts = [int(count) for count in found]
            style = {"marker": ".", "label": name.replace("_", " ")}
            (line,) = pearson.plot(counts, _column(found, "pearson"), **style)
            low, high = (
                [
                    value + sign * sd
                    for value, sd in zip(_column(found, "pearson"), _column(found, "pearson_sd"), strict=True)
                ]
                for sign in (-1, 1)
            )
            pearson.fill_between(counts, low, high, alpha=0.12, color=line.get_color())
            spread.plot(counts, _column(found, "seper_sd"), **style)
            error.plot(counts, _column(found, "rmse"), **style)
        pearson.set_ylabel("Pearson with marks (band: ± sd)")
        spread.set_ylabel("sd of SePer over repeats")
        error.set_ylabel("root mean squared error of SePer")
        for axes in (pearson, spread, error):
            axes.set_xlabel("responses N")
            axes.spines[["top", "right"]].set_visible(False)
        legend_beside(figure.axes[-1])
        save_figure(figure, path)


def command(arguments: list[str]) -> str:
    """Run ``python -m tests.benchmarks.experiments.repeats``."""
    config = parse_options((RepeatsConfig,), arguments, f"python -m {_NAME}")[0]
    queries = with_passages(marked_questions(config, config.file), config.passages_per_question)
    with reporting("repeats", config) as report:
        scorer = load_scorer(config, config.seed)
        report(repeats(scorer, queries, config.estimators, counts=config.counts, times=config.repeats))
    return f"seper-reward evaluate correlation --file {config.file}"


def repeats(
    scorer: SePerScorer,
    queries: Sequence[Query],
    ways: Sequence[str] = tuple(WAYS),
    *,
    counts: Sequence[int] = (1, 2, 3, 5, 10, 15, 20),
    times: int = 10,
) -> Repeats:
    """Measure SePer again and again on other responses, by number of responses and estimator.

    The truth is what an estimator's support of the answers is on average over all of the reader's responses. Those of
    the pool count by their probabilities, which are known; what the pool leaves unseen is ``unseen_mass``.
    """
    if not ways:
        raise ValueError(f"expected estimators to compare, got none; name some of {', '.join(WAYS)}")
    for name in ways:
        check_choice("estimators", name, tuple(WAYS))
    contexts = marked_contexts(queries)
    drawing = _Drawing(scorer, sorted(set(counts)), times)
    measured: dict[str, list[_Measured]] = {name: [] for name in ways}
    relevance: list[Tensor] = []
    unseen: list[float] = []
    for query, query_contexts in zip(tqdm(queries, desc="repeating", unit="question"), contexts, strict=True):
        sets = [(), *(context.passages for context in query_contexts)]
        try:
            pools = drawing.pools(query, sets)
            found = drawing.measure(query, pools, ways)
        except UnscorableError as error:
            tell_left_out(query.id, error)
            continue
        for name in ways:
            measured[name].append(found[name])
        relevance.append(torch.tensor([context.relevance for context in query_contexts], dtype=torch.float64))
        unseen += [weigh(Estimator(), pool).unseen_mass for pool in pools]
    if not relevance:
        raise none_asked(queries)
    return Repeats(
        ways={
            name: {str(count): _described(measured[name], relevance, at) for at, count in enumerate(drawing.counts)}
            for name in ways
        },
        pool=drawing.size,
        unseen_mass=mean(unseen),
        truth_std_error=_truth_error(measured[ways[0]]),
        contexts=len(unseen),
        questions=len(relevance),
        left_out=len(queries) - len(relevance),
    )


class _Drawing:
    """Draws the responses of all repeats, and judges them."""

    def __init__(self, scorer: SePerScorer, counts: Sequence[int], times: int) -> None:
        self.counts, self.size = counts, max(counts) * times
        self._scorer, self._times = scorer, times
        if scorer.cache is not None:
            _ = scorer.sampler.weights_hash  # computed here, the copies share it
        self._pooled = scorer.with_sampling(num_samples=self.size)

    def pools(self, query: Query, sets: Sequence[Sequence[Passage]]) -> list[Responses]:
        """Return the pool of independent draws in each context."""
        (found,) = self._pooled.responses([Asked(query.question, query.answers, tuple(map(tuple, sets)))])
        pools = unwrap(found)
        if not all(map(has_mass, pools)):
            raise ValueError(
                "repeats needs the probability of each response, which this reader does not tell; take one "
                "in this process that does not think, or an engine that names token ids, at temperature 1"
            )
        return pools

    def measure(self, query: Query, pools: Sequence[Responses], ways: Sequence[str]) -> dict[str, _Measured]:
        """Return SePer of a question by each way."""
        independent = [[self._cut(pool, count) for count in self.counts] for pool in pools]  # (C, N, R)
        found = {}
        for name in ways:
            way = WAYS[name]
            samples = [
                sample if way.known_answers else replace(sample, known_leaves=())
                for context in independent
                for row in context
                for sample in row
            ]
            beliefs = self._beliefs(query, samples, way.estimator)
            shape = (len(pools), len(self.counts), self._times)
            found[name] = _Measured(
                torch.tensor([each.soft.value for each in beliefs], dtype=torch.float64).view(shape),
                torch.tensor([each.hard.value for each in beliefs], dtype=torch.float64).view(shape),
                [each.soft for each in self._beliefs(query, pools, replace(way.estimator, weighting="mass"))],
            )
        return found

    def _cut(self, pool: Responses, count: int) -> list[Responses]:
        """Return the first draws of a pool, as repeats that have none in common."""
        return [pool.at(range(start, start + count)) for start in range(0, count * self._times, count)]

    def _beliefs(self, query: Query, samples: Sequence[Responses], options: Estimator) -> list[Belief]:
        return beliefs_of(self._scorer.judge, options, [(query.question, query.answers, each) for each in samples])


def _described(measured: Sequence[_Measured], relevance: Sequence[Tensor], at: int) -> dict[str, float | None]:
    values, hard = (torch.cat([each[:, at] for each in kind]) for kind in _kinds(measured))  # (contexts, R)
    truth = torch.tensor([context.value for each in measured for context in each.truth], dtype=torch.float64)
    errors = values - truth[:, None]
    marks = torch.cat(list(relevance))
    gains, gains_hard = (torch.cat([each[1:, at] - each[:1, at] for each in kind]).T for kind in _kinds(measured))
    pearson, pearson_hard = ([_pearson(row, marks) for row in each] for each in (gains, gains_hard))
    spread, spread_hard = (math.sqrt(float(each.var(dim=1).mean())) for each in (values, hard))
    found = {
        "pearson": mean(pearson),
        "pearson_sd": float(torch.tensor(pearson, dtype=torch.float64).std()),
        "pearson_hard": mean(pearson_hard),
        "seper_sd": spread,
        "seper_cv": spread / float(values.mean()) if values.any() else math.nan,
        "seper_hard_cv": spread_hard / float(hard.mean()) if hard.any() else math.nan,
        "rmse": math.sqrt(float(errors.square().mean())),
        "bias": float(errors.mean()),
    }
    return {name: rounded_or_none(value) for name, value in found.items()}


def _kinds(measured: Sequence[_Measured]) -> tuple[list[Tensor], list[Tensor]]:
    """Return soft and hard SePer of all questions."""
    return [each.values for each in measured], [each.hard for each in measured]


def _truth_error(measured: Sequence[_Measured]) -> float:
    errors = [context.std_error for each in measured for context in each.truth]
    return rounded(math.sqrt(sum(error**2 for error in errors) / len(errors)))


def _pearson(values: Tensor, target: Tensor) -> float:
    """Return Pearson's r; NaN for a constant."""
    return float(torch.corrcoef(torch.stack([values, target]))[0, 1])


def _column(found: Mapping[str, Mapping[str, float | None]], measure: str) -> list[float]:
    """Return a measure by number of responses, NaN where there is none."""
    return [float("nan") if row[measure] is None else float(row[measure] or 0.0) for row in found.values()]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the experiment; return 0, or 2 after a message if the input or a setting is at fault."""
    return run("repeats", command, sys.argv[1:] if argv is None else list(argv))


if __name__ == "__main__":
    sys.exit(main())
