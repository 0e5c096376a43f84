"""Compare ΔSePer of passages with planted wrong answers to that of supporting and of neutral passages."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from seper_reward.command import Record, marked_questions, reporting
from seper_reward.data.marks import is_counterfactual, relevance_of
from seper_reward.estimators.utility import utility
from seper_reward.evaluate.measuring import known_before, measured
from seper_reward.options import CounterfactualOptions
from seper_reward.reports.tables import lead_text, markdown_table, questions_text
from seper_reward.scorer import SePerScorer
from seper_reward.statistics import Statistic, lead_over_questions, mean, mean_over_questions, ratio_over_questions
from seper_reward.types import KNOWN, Estimate, Passage, Query

_NAME = "evaluate counterfactual"
#: Kinds of passages: marked relevant; with a planted wrong answer; and neither.
KINDS = ("supporting", "planted", "neutral")


@dataclass(frozen=True)
class Kind:
    """ΔSePer of one kind of passages, with 95 % bootstrap intervals over questions."""

    questions: int  # that have such passages
    passages: int
    delta_seper: Statistic  # mean over questions of their passages' mean ΔSePer, in [-1, 1]
    harmful: Statistic  # share of the passages whose whole interval is below 0
    helpful: Statistic  # share of the passages whose whole interval is above 0


@dataclass(frozen=True)
class Counterfactual(Record):
    """Changes of a reader's belief by planted wrong answers, by supporting and by neutral passages."""

    kinds: Mapping[str, Kind]  # by kind of passage (`KINDS`), over all questions
    # over the questions that the reader knows, whose SePer without a passage, by other samples, is at least 0.5: there
    # a wrong passage can harm
    known: Mapping[str, Kind]
    # share of questions whose planted passages have a lower mean ΔSePer than the supporting ones; string match says it
    # of every question, since planted passages lack the answer
    lower_than_supporting: Statistic
    # mean ΔSePer of planted less neutral passages: below 0 if a wrong answer harms more than one that says nothing
    lead_over_neutral: Statistic
    baseline_seper: float  # without passages, mean over questions
    questions: int
    left_out: int  # questions that lack supporting or planted passages, or are longer than the reader's window

    def table(self) -> str:
        """Return ΔSePer and the shares of harmful and helpful passages by kind of passage."""
        rows = [
            [f"{name}{among}", result.passages, result.delta_seper, result.harmful, result.helpful]
            for among, kinds in (("", self.kinds), (", known questions", self.known))
            for name, result in kinds.items()
        ]
        columns = ["passages", "n", "mean ΔSePer", "interval below 0", "interval above 0"]
        return (
            f"{markdown_table(columns, rows)}\n\n{questions_text(self.questions, self.left_out)}, baseline SePer "
            f"{self.baseline_seper:.3f}; planted passages are lower than supporting ones on "
            f"{self.lower_than_supporting} of them; planted less neutral: "
            f"{lead_text(self.lead_over_neutral)}"
        )


def command(config: CounterfactualOptions) -> str:
    """Run ``seper-reward evaluate counterfactual``."""
    queries = marked_questions(config, config.file)
    with reporting(_NAME, config) as report:
        report(counterfactual(SePerScorer.from_pretrained(config), queries))
    return f"seper-reward evaluate judge --judge {config.judge} --file VERDICTS.jsonl"


def counterfactual(scorer: SePerScorer, queries: Sequence[Query]) -> Counterfactual:
    """Compare planted wrong answers (RGB, Chen et al., arXiv:2309.01431) with supporting and neutral passages.

    Passages have ``relevant`` in their metadata, and ``counterfactual: true`` if an answer was planted; those with
    neither are neutral. Processes share the questions. Raises ``ValueError`` if no question has both kinds.
    """
    kinds: dict[str, dict[str, list[Passage]]] = {query.id: {kind: [] for kind in KINDS} for query in queries}
    for query in queries:
        for passage, relevant in zip(query.passages, relevance_of(query), strict=True):
            kind = "planted" if is_counterfactual(passage) else "supporting" if relevant else "neutral"
            kinds[query.id][kind].append(passage)
    used = [query for query in queries if kinds[query.id]["supporting"] and kinds[query.id]["planted"]]
    beliefs = measured(scorer, used, [[(), *((passage,) for passage in query.passages)] for query in used])
    scored = [(query, by_context) for query, by_context in zip(used, beliefs, strict=True) if by_context is not None]
    if not scored:
        raise ValueError("expected questions with passages marked 'relevant' and passages marked 'counterfactual'")
    gains = [
        {
            kind: [utility(by_context[passage,], by_context[()]).soft for passage in passages]
            for kind, passages in kinds[query.id].items()
        }
        for query, by_context in scored
    ]
    before = known_before(scorer, [query for query, _ in scored])
    known = [by_kind for by_kind, seper in zip(gains, before, strict=True) if seper is not None and seper >= KNOWN]
    means = [
        {kind: mean([delta.value for delta in deltas]) for kind, deltas in by_kind.items() if deltas}
        for by_kind in gains
    ]
    both = [by_kind for by_kind in means if "neutral" in by_kind]
    return Counterfactual(
        kinds=_results(gains),
        known=_results(known),
        lower_than_supporting=mean_over_questions([by_kind["planted"] < by_kind["supporting"] for by_kind in means]),
        lead_over_neutral=lead_over_questions(
            [by_kind["planted"] for by_kind in both], [by_kind["neutral"] for by_kind in both]
        ),
        baseline_seper=mean([by_context[()].seper for _, by_context in scored]),
        questions=len(scored),
        left_out=len(queries) - len(scored),
    )


def _results(gains: Sequence[Mapping[str, Sequence[Estimate]]]) -> dict[str, Kind]:
    """Return the results by kind of passage, of the kinds that occur."""
    results = {}
    for kind in KINDS:
        by_query = [by_kind[kind] for by_kind in gains if by_kind[kind]]
        if by_query:
            numbers = [number for number, deltas in enumerate(by_query) for _ in deltas]
            flat = [gain for deltas in by_query for gain in deltas]
            results[kind] = Kind(
                questions=len(by_query),
                passages=len(flat),
                delta_seper=mean_over_questions([mean([gain.value for gain in deltas]) for deltas in by_query]),
                harmful=ratio_over_questions(numbers, [(gain.high < 0, 1.0) for gain in flat]),
                helpful=ratio_over_questions(numbers, [(gain.low > 0, 1.0) for gain in flat]),
            )
    return results
