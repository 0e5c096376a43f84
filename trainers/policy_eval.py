"""Summarise policies and fixed search rules, of one run or over seeds, in tables and plots.

python -m trainers.policy_eval --runs runs/policy-demo runs/policy-demo-1 ...     # table over seeds
python -m trainers.policy_eval --runs A --against B --plot training.svg          # two settings, with training curves
"""

import argparse
import statistics
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from seper_reward.reports.figures import TRAINING_MEASURES, Point, plot_training
from seper_reward.reports.tables import interval_cell, lead_text, markdown_table
from seper_reward.runtime.json_files import read_json, read_lines, write_json
from seper_reward.statistics import (
    interval_over_questions_and_seeds,
    interval_over_seeds,
    lead_over_questions,
    ratio_over_questions,
    rounded,
)

from .policy_play import Episode, Rules, is_rule

MEASURES = (
    "search_rate_needed", "search_rate_not_needed", "decision_f1", "accuracy", "answer_score", "seper", "reward",
    "searches_per_question", "failed_calls_per_question", "tokens_per_question",
)  # fmt: skip
_LEADS = ("accuracy", "answer_score", "reward")
TRAINING = "training.jsonl"  # the log of the trainer, in a run's folder


def held_out_file(folder: Path, name: str = "results") -> Path:
    """Return the file of all episodes of held-out questions, next to ``NAME.json`` of a run."""
    return folder / f"{name}_held_out.jsonl"


def summarize(episodes: Sequence[Episode | None]) -> dict[str, Any]:
    """Return the ``MEASURES`` of episodes with their 95 % bootstrap intervals over questions (``intervals``).

    ``search_rate_needed``, ``search_rate_not_needed`` and ``search_rate_GROUP`` are shares of questions with a search.
    ``decision_f1`` is the F1 of the decision to search, with needed searches as positives: 2 · both / (searched +
    needed). ``unscored`` is the share of episodes that could not be scored. A question's episodes are resampled
    together; measures without episodes are left out.
    """
    scored = [episode for episode in episodes if episode is not None]
    parts: dict[str, Callable[[Episode], tuple[float, float]]] = {
        "search_rate_needed": lambda each: (each.searched and each.needed, each.needed),
        "search_rate_not_needed": lambda each: (each.searched and not each.needed, not each.needed),
        "decision_f1": lambda each: (2 * (each.searched and each.needed), each.searched + each.needed),
        "accuracy": lambda each: (each.accuracy, 1),
        "answer_score": lambda each: (each.answer_score or 0.0, each.answer_score is not None),
        "seper": lambda each: (each.seper, 1),
        "reward": lambda each: (each.reward, 1),
        "searches_per_question": lambda each: (len(each.queries), 1),
        "failed_calls_per_question": lambda each: (each.failed, 1),
        "tokens_per_question": lambda each: (each.tokens, 1),
    }
    for group in sorted({episode.group for episode in scored if episode.group is not None}):
        parts[f"search_rate_{group}"] = lambda each, own=group: (  # type: ignore[misc]
            each.searched and each.group == own,
            each.group == own,
        )
    values: dict[str, Any] = {}
    intervals: dict[str, list[float] | None] = {}
    for name, part in parts.items():
        found = ratio_over_questions([each.id for each in scored], list(map(part, scored)))
        if found["mean"] is not None:
            values[name], intervals[name] = found["mean"], found["interval"]
    unscored = rounded(1 - len(scored) / len(episodes))
    return {**values, "unscored": unscored, "intervals": intervals}


def results_of(played: Mapping[str, Sequence[Episode | None]], rules: Rules, policy: str) -> dict[str, dict[str, Any]]:
    """Return the measures of all policies and rules, the content of ``results.json``.

    ``accuracy_leads``, ``answer_score_leads`` and ``reward_leads`` are over each rule and the start of ``policy``.
    """
    results = {name: summarize(episodes) for name, episodes in {**played, **rules.played}.items()}
    for name, limit in rules.thresholds.items():
        # a finite threshold, or the equivalent rule
        results[name]["threshold"] = rounded(limit) if np.isfinite(limit) else "never" if limit > 0 else "always"
    others = {**({"before": played["before"]} if policy == "after" and "before" in played else {}), **rules.played}
    for measure in _LEADS:
        own = _measure_by_question(played[policy], measure)
        if measure == "answer_score" and not own:
            continue  # the reward has no weight for answers
        results[policy][f"{measure}_leads"] = {
            name: _lead(own, _measure_by_question(episodes, measure)) for name, episodes in others.items()
        }
    return results


def leads_list(results: Mapping[str, Mapping[str, Any]], policy: str) -> str:
    """Return the leads of a policy on the same questions, with 95 % intervals over questions, as a Markdown list."""
    rows = [
        f"- {measure} of `{policy}` over `{name}`: {lead_text(lead)}"
        for measure in _LEADS
        for name, lead in results[policy].get(f"{measure}_leads", {}).items()
    ]
    return "\n".join(rows)


def _lead(own: Mapping[str, float], other: Mapping[str, float]) -> dict[str, Any]:
    """Return the lead over their common questions."""
    both = [identity for identity in own if identity in other]
    return lead_over_questions([own[each] for each in both], [other[each] for each in both])


def _measure_by_question(episodes: Sequence[Episode | None], measure: str) -> dict[str, float]:
    found = ((episode.id, getattr(episode, measure)) for episode in episodes if episode is not None)
    return _means_by_question((identity, value) for identity, value in found if value is not None)


def _means_by_question(values: Iterable[tuple[str, float]]) -> dict[str, float]:
    by_question: dict[str, list[float]] = {}
    for identity, value in values:
        by_question.setdefault(identity, []).append(value)
    return {identity: statistics.fmean(found) for identity, found in by_question.items()}


def tradeoff(
    results: Mapping[str, Any], log: Sequence[Mapping[str, Any]], block: int = 10
) -> tuple[dict[str, Point], list[Point]]:
    """Return accuracy and searches per question of the rules, and of the policy before, during and after training.

    The log of the trainer has training questions; ``block`` of its rows are averaged into one point.
    """

    def point(rows: Sequence[Mapping[str, float]], searches: str, accuracy: str) -> Point:
        return (statistics.fmean(row[searches] for row in rows), statistics.fmean(row[accuracy] for row in rows))

    rules = {name: point([row], "searches_per_question", "accuracy") for name, row in results.items() if is_rule(name)}
    steps = [row for row in log if "seper/searches" in row]
    blocks = [steps[start : start + block] for start in range(0, len(steps), block)]
    path = [point(rows, "seper/searches", "seper/exact_match") for rows in blocks]
    ends = [
        [point([results[name]], "searches_per_question", "accuracy")] if name in results else []
        for name in ("before", "after")
    ]
    return rules, [*ends[0], *path, *ends[1]]


def policy_table(results: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the ``MEASURES`` of ``summarize`` or ``over_seeds``, by name, with intervals as a Markdown table."""
    rows = [[name, *(interval_cell(_with_interval(row, each)) for each in MEASURES)] for name, row in results.items()]
    return markdown_table(["", *MEASURES], rows)


def _with_interval(row: Mapping[str, Any], measure: str) -> Mapping[str, Any]:
    value = row.get(measure)
    if isinstance(value, Mapping):
        return value
    return {"mean": value, "interval": row.get("intervals", {}).get(measure)}


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
    for measure in _LEADS:
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
        measure: _lead(_by_question(ours, "after", measure), _by_question(theirs, "after", measure))
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
    return _means_by_question((identity, value) for identity, value in found if value is not None)


def main(argv: Sequence[str] | None = None) -> int:
    """Print and write a table of the results of runs over seeds; return 0."""
    parser = argparse.ArgumentParser(prog="python -m trainers.policy_eval", description=__doc__.partition("\n")[0])
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
        print(f"{name}\n\n{policy_table(found)}\n" if len(arms) > 1 else policy_table(found))
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
