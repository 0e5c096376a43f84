"""Plots of beliefs, of measures of rankings, of agreement with people, and of gates."""

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from seper_reward.data.marks import role_of, role_order
from seper_reward.reports.tables import cluster_segments
from seper_reward.runtime.imports import need
from seper_reward.types import answer_text


def plot_belief(row: Mapping[str, Any], path: Path, *, most: int = 4) -> None:
    """Plot how each passage moved the belief in the answer: one bar per context, with its clusters as segments.

    Clusters whose responses support the answer by 0.5 or more on average are green, the others grey.

    Args:
        row: A label row of ΔSePer.
        path: Image file; its ending decides the format (svg, png, pdf).
        most: Most passages in the plot; of several with one role the first is taken.

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
        panels: By title of the panel, series and labeler, ``(value, interval)``.
        labelers: Names of the rows.
        height: Height of a row in inches.
        path: Image file; its ending decides the format (svg, png, pdf).

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
        path: Image file; its ending decides the format (svg, png, pdf).

    Raises:
        OSError: matplotlib is not installed, or the path cannot be written.
    """
    first = next(iter(found.values()))
    measures = [name for name, value in first.items() if _center(value) is not None]
    figure = new_figure(2 + 0.9 * len(measures), 4)
    axes = figure.subplots()
    width = 0.8 / len(found)
    for number, (name, row) in enumerate(found.items()):
        places = [at + width * (number - (len(found) - 1) / 2) for at in range(len(measures))]
        errors = [row[key]["sd"] if isinstance(row[key], Mapping) else 0.0 for key in measures]
        axes.bar(places, [_center(row[key]) or 0.0 for key in measures], width=0.95 * width, yerr=errors, label=name)
    axes.set_xticks(range(len(measures)), measures, rotation=30, ha="right", fontsize=8)
    axes.set_ylim(0, 1)
    axes.legend(ncols=len(found), fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1))
    axes.spines[["top", "right"]].set_visible(False)
    save_figure(figure, path)


def plot_retrievers(result: Mapping[str, Any], path: Path) -> None:
    """Plot the reader's accuracy over each measure: a panel per measure, a colour per retriever, a mark per depth.

    Args:
        result: What ``compare_retrievers`` returned.
        path: Image file; its ending decides the format (svg, png, pdf).

    Raises:
        OSError: matplotlib is not installed, or the path cannot be written.
    """
    rows = result["retrievers"]
    measures = [name for name in rows[0]["measures"] if name != "accuracy"]
    figure = new_figure(3 * len(measures) + 2, 3.5)
    panels = figure.subplots(1, len(measures), sharey=True, squeeze=False)[0]
    colors = {name: f"C{number}" for number, name in enumerate(dict.fromkeys(row["retriever"] for row in rows))}
    marks = dict(zip(dict.fromkeys(row["k"] for row in rows), itertools.cycle("os^Dv"), strict=False))
    for axes, measure in zip(panels, measures, strict=True):
        for row in rows:
            value, accuracy = row["measures"][measure]["mean"], row["measures"]["accuracy"]["mean"]
            if value is not None:
                label = f"{row['retriever']}, k = {row['k']}"
                axes.scatter(
                    value, accuracy, color=colors[row["retriever"]], marker=marks[row["k"]], alpha=0.8, label=label
                )
        axes.set_xlabel(measure.replace("_", " "))
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("accuracy of the reader")
    legend_beside(panels[-1])
    save_figure(figure, path)


def plot_gating(
    curves: Mapping[str, Mapping[str, Sequence[float]]], rules: Mapping[str, Mapping[str, Any]], path: Path
) -> None:
    """Plot SePer over the share of questions that get a passage, by gate, with the point that each rule chose.

    Args:
        curves: ``coverage`` and ``seper`` by gate.
        rules: ``share_with_passage`` and ``seper`` by rule; those without a curve are squares.
        path: Image file; its ending decides the format (svg, png, pdf).

    Raises:
        OSError: matplotlib is not installed, or the path cannot be written.
    """
    figure = new_figure(8, 4.5)
    axes = figure.subplots()
    for name, found in curves.items():
        (line,) = axes.plot(found["coverage"], found["seper"], linewidth=1.5, label=name.replace("_", " "))
        if name in rules:
            axes.scatter(rules[name]["share_with_passage"], rules[name]["seper"], color=line.get_color(), zorder=3)
    for name, row in rules.items():
        if name not in curves:
            axes.scatter(row["share_with_passage"], row["seper"], marker="s", color="#7f8c8d", zorder=3)
            axes.annotate(
                name.replace("_", " "), (row["share_with_passage"], row["seper"]), (0, -12),
                textcoords="offset points", fontsize=8, ha="right" if row["share_with_passage"] else "left",
            )  # fmt: skip
    axes.set_xlabel("share of questions that get a passage (points: chosen on the dev questions)")
    axes.set_ylabel("mean SePer of all questions")
    legend_beside(axes)
    axes.spines[["top", "right"]].set_visible(False)
    save_figure(figure, path)


def _center(value: Any) -> float | None:
    """Return a number, or the mean of ``{"mean", "sd"}``; ``None`` for other values."""
    if isinstance(value, Mapping):
        return value.get("mean")
    return float(value) if isinstance(value, (int, float)) else None


def new_figure(width: float, height: float) -> Any:
    """Return an empty figure of this size in inches.

    Raises:
        OSError: matplotlib is not installed.
    """
    return need("matplotlib.figure", "figures").Figure(figsize=(width, height), layout="constrained")


def legend_beside(axes: Any, **options: Any) -> None:
    """Put the legend of the last panel to its right, where it covers nothing."""
    axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5), **options)


def save_figure(figure: Any, path: Path) -> None:
    """Write a figure, the same bytes for the same content; the path's ending decides the format."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
