"""Plots of beliefs, of measures of rankings, of agreement with people, and of gates."""

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


def plot_win_ratios(result: Mapping[str, Any], path: Path) -> None:
    """Plot of what each source answers wrong the share that each other one answers right, as a heat map.

    Args:
        result: What ``consistency`` returned.
        path: Image file; its ending decides the format (svg, png, pdf).

    Raises:
        OSError: matplotlib is not installed, or the path cannot be written.
    """
    ratios = result["win_ratio"]
    names = list(ratios)
    figure = new_figure(0.9 * len(names) + 3, 0.6 * len(names) + 2)
    axes = figure.subplots()
    values = [[float("nan") if value is None else value for value in row.values()] for row in ratios.values()]
    shown = axes.imshow(values, cmap="Greens", vmin=0, vmax=1)
    for height, row in enumerate(ratios.values()):
        for place, value in enumerate(row.values()):
            if value is not None:
                color = "white" if value > 0.6 else "black"
                axes.text(place, height, f"{value:.2f}", ha="center", va="center", color=color, fontsize=9)
    axes.set_xticks(range(len(names)), names, rotation=30, ha="right")
    axes.set_yticks(range(len(names)), names)
    axes.set_xlabel("where this one is wrong")
    axes.set_ylabel("this one is right")
    figure.colorbar(shown, ax=axes)
    save_figure(figure, path)


def plot_compare(results: Mapping[str, Any], path: Path) -> None:
    """Plot each labeler's agreement with marks and with the reader's score, one row of points by data set.

    Args:
        results: What ``CompareRun.run`` returned; data sets that were skipped are left out.
        path: Image file; its ending decides the format (svg, png, pdf).

    Raises:
        OSError: matplotlib is not installed, or the path cannot be written.
    """
    used = {name: found["labelers"] for name, found in results.items() if "labelers" in found}
    labelers = list(dict.fromkeys(labeler for found in used.values() for labeler in found))
    figure = new_figure(10, 0.45 * len(labelers) + 1.6)
    panels = {"Pearson's r with people's marks": "marks", "Kendall's τ with the reader's score": "score"}
    for axes, (title, measure) in zip(figure.subplots(1, 2, sharey=True), panels.items(), strict=True):
        series = {
            name: {each: tuple(row[measure].get("kendall", row[measure]).values()) for each, row in found.items()}
            for name, found in used.items()
        }
        _correlations_by_labeler(axes, series, labelers, title)
    legend_beside(axes)
    save_figure(figure, path)


def plot_erag(result: Mapping[str, Any], path: Path) -> None:
    """Plot how well precision by each labeler ranks the lists as the reader does, by retriever and depth.

    Args:
        result: What ``erag`` returned.
        path: Image file; its ending decides the format (svg, png, pdf).

    Raises:
        OSError: matplotlib is not installed, or the path cannot be written.
    """
    retrievers = result["retrievers"]
    labelers = list(dict.fromkeys(name for found in retrievers.values() for name in found["labels"]))
    figure = new_figure(10, 0.6 * len(labelers) + 1.6)
    panels = {"Kendall's τ with the reader's score": "score", "Kendall's τ with its gain": "gain"}
    for axes, (title, target) in zip(figure.subplots(1, 2, sharey=True), panels.items(), strict=True):
        series: dict[str, dict[str, Any]] = {}
        for retriever, found in retrievers.items():
            for labeler, by_depth in found["correlation"][target].items():
                for depth, by_metric in by_depth.items():
                    row = series.setdefault(f"P@{depth}, {retriever}", {})
                    row[labeler] = tuple(by_metric["p"]["kendall"].values())
        _correlations_by_labeler(axes, series, labelers, title)
    legend_beside(axes)
    save_figure(figure, path)


def _correlations_by_labeler(
    axes: Any, series: Mapping[str, Mapping[str, Any]], labelers: Sequence[str], title: str
) -> None:
    """Draw correlations with their intervals, ``(value, interval)`` by series and labeler: a row per labeler."""
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


def plot_components(result: Mapping[str, Any], path: Path) -> None:
    """Plot ΔSePer over the number of passages, one line per reranker and compression, one panel per reader.

    Args:
        result: What ``components`` returned.
        path: Image file; its ending decides the format (svg, png, pdf).

    Raises:
        OSError: matplotlib is not installed, or the path cannot be written.
    """
    readers = result["readers"]
    figure = new_figure(4.5 * len(readers) + 2.5, 4)
    panels = figure.subplots(1, len(readers), sharey=True, squeeze=False)[0]
    for axes, (name, found) in zip(panels, readers.items(), strict=True):
        lines: dict[str, list[Mapping[str, Any]]] = {}
        for row in found["variants"]:
            added = [row[each] for each in ("reranker", "compression") if row[each] != "none"]
            lines.setdefault(" + ".join(added) or "as retrieved", []).append(row)
        for number, (label, rows) in enumerate(lines.items()):
            depths, means = [row["k"] for row in rows], [row["delta_seper"]["mean"] for row in rows]
            (line,) = axes.plot(depths, means, "-o" if number == 0 else "--o", markersize=4, label=label)
            for row, mean in zip(rows, means, strict=True):
                interval = row["delta_seper"]["interval"] or [mean, mean]
                axes.vlines(row["k"], *interval, color=line.get_color(), alpha=0.3)
        axes.axhline(0, color="#d5d8dc", zorder=0)
        axes.set_xticks(sorted({row["k"] for row in found["variants"]}))
        axes.set_xlabel("passages before compression")
        axes.set_title(f"reader {name}", fontsize=10)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("mean ΔSePer (bars: 95 % over questions)")
    legend_beside(panels[-1])
    save_figure(figure, path)

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
