"""Which labels train the better retriever, with the same questions, candidates, reader, budget and seeds?

    python -m tests.benchmarks.experiments.compare_labelers --config FILE

First prints what each kind of label chooses (choices.md; `--table_only true` ends there). Then trains one retriever
per labeler and seed with `trainers.retriever`'s settings, measures all of them and the untrained one on the held-out
questions, and writes results.json and results.md. Each seed samples new responses for its labels, and the intervals
cover this. If the labels of no question differ, the retriever stays untrained. The same command resumes.
"""

import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from sentence_transformers import SentenceTransformer

from seper_reward.data.marks import is_relevant
from seper_reward.data.splits import split_of, spread
from seper_reward.labels.labelers import parse_labeler
from seper_reward.labels.rows import DELTA_SEPER, SUFFIXES
from seper_reward.options import pick, setting
from seper_reward.reports.tables import lead_text
from seper_reward.retrieval import DenseRetriever
from seper_reward.retrieval.embeddings import Embedder
from seper_reward.runtime.distributed import process_state
from seper_reward.runtime.json_files import write_json
from seper_reward.runtime.messages import say
from seper_reward.runtime.parser import parse_options
from seper_reward.statistics import Statistic, mean_or_none, rounded
from seper_reward.types import LabeledQuery, Passage, Query
from tests.benchmarks.experiments.seeds import interval_over_questions_and_seeds
from trainers.models import load_encoder
from trainers.options import RetrieverConfig
from trainers.ranking.data import Questions, questions_by_split, read_source
from trainers.ranking.evaluation import RankingReaders, Rankings, measure_rankings, rank_by
from trainers.ranking.labelling import label, propose
from trainers.ranking.run import RESULTS, NothingToLearn, RankingRun, begin, labeler_for
from trainers.ranking.tables import measures_table
from trainers.retriever import RetrieverArguments, train_rounds
from trainers.runs import locked, suggest

_MARKS = "gold"  # the labeler by human relevance labels, whose choice is always shown
UNTRAINED = "untrained"  # the retriever before training, and the candidates that it ranks first


class CompareConfig(RetrieverConfig):
    """Compare labelers by the retrievers that their labels train."""

    labelers: list[str] = setting(
        ["delta_seper", "erag", "likelihood", "gold"],
        "Labelers to compare, as in labeler, or the labels delta_seper_hard and delta_belief; the lead of the first "
        "over each other one is reported.",
    )
    teacher_temperatures: list[str] = setting(
        ["likelihood=1.0"],
        "LABELER=T: teacher temperature for labels of another scale; other labelers take teacher_temperature.",
    )
    seeds: list[int] = setting(
        [0, 1, 2],
        "Seeds, one retriever per labeler and seed: of training (order and dropout) and of the responses that its "
        "labels are measured on; with one, intervals are over questions alone.",
    )
    judge_seed: int = setting(777, "Seed of the responses by which readers judge what labels chose; none of seeds.")
    table_only: bool = setting(False, "Whether to end with the label table, without any training.")
    half: Literal["first", "second"] | None = setting(
        None,
        "Half of the questions, by SHA-1 of their ids, to train on; the other half is tested, except questions with "
        "the field train_only, which are trained on as well (default: the splits of test_share).",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("labeler", "label", "sets", "learn_from"):
            if getattr(self, name) != getattr(RetrieverConfig, name):
                raise ValueError(
                    f"labelers says what is compared, and {name} would not count; leave it out, and write, for "
                    "example, labelers: [delta_seper, gold]"
                )
        for name in (*self.labelers, *self.temperatures()):
            parse_labeler(self.of(name).labeler)
        if not self.labelers or not self.seeds or len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"expected labelers, and each seed once, got {self.labelers} and {self.seeds}")
        if len(set(map(_title, self.labelers))) < len(self.labelers):
            raise ValueError(f"labelers must have names of their own, got {self.labelers}; rename a folder")
        if self.judge_seed in self.seeds:
            raise ValueError(
                f"judge_seed must be none of seeds, got {self.judge_seed} and {self.seeds}: labels would be judged by "
                "the responses that they were measured on"
            )

    def of(self, name: str) -> RetrieverConfig:
        """Return the settings of a retriever that the labels of this name train."""
        is_label = name in SUFFIXES
        return pick(
            RetrieverConfig,
            self,
            labeler=DELTA_SEPER if is_label else name,
            label=name if is_label else None,
            teacher_temperature=self.temperatures().get(name, self.teacher_temperature),
        )

    def temperatures(self) -> dict[str, float]:
        """Return the teacher temperatures that differ from ``teacher_temperature``, by labeler."""
        try:
            return {name: float(value) for name, value in (each.split("=") for each in self.teacher_temperatures)}
        except ValueError as error:
            raise ValueError(
                f"teacher_temperatures must be LABELER=NUMBER, got {self.teacher_temperatures}"
            ) from error


def _title(name: str) -> str:
    return Path(name).name


def read_questions(config: CompareConfig) -> Questions:
    """Read the questions that the settings keep, and split them as ``trainers.ranking.data.read_questions`` does."""
    queries, corpus = read_source(config.input, config.corpus, config)
    if config.half is None:
        return questions_by_split(spread(queries, config.limit), corpus, config)
    return halves(spread(queries, config.limit), corpus or {}, config.half)


def halves(queries: Sequence[Query], corpus: Mapping[str, Passage], half: str) -> Questions:
    """Return one half of the questions to train on and the other one to test on; those of ``train_only`` train."""
    name = "train" if half == "first" else "test"
    train = [
        bool(query.metadata.get("train_only")) or split_of(query.id, test_share=0.5, dev_share=0.0) == name
        for query in queries
    ]
    own = [query for query, taught in zip(queries, train, strict=True) if taught]
    return Questions(corpus, own, [], [query for query, taught in zip(queries, train, strict=True) if not taught])


def as_ranked(encoder: SentenceTransformer, pools: Sequence[Query], cache_dir: Path | None = None) -> list[Query]:
    """Return the questions with their candidates in the order in which a bi-encoder ranks them.

    So equal labels choose what the retriever ranks first, and not what a file gives first, which is often marked.
    """
    texts = list(dict.fromkeys(passage.full_text for query in pools for passage in query.passages))
    embedder = Embedder(encoder)
    vectors = dict(zip(texts, embedder.passages(texts, cache_dir, share=True), strict=True))
    ordered = []
    for query, question in zip(pools, embedder.questions([query.question for query in pools]), strict=True):
        near = [float(vectors[passage.full_text] @ question) for passage in query.passages]
        places = sorted(range(len(near)), key=lambda place: -near[place])
        ordered.append(replace(query, passages=tuple(query.passages[place] for place in places)))
    return ordered


def choices(config: CompareConfig, run: RankingRun, pool: Sequence[Query]) -> tuple[list[Query], dict[str, Rankings]]:
    """Return the questions that all labelers can label, and what each of them and the retriever chooses of the pool.

    All processes must call this together.
    """
    names = list(config.labelers)
    if _MARKS not in names and any(is_relevant(passage) for query in pool for passage in query.passages):
        names.append(_MARKS)
    scorer = run.scorer.with_sampling(seed=config.seeds[0])
    labelers = {_title(name): labeler_for(config.of(name), scorer) for name in names}
    rows = {
        name: {row.query.id: row for row in label(labeler, pool, labeler.name)[0]}
        for name, labeler in labelers.items()
    }
    queries = [query for query in pool if all(query.id in own for own in rows.values())]
    chosen: dict[str, Rankings] = {UNTRAINED: [query.passages[: config.eval_top_k] for query in queries]}
    for name, own in rows.items():
        places = [best(own[query.id], config.eval_top_k) for query in queries]
        chosen[name] = [tuple(query.passages[at] for at in row) for query, row in zip(queries, places, strict=True)]
    return queries, chosen


def best(labeled: LabeledQuery, k: int) -> list[int]:
    """Return the positions of the ``k`` >= 1 best passages by a query's labels; equal ones keep the query's order."""
    return sorted(range(len(labeled.labels)), key=lambda at: -labeled.labels[at])[:k]


def measure(
    rankings: Mapping[str, Rankings], queries: Sequence[Query], readers: RankingReaders, first: str
) -> dict[str, Any]:
    """Return ``measures`` by labeler, ``leads`` of the first by reader, and by run all numbers of ``questions``."""
    questions = measure_rankings(rankings, queries, readers)
    measures = {name: {key: mean_or_none(values) for key, values in row.items()} for name, row in questions.items()}
    columns = {reader: f"seper{readers.suffix(reader)}" for reader in readers.scorers}
    found = {
        reader: leads({name: row[key] for name, row in questions.items()}, first) for reader, key in columns.items()
    }
    ids = [query.id for query in queries]
    return {"measures": aggregate(measures), "leads": found, "questions": questions, "ids": ids}


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


def leads(questions: Mapping[str, Sequence[float | None]], first: str) -> dict[str, dict[str, Any]]:
    """Return how far ``first`` leads each other labeler in SePer by run and question, with a 95 % interval."""
    values: dict[str, Any] = {}
    for group in dict.fromkeys(map(_labeler_of, questions)):
        runs = [rows for name, rows in questions.items() if _labeler_of(name) == group]
        measured = np.array(runs, dtype=float)  # (S, Q), None as NaN
        values[group] = measured[0] if len(measured) == 1 else measured
    by_labeler = {}
    for group in values:
        if group != first:
            both = (values[first], values[group])
            scored = ~np.isnan(np.vstack(both)).any(axis=0)
            one, two = (measured[..., scored] for measured in both)
            by_labeler[group] = {
                "value": rounded(float(one.mean() - two.mean())) if scored.any() else None,
                "interval": interval_over_questions_and_seeds(one, two),
            }
    return by_labeler


def _labeler_of(run: str) -> str:
    """Return the labeler of a run ``LABELER-SEED``; a name without a seed stands for itself."""
    name, _, seed = run.rpartition("-")
    return name if seed.isdecimal() else run


def rank_for_test(
    model: SentenceTransformer, config: RetrieverConfig, run: RankingRun, trained: bool = True
) -> Rankings:
    """Return how a retriever ranks the corpus for the test questions; all processes must call this together."""
    # embeddings of trained weights are used here alone, and not kept
    cache_dir = None if trained else run.embeddings
    retriever = DenseRetriever(model, run.questions.corpus, share=True, cache_dir=cache_dir)
    return rank_by(retriever, run.questions.test, config.eval_top_k, config.hops)


def markdown(title: str, found: Mapping[str, Any], config: CompareConfig) -> str:
    """Return measures and leads as Markdown, those of a reader that made no labels first."""
    lines = [f"## {title}", "", measures_table(found["measures"])]
    for reader in sorted(found["leads"], key=lambda each: each == config.reader):
        held_out = "" if reader == config.reader else " (made no labels)"
        over = " and seeds" if len(config.seeds) > 1 else ""
        lines += [
            "",
            f"SePer@{config.eval_top_k} of `{reader}`{held_out}, lead of `{_title(config.labelers[0])}` with its 95 % "
            f"interval over questions{over}:",
            "",
            *(f"- over `{name}`: {lead_text(Statistic(**row))}" for name, row in found["leads"][reader].items()),
        ]
    return "\n".join(lines) + "\n"


def main(argv: Sequence[str] | None = None) -> int:
    """Print the label table, train a retriever per labeler and seed, measure all, and write the results; return 0."""
    kinds = (CompareConfig, RetrieverArguments)
    config, arguments = parse_options(kinds, argv, "python -m tests.benchmarks.experiments.compare_labelers")
    with locked(Path(arguments.output_dir)):
        compare(config, arguments)
    return 0


def compare(config: CompareConfig, arguments: RetrieverArguments) -> None:
    """Write the label table and the comparison of trained retrievers; all processes must call this together."""
    run = begin(config, arguments, read_questions)
    folder, questions, first = run.folder, run.questions, _title(config.labelers[0])
    untrained = load_encoder(config.model, config.max_seq_length)
    # candidates of the first round, the same for all labelers; those of all questions at once embed the corpus once
    everyone = propose(
        config,
        [*questions.train, *questions.test],
        lambda: DenseRetriever(untrained, questions.corpus, share=True, cache_dir=run.embeddings),
    )
    everyone = as_ranked(untrained, everyone, run.embeddings)
    pool, test_pool = everyone[: len(questions.train)], everyone[len(questions.train) :]
    chosen_for, chosen = choices(config, run, test_pool)
    judges = {name: each.with_sampling(seed=config.judge_seed) for name, each in run.readers.scorers.items()}
    table = measure(chosen, chosen_for, replace(run.readers, scorers=judges), first)
    text = markdown(f"What the labels choose: {len(chosen_for)} questions of {config.input}", table, config)
    _write(folder / "choices.json", table, text)
    if config.table_only:
        return
    rankings = {UNTRAINED: rank_for_test(untrained, config, run, trained=False)}
    untaught: dict[str, list[int]] = {}
    for name in config.labelers:
        own, title = config.of(name), _title(name)
        for seed in config.seeds:
            model = _trained(own, arguments, run, pool, f"{title}-{seed}", seed)
            if model is None:
                untaught.setdefault(title, []).append(seed)
            rankings[f"{title}-{seed}"] = rank_for_test(model or untrained, own, run)
    results = {**measure(rankings, questions.test, run.readers, first), "untaught": untaught, "choices": table}
    text = markdown(f"Labels compared: {config.input}", results, config) + "\n" + text
    for title, seeds in untaught.items():
        text += f"\nLabels by `{title}` of seeds {seeds} differ for no question: the retriever stays untrained.\n"
    _write(folder / RESULTS, results, text)
    suggest(f"seper-reward train retriever --labeler {config.labelers[0]} --input {config.input}")


def _trained(
    config: RetrieverConfig,
    arguments: RetrieverArguments,
    run: RankingRun,
    pool: list[Query],
    name: str,
    seed: int,
) -> SentenceTransformer | None:
    """Return the retriever that one kind of label trains with a seed, or ``None`` if the labels of no question differ.

    All processes must call this together.
    """
    folder = run.folder / name
    own: dict[str, Any] = {"output_dir": str(folder), "seed": seed}  # fields that mypy does not see
    try:
        labeling = run._replace(folder=folder, scorer=run.scorer.with_sampling(seed=seed))
        return train_rounds(labeling, config, replace(arguments, **own), pool)
    except NothingToLearn as reason:
        if config.rounds > 1:  # an earlier round may have taught something
            raise
        if process_state().is_main_process:
            say(f"{name}: {reason}; its retriever is the untrained one")
        return None


def _write(path: Path, found: Mapping[str, Any], text: str) -> None:
    if process_state().is_main_process:
        write_json(path, found)
        path.with_suffix(".md").write_text(text, encoding="utf-8")
        print(text)


if __name__ == "__main__":
    sys.exit(main())
