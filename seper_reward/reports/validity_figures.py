"""Figures of how valid ΔSePer is: correlation with marks, repeats, robustness, transfer, and the judge."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from seper_reward.evaluate.equivalence import METHODS
from seper_reward.reports.figures import legend_beside, new_figure, save_figure

_OURS, _RIVAL = "#4c9f70", "#7f8c8d"
_WRONG = ("#c0392b", "#e08e3a")
_VERDICTS = {
    "helps": "#4c9f70",
    "harms": "#c0392b",
    "useless": "#34495e",
    "opposite": "#8e44ad",
    "depends": "#e08e3a",
    "unsure": "#c8ccd0",
}


def plot_correlation(files: Mapping[str, Mapping[str, Any]], path: Path) -> None:
    """Plot Pearson's r of each measure with people's marks, with its interval, one panel per file.

    Args:
        files: By name of the file what ``correlation`` returned.
        path: Image file; its ending decides the format (svg, png, pdf).

    Raises:
        OSError: matplotlib is not installed, or the path cannot be written.
    """
    panels = {
        name: {measure: (value, found["interval"][measure]) for measure, value in found["pearson"].items()}
        for name, found in files.items()
    }
    _plot_intervals(panels, path)


def plot_judge(result: Mapping[str, Any], path: Path) -> None:
    """Plot near values that a judge takes for the gold answer, and its agreement with people if that was measured.

    Args:
        result: What ``measure_judge`` returned, and ``people``, what ``equivalence`` returned, if there are verdicts.
        path: Image file; its ending decides the format (svg, png, pdf).

    Raises:
        OSError: matplotlib is not installed, or the path cannot be written.
    """
    people = result.get("people")
    figure = new_figure(16 if people else 7, 5)
    panels = figure.subplots(1, 3 if people else 1, squeeze=False)[0]
    near = [
        (f"{kind}, {distance}", row)
        for kind, distances in result["near"].items()
        for distance, row in distances.items()
        if "wrong" in row and not distance.endswith("spelling")
    ]
    keys = {"false_support": "supported (labels)", "false_pay": "paid (rewards)"}
    for place, (key, label) in enumerate(keys.items()):
        heights = [at + 0.4 * place - 0.2 for at in range(len(near))]
        panels[0].barh(heights, [row[key] for _, row in near], 0.38, color=_WRONG[place], label=label)
    panels[0].set_yticks(range(len(near)), [name for name, _ in near], fontsize=6)
    panels[0].set_ylim(len(near) - 0.5, -0.5)
    panels[0].set_xlim(0, 1)
    panels[0].set_xlabel("share of wrong values, by their distance from the right one")
    panels[0].legend(fontsize=8)
    if people:
        _plot_people(people, panels[1], panels[2])
    for axes in panels:
        axes.spines[["top", "right"]].set_visible(False)
    save_figure(figure, path)


def _plot_people(result: Mapping[str, Any], bars: Any, curve: Any) -> None:
    """Plot F1 by column and method, and the reliability of the entailment probabilities."""
    columns = result["columns"]
    for place, (name, prefix) in enumerate(METHODS.items()):
        heights = [row[f"{prefix}f1"] for row in columns.values()]
        bars.bar([at + 0.2 * place - 0.3 for at in range(len(columns))], heights, width=0.19, label=name)
    bars.set_xticks(range(len(columns)), list(columns))
    bars.set_ylabel("F1 against human verdicts, %")
    bars.legend(ncols=4, loc="lower center", fontsize=8)
    table = result["calibration"]["reliability"]
    curve.plot([0, 1], [0, 1], color="#d5d8dc")
    curve.plot([row["mean_probability"] for row in table], [row["share_true"] for row in table], color="#4c9f70")
    curve.scatter(
        [row["mean_probability"] for row in table],
        [row["share_true"] for row in table],
        s=[10 + 300 * row["n"] / sum(other["n"] for other in table) for row in table],
        color="#4c9f70",
    )
    curve.set_xlabel("entailment probability (area: number of responses)")
    curve.set_ylabel("share that people call equivalent")
    curve.set_title(f"expected calibration error {result['calibration']['ece']:.3f}", fontsize=10)


def plot_robustness(result: Mapping[str, Any], path: Path) -> None:
    """Plot Pearson's r of soft and hard ΔSePer with people's marks by entailment model and prompt.

    Args:
        result: What ``robustness`` returned.
        path: Image file; its ending decides the format (svg, png, pdf).

    Raises:
        OSError: matplotlib is not installed, or the path cannot be written.
    """
    rows = {"as configured": result["reference"], **result["entailment"]}
    rows |= {f"prompt {name}": row for name, row in result["prompt"].items()}
    panels = {
        f"ΔSePer {kind}": {name: (row[kind]["pearson"], row[kind]["interval"]) for name, row in rows.items()}
        for kind in ("soft", "hard")
    }
    _plot_intervals(panels, path, ours=("as configured",))


def plot_repeats(result: Mapping[str, Any], path: Path) -> None:
    """Plot correlation, spread and error of SePer over the number of responses, and error over seconds, by estimator.

    Args:
        result: What ``repeats`` returned.
        path: Image file; its ending decides the format (svg, png, pdf).

    Raises:
        OSError: matplotlib is not installed, or the path cannot be written.
    """
    timed = any(row["seconds"] is not None for found in result["ways"].values() for row in found.values())
    figure = new_figure(15 if timed else 12, 3.8)
    pearson, spread, error, *cost = figure.subplots(1, 4 if timed else 3)
    for name, found in result["ways"].items():
        counts = [int(count) for count in found]
        style = {"marker": ".", "label": name.replace("_", " ")}
        (line,) = pearson.plot(counts, _column(found, "pearson"), **style)
        low, high = (
            [
                value + sign * sd
                for value, sd in zip(_column(found, "pearson"), _column(found, "pearson_sd"), strict=True)
            ]
            for sign in (-1, 1)
        )
        pearson.fill_between(counts, low, high, alpha=0.12, color=line.get_color())
        spread.plot(counts, _column(found, "seper_sd"), **style)
        error.plot(counts, _column(found, "rmse"), **style)
        for axes in cost:
            axes.plot(_column(found, "seconds"), _column(found, "rmse"), **style)
    pearson.set_ylabel("Pearson with marks (band: ± sd)")
    spread.set_ylabel("sd of SePer over repeats")
    error.set_ylabel("root mean squared error of SePer")
    for axes in (pearson, spread, error):
        axes.set_xlabel("responses N")
    for axes in cost:
        axes.set(xlabel=f"seconds per context ({result['clock']})", ylabel="root mean squared error", xscale="log")
    for axes in (pearson, spread, error, *cost):
        axes.spines[["top", "right"]].set_visible(False)
    legend_beside(figure.axes[-1])
    save_figure(figure, path)


def plot_transfer(result: Mapping[str, Any], path: Path) -> None:
    """Plot the labels of each pair of readers against each other, with how far they agree.

    Args:
        result: What ``transfer`` returned.
        path: Image file; its ending decides the format (svg, png, pdf).

    Raises:
        OSError: matplotlib is not installed, or the path cannot be written.
    """
    pairs = result["pairs"]
    figure = new_figure(4.6 * len(pairs) + 1.4, 4.6)
    for axes, (name, pair) in zip(figure.subplots(1, len(pairs), squeeze=False)[0], pairs.items(), strict=True):
        one, other = name.split(" / ")
        for verdict, color in _VERDICTS.items():
            labels = [row["labels"] for row in result["passages"] if row["verdict"] == verdict]
            if labels:
                axes.scatter(
                    [row[one] for row in labels], [row[other] for row in labels], s=14, color=color, label=verdict
                )
        for line in (axes.axhline, axes.axvline):
            line(0, color="#d5d8dc", zorder=0)
        axes.set(xlabel=f"ΔSePer, {one}", ylabel=f"ΔSePer, {other}", xlim=(-1.05, 1.05), ylim=(-1.05, 1.05))
        axes.set_aspect("equal")
        told = [
            f"{title} {_number(pair[kind]['observed'])} → {_number(pair[kind]['corrected'])}"
            for kind, title in (("labels", "correlation"), ("sign", "same sign"))
        ]
        axes.set_title("observed → without noise\n" + ", ".join(told), fontsize=9)
        axes.spines[["top", "right"]].set_visible(False)
    legend_beside(figure.axes[-1], title="for all readers")
    save_figure(figure, path)


def _plot_intervals(
    panels: Mapping[str, Mapping[str, tuple[float | None, Sequence[float] | None]]],
    path: Path,
    ours: Sequence[str] = ("delta_seper_soft", "delta_seper_hard"),
) -> None:
    """Plot Pearson's r with intervals as points on lines, one panel per name, the same rows in each."""
    names = list(dict.fromkeys(name for panel in panels.values() for name in panel))
    figure = new_figure(2.5 + 3.2 * len(panels), 0.32 * len(names) + 1.2)
    grid = figure.subplots(1, len(panels), sharex=True, sharey=True, squeeze=False)[0]
    for axes, (title, panel) in zip(grid, panels.items(), strict=True):
        for height, name in enumerate(names):
            value, interval = panel.get(name, (None, None))
            if value is None:
                continue
            color = _OURS if name in ours else _RIVAL
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


def _column(found: Mapping[str, Mapping[str, float | None]], measure: str) -> list[float]:
    """Return a measure by number of responses, NaN where there is none."""
    return [float("nan") if row[measure] is None else float(row[measure] or 0.0) for row in found.values()]


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"
