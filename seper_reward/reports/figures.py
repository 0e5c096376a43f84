"""Plots of beliefs, measures of rankings and correlations."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from seper_reward.data.marks import role_of, role_order
from seper_reward.reports.tables import cluster_segments
from seper_reward.runtime.imports import need
from seper_reward.types import answer_text

OURS, RIVAL = "#4c9f70", "#7f8c8d"  # colours of ΔSePer and of other measures


def plot_belief(row: Mapping[str, Any], path: Path, *, most: int = 4) -> None:
    """Plot the change of the belief in the answer by each passage: one bar per context, with clusters as segments.

    Clusters whose responses support the answer by 0.5 or more on average are green, all other clusters grey.

    Args:
        row: A label row of ΔSePer.
        path: Image file; its extension sets the format (svg, png, pdf).
        most: Maximum number of passages in the plot; of several with one role the first is used.

    Raises:
        OSError: matplotlib is not installed, or the path cannot be written.
    """
    by_role: dict[str, Mapping[str, Any]] = {}
    for passage in row["passages"]:
        by_role.setdefault(
            role_of(passage) if role_of(passage) != "all" else f"passage {passage['passage_id']}", passage
        )
    roles = sorted(by_role, key=role_order)[:most]
    bars = [("no passage", row["baseline"]["seper"], row["baseline"])]
    bars += [(f"{role} passage", by_role[role]["delta_seper"], by_role[role]) for role in roles]
    figure = new_figure(9, 0.7 * len(bars) + 1.3)
    axes = figure.subplots()
    for height, (_, value, context) in enumerate(bars):
        left = 0.0
        for mass, text, support in cluster_segments(context["responses"]):
            color = "#4c9f70" if support >= 0.5 else "#d5d8dc"
            axes.barh(height, mass, left=left, color=color, edgecolor="white", height=0.75)
            room = int(mass * 75)
            short = text if len(text) <= room else text[: max(room - 1, 0)] + "…"
            if mass >= 0.08:
                axes.text(left + mass / 2, height, short, ha="center", va="center", fontsize=8)
            left += mass
        label = f"SePer {value:.2f}" if context is row["baseline"] else f"ΔSePer {value:+.2f}"
        axes.text(1.02, height, label, va="center", fontsize=10, fontweight="bold")
    axes.set_yticks(range(len(bars)), [name for name, _, _ in bars])
    axes.invert_yaxis()
    axes.set_xlim(0, 1)
    axes.set_xlabel("share of sampled answers, by meaning (green: entails the right answer)")
    axes.set_title(f"{row['question']}   right answer: {answer_text(row['answers'])}", fontsize=11, loc="left")
    axes.spines[["top", "right", "left"]].set_visible(False)
    save_figure(figure, path)


def plot_correlations(
    panels: Mapping[str, Mapping[str, Mapping[str, Any]]], labelers: Sequence[str], height: float, path: Path
) -> None:
    """Plot correlations with their intervals, one row of points per labeler.

    Args:
        panels: By panel title, series and labeler, ``(value, interval)``.
        labelers: Names of the rows.
        height: Height of a row in inches.
        path: Image file; its extension sets the format (svg, png, pdf).

    Raises:
        OSError: matplotlib is not installed, or the path cannot be written.
    """
    figure = new_figure(10, height * len(labelers) + 1.6)
    for axes, (title, series) in zip(figure.subplots(1, len(panels), sharey=True), panels.items(), strict=True):
        for number, (name, found) in enumerate(series.items()):
            shift = 0.6 * ((number + 0.5) / len(series) - 0.5)
            points = [
                (value, interval or (value, value), labelers.index(each) + shift)
                for each, (value, interval) in found.items()
                if value is not None
            ]
            errors = [[abs(value - interval[side]) for value, interval, _ in points] for side in (0, 1)]
            values, _, heights = zip(*points, strict=True) if points else ((), (), ())
            axes.errorbar(values, heights, xerr=errors, fmt="o", markersize=4, label=name)
        axes.axvline(0, color="#d5d8dc", zorder=0)
        axes.set_xlabel(title)
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_yticks(range(len(labelers)), labelers)
        axes.set_ylim(len(labelers) - 0.5, -0.5)
    legend_beside(axes)
    save_figure(figure, path)


def plot_ranking(found: Mapping[str, Mapping[str, Any]], path: Path) -> None:
    """Plot measures of rankings as bars, side by side.

    Args:
        found: Values by ranking and measure: a number, or ``{"mean", "sd"}`` for a bar with an error; measures with
            other values are left out.
        path: Image file; its extension sets the format (svg, png, pdf).

    Raises:
        OSError: matplotlib is not installed, or the path cannot be written.
    """
    first = next(iter(found.values()))
    measures = [name for name, value in first.items() if center(value) is not None]
    figure = new_figure(2 + 0.9 * len(measures), 4)
    axes = figure.subplots()
    width = 0.8 / len(found)
    for number, (name, row) in enumerate(found.items()):
        places = [at + width * (number - (len(found) - 1) / 2) for at in range(len(measures))]
        errors = [row[key]["sd"] if isinstance(row[key], Mapping) else 0.0 for key in measures]
        axes.bar(places, [center(row[key]) or 0.0 for key in measures], width=0.95 * width, yerr=errors, label=name)
    axes.set_xticks(range(len(measures)), measures, rotation=30, ha="right", fontsize=8)
    axes.set_ylim(0, 1)
    axes.legend(ncols=len(found), fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1))
    axes.spines[["top", "right"]].set_visible(False)
    save_figure(figure, path)


def new_figure(width: float, height: float) -> Any:
    """Return an empty figure of this size in inches.

    Raises:
        OSError: matplotlib is not installed.
    """
    return need("matplotlib.figure", "figures").Figure(figsize=(width, height), layout="constrained")


def legend_beside(axes: Any, **options: Any) -> None:
    """Put the legend of the last panel to the right of it, so it covers nothing."""
    axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5), **options)


def save_figure(figure: Any, path: Path) -> None:
    """Write a figure, the same bytes for the same content; the path's extension sets the format."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def plot_intervals(
    panels: Mapping[str, Mapping[str, tuple[float | None, Sequence[float] | None]]],
    path: Path,
    ours: Sequence[str] = ("delta_seper_soft", "delta_seper_hard"),
) -> None:
    """Plot Pearson's r with intervals as points on lines, one panel per title, with the same rows in each.

    Args:
        panels: By title, by name of the row, the value and its interval.
        path: Image file; its extension sets the format (svg, png, pdf).
        ours: Rows in the colour of ΔSePer.
    """
    names = list(dict.fromkeys(name for panel in panels.values() for name in panel))
    figure = new_figure(2.5 + 3.2 * len(panels), 0.32 * len(names) + 1.2)
    grid = figure.subplots(1, len(panels), sharex=True, sharey=True, squeeze=False)[0]
    for axes, (title, panel) in zip(grid, panels.items(), strict=True):
        for height, name in enumerate(names):
            value, interval = panel.get(name, (None, None))
            if value is None:
                continue
            color = OURS if name in ours else RIVAL
            if interval is not None:
                axes.plot(interval, [height, height], color=color, linewidth=2)
            axes.plot(value, height, "o", color=color)
        axes.axvline(0, color="#d5d8dc", zorder=0)
        axes.set_title(title, fontsize=10)
        axes.set_xlabel("Pearson with marks")
        axes.spines[["top", "right", "left"]].set_visible(False)
    grid[0].set_yticks(range(len(names)), [name.replace("_", " ") for name in names])
    grid[0].invert_yaxis()
    save_figure(figure, path)


def center(value: Any) -> float | None:
    """Return a number, or the mean of ``{"mean", "sd"}``; ``None`` for other values."""
    if isinstance(value, Mapping):
        return value.get("mean")
    return float(value) if isinstance(value, (int, float)) else None
