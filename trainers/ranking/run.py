"""Parts shared by runs of retriever and reranker: arguments, folder, comparison, and output files."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch
from sentence_transformers.base.training_args import BaseTrainingArguments

from seper_reward.data.marks import NO_MARKS
from seper_reward.labels.heterogeneity import beyond_chance
from seper_reward.labels.integrity import LABELS
from seper_reward.labels.labelers import PassageLabeler, load_labeler
from seper_reward.labels.rows import DELTA_SEPER, recommended_label
from seper_reward.labels.targets import informative, lists_to_learn, quantize, shortened
from seper_reward.options import REPORT_TO_HELP, FormatOptions, setting
from seper_reward.reports.figures import plot_ranking
from seper_reward.reports.tables import measures_table
from seper_reward.reports.tracking import Run
from seper_reward.retrieval import next_hop
from seper_reward.runtime.cache import trainer_cache
from seper_reward.runtime.distributed import process_state, together
from seper_reward.runtime.hashing import content_key, weights_hash
from seper_reward.runtime.json_files import read_lines, write_json
from seper_reward.runtime.pretrained import EMBEDDED, ENCODER_HUB_ID
from seper_reward.runtime.run_folder import claim_settings
from seper_reward.scorer import SePerScorer, load_scorer
from seper_reward.types import LabeledQuery, Query

from ..cards import write_card
from ..runs import SETTINGS, ThisMachine, decisive
from .data import Questions, RankingConfig, data_key, read_questions
from .evaluation import RankingReaders, Rankings, changes, load_readers, measure_rankings

RESULTS = "results.json"
Config = TypeVar("Config", bound=RankingConfig)
# settings that may change when a run is resumed; options of reading the input are covered by the hash of the data
_INCIDENTAL = {
    "eval_readers", "eval_top_k", "cache", "device", "embeddings_dir",
    "engine",  # the labeler's fingerprint has the served model
    *FormatOptions.__dataclass_fields__,
}  # fmt: skip


@dataclass
class ListArguments(ThisMachine, BaseTrainingArguments):
    """Training arguments with defaults for lists of passages; without an accelerator, the CPU is used."""

    per_device_train_batch_size: int = setting(
        8, "Number of questions, each with its list of passages, per step and process."
    )
    learning_rate: float = setting(5e-5, "Peak learning rate.")
    lr_scheduler_type: str = setting("linear", "Schedule of the learning rate after warm-up.")
    warmup_steps: float = setting(0.1, "Warm-up steps; below 1 a share of all steps.")
    eval_strategy: str = setting("epoch", "Time of evaluations on the dev questions: no, steps or epoch.")
    save_strategy: str = setting("epoch", "Time of checkpoints to resume from: no, steps or epoch.")
    save_total_limit: int | None = setting(1, "Number of checkpoints to keep.")
    logging_steps: float = setting(10, "Number of steps between logs; below 1 a share of all steps.")
    bf16: bool | None = setting(None, "Whether to train with bf16 autocast (default: if it is fast).")
    report_to: str = setting("none", REPORT_TO_HELP)

    def __post_init__(self) -> None:
        self.disable_tqdm = self.disable_tqdm or not sys.stderr.isatty()  # type: ignore[has-type]
        super().__post_init__()


class RankingRun(NamedTuple):
    """A run's output folder, questions, labelling scorer, and readers for measuring rankings."""

    folder: Path
    questions: Questions
    scorer: SePerScorer
    readers: RankingReaders


def in_folder(config: Config, folder: Path) -> Config:
    """Return the settings with the cache and the embeddings in the run's folder, if they have no other place."""
    return replace(
        config,
        cache=config.cache or trainer_cache(folder),
        embeddings_dir=config.embeddings_dir or str(folder / "embeddings"),
    )


def begin(
    config: Config, arguments: BaseTrainingArguments, read: Callable[[Config], Questions] = read_questions
) -> RankingRun:
    """Read the questions, and load the labelling scorer and the other readers."""
    folder = Path(arguments.output_dir)
    fsdp = os.environ.get("ACCELERATE_USE_FSDP", "false") == "true"
    if fsdp or os.environ.get("ACCELERATE_DEEPSPEED_ZERO_STAGE") == "3":
        raise ValueError(
            f"{'FSDP' if fsdp else 'ZeRO-3'} shards the weights, but a ranking model must be whole in each process to "
            "rank and be saved; launch with configs/accelerate/eight_gpus.yaml (DDP) or zero2.yaml instead"
        )
    questions = read(config)
    scorer = load_scorer(config, arguments.seed)
    return RankingRun(folder, questions, scorer, load_readers(config, scorer))


def labeler_for(config: RankingConfig, scorer: SePerScorer) -> PassageLabeler:
    """Return the configured labeler, of sets of passages if ``sets`` is set."""
    return load_labeler(config.labeler, lambda: scorer, config.set_options, config.label)


def training_label(config: RankingConfig) -> str | None:
    """Return the field of label rows to learn from; ``None`` for the recommended one (``recommended_label``)."""
    return config.label if config.labeler == DELTA_SEPER else None


class NothingToLearn(ValueError):  # noqa: N818, it is an outcome as much as an error
    """No question has labels that differ enough to learn from."""


def teacher_rows(labeled: Sequence[LabeledQuery], config: RankingConfig) -> list[dict[str, Any]]:
    """Return ``{query, passages, labels}`` rows for the losses: filtered, shrunk and rounded.

    For hops after the first, the query is ``next_query`` of the question and the given passages. Raises
    ``NothingToLearn`` if no query is left.
    """
    labeled = lists_to_learn(labeled, config.learn_from, next_hop)
    # before lists are shortened: the best and the worst of many passages differ more by chance than a random pair
    differing = beyond_chance(labeled, heterogeneity=config.heterogeneity, shrink=config.shrink)
    if config.list_size is not None:
        differing = [shortened(row, config.list_size) for row in differing]
    kept = []
    for row in differing:
        targets = quantize(torch.tensor(row.labels), config.resolution)
        if informative(row, config.min_spread) and len(targets.unique()) > 1:  # type: ignore[no-untyped-call]
            passages = [passage.full_text for passage in row.query.passages]
            kept.append({"query": row.query.question, "passages": passages, "labels": targets.tolist()})
    if not kept:
        raise NothingToLearn(
            f"expected questions whose labels differ by more than chance (heterogeneity={config.heterogeneity}) and "
            f"by more than min_spread={config.min_spread}, got none of {len(labeled)}; raise heterogeneity, lower "
            "min_spread, or check the labels"
        )
    if process_state().is_main_process:
        lists = "questions by hop" if config.learn_from == "paths" else "questions"
        print(f"{len(kept)} of {len(labeled)} {lists} have labels to learn from", file=sys.stderr)
    return kept


def claim_ranking_folder(
    folder: Path,
    config: RankingConfig,
    arguments: BaseTrainingArguments,
    questions: Questions,
    labeler: PassageLabeler,
    models: Sequence[torch.nn.Module],
) -> None:
    """Write everything that decides the result into the folder, or compare it with the folder's content.

    The models are those for training and retrieval, before training.
    """
    settings = {
        **{name: value for name, value in asdict(config).items() if name not in _INCIDENTAL},
        **decisive(arguments),
        "data": data_key(questions),
        "labels": content_key(labeler.fingerprint),
        "weights": [weights_hash(model) for model in models],
        "processes": process_state().num_processes,
    }
    together(lambda: claim_settings(folder / SETTINGS, settings))


def compare(before: Rankings, after: Rankings, queries: Sequence[Query], readers: RankingReaders) -> dict[str, Any]:
    """Measure the test questions' rankings before and after training; all processes must call this together.

    Returns the measures, ``questions``, the ``changes`` by reader, and the number of ``test_questions``.
    """
    measures = measure_rankings({"before": before, "after": after}, queries, readers)
    old_rows, new_rows = (measures[name].pop("questions") for name in ("before", "after"))
    by_reader = {reader: changes(old_rows[reader], new_rows[reader]) for reader in readers.scorers}
    return {**measures, "questions": by_reader, "test_questions": len(queries)}


def publish(
    folder: Path,
    results: Mapping[str, Any],
    tracked: Run,
    name: str,
    config: RankingConfig,
    arguments: BaseTrainingArguments,
    questions: Questions,
    *,
    model: str,
    **card: str,
) -> None:
    """Write model card, results and plot into the folder, log them with the saved model, and print a table.

    The folder contains the saved ``model/`` and ``labels.jsonl``; ``name`` is the model's in W&B, and ``card`` has the
    fields of its card.
    """
    sides = {side: results[side] for side in ("before", "after")}
    by_question = [
        f"SePer by question, reader {reader}: {moved['wins']} rose, {moved['losses']} fell, {moved['ties']} same"
        for reader, moved in results["questions"].items()
    ]
    train, dev, test = map(len, questions[1:])
    counts = f"{train} questions for training, {dev} for evaluation during training, {test} for testing."
    explained = (
        f"`seper`, `exact_match`: a reader's answers with the top {config.eval_top_k} passages; the suffix names "
        "readers that were not used for labelling."
    )
    if config.hops > 1:
        explained += " After the first hop, the query is `QUESTION [SEP] PASSAGE` (`retrieval.next_query`)."
    label = config.labeler
    if label == DELTA_SEPER:
        label = config.label or recommended_label(list(read_lines(folder / LABELS)))
    write_card(
        [folder / "model"], f"{name.capitalize()} trained on {label} labels", name, config, arguments,
        base=ENCODER_HUB_ID if model == EMBEDDED else model, library="sentence-transformers",
        results="\n\n".join([counts, measures_table(sides), explained, *by_question]), **card,
    )  # fmt: skip
    write_json(folder / RESULTS, results)
    plot_ranking(sides, folder / "results.svg")
    tracked.log({f"test/{side}/{key}": value for side, row in sides.items() for key, value in row.items()})
    for reader, moved in results["questions"].items():
        tracked.table(f"most_changed/{Path(reader).name}", moved["most_changed"])
    tracked.artifact(name, "model", [folder / "model"])
    tracked.artifact(f"{name}-labels", "dataset", [folder / "labels.jsonl", folder / RESULTS])
    print(f"{measures_table(sides)}\n")
    if results["after"]["ndcg@10"] is None:
        print(f"{NO_MARKS}\n")
    print("\n".join(by_question))
    print(f"model: {folder / 'model'}")
