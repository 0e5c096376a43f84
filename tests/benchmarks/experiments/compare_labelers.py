"""Which labels train the better retriever, with the same questions, candidates, reader, budget and seeds?

    python -m tests.benchmarks.experiments.compare_labelers --config FILE   # compare-popqa-gain.yaml in configs/

First prints what each kind of label chooses (label_table.json and .md; `--table_only true` ends there). Then trains
one retriever per labeler and seed with `trainers.retriever`'s settings, measures all of them and the untrained one on
the held-out questions, and writes results.json, results.md and results.svg. Each seed samples new responses for its
labels, and the intervals cover this. If the labels of no question differ, the retriever stays untrained. The same
command resumes.
"""

import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sentence_transformers import SentenceTransformer

from seper_reward.data.marks import is_relevant
from seper_reward.labels.labelers import parse_labeler
from seper_reward.labels.rows import DELTA_SEPER, SUFFIXES
from seper_reward.options import setting
from seper_reward.reports.figures import plot_ranking
from seper_reward.reports.tables import lead_text, measures_table
from seper_reward.retrieval import DenseRetriever
from seper_reward.runtime.distributed import process_state
from seper_reward.runtime.json_files import write_json
from seper_reward.runtime.messages import say
from seper_reward.runtime.parser import parse_options
from seper_reward.statistics import Statistic, rounded
from seper_reward.types import Query
from tests.benchmarks.experiments.label_table import (
    UNTRAINED,
    as_ranked,
    label_table,
    table_lines,
)
from tests.benchmarks.experiments.only_head import HeadConfig, learn, retriever_of
from tests.benchmarks.experiments.questions import ExperimentConfig, as_known, read_questions
from tests.benchmarks.experiments.seeds import interval_over_questions_and_seeds
from trainers.models import load_encoder
from trainers.ranking.data import Questions
from trainers.ranking.evaluation import Rankings, measure_rankings, rank_by
from trainers.ranking.labelling import propose
from trainers.ranking.run import RESULTS, NothingToLearn, RankingRun, begin, labeler_for
from trainers.retriever import RetrieverArguments, train_rounds
from trainers.runs import locked, suggest

_MARKS = "gold"  # the labeler of people's marks, whose choice is always shown
_TABLE = "label_table"  # the table's field in the results, and the name of its files
OTHER_FIELDS = ("comparison", "primary", "untaught", _TABLE)  # of the results, beside those of the labelers


class Parts(NamedTuple):
    """Settings that the name of a labeler in a comparison stands for."""

    sets: str
    labeler: str
    label: str | None


@dataclass(frozen=True)
class CompareConfig(HeadConfig, ExperimentConfig):
    """Compare labelers by the retrievers that their labels train."""

    labelers: list[str] = setting(
        ["delta_seper", "erag", "likelihood", "gold"],
        "Labelers to compare, as in labeler, or the labels delta_seper_hard and delta_belief; the lead of the first "
        "over each other one is reported. One that starts with conditional_ labels sets (given_top), and "
        "its retriever learns the paths to the best one.",
    )
    teacher_temperatures: list[str] = setting(
        ["likelihood=1.0"],
        "LABELER=T: teacher temperature for labels of another scale, and for those of sets that this labeler makes; "
        "other labelers take teacher_temperature.",
    )
    seeds: list[str] = setting(
        ["0", "1", "2"],
        "Seeds, one retriever per labeler and seed: of training (order and dropout) and of the responses that its "
        "labels are measured on; with one, intervals are over questions alone.",
    )
    given_top: int = setting(3, "Number of best sets next to which conditional_ labels measure passages, >= 1.")
    judge_seed: int = setting(777, "Seed of the responses by which readers judge what labels chose; none of seeds.")
    table_only: bool = setting(False, "Whether to end with the label table, without any training.")

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("labeler", "label", "sets", "learn_from"):
            if getattr(self, name) != getattr(HeadConfig, name):
                raise ValueError(
                    f"labelers says what is compared, and {name} would not count; leave it out, and write, for "
                    "example, labelers: [conditional_delta_seper, gold]"
                )
        for name in self.labelers:
            parse_labeler(self.parts(name).labeler)
        for name in self.temperatures():
            parse_labeler(self.parts(name).labeler)
        if not self.labelers or not self.seeds or not all(seed.isdecimal() for seed in self.seeds):
            raise ValueError(f"expected labelers, and whole numbers as seeds, got {self.labelers} and {self.seeds}")
        if sorted(self.seeds) != sorted({str(int(seed)) for seed in self.seeds}):
            raise ValueError(f"expected each seed once, without leading zeros, got {self.seeds}")
        if len({Path(name).name for name in self.labelers}) < len(self.labelers):
            raise ValueError(f"labelers must have names of their own, got {self.labelers}; rename a folder")
        if self.judge_seed in map(int, self.seeds):
            raise ValueError(
                f"judge_seed must be none of seeds, got {self.judge_seed} and {self.seeds}: labels would be judged by "
                "the responses that they were measured on"
            )

    @property
    def primary_reader(self) -> str:
        """The reader whose SePer is the primary measure: the first that made no labels, else the one that did."""
        return (*self.eval_readers, self.reader)[0]

    def parts(self, name: str) -> "Parts":
        """Return the settings that a name stands for."""
        labeler = name.removeprefix("conditional_")
        sets = "none" if labeler == name else f"conditional:given_top={self.given_top}"
        if labeler in SUFFIXES:
            return Parts(sets, DELTA_SEPER, labeler)
        return Parts(sets, labeler, None)

    def of(self, name: str) -> HeadConfig:
        """Return the settings of a retriever that the labels of this name train."""
        own = {each.name: getattr(self, each.name) for each in fields(HeadConfig)}
        sets, labeler, label = self.parts(name)
        temperatures = self.temperatures()
        temperature = temperatures.get(name, temperatures.get(labeler, self.teacher_temperature))
        paths = sets != "none" or (self.hops > 1 and labeler == _MARKS)
        return HeadConfig(
            **{
                **own,
                "labeler": labeler,
                "label": label,
                "sets": sets,
                "learn_from": "paths" if paths else "singles",
                "teacher_temperature": temperature,
            }
        )

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
    """Return mean and standard deviation over seeds (``mean``, ``sd``), by labeler and measure."""
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
    """Return how far ``first`` leads each other labeler in SePer, with a 95 % interval."""
    values: dict[str, Any] = {}
    for group in dict.fromkeys(map(_labeler_of, questions)):
        runs = [rows for name, rows in questions.items() if _labeler_of(name) == group]
        measured = np.array([[row["seper"] for row in rows] for rows in runs], dtype=float)  # (S, Q), None as NaN
        values[group] = measured[0] if len(measured) == 1 else measured
    by_labeler = {}
    for group in values:
        if group != first:
            both = (values[first], values[group])
            scored = ~np.isnan(np.vstack(both)).any(axis=0)
            one, two = (measured[..., scored] for measured in both)
            by_labeler[group] = {
                "value": rounded(float(one.mean() - two.mean())),
                "interval": interval_over_questions_and_seeds(one, two),
            }
    return by_labeler


def rank_for_test(
    model: SentenceTransformer, name: str, seed: str, config: HeadConfig, questions: Questions, embeddings: Path
) -> dict[str, Rankings]:
    """Return how a retriever ranks the corpus for the test questions, by name; all processes must call this together.

    One that learned from hops retrieves in as many; one that did not retrieves at once and, under a name that ends in
    ``_in_hops``, in hops, too, so that it is compared at its best.
    """
    ways = {name: 1}
    if config.hops > 1:
        learned = seed and config.learn_from == "paths"
        ways = {name: config.hops} if learned else {name: 1, f"{name}_in_hops": config.hops}
    # embeddings of trained weights are used here alone, and not kept
    retriever = retriever_of(model, config, questions.corpus, embeddings, keep=not seed)
    return {f"{way}{seed}": rank_by(retriever, questions.test, config.eval_top_k, hops) for way, hops in ways.items()}


def _labeler_of(run: str) -> str:
    """Return the labeler of a run ``LABELER-SEED``; a name without a seed stands for itself."""
    return run.rpartition("-")[0] or run


def choices_of_labels(config: CompareConfig, run: RankingRun, pool: Sequence[Query]) -> dict[str, Any]:
    """Return what each kind of label chooses, people's marks among them; all processes must call this together."""
    names = list(config.labelers)
    marked = any(is_relevant(passage) for query in run.questions.test for passage in query.passages)
    if marked and _MARKS not in {Path(name).name for name in names}:
        names.append(_MARKS)
    labeling = run.scorer.with_sampling(seed=int(config.seeds[0]))
    labelers = {Path(name).name: labeler_for(config.of(name), labeling) for name in names}
    scorers = {name: each.with_sampling(seed=config.judge_seed) for name, each in run.readers.scorers.items()}
    return label_table(run.questions.test, pool, labelers, replace(run.readers, scorers=scorers))


def table_markdown(found: Mapping[str, Any], config: CompareConfig, primary: str) -> str:
    """Return what ``label_table`` found as Markdown; ``primary`` is the name of the primary measure."""
    lines = [
        f"## What the labels choose: {config.input}",
        "",
        f"{found['questions']} test questions, candidates `{config.candidates}`: the best {config.eval_top_k} by "
        f"labels of seed {config.seeds[0]}, judged by `{config.reader}` with seed {config.judge_seed} and by readers "
        "that made no labels; mean and 95 % interval over questions:",
        "",
        *table_lines(found),
        "",
        f"Primary measure: `{primary}`. Lead of the choice of `{Path(config.labelers[0]).name}`:",
        "",
        *(
            f"- over `{name}`: "
            + (lead_text(Statistic(**row[primary])) if row[primary]["value"] is not None else "no question is scored")
            for name, row in found["leads"].items()
        ),
    ]
    return "\n".join(lines) + "\n"


def markdown(results: Mapping[str, Any], config: CompareConfig, counts: Mapping[str, int]) -> str:
    """Return the results as a Markdown page."""
    measures = {name: row for name, row in results.items() if name not in OTHER_FIELDS}
    lines = [
        f"# Labels compared: {config.input}",
        "",
        f"{counts['train']} training and {counts['test']} test questions, {len(config.seeds)} seeds, mean ± sd; loss "
        f"`{config.loss}`, candidates `{config.candidates}` (top {config.top_k}), reader `{config.reader}`.",
        "",
        measures_table(measures),
    ]
    for name, seeds in results["untaught"].items():
        which = ", ".join(map(str, seeds))
        lines += [
            "",
            f"Labels by `{name}` of seeds {which} differ for no question: their retriever is the untrained one.",
        ]
    for reader in sorted(results["comparison"], key=lambda reader: reader != config.primary_reader):
        primary = f"Primary measure (`{results['primary']}`): " if reader == config.primary_reader else ""
        held_out = "" if reader == config.reader else " (made no labels)"
        others = results["comparison"][reader]
        lines += [
            "",
            f"{primary}SePer@{config.eval_top_k} of `{reader}`{held_out}, lead of `{Path(config.labelers[0]).name}` "
            f"with its 95 % interval over questions{' and seeds' if len(config.seeds) > 1 else ''}:",
            "",
            *(f"- over `{name}`: {lead_text(Statistic(**row))}" for name, row in others.items()),
        ]
    return "\n".join(lines) + "\n\n" + table_markdown(results[_TABLE], config, results["primary"])


def trained(
    config: HeadConfig, arguments: RetrieverArguments, run: RankingRun, pool: list[Query], folder: Path, seed: int
) -> SentenceTransformer | None:
    """Return the retriever that one kind of label trains with a seed, or ``None`` if the labels of no question differ.

    All processes must call this together.
    """
    own: dict[str, Any] = {"output_dir": str(folder), "seed": seed}  # fields that mypy does not see
    try:
        labeling = run._replace(folder=folder, scorer=run.scorer.with_sampling(seed=seed))
        return train_rounds(labeling, config, replace(arguments, **own), pool, learn)
    except NothingToLearn as reason:
        if config.rounds > 1:  # an earlier round may have taught something
            raise
        if process_state().is_main_process:
            say(f"{folder.name}: {reason}; its retriever is the untrained one")
        return None


def main(argv: Sequence[str] | None = None) -> int:
    """Print the label table, train a retriever per labeler and seed, measure all, and write the results; return 0."""
    kinds = (CompareConfig, RetrieverArguments)
    config, arguments = parse_options(kinds, argv, "python -m tests.benchmarks.experiments.compare_labelers")
    with locked(Path(arguments.output_dir)):
        compare(config, arguments)
    return 0


def compare(config: CompareConfig, arguments: RetrieverArguments) -> None:
    """Write the label table and the comparison of trained retrievers; all processes must call this together."""
    started = begin(config, arguments, read_questions)
    folder, embeddings, questions, _, readers = started
    untrained = load_encoder(config.model, config.max_seq_length)
    # candidates of the first round, the same for all labelers; those of all questions at once embed the corpus once
    everyone = propose(
        config,
        [*questions.train, *questions.test],
        lambda: DenseRetriever(untrained, questions.corpus, share=True, cache_dir=embeddings),
    )
    everyone = as_ranked(untrained, everyone, embeddings)
    pool, test_pool = everyone[: len(questions.train)], everyone[len(questions.train) :]
    primary = "seper" + readers.suffix(config.primary_reader)
    table = choices_of_labels(config, started, as_known(test_pool, config))
    if process_state().is_main_process:
        write_json(folder / f"{_TABLE}.json", {"primary": primary, **table})
        (folder / f"{_TABLE}.md").write_text(table_markdown(table, config, primary), encoding="utf-8")
        print(table_markdown(table, config, primary))
    if config.table_only:
        return
    rankings = rank_for_test(untrained, UNTRAINED, "", config, questions, embeddings)
    untaught: dict[str, list[int]] = {}
    for name in config.labelers:
        own, title = config.of(name), Path(name).name
        for seed in config.seeds:
            model = trained(own, arguments, started, pool, folder / f"{title}-{seed}", int(seed))
            if model is None:
                untaught.setdefault(title, []).append(int(seed))
                model = load_encoder(own.model, own.max_seq_length)
            rankings |= rank_for_test(model, title, f"-{seed}", own, questions, embeddings)
    measures = measure_rankings(rankings, questions.test, readers)
    by_question = {name: row.pop("questions") for name, row in measures.items()}
    comparison = {
        reader: leads({name: rows[reader] for name, rows in by_question.items()}, Path(config.labelers[0]).name)
        for reader in readers.scorers
    }
    by_labeler = aggregate(measures)
    results = {**by_labeler, "comparison": comparison, "primary": primary, "untaught": untaught, _TABLE: table}
    if process_state().is_main_process:
        write_json(folder / RESULTS, results)
        write_json(folder / "questions.json", by_question)
        counts = {"train": len(questions.train), "test": len(questions.test)}
        (folder / "results.md").write_text(markdown(results, config, counts), encoding="utf-8")
        plot_ranking(by_labeler, folder / "results.svg")
        print(markdown(results, config, counts))
    suggest(f"seper-reward train retriever --labeler {config.labelers[0]} --input {config.input}")


if __name__ == "__main__":
    sys.exit(main())
