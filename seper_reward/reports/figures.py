"""Plots of beliefs and of intervals.

The extension of a path sets the format (svg, png, pdf). All plots raise ``OSError`` if matplotlib is not installed or
the path cannot be written.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from seper_reward.data.marks import role_of, role_order
from seper_reward.reports.tables import cluster_segments
from seper_reward.runtime.imports import need
from seper_reward.statistics import Statistic
from seper_reward.types import LabeledQuery

_MOST_PASSAGES = 4  # in a plot of beliefs
OURS, RIVAL = "#4c9f70", "#7f8c8d"  # colours of ΔSePer and of other measures


def plot_belief(labeled: LabeledQuery, path: Path) -> None:
    """Plot the belief with each passage: one bar per context, with clusters as segments, green if they support."""
    by_role: dict[str, int] = {}
    for place, passage in enumerate(labeled.query.passages):
        role = role_of(passage)
        by_role.setdefault(role if role != "all" else f"passage {passage.id}", place)
    places = {f"{role} passage": by_role[role] for role in sorted(by_role, key=role_order)[:_MOST_PASSAGES]}
    bars = [("no passage", f"SePer {labeled.baseline_seper:.2f}", labeled.baseline)]
    bars += [(name, f"ΔSePer {labeled.labels[at]:+.2f}", labeled.details[at]) for name, at in places.items()]
    figure = new_figure(9, 0.7 * len(bars) + 1.3)
    axes = figure.subplots()
    for height, (_, label, context) in enumerate(bars):
        left = 0.0
        for mass, text, support in cluster_segments(context["responses"]):
            color = "#4c9f70" if support >= 0.5 else "#d5d8dc"
            axes.barh(height, mass, left=left, color=color, edgecolor="white", height=0.75)
            room = int(mass * 75)
            short = text if len(text) <= room else text[: max(room - 1, 0)] + "…"
            if mass >= 0.08:
                axes.text(left + mass / 2, height, short, ha="center", va="center", fontsize=8)
            left += mass
        axes.text(1.02, height, label, va="center", fontsize=10, fontweight="bold")
    axes.set_yticks(range(len(bars)), [name for name, _, _ in bars])
    axes.invert_yaxis()
    axes.set_xlim(0, 1)
    axes.set_xlabel("share of sampled answers, by meaning (green: entails the right answer)")
    query = labeled.query
    axes.set_title(f"{query.question}   right answer: {query.answers[0]}", fontsize=11, loc="left")
    axes.spines["left"].set_visible(False)
    save_figure(figure, path)


def new_figure(width: float, height: float) -> Any:
    """Return an empty figure of this size in inches; ``OSError`` if matplotlib is not installed."""
    return need("matplotlib.figure", "figures").Figure(figsize=(width, height), layout="constrained")


def legend_beside(axes: Any, **options: object) -> None:
    """Put the legend of the last panel to the right of it, so it covers nothing."""
    axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5), **options)


def save_figure(figure: Any, path: Path) -> None:
    """Write a figure, the same bytes for the same content; the path's extension sets the format."""
    for axes in figure.axes:
        if not axes.images:  # heat maps keep their frames
            axes.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def plot_intervals(
    panels: Mapping[str, Mapping[str, Mapping[str, Statistic]]], path: Path, ours: Sequence[str] = ()
) -> None:
    """Plot numbers with their intervals by panel, series and row; rows in ``ours`` have the colour of ΔSePer."""
    names = list(dict.fromkeys(name for panel in panels.values() for series in panel.values() for name in series))
    most = max(map(len, panels.values()))
    figure = new_figure(2.5 + 3.5 * len(panels), (0.25 + 0.08 * most) * len(names) + 1.4)
    grid = figure.subplots(1, len(panels), sharex=True, sharey=True, squeeze=False)[0]
    for axes, (title, panel) in zip(grid, panels.items(), strict=True):
        for number, (label, series) in enumerate(panel.items()):
            shift = 0.6 * ((number + 0.5) / len(panel) - 0.5)
            axes.plot([], [], "o", color=f"C{number}", markersize=4, label=label)  # in the legend, also without values
            for name, statistic in series.items():
                if statistic.value is None:
                    continue
                color = f"C{number}" if most > 1 else OURS if name in ours else RIVAL
                height = names.index(name) + shift
                axes.plot(statistic.interval or [statistic.value] * 2, [height, height], color=color, linewidth=2)
                axes.plot(statistic.value, height, "o", color=color, markersize=4)
        axes.axvline(0, color="#d5d8dc", zorder=0)
        axes.set_xlabel(title)
        axes.spines["left"].set_visible(False)
    grid[0].set_yticks(range(len(names)), [name.replace("_", " ") for name in names])
    grid[0].invert_yaxis()
    if most > 1:
        legend_beside(grid[-1])
    save_figure(figure, path)
