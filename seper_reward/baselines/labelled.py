"""Labels and other results of many questions, and their costs: the reader's calls and tokens, and seconds."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from tqdm.auto import tqdm

from seper_reward.labels import loop
from seper_reward.labels.labelers.base import PassageLabeler
from seper_reward.reports.tables import cell, text_table
from seper_reward.runtime.distributed import gather_in_order
from seper_reward.runtime.messages import tell_left_out
from seper_reward.runtime.profiling import Profile, profiling
from seper_reward.statistics import rounded
from seper_reward.types import LabeledQuery, Query, UnscorableError

T = TypeVar("T")
Costs = Mapping[str, float | None]


class Labelled(NamedTuple):
    """The labels of questions."""

    results: list[LabeledQuery | UnscorableError]  # per question its labels, or the error that prevents them
    # total `seconds`, and the reader's `calls` (prompts), `prompt_tokens` and `response_tokens`; cached responses cost
    # nothing
    costs: dict[str, float]

    @property
    def labeled(self) -> list[LabeledQuery]:
        """The questions that have labels."""
        return [result for result in self.results if isinstance(result, LabeledQuery)]

    @property
    def reasons(self) -> list[str]:
        """One reason for each question without labels."""
        return [str(result) for result in self.results if isinstance(result, UnscorableError)]


def label_all(labeler: PassageLabeler, queries: Sequence[Query]) -> Labelled:
    """Label questions in memory, and measure the costs of all processes; all must call this together."""
    with profiling() as profile:
        results = [labeled for _, labeled in loop.label_all(labeler, queries)]
    shares = gather_in_order([total_costs(profile)])
    costs = {name: sum(share[name] for share in shares) for name in shares[0]}
    return Labelled(results, costs | {"seconds": profile.total_seconds})


def total_costs(profile: Profile) -> dict[str, float]:
    """Return the seconds, and the reader's calls and tokens, of a profile."""
    counts = {name: float(profile.counts[name]) for name in ("calls", "prompt_tokens", "response_tokens")}
    return {"seconds": profile.total_seconds, **counts}


def costs_per(costs: Mapping[str, float], count: int) -> Costs:
    """Return costs divided by a number of labels or questions; ``None`` each if it is 0."""
    return {name: rounded(cost / count) if count else None for name, cost in costs.items()}


def costs_table(costs: Mapping[str, Costs], title: str) -> str:
    """Return costs as text, one row per labeler."""
    names = list(next(iter(costs.values()), {}))
    rows = [[labeler, *(cell(labeler_costs[name]) for name in names)] for labeler, labeler_costs in costs.items()]
    return text_table([title, *(name.replace("_", " ") for name in names)], rows)


def each_scorable(queries: Sequence[Query], function: Callable[[Query], T], *, title: str) -> list[tuple[Query, T]]:
    """Return the questions with the result of a function for each; those that it cannot score are left out."""
    results = []
    for query in tqdm(queries, desc=title, unit="question"):
        try:
            results.append((query, function(query)))
        except UnscorableError as error:
            tell_left_out(query.id, error)
    return results
