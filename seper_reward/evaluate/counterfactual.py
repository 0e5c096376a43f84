"""Compare ΔSePer of passages with planted wrong answers to that of relevant passages."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from seper_reward.command import Record, marked_questions, reporting
from seper_reward.data.marks import is_counterfactual, relevance_of
from seper_reward.estimators.utility import utility
from seper_reward.evaluate.measuring import known_before, measured
from seper_reward.options import CounterfactualOptions
from seper_reward.reports.tables import cell, markdown_table
from seper_reward.scorer import SePerScorer, load_scorer
from seper_reward.statistics import mean
from seper_reward.types import KNOWN, Passage, Query

_NAME = "evaluate counterfactual"


@dataclass(frozen=True)
class Counterfactual(Record):
    """Changes of a reader's belief by passages with a planted wrong answer and by supporting passages."""

    share_lower: float  # share of questions whose planted passages have a lower mean ΔSePer than the supporting ones
    # mean over questions of the mean over `supporting` or `counterfactual` passages; `counterfactual_known` over the
    # questions that the reader knows, None without such questions
    delta_seper: Mapping[str, float | None]
    baseline_seper: float  # without passages, mean over questions
    known_questions: int  # with a baseline SePer of at least 0.5, by other samples (`known_before`)
    questions: int
    left_out: int  # questions that lack passages of one kind or are longer than the reader's window

    def table(self) -> str:
        """Return the mean ΔSePer by kind of passage."""
        means = self.delta_seper
        known = f"planted, on the {self.known_questions} questions that the reader knows"
        rows = [
            ["supporting", cell(means["supporting"])],
            ["planted", cell(means["counterfactual"])],
            [known, cell(means["counterfactual_known"])],
        ]
        left_out = f" ({self.left_out} left out)" if self.left_out else ""
        return (
            f"{markdown_table(['passages', 'mean ΔSePer'], rows)}\n\n{self.questions} questions{left_out}, baseline "
            f"SePer {self.baseline_seper:.3f}; planted passages are lower on {self.share_lower:.1%} of the questions"
        )


def command(config: CounterfactualOptions) -> str:
    """Run ``seper-reward evaluate counterfactual``."""
    queries = marked_questions(config, config.file)
    with reporting(_NAME, config) as report:
        report(counterfactual(load_scorer(config, config.seed), queries))
    return f"seper-reward evaluate judge --judge {config.judge} --file VERDICTS.jsonl"


def counterfactual(scorer: SePerScorer, queries: Sequence[Query]) -> Counterfactual:
    """Compare passages with a planted wrong answer to supporting passages (RGB, Chen et al., arXiv:2309.01431).

    All processes must call this together; they share the questions.

    Args:
        scorer: Scorer that measures the beliefs.
        queries: Questions whose passages have ``relevant`` in their metadata, and ``counterfactual: true`` if an
            answer was planted; passages without a true mark are left out.

    Raises:
        ValueError: No question has passages of both kinds.
        BadRowError: A question has no mark, or a mark is neither true nor false.
    """
    kinds = [(query, *_kinds(query)) for query in queries]
    both = [each for each in kinds if each[1] and each[2]]
    contexts = [
        [(), *((passage,) for passage in query.passages if passage in (*right, *wrong))]
        for query, right, wrong in both
    ]
    beliefs = measured(scorer, [query for query, _, _ in both], contexts)
    supporting: list[float] = []
    planted: list[float] = []
    baselines: list[float] = []
    scored: list[Query] = []
    for (query, right, wrong), found in zip(both, beliefs, strict=True):
        if found is None:
            continue
        scored.append(query)
        baseline = found[()]
        for values, passages in ((supporting, right), (planted, wrong)):
            values.append(mean([utility(found[passage,], baseline).delta_seper for passage in passages]))
        baselines.append(baseline.seper)
    if not planted:
        raise ValueError("expected questions with passages marked 'relevant' and passages marked 'counterfactual'")
    before = known_before(scorer, scored)
    known = [value for value, seper in zip(planted, before, strict=True) if seper is not None and seper >= KNOWN]
    return Counterfactual(
        share_lower=mean([float(wrong < right) for wrong, right in zip(planted, supporting, strict=True)]),
        delta_seper={
            "supporting": mean(supporting),
            "counterfactual": mean(planted),
            "counterfactual_known": mean(known) if known else None,
        },
        baseline_seper=mean(baselines),
        known_questions=len(known),
        questions=len(planted),
        left_out=len(queries) - len(planted),
    )


def _kinds(query: Query) -> tuple[list[Passage], list[Passage]]:
    """Return a question's supporting passages, and those with a planted answer."""
    planted = [passage for passage in query.passages if is_counterfactual(passage)]
    relevant = zip(query.passages, relevance_of(query), strict=True)
    return [passage for passage, mark in relevant if mark and not is_counterfactual(passage)], planted
