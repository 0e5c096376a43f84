"""Audit of an agent's searches: ΔSePer of each search, the decision to search, and the break-even price."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from seper_reward.command import Record
from seper_reward.estimators.utility import utility
from seper_reward.evaluate.measuring import known_before, measured, right_answers
from seper_reward.options import MARGIN
from seper_reward.reports.figures import legend_beside, new_figure, save_figure
from seper_reward.reports.tables import markdown_table
from seper_reward.reward.rollouts import Rollout
from seper_reward.runtime.messages import plural
from seper_reward.scorer import SePerScorer
from seper_reward.statistics import Statistic, ratio_over_questions, rounded
from seper_reward.types import KNOWN, Query

KINDS = ("helpful", "useless", "harmful")
_TITLES = {
    "accuracy": "accuracy of the answers (judge)",
    "searches_per_rollout": "searches per rollout",
    "failed_calls_per_rollout": "failed calls per rollout",
    "needed": "questions that need a search",
    "search_rate_needed": "of these searched",
    "search_rate_not_needed": "of the other questions searched",
    "decision_f1": "F1 of the decision to search",
    "unsure_before": "searches before which the reader was unsure",
    "uncovered": "questions that need a search and for which none found a helpful passage",
    "break_even_price": "price at which the searches break even (mean ΔSePer)",
    "break_even_price_needed": "the same if a search is needed",
    "break_even_price_not_needed": "the same if no search is needed",
}
_COLORS = {"helpful": "#4c9f70", "useless": "#b0b7bd", "harmful": "#c0392b"}


@dataclass(frozen=True)
class Search:
    """A search of a rollout."""

    rollout: int  # number of the rollout, from 0
    id: str  # of its question
    question: str
    search: int  # number of the search in the rollout, from 1
    query: str
    seper_before: float
    needed: bool  # whether the question needs a search
    unsure_before: bool  # whether the reader was unsure before the search
    delta_seper: float  # change of SePer by the search
    std_error: float
    low: float  # lower end of its 95 % interval
    high: float
    kind: str  # "helpful", "useless" or "harmful"


@dataclass(frozen=True)
class KindOfSearches:
    """The searches of one kind."""

    searches: int
    share: Statistic  # of all searches
    surely: int | None  # searches whose whole interval is on that side of 0; None for useless ones


@dataclass(frozen=True)
class SearchAudit(Record):
    """Effect of an agent's searches on a reader's belief in the gold answer.

    ``measures`` are those of ``_TITLES``. ``uncovered`` is a bound for every policy on this corpus: all intervals of
    such a question's searches end at or below ``margin``. Break-even prices are in units of belief, apart from failed
    calls.
    """

    unwritten = ("by_search",)
    rollouts: int
    questions: int
    searches: int
    left_out: int  # rollouts that cannot be measured
    needed_below: float  # SePer without a passage below which a question needs a search
    margin: float  # a search helped (harmed) if its ΔSePer is above `margin` (below `-margin`)
    measures: Mapping[str, Statistic]
    kinds: Mapping[str, KindOfSearches]  # `helpful`, `useless` (within `margin`) and `harmful`
    by_search: Sequence[Search]

    def table(self) -> str:
        """Return the measures and the kinds of searches as Markdown."""
        measures = [[_TITLES[name], statistic] for name, statistic in self.measures.items()]
        kinds = [
            [kind, result.searches, result.share, "–" if result.surely is None else result.surely]
            for kind, result in self.kinds.items()
        ]
        counts = f"{plural(self.rollouts, 'rollout')} of {plural(self.questions, 'question')}"
        counts += f", {plural(self.searches, 'search')}"
        if self.left_out:
            counts += f"; {plural(self.left_out, 'rollout')} left out"
        return "\n\n".join(
            [
                counts,
                markdown_table(["", "mean and 95 % interval"], measures),
                markdown_table(["searches", "number", "share", "surely so"], kinds),
                f"A question needs a search if SePer without one, by other samples, is below {self.needed_below}; a "
                "reader is unsure if it is below that before a search. A search is useless "
                f"if |ΔSePer| is at most {self.margin}, and surely helpful or harmful if its whole interval is on "
                "that side of 0.",
            ]
        )

    def plot(self, path: Path) -> None:
        """Plot the gains of searches, and the net gain of a rollout by the price of a search."""
        by_search, rollouts = self.by_search, self.rollouts
        figure = new_figure(10, 3.8)
        gains, net = figure.subplots(1, 2)
        edges = [number / 10 for number in range(-10, 11)]
        by_kind = {kind: [search.delta_seper for search in by_search if search.kind == kind] for kind in _COLORS}
        gains.hist(list(by_kind.values()), bins=edges, stacked=True, color=list(_COLORS.values()), label=list(_COLORS))
        gains.set_xlabel("ΔSePer of a search")
        gains.set_ylabel("searches")
        gains.yaxis.get_major_locator().set_params(integer=True)
        gains.legend(fontsize=8)
        prices = [number / 50 for number in range(51)]
        chosen = {"all searches": by_search, "needed searches": [search for search in by_search if search.needed]}
        for name, searches in chosen.items():
            total = sum(search.delta_seper for search in searches)
            net.plot(prices, [(total - price * len(searches)) / rollouts for price in prices], label=name)
        net.axhline(0, color="#7f8c8d", linewidth=0.8)
        price = self.measures["break_even_price"].value
        if price is not None and 0 <= price <= 1:
            net.axvline(price, color="#7f8c8d", linewidth=0.8, linestyle="--")
            net.annotate(f"break-even {price:.2f}", (price, 0), (5, 5), textcoords="offset points", fontsize=8)
        net.set_xlabel("price of a search")
        net.set_ylabel("ΔSePer less price, per rollout")
        legend_beside(net)
        save_figure(figure, path)


def audit_searches(scorer: SePerScorer, rollouts: Sequence[Rollout], *, margin: float = MARGIN) -> SearchAudit:
    """Measure the effect of each search on a reader's belief in the gold answer; processes share the rollouts.

    The reader is preferably the agent's base model. A question needs a search if SePer without a
    passage, by other samples (``known_before``), is below ``KNOWN``; a search helped (harmed) if its ΔSePer is above
    ``margin`` (below ``-margin``). Raises ``ValueError`` if no rollout can be measured.
    """
    queries = [Query(rollout.question, rollout.question, rollout.answers) for rollout in rollouts]
    shown = [[rollout.found_by(searches) for searches in range(len(rollout.turns) + 1)] for rollout in rollouts]
    beliefs, before = measured(scorer, queries, shown), known_before(scorer, queries)
    scored = [
        (rollout, contexts, by_context, seper < KNOWN)
        for rollout, contexts, by_context, seper in zip(rollouts, shown, beliefs, before, strict=True)
        if by_context is not None and seper is not None
    ]
    if not scored:
        raise ValueError("expected rollouts that can be measured, got none; see the messages above")
    audited, needs = [rollout for rollout, *_ in scored], [need for *_, need in scored]
    audited_searches: list[Search] = []
    for index, (rollout, contexts, by_context, need) in enumerate(scored):
        seper = [by_context[context].seper for context in contexts]
        for number, turn in enumerate(rollout.turns, 1):
            gain = utility(by_context[contexts[number]], by_context[contexts[number - 1]])
            moved = gain.delta_seper
            kind = "helpful" if moved > margin else "harmful" if moved < -margin else "useless"
            audited_searches.append(
                Search(
                    rollout=index,
                    id=rollout.question,
                    question=rollout.question,
                    search=number,
                    query=turn.query,
                    seper_before=rounded(seper[number - 1]),
                    needed=need,
                    unsure_before=seper[number - 1] < KNOWN,
                    delta_seper=rounded(gain.delta_seper),
                    std_error=rounded(gain.std_error),
                    low=rounded(gain.soft.low),
                    high=rounded(gain.soft.high),
                    kind=kind,
                )
            )
    return SearchAudit(
        rollouts=len(audited),
        questions=len({rollout.question for rollout in audited}),
        searches=len(audited_searches),
        left_out=len(rollouts) - len(audited),
        needed_below=KNOWN,
        margin=margin,
        measures=_measures(audited, needs, right_answers(scorer, audited), audited_searches, margin),
        kinds=_kinds(audited_searches),
        by_search=audited_searches,
    )


def _measures(
    rollouts: Sequence[Rollout],
    needs: Sequence[bool],
    right: Sequence[bool],
    searches: Sequence[Search],
    margin: float,
) -> dict[str, Statistic]:
    ids = [rollout.question for rollout in rollouts]
    pairs = list(zip(rollouts, needs, strict=True))

    def over_rollouts(part: Callable[[Rollout, bool], tuple[float, float]]) -> Statistic:
        return ratio_over_questions(ids, [part(*pair) for pair in pairs])

    def over_searches(chosen: Sequence[Search], part: Callable[[Search], float]) -> Statistic:
        return ratio_over_questions([search.id for search in chosen], [(part(search), 1.0) for search in chosen])

    of_need = {need: [search for search in searches if needs[search.rollout] == need] for need in (True, False)}
    highest: dict[str, float] = {}
    for search in of_need[True]:
        highest[search.id] = max(search.high, highest.get(search.id, search.high))
    accuracy = ratio_over_questions(ids, [(is_right, 1.0) for is_right in right])
    return {
        **({"accuracy": accuracy} if any(rollout.answer for rollout in rollouts) else {}),
        "searches_per_rollout": over_rollouts(lambda rollout, _: (len(rollout.turns), 1.0)),
        "failed_calls_per_rollout": over_rollouts(lambda rollout, _: (rollout.failed, 1.0)),
        "needed": over_rollouts(lambda _, need: (need, 1.0)),
        "search_rate_needed": over_rollouts(lambda rollout, need: (need and bool(rollout.turns), need)),
        "search_rate_not_needed": over_rollouts(lambda rollout, need: (not need and bool(rollout.turns), not need)),
        "decision_f1": over_rollouts(
            lambda rollout, need: (2 * (need and bool(rollout.turns)), need + bool(rollout.turns))
        ),
        "unsure_before": over_searches(searches, lambda search: search.unsure_before),
        "uncovered": ratio_over_questions(list(highest), [(high <= margin, 1.0) for high in highest.values()]),
        "break_even_price": over_searches(searches, lambda search: search.delta_seper),
        "break_even_price_needed": over_searches(of_need[True], lambda search: search.delta_seper),
        "break_even_price_not_needed": over_searches(of_need[False], lambda search: search.delta_seper),
    }


def _kinds(searches: Sequence[Search]) -> dict[str, KindOfSearches]:
    surely = {"helpful": lambda search: search.low > 0, "harmful": lambda search: search.high < 0}
    kinds = {}
    for kind in KINDS:
        members = [search for search in searches if search.kind == kind]
        share = ratio_over_questions(
            [search.id for search in searches], [(search.kind == kind, 1.0) for search in searches]
        )
        kinds[kind] = KindOfSearches(len(members), share, sum(map(surely[kind], members)) if kind in surely else None)
    return kinds
