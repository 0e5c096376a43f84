"""Which labels train the better retriever, with the same questions, candidates, reader, budget and seeds?

    python -m trainers.compare_labelers --config configs/retriever/compare-demo.yaml

Trains one retriever per labeler and seed with `trainers.retriever`'s settings, measures all of them and the untrained
one on the held-out questions, and writes results.json, results.md and results.svg. Each seed draws labels of its own,
so that what labels owe to chance is in the intervals. The same command resumes.
"""

import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from trl import TrlParser

from seper_reward.evaluation.statistics import interval_over_questions_and_seeds, rounded
from seper_reward.labels.labelers import check_labeler
from seper_reward.reports.figures import plot_ranking
from seper_reward.reports.tables import measures_table
from seper_reward.runtime.distributed import process_state
from seper_reward.runtime.json_files import write_json
from seper_reward.runtime.settings import setting
from trainers.models import load_encoder
from trainers.ranking.candidates import propose
from trainers.ranking.evaluation import measure_rankings, rank
from trainers.ranking.run import RESULTS, begin
from trainers.retriever import RetrieverArguments, RetrieverConfig, RetrieverRun

UNTRAINED = "untrained"


@dataclass
class CompareConfig(RetrieverConfig):
    """Compare labelers by the retrievers that their labels train."""

    labelers: list[str] = setting(
        ["delta_seper", "erag", "likelihood", "gold"],
        "Labelers to compare, as in labeler; the lead of the first over each other one is reported.",
    )
    teacher_temperatures: list[str] = setting(
        ["likelihood=1.0"],
        "LABELER=T: teacher temperature for labels of another scale; other labelers take teacher_temperature.",
    )
    seeds: list[str] = setting(
        ["0", "1", "2"],
        "Seeds, one retriever per labeler and seed: of training (order and dropout) and of the responses that its "
        "labels are measured on; at least two for intervals.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self.labelers:
            check_labeler(name)
        self.temperatures()
        if not self.labelers or not self.seeds or not all(seed.isdecimal() for seed in self.seeds):
            raise ValueError(f"expected labelers, and whole numbers as seeds, got {self.labelers} and {self.seeds}")
        if len({Path(name).name for name in self.labelers}) < len(self.labelers):
            raise ValueError(f"labelers must have names of their own, got {self.labelers}; rename a folder")

    def temperatures(self) -> dict[str, float]:
        """Return the teacher temperatures that differ from ``teacher_temperature``, by labeler."""
        try:
            return {
                name: float(value) for name, _, value in (each.partition("=") for each in self.teacher_temperatures)
            }
        except ValueError as error:
            raise ValueError(
                f"teacher_temperatures must be LABELER=NUMBER, got {self.teacher_temperatures}"
            ) from error


def aggregate(found: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, dict[str, float]]]:
    """Return mean and standard deviation over seeds (``mean``, ``sd``), by labeler and measure.

    Args:
        found: Measures by run, where runs are named ``LABELER-SEED``; a name without a seed is a labeler by itself.
    """
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for name, row in found.items():
        groups.setdefault(_labeler_of(name), []).append(row)
    return {
        group: {
            key: {
                "mean": round(statistics.fmean(row[key] for row in rows), 4),
                "sd": round(statistics.stdev([row[key] for row in rows]) if len(rows) > 1 else 0.0, 4),
            }
            for key, value in rows[0].items()
            if isinstance(value, float)
        }
        for group, rows in groups.items()
    }


def leads(questions: Mapping[str, Sequence[Mapping[str, Any]]], first: str) -> dict[str, dict[str, Any]]:
    """Return how far ``first`` leads each other labeler in SePer, with a 95 % interval over questions and seeds.

    Args:
        questions: Rows with ``seper`` by run (``LABELER-SEED``, or a name without a seed for what was not trained);
            all runs have the same questions in the same order. Those that a run could not score are left out.
        first: The labeler whose lead is asked for.

    Returns:
        By other labeler, ``lead``, the difference of mean SePer in [-1, 1], and ``interval``, as
        ``interval_over_questions_and_seeds`` returns it.
    """
    values: dict[str, Any] = {}
    for group in dict.fromkeys(map(_labeler_of, questions)):
        runs = [rows for name, rows in questions.items() if _labeler_of(name) == group]
        measured = np.array([[row["seper"] for row in rows] for rows in runs], dtype=float)  # (S, Q), None as NaN
        values[group] = measured[0] if group in questions else measured
    by_labeler = {}
    for group in values:
        if group != first:
            both = (values[first], values[group])
            scored = ~np.isnan(np.vstack(both)).any(axis=0)
            one, two = (measured[..., scored] for measured in both)
            by_labeler[group] = {
                "lead": rounded(float(one.mean() - two.mean())),
                "interval": interval_over_questions_and_seeds(one, two),
            }
    return by_labeler


def _labeler_of(run: str) -> str:
    """Return the labeler of a run ``LABELER-SEED``; a name without a seed stands for itself."""
    return run.rpartition("-")[0] or run


def markdown(results: Mapping[str, Any], config: CompareConfig, counts: Mapping[str, int]) -> str:
    """Return the results as a Markdown page.

    Args:
        results: Content of ``results.json``.
        config: Settings of the comparison.
        counts: Numbers of ``train`` and ``test`` questions.
    """
    measures = {name: row for name, row in results.items() if name != "comparison"}
    lines = [
        f"# Labels compared: {config.input}",
        "",
        f"{counts['train']} training and {counts['test']} test questions, {len(config.seeds)} seeds, mean ± sd; loss "
        f"`{config.loss}`, candidates `{config.candidates}` (top {config.top_k}), reader `{config.reader}`.",
        "",
        measures_table(measures),
    ]
    for reader, others in results["comparison"].items():
        held_out = "" if reader == config.reader else " (made no labels)"
        lines += [
            "",
            f"SePer@{config.eval_top_k} of `{reader}`{held_out}, lead of `{config.labelers[0]}` with its 95 % "
            "interval over questions and seeds:",
            "",
            *(f"- over `{name}`: {row['lead']:+.3f} {row['interval'] or '(none)'}" for name, row in others.items()),
        ]
    return "\n".join(lines) + "\n"


def main(argv: Sequence[str] | None = None) -> int:
    """Train a retriever per labeler and seed, measure all, and write the results; return 0."""
    parser = TrlParser((CompareConfig, RetrieverArguments), prog="python -m trainers.compare_labelers")
    config, arguments = parser.parse_args_and_config(argv)
    folder, questions, scorer, readers = begin(config, arguments)
    labeling = {seed: scorer.with_sampling(seed=int(seed)) for seed in config.seeds}
    untrained = load_encoder(config.model)
    rankings = {UNTRAINED: rank(untrained, questions.corpus, questions.test, config.eval_top_k, config.hops)}
    pool = propose(untrained, config, questions)  # candidates of the first round, the same for all labelers
    for name in config.labelers:
        for seed in config.seeds:
            title = f"{Path(name).name}-{seed}"
            run = RetrieverRun(
                _retriever_config(config, name),
                replace(arguments, output_dir=str(folder / title), seed=int(seed)),
                questions,
                labeling[seed],
                pool,
            )
            rankings[title] = rank(run.train(), questions.corpus, questions.test, config.eval_top_k, config.hops)
    measures = measure_rankings(rankings, questions.test, readers)
    by_question = {name: row.pop("questions") for name, row in measures.items()}
    comparison = {
        reader: leads({name: rows[reader] for name, rows in by_question.items()}, Path(config.labelers[0]).name)
        for reader in readers.scorers
    }
    by_labeler = aggregate(measures)
    results = {**by_labeler, "comparison": comparison}
    if process_state().is_main_process:
        write_json(folder / RESULTS, results)
        write_json(folder / "questions.json", by_question)
        counts = {"train": len(questions.train), "test": len(questions.test)}
        (folder / "results.md").write_text(markdown(results, config, counts), encoding="utf-8")
        plot_ranking(by_labeler, folder / "results.svg")
        print(markdown(results, config, counts))
    return 0


def _retriever_config(config: CompareConfig, name: str) -> RetrieverConfig:
    """Return the settings of a retriever that one labeler's labels train."""
    own = {each.name: getattr(config, each.name) for each in fields(RetrieverConfig)}
    temperature = config.temperatures().get(name, config.teacher_temperature)
    return RetrieverConfig(**{**own, "labeler": name, "teacher_temperature": temperature})


if __name__ == "__main__":
    sys.exit(main())
