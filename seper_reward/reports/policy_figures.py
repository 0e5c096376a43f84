"""Figures of policies that decide when to search: accuracy over searches, and training curves."""

import itertools
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from seper_reward.reports.figures import legend_beside, new_figure, save_figure

#: Measures of the training of a policy, by the trainer's names.
TRAINING_MEASURES = ("reward", "seper/exact_match", "seper/searches")


class Tradeoff(NamedTuple):
    """Accuracy over searches per question.

    Attributes:
        rules: (searches per question, accuracy) of fixed rules, by name.
        path: (searches per question, accuracy) of a policy during its training.
    """

    rules: Mapping[str, tuple[float, float]]
    path: Sequence[tuple[float, float]]


def plot_tradeoff(found: Tradeoff, path: Path) -> None:
    """Plot accuracy over searches per question, with the policy's path from its first evaluation to its last.

    Args:
        found: The numbers to plot.
        path: Image file; its extension sets the format (svg, png, pdf).

    Raises:
        OSError: matplotlib is not installed, or the path cannot be written.
    """
    figure = new_figure(7.5, 4)
    axes = figure.subplots()
    # points may coincide: names are in a legend, and hollow markers of different sizes show each other
    markers = itertools.cycle([("s", 10), ("D", 8), ("^", 12), ("v", 12), ("p", 6)])
    hollow = {"linestyle": "none", "markerfacecolor": "none", "clip_on": False}
    for (name, point), (marker, size) in zip(found.rules.items(), markers, strict=False):
        axes.plot(*point, marker, label=name.replace("_", " "), markersize=size, color="#7f8c8d", **hollow)
    if found.path:
        axes.plot(*zip(*found.path, strict=True), "-o", color="#4c9f70", markersize=4, clip_on=False)
        for name, place, marker, size in (
            (("before", 0, "o", 9), ("after", -1, "*", 14)) if len(found.path) > 1 else ()
        ):
            axes.plot(*found.path[place], marker, label=name, markersize=size, color="#2e6b49", zorder=3, **hollow)
    legend_beside(axes)
    axes.set_xlabel("searches per question")
    axes.set_ylabel("accuracy (exact match)")
    axes.set_ylim(0, 1)
    axes.spines[["top", "right"]].set_visible(False)
    save_figure(figure, path)


def plot_training(
    arms: Mapping[str, Sequence[Sequence[Mapping[str, float]]]],
    path: Path,
    *,
    measures: Sequence[str] = TRAINING_MEASURES,
    window: int = 8,
) -> None:
    """Plot measures of trainings over steps, one panel per measure: thin lines are runs, thick lines their means.

    Args:
        arms: By name of the compared setting, the logs of its runs (one per seed): rows of ``step`` and measures. Rows
            without a measure are left out of its panel.
        path: Image file; its extension sets the format (svg, png, pdf).
        measures: Measures to plot, by the trainer's names.
        window: Number of steps that each point averages, >= 1, since one step has few questions.

    Raises:
        OSError: matplotlib is not installed, or the path cannot be written.
    """
    figure = new_figure(4.2 * len(measures), 3.6)
    panels = figure.subplots(1, len(measures), squeeze=False)[0]
    for axes, measure in zip(panels, measures, strict=True):
        for number, (name, logs) in enumerate(arms.items()):
            lines = [smoothed(log, measure, window) for log in logs]
            for line in lines:
                axes.plot(list(line), list(line.values()), color=f"C{number}", linewidth=0.7, alpha=0.5)
            shared = [step for step in lines[0] if all(step in line for line in lines)]
            means = [statistics.fmean(line[step] for line in lines) for step in shared]
            axes.plot(shared, means, color=f"C{number}", linewidth=2, label=name)
        axes.set_xlabel(f"step (means over {window})")
        axes.set_title(measure, fontsize=10)
        axes.spines[["top", "right"]].set_visible(False)
    legend_beside(panels[-1])
    save_figure(figure, path)


def smoothed(log: Sequence[Mapping[str, float]], measure: str, window: int) -> dict[float, float]:
    """Return the mean of a measure over each step and the steps before it, ``window`` in all, by step."""
    rows = [(row["step"], row[measure]) for row in log if measure in row]
    return {
        step: statistics.fmean(value for _, value in rows[max(0, at + 1 - window) : at + 1])
        for at, (step, _) in enumerate(rows)
    }
