"""Summarise trained policies over seeds, in a table, and compare two settings, with their training curves.

python -m tests.benchmarks.experiments.policy_seeds --runs runs/policy-demo runs/policy-demo-1
python -m tests.benchmarks.experiments.policy_seeds --runs A --against B --plot training.svg
"""

import argparse
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from seper_reward.reports.figures import legend_beside, new_figure, save_figure
from seper_reward.reports.tables import interval_cell, lead_text, markdown_table
from seper_reward.runtime.json_files import read_json, read_lines, write_json
from seper_reward.statistics import rounded
from tests.benchmarks.experiments.seeds import interval_over_questions_and_seeds, interval_over_seeds
from trainers.policy_eval import LEADS, MEASURES, TRAINING, held_out_file, leads_list, means_by_question, paired_lead
from trainers.policy_play import is_rule

TRAINING_MEASURES = ("reward", "seper/exact_match", "seper/searches")  # the trainer's names
_WINDOW = 8  # number of steps that each point averages, since one step has few questions


def over_seeds(runs: Sequence[Mapping[str, Mapping[str, Any]]]) -> dict[str, dict[str, dict[str, Any]]]:
    """Return measures over runs with different seeds, by name and measure, from the contents of ``results.json``.

    Names and measures that some runs lack are left out. Each has ``mean``, ``sd`` (sample standard deviation; 0 for
    one run) and ``interval`` (``interval_over_seeds``).
    """
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for name in runs[0]:
        rows = [run[name] for run in runs if name in run]
        shared = [key for key, value in rows[0].items() if all(isinstance(row.get(key), float) for row in rows)]
        if len(rows) == len(runs):
            columns = {key: [row[key] for row in rows] for key in shared}
            found[name] = {
                key: {
                    "mean": rounded(statistics.fmean(values)),
                    "sd": rounded(statistics.stdev(values)) if len(values) > 1 else 0.0,
                    "interval": interval_over_seeds(values),
                }
                for key, values in columns.items()
            }
    return found


def seeds_table(found: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the ``MEASURES`` of ``over_seeds``, by name, with intervals as a Markdown table."""
    rows = [
        [name, *(interval_cell(row.get(each, {"mean": None})) for each in MEASURES)] for name, row in found.items()
    ]
    return markdown_table(["", *MEASURES], rows)


def leads_over_seeds(runs: Sequence[Sequence[Mapping[str, Any]]]) -> dict[str, dict[str, dict[str, Any]]]:
    """Return the leads of trained policies over each rule and over their start, over questions and seeds.

    Runs are contents of ``results_held_out.jsonl``, with different seeds on the same questions. A rule's episodes are
    those of the first run. Questions that a run or a rule could not score are left out.

    Returns:
        ``MEASURE_leads`` as in ``results_of``, each with ``lead`` and ``interval`` by name.
    """
    names = dict.fromkeys(row["by"] for row in runs[0])
    others = {name: runs[:1] for name in names if is_rule(name)} | {name: runs for name in names if name == "before"}
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for measure in LEADS:
        own = [_by_question(rows, "after", measure) for rows in runs]
        for name, other in others.items():
            over = [_by_question(rows, name, measure) for rows in other]
            shared = [question for question in own[0] if all(question in run for run in [*own, *over])]
            if shared:
                ours, theirs = (np.array([[run[each] for each in shared] for run in part]) for part in (own, over))
                found.setdefault(f"{measure}_leads", {})[name] = {
                    "lead": rounded(float(ours.mean() - theirs.mean())),
                    "interval": interval_over_questions_and_seeds(ours, theirs[0] if is_rule(name) else theirs),
                }
    return found


def leads_between(
    runs: Sequence[Sequence[Mapping[str, Any]]], against: Sequence[Sequence[Mapping[str, Any]]]
) -> dict[str, dict[str, Any]]:
    """Return ``lead_over_questions`` of policies trained with one setting over those of another, by measure.

    Each run is the content of a ``results_held_out.jsonl``. A question's value is a mean over rollouts and seeds: the
    interval is over questions alone. Questions that one setting could not score are left out.
    """
    ours, theirs = ([row for rows in arm for row in rows] for arm in (runs, against))
    return {
        measure: paired_lead(_by_question(ours, "after", measure), _by_question(theirs, "after", measure))
        for measure in ("accuracy", "seper", "reward")
    }


def training_table(logs: Mapping[str, Sequence[Sequence[Mapping[str, float]]]], parts: int = 4) -> str:
    """Return measures on training questions over ``parts`` of the training, by name, as a Markdown table."""
    table = []
    for name, runs in logs.items():
        steps = [[row for row in log if all(measure in row for measure in TRAINING_MEASURES)] for log in runs]
        for places in filter(len, np.array_split(np.arange(min(map(len, steps))), parts)):
            rows = [run[place] for run in steps for place in places]
            means = [f"{statistics.fmean(row[measure] for row in rows):.3f}" for measure in TRAINING_MEASURES]
            table.append([name, f"{places[0] + 1} to {places[-1] + 1}", *means])
    return markdown_table(["", "steps", *TRAINING_MEASURES], table)


def _by_question(rows: Sequence[Mapping[str, Any]], name: str, measure: str) -> dict[str, float]:
    found = ((row["id"], row.get(measure)) for row in rows if row["by"] == name)
    return means_by_question((identity, value) for identity, value in found if value is not None)


def plot_training(arms: Mapping[str, Sequence[Sequence[Mapping[str, float]]]], path: Path) -> None:
    """Plot ``TRAINING_MEASURES`` over steps, one panel per measure: thin lines are runs, thick lines their means.

    Args:
        arms: By name of the compared setting, the logs of its runs (one per seed): rows of ``step`` and measures. Rows
            without a measure are left out of its panel.
        path: Image file.
    """
    figure = new_figure(4.2 * len(TRAINING_MEASURES), 3.6)
    panels = figure.subplots(1, len(TRAINING_MEASURES), squeeze=False)[0]
    for axes, measure in zip(panels, TRAINING_MEASURES, strict=True):
        for number, (name, logs) in enumerate(arms.items()):
            lines = [smoothed(log, measure, _WINDOW) for log in logs]
            for line in lines:
                axes.plot(list(line), list(line.values()), color=f"C{number}", linewidth=0.7, alpha=0.5)
            shared = [step for step in lines[0] if all(step in line for line in lines)]
            means = [statistics.fmean(line[step] for line in lines) for step in shared]
            axes.plot(shared, means, color=f"C{number}", linewidth=2, label=name)
        axes.set_xlabel(f"step (means over {_WINDOW})")
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


def main(argv: Sequence[str] | None = None) -> int:
    """Print and write a table of the results of runs over seeds; return 0."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.experiments.policy_seeds", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--runs", nargs="+", type=Path, required=True, help="Output folders of runs, one per seed.")
    parser.add_argument(
        "--against", nargs="+", type=Path, default=[], help="Output folders of another setting, for a separate table."
    )
    parser.add_argument("--json", type=Path, help="JSON file to write (default: over_seeds.json in the first folder).")
    parser.add_argument(
        "--plot",
        type=Path,
        help="Image file for a plot of reward and searches over steps, which are also printed as a table.",
    )
    arguments = parser.parse_args(argv)
    arms = {str(runs[0]): runs for runs in (arguments.runs, arguments.against) if runs}
    held_out = {  # only settings for which all runs have the file
        name: [list(read_lines(held_out_file(run))) for run in runs]
        for name, runs in arms.items()
        if all(held_out_file(run).is_file() for run in runs)
    }
    for number, (name, runs) in enumerate(arms.items()):
        found: dict[str, Any] = over_seeds([read_json(run / "results.json") for run in runs])
        print(f"{name}\n\n{seeds_table(found)}\n" if len(arms) > 1 else seeds_table(found))
        if len(runs) > 1 and name in held_out:
            found["after"] |= leads_over_seeds(held_out[name])
            print(f"\nleads with their 95 % intervals over questions and seeds:\n\n{leads_list(found, 'after')}")
        write_json((not number and arguments.json) or runs[0] / "over_seeds.json", found)
    if len(held_out) > 1:
        print("`after` of the first over that of the second, with the 95 % interval over questions:\n")
        print("\n".join(f"- {name}: {lead_text(lead)}" for name, lead in leads_between(*held_out.values()).items()))
    if arguments.plot:
        logs = {name: [list(read_lines(run / TRAINING)) for run in runs] for name, runs in arms.items()}
        plot_training(logs, arguments.plot)
        print(f"\non training questions:\n\n{training_table(logs)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
