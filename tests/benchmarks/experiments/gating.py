"""Whether to use a passage at all: a reranker learns ΔSePer itself, and its zero decides.

    python -m tests.benchmarks.experiments.gating --config tests/benchmarks/experiments/configs/gating-demo.yaml

Labels candidates of training questions, trains a model to predict the labels by regression, fixes thresholds on the
dev questions, and compares on the test questions: a passage never, always, or where a gate says so. With --folds, each
question is a test question once. The same command resumes.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, cast

import torch
from sentence_transformers import CrossEncoder, SentenceTransformer

from seper_reward.labels.labelers import CrossEncoderLabeler
from seper_reward.labels.rows import DELTA_SEPER, LABELS
from seper_reward.labels.summary import label_statistics
from seper_reward.reports.figures import legend_beside, new_figure, save_figure
from seper_reward.reports.tables import cell, lead_text, markdown_table
from seper_reward.runtime.cache import trainer_cache
from seper_reward.runtime.distributed import process_state, together
from seper_reward.runtime.json_files import write_json
from seper_reward.runtime.parser import parse_settings
from seper_reward.runtime.pretrained import EMBEDDED
from seper_reward.runtime.settings import setting
from seper_reward.types import Belief, LabeledQuery
from tests.benchmarks.experiments.gates import answered, decide, gates, gating_results, measure, over_folds, thresholds
from tests.benchmarks.experiments.questions import ExperimentConfig, read_questions
from tests.benchmarks.experiments.regression import PassageRegression, Predictor
from tests.benchmarks.experiments.score_regression import train
from trainers.models import base_name, load_encoder
from trainers.policy_task import closed_book_beliefs
from trainers.ranking.candidates import candidates, corpus_retriever, propose
from trainers.ranking.data import Questions
from trainers.ranking.label_store import LabelStore
from trainers.ranking.run import RESULTS, begin, claim_ranking_folder, labeler_for
from trainers.reranker import RerankerArguments, load_cross_encoder
from trainers.runs import locked, stopwatch, suggest, tracked_run

REGRESSION = "regression.json"


@dataclass
class GatingConfig(ExperimentConfig):
    """Learn to predict ΔSePer by regression, and decide by it whether to use a passage at all."""

    unused = (
        "labeler", "sets", "given_top", "depth", "learn_from", "hops", "shrink", "heterogeneity",
        "min_spread", "resolution", "eval_gains", "eval_top_k",
    )  # fmt: skip

    model: str = setting(
        EMBEDDED,
        "Cross-encoder to train: 'embedded' (the embedded entailment model with a new head), a hub id or a folder.",
    )
    pair_tokens: int | None = setting(
        None, "Most tokens of a question with a passage, >= 2 (default: the model's own limit)."
    )
    retriever: str = setting(EMBEDDED, "Bi-encoder that proposes passages: 'embedded', a hub id or a folder.")
    error_floor: float = setting(
        0.1,
        "A label weighs 1 / (std_error² + error_floor²), > 0: its possible error in addition to the sampling of "
        "responses; great values weigh all labels alike.",
    )
    student: Literal["ridge", "cross_encoder"] = setting(
        "ridge",
        "What learns the labels: ridge (a regression on the retriever's embeddings, for some hundred labels) or "
        "cross_encoder (the model, fine-tuned; for thousands of labels, or a model that reranks already).",
    )
    closed_book: bool = setting(
        True,
        "Whether the ridge also knows what the reader answers without a passage: how sure it is, and whether the "
        "passage states it. The reader is then asked before the gate.",
    )
    dev_share: float = setting(0.15, "Share of questions that the thresholds are fixed on, above 0.")
    eval_gains: bool = setting(False, "Whether rankings are measured by labels: no.")
    groups: list[str] = setting([], "Groups of questions to use, by their field group (default: all questions).")
    judging_seed: int = setting(
        1, "Seed of the responses that the rules are measured on; another than that of the labels (seed)."
    )
    folds: int = setting(
        1,
        "Number of runs, each in a folder fold-N, of which each holds other questions out; from 2 on, the share of "
        "test questions follows from it, and the results are over all questions.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.error_floor > 0:
            raise ValueError(f"error_floor must be above 0, got {self.error_floor}")
        if self.pair_tokens is not None and self.pair_tokens < 2:
            raise ValueError(f"pair_tokens must be at least 2, got {self.pair_tokens}")
        if self.labeler != DELTA_SEPER:
            raise ValueError(f"labeler must be {DELTA_SEPER}, whose labels have a zero, got {self.labeler!r}")
        if self.sets != "none" or self.hops > 1:
            raise ValueError(
                f"a gate decides on single passages, got sets={self.sets} and hops={self.hops}; take none and 1"
            )
        if not self.dev_share:
            raise ValueError("dev_share must be above 0: the thresholds are fixed on dev questions")
        if self.folds < 1:
            raise ValueError(f"folds must be at least 1, got {self.folds}")

    @property
    def gate_label(self) -> str:
        """The label that the gate learns, also its name."""
        return self.label or DELTA_SEPER


@dataclass
class GatingArguments(RerankerArguments):
    """sentence-transformers' training arguments, for a student that is fine-tuned."""

    output_dir: str = field(
        default="runs/gating",
        metadata={"help": "Folder of the run; the same command resumes an interrupted run there."},
    )


def of_groups(questions: Questions, groups: Sequence[str]) -> Questions:
    """Return the questions of some groups, with the whole corpus; of all if no group is named.

    Raises:
        ValueError: A split has no question of these groups.
    """
    if not groups:
        return questions
    splits = {
        name: [query for query in getattr(questions, name) if query.metadata.get("group") in groups]
        for name in ("train", "dev", "test")
    }
    for name, rows in splits.items():
        if not rows:
            raise ValueError(f"expected questions of groups={list(groups)} for {name}, got none; name others")
    return Questions(questions.corpus, **splits)


def markdown(results: Mapping[str, Any], config: GatingConfig) -> str:
    """Return ``results.json`` as a Markdown page."""
    columns = list(results["gating"][config.gate_label])
    counts = results["questions"]
    if config.folds == 1:
        folds, of_gates = "", "; one that is a dash with a gate says never or always"
    else:
        folds, of_gates = f" (sums over {config.folds} folds)", " of each fold"
    lines = [
        f"# Whether to use a passage: {config.input}",
        "",
        f"{counts['train']} training, {counts['dev']} dev and {counts['test']} test questions{folds}; labels "
        f"`{config.gate_label}` of the reader `{config.reader}`, the best of {config.top_k} retrieved passages. "
        f"Thresholds maximise SePer on the dev questions{of_gates}.",
        "",
        markdown_table(
            ["", *columns],
            [[name, *(cell(row.get(key)) for key in columns)] for name, row in results["gating"].items()],
        ),
    ]
    for reader, others in results["leads"].items():
        held_out = "" if reader == config.reader else " (made no labels)"
        lines += [
            "",
            f"SePer of `{reader}`{held_out}, lead of the gate `{config.gate_label}` with its 95 % interval over test "
            "questions:",
            "",
            *(f"- over `{name}`: {lead_text(row)}" for name, row in others.items()),
        ]
    return "\n".join(lines) + "\n"


def main(argv: Sequence[str] | None = None) -> int:
    """Label, train the student, fix thresholds, and compare the rules; return 0."""
    kinds = (GatingConfig, GatingArguments)
    config, arguments = parse_settings(kinds, argv, "python -m tests.benchmarks.experiments.gating", __doc__)
    if config.judging_seed == arguments.seed:
        raise ValueError(f"judging_seed must differ from seed, that of the labels, got {arguments.seed} for both")
    folder = Path(arguments.output_dir)
    with locked(folder):
        if config.folds == 1:
            held_out_split(config, arguments)
            # the same on other questions: a gate's lead is small beside what one split of few questions does by chance
            suggest(f"the same with --folds 3 --output_dir {folder}-folds, where every question may be held out")
        else:
            by_folds(config, arguments)
            suggest(f"the same with --folds 1 --output_dir {folder}-one, for one gate to keep")
    return 0


def by_folds(config: GatingConfig, arguments: RerankerArguments) -> None:
    """Train and compare with each part of the questions held out once; write what comes of all of them.

    All processes must call this together.
    """
    folder = Path(arguments.output_dir)
    config.cache = config.cache or trainer_cache(folder)
    share = 1 / config.folds
    parts = [
        replace(config, folds=1, test_share=share, turned=(config.turned + fold * share) % 1)
        for fold in range(config.folds)
    ]
    found = [
        held_out_split(part, replace(arguments, output_dir=str(folder / f"fold-{fold}")))
        for fold, part in enumerate(parts)
    ]
    if process_state().is_main_process:
        _write(folder, over_folds(found, config.gate_label), config)


def held_out_split(config: GatingConfig, arguments: RerankerArguments) -> dict[str, Any]:
    """Train and compare on one split of the questions; return what ``results.json`` of the output folder holds.

    All processes must call this together.
    """
    folder, questions, scorer, readers = begin(config, arguments, read_questions)
    questions = of_groups(questions, config.groups)
    labeler = labeler_for(config, scorer)
    encoder = load_encoder(config.retriever)
    torch.manual_seed(arguments.seed)  # for the new head: the trainer sets its seed only later
    models = [encoder]  # the last one learns
    if config.student != "ridge":
        models.append(load_cross_encoder(config.model, config.pair_tokens))
    claim_ranking_folder(folder, config, arguments, questions, labeler, models)

    # draws of neither the labels nor the judge: what a gate knows has not the noise of what it is taught, or judged by
    asked = scorer.with_sampling(seed=max(arguments.seed, config.judging_seed) + 1)

    def without(rows: Sequence[LabeledQuery]) -> list[Belief]:
        beliefs = closed_book_beliefs(asked, [row.query for row in rows])
        return [cast(Belief, belief) for belief in beliefs]  # none is missing: the questions were labelled

    with tracked_run(config, arguments, "gating") as tracked:
        seconds: dict[str, float] = {}
        retriever = corpus_retriever(encoder, config, questions)
        with stopwatch(seconds, "labelling"):
            store = LabelStore(folder / LABELS, labeler, labeler.name)
            labeled = store.label(propose(encoder, config, questions))
            # what is decided on is what a user has: retrieved passages alone
            dev, test = (
                store.label(candidates(rows, retriever, config.top_k, given=False))
                for rows in (questions.dev, questions.test)
            )
        with stopwatch(seconds, "training"):
            predictor = _learn(labeled, without, config, arguments, models[-1], folder)
        with stopwatch(seconds, "measuring"):
            judges = readers.with_seed(config.judging_seed).scorers
            dev_decided, decided = (decide(predictor, rows, without(rows)) for rows in (dev, test))
            dev_decided, dev_values = answered(
                dev_decided, {config.reader: measure(judges[config.reader], dev_decided)}
            )
            limits = thresholds(gates(config.gate_label), dev_decided, dev_values[config.reader])
            decided, values = answered(decided, {name: measure(judge, decided) for name, judge in judges.items()})
        results = {
            **gating_results(config.gate_label, limits, decided, values),
            "questions": {"train": len(labeled), "dev": len(dev_decided.queries), "test": len(decided.queries)},
            "labels": label_statistics(labeled, config.margin),
            "seconds": seconds,
        }
        if process_state().is_main_process:
            _publish(folder, results, config)
            tracked.log({f"test/{name}": row for name, row in results["gating"].items()})
            tracked.artifact("gate", "model", [folder / "model"])
    return results


def _learn(
    labeled: Sequence[LabeledQuery],
    without: Callable[[Sequence[LabeledQuery]], list[Belief]],
    config: GatingConfig,
    arguments: RerankerArguments,
    model: SentenceTransformer | CrossEncoder,
    folder: Path,
) -> Predictor:
    """Train the student, save it in ``folder / "model"``, and return it; all processes must call this together.

    ``model`` is the cross-encoder to train or, for a regression, the bi-encoder whose embeddings it reads.
    """
    if isinstance(model, SentenceTransformer):
        regression = PassageRegression.fit(
            model,
            labeled,
            without(labeled) if config.closed_book else [],
            error_floor=config.error_floor,
            closed_book=config.closed_book,
        )
        together(lambda: regression.save(folder / "model" / REGRESSION))
        return regression
    checkpoints = replace(arguments, output_dir=str(folder / "checkpoints"))
    train(model, labeled, config, config.error_floor, checkpoints)
    together(lambda: model.save_pretrained(str(folder / "model"), create_model_card=False))
    labeler = CrossEncoderLabeler(model)
    return lambda queries, _: [list(labeler.label(query).labels) for query in queries]


def _publish(folder: Path, results: Mapping[str, Any], config: GatingConfig) -> None:
    """Write card, results and plot into the folder, and print the page."""
    ridge = config.student == "ridge"
    template = Path(__file__).with_name("gate.md").read_text(encoding="utf-8")
    card = template.format(
        **asdict(config) | {"labeler": config.gate_label},
        version=version("seper-reward"),
        base=base_name(config.retriever if ridge else config.model),
        how_to_score=(
            f'`PassageRegression.load(Path("PATH/{REGRESSION}"), encoder)([query], beliefs)`, with the reader\'s '
            '`beliefs = scorer.beliefs(question, ["-"], [()])` (any answer does: only what it draws counts),'
            if ridge
            else '`CrossEncoder("PATH").predict([(question, passage)])`'
        ),
        limit_on_dev=results["gating"][config.gate_label]["threshold"],
        table=markdown(results, config).partition("\n\n")[2],
    )
    (folder / "model" / "README.md").write_text(card, encoding="utf-8")
    _write(folder, results, config)


def _write(folder: Path, results: Mapping[str, Any], config: GatingConfig) -> None:
    """Write results, page and plot into the folder, and print the page."""
    page = markdown(results, config)
    write_json(folder / RESULTS, results)
    (folder / "results.md").write_text(page, encoding="utf-8")
    plot_gating(results["curves"], results["gating"], folder / "results.svg")
    print(page)


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


if __name__ == "__main__":
    sys.exit(main())
