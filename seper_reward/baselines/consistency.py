"""Whether sources of passages fail on the same questions, and the kinds of their errors (EoR, arXiv:2405.20680)."""

import functools
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from seper_reward.baselines.win_ratios import (
    decompose_errors,
    error_win_ratios,
    mean_win_and_lose_ratios,
    relative_win_ratios,
    upper_bounds,
)
from seper_reward.data.answers import abstains, holds_answer
from seper_reward.reports.figures import new_figure, save_figure
from seper_reward.reports.tables import cell, text_table
from seper_reward.statistics import (
    Statistic,
    interval_over_questions,
    mean_over_questions,
    rounded,
    rounded_or_none,
)
from seper_reward.types import Passage, Query

Shown = Sequence[Sequence[Passage]]  # by source
Ratios = dict[str, dict[str, float | None]]  # by two sources; None if the second makes no such error
_RESAMPLES = 1000
_SHORT = 5  # longest response, in words, that can be looked up in passages to find the source of an error


@dataclass(frozen=True)
class SourceResult:
    """The reader's greedy answers with the passages of one source."""

    accuracy: Statistic
    mrwr: Statistic  # mean share of the other sources' wrong answers that this source answers right
    mrlr: Statistic  # mean share of this source's wrong answers that another source answers right
    errors: dict[str, float]  # sources of wrong answers, by the fields of `Errors`
    abstained: float  # share of answers such as "unknown"


@dataclass(frozen=True)
class ConsistencyResult:
    """Whether sources fail on the same questions, and the kinds of their errors."""

    questions: int
    left_out: int  # questions that are too long for the reader
    sources: dict[str, SourceResult]
    win_ratio: Ratios  # share of the second source's wrong answers that the first answers right
    error_win_ratio: dict[str, Ratios]  # by kind of error (`error_win_ratios`)
    upper_bound: Statistic  # share of questions that at least one source answers right
    upper_bound_by_size: list[Statistic]  # the same for pools of 1, 2, .. sources, mean over all pools of a size

    def table(self) -> str:
        """Return accuracy, errors, win ratios of answers and of each error, and upper bounds as text."""
        sources, bounds = self.sources, self.upper_bound_by_size
        errors = list(next(iter(sources.values())).errors)
        done = [[name, result.accuracy, result.mrwr, result.mrlr] for name, result in sources.items()]
        wrong = [
            [name, *(cell(result.errors[kind]) for kind in errors), cell(result.abstained)]
            for name, result in sources.items()
        ]
        sizes = [str(size) for size, _ in enumerate(bounds, 1)]
        return "\n\n".join(
            [
                text_table(["retriever", "accuracy", "MRWR", "MRLR"], done),
                text_table(["errors", *errors, "abstained"], wrong),
                *(
                    text_table([title, *sources], [[name, *map(cell, over.values())] for name, over in ratios.items()])
                    for title, ratios in self._win_ratios.items()
                ),
                f"right by at least one: {self.upper_bound}",
                text_table(["sources in a pool", *sizes], [["right by one of them", *bounds]]),
            ]
        )

    def plot(self, path: Path) -> None:
        """Plot the win ratios, of answers and of each error, as heat maps."""
        names = list(self.sources)
        figure = new_figure(2.7 * len(names) + 6, 1.2 * len(names) + 4)
        panels = figure.subplots(2, 3)
        panels[1, 2].set_axis_off()
        for axes, (title, ratios) in zip(panels.flat, self._win_ratios.items(), strict=False):
            values = [
                [float("nan") if value is None else value for value in over.values()] for over in ratios.values()
            ]
            shown = axes.imshow(values, cmap="Greens", vmin=0, vmax=1)
            for height, over in enumerate(ratios.values()):
                for place, value in enumerate(over.values()):
                    if value is not None:
                        color = "white" if value > 0.6 else "black"
                        axes.text(place, height, f"{value:.2f}", ha="center", va="center", color=color, fontsize=9)
            axes.set_xticks(range(len(names)), names, rotation=30, ha="right")
            axes.set_yticks(range(len(names)), names)
            axes.set_title(f"row {title.removesuffix(':')}".replace(" it ", " the column "))
            figure.colorbar(shown, ax=axes)
        save_figure(figure, path)

    @property
    def _win_ratios(self) -> dict[str, Ratios]:
        errors = {f"makes no {name} where it does:": ratios for name, ratios in self.error_win_ratio.items()}
        return {"is right where it is wrong:": self.win_ratio, **errors}


def consistency(
    names: Sequence[str],
    answered: Sequence[tuple[Query, Shown, Sequence[str]]],
    left_out: int,
    right: np.ndarray,
) -> ConsistencyResult:
    """Compare answers of Q questions with the passages of R sources, question by question; ``right`` is ``(R, Q)``.

    Passages contain the answer, or a response, if all of its words (``holds_answer``) are in them, and the answer if
    they contain a right response. The win ratios of errors leave out questions with a response of more than 5 words.
    """
    held, grounded = np.array(
        [list(map(functools.partial(_held, query), shown, texts)) for query, shown, texts in answered]
    ).transpose(2, 1, 0)  # (Q, R, 2) to (2, R, Q)
    held |= right & grounded
    responses = list(zip(*(texts for _, _, texts in answered), strict=True))  # R of Q
    short = np.array([[len(text.split()) <= _SHORT for text in texts] for texts in responses])
    return ConsistencyResult(
        len(answered),
        left_out,
        {name: _source_result(at, right, held[at], grounded[at], responses[at]) for at, name in enumerate(names)},
        _by_names(names, relative_win_ratios(right)),
        {error: _by_names(names, ratios) for error, ratios in error_win_ratios(right, held, grounded, short).items()},
        mean_over_questions(right.any(axis=0)),
        list(map(mean_over_questions, upper_bounds(right))),
    )


def _held(query: Query, passages: Sequence[Passage], text: str) -> tuple[bool, bool]:
    """Return whether passages contain the gold answer, and a response, as words."""
    read = "\n".join(passage.full_text for passage in passages)
    return holds_answer(read, query.answers), bool(text) and holds_answer(read, (text,))


def _by_names(names: Sequence[str], ratios: np.ndarray) -> Ratios:
    table = [[rounded_or_none(value) for value in over] for over in ratios.tolist()]
    return {name: dict(zip(names, over, strict=True)) for name, over in zip(names, table, strict=True)}


def _source_result(
    at: int, right: np.ndarray, held: np.ndarray, grounded: np.ndarray, responses: Sequence[str]
) -> SourceResult:
    def ratio(which: int) -> Statistic:  # MRWR (0) or MRLR (1)
        def mean_ratio(numbers: np.ndarray | slice) -> float:
            return float(mean_win_and_lose_ratios(right[:, numbers])[which][at])

        interval = interval_over_questions(mean_ratio, right.shape[1], resamples=_RESAMPLES)
        return Statistic(rounded_or_none(mean_ratio(slice(None))), interval)

    errors = decompose_errors(right[at], held, grounded)
    return SourceResult(
        accuracy=mean_over_questions(right[at]),
        mrwr=ratio(0),
        mrlr=ratio(1),
        errors={name: rounded(value) for name, value in asdict(errors).items()},
        abstained=rounded(sum(map(abstains, responses)) / len(responses)),
    )
