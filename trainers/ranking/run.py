"""What a retriever's and a reranker's run have in common: arguments, folder, comparison, what is written."""

import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.training_args import BaseTrainingArguments

from seper_reward.config import load_scorer
from seper_reward.labels.labelers import PassageLabeler
from seper_reward.labels.targets import informative, quantize, shortened, sure, transform
from seper_reward.models import (
    EMBEDDED,
    ENCODER_HUB_ID,
    embedded_encoder_folder,
    fast_dtype,
    resolve_device,
)
from seper_reward.reader.prompts import passage_text
from seper_reward.reports.figures import ranking_figure
from seper_reward.reports.tracking import Run
from seper_reward.runtime.cache import content_key
from seper_reward.runtime.distributed import process_state
from seper_reward.runtime.json_files import read_json, write_json
from seper_reward.scorer import SePerScorer
from seper_reward.types import LabeledQuery, Query
from trainers.ranking.data import Questions, RankingConfig, data_key, read_questions
from trainers.ranking.evaluation import Judges, Rankings, changes, judge, load_judges, table

RESULTS = "results.json"
_DECISIVE = (
    "seed", "num_train_epochs", "max_steps", "learning_rate", "per_device_train_batch_size",
    "gradient_accumulation_steps", "weight_decay", "warmup_steps", "lr_scheduler_type", "bf16", "fp16", "optim",
    "adam_beta1", "adam_beta2", "adam_epsilon", "max_grad_norm", "load_best_model_at_end", "metric_for_best_model",
)  # fmt: skip
_INCIDENTAL = {"judges", "judge_top_k", "judge_gains", "cache", "device"}  # may change when a run goes on


@dataclass
class ListArguments(BaseTrainingArguments):
    """Defaults for training on lists of passages; on the CPU where there is no GPU."""

    per_device_train_batch_size: int = field(default=8, metadata={"help": "Questions (lists) per step and process."})
    learning_rate: float = field(default=5e-5, metadata={"help": "Peak learning rate."})
    lr_scheduler_type: str = field(default="linear", metadata={"help": "Course of the learning rate."})
    warmup_steps: float = field(default=0.1, metadata={"help": "Steps, or share of the steps, of warm-up."})
    eval_strategy: str = field(default="epoch", metadata={"help": "When to measure on the dev questions."})
    save_strategy: str = field(default="epoch", metadata={"help": "When to save what resuming needs."})
    save_total_limit: int | None = field(default=1, metadata={"help": "Checkpoints to keep."})
    logging_steps: float = field(default=10, metadata={"help": "Steps between logs."})
    bf16: bool | None = field(default=None, metadata={"help": "bf16 autocast; default: where it is fast."})
    report_to: str = field(default="none", metadata={"help": "none, wandb (WANDB_MODE=offline works), ..."})

    def __post_init__(self) -> None:
        process_state()  # before the trainer's own, whose processes may drift apart by half an hour only
        self.use_cpu = self.use_cpu or not torch.accelerator.is_available()
        if self.bf16 is None:
            self.bf16 = not self.fp16 and fast_dtype(resolve_device("cpu" if self.use_cpu else None)) == torch.bfloat16
        self.disable_tqdm = self.disable_tqdm or not sys.stderr.isatty()
        super().__post_init__()


class Task(NamedTuple):
    """What a run begins with."""

    folder: Path
    questions: Questions
    scorer: SePerScorer
    judges: Judges


def begin(config: RankingConfig, arguments: BaseTrainingArguments) -> Task:
    """Read the questions and load the labelling scorer and the judges; the cache is in the folder unless named."""
    folder = Path(arguments.output_dir)
    config.refuse_auto()
    config.cache = config.cache or str(folder / "cache.sqlite")
    questions = read_questions(config)
    scorer = load_scorer(config, arguments.seed)
    return Task(folder, questions, scorer, load_judges(config, scorer, folder, data_key(questions)))


def load_encoder(name: str) -> SentenceTransformer:
    """Load a bi-encoder: ``"embedded"``, a hub id or a folder."""
    return SentenceTransformer(model_source(name), device=model_device())


def model_source(name: str) -> str:
    """Return what sentence-transformers is to load for a name, or ``"embedded"``."""
    return str(embedded_encoder_folder()) if name == EMBEDDED else name


def model_device() -> str | None:
    """Return the CPU where there is nothing else; ``None`` lets the library choose."""
    return None if torch.accelerator.is_available() else "cpu"


def teacher_rows(
    labeled: Sequence[LabeledQuery], config: RankingConfig, list_size: int | None = None
) -> list[dict[str, Any]]:
    """Return ``{query, passages, labels}`` rows for the losses: filtered, rounded, clipped and shifted.

    ``list_size``: most passages of a row, see ``shortened``.

    Raises:
        ValueError: nothing is left.
    """
    if config.max_std_error is not None:
        labeled = [sure(row, config.max_std_error) for row in labeled]
    if list_size is not None:
        labeled = [shortened(row, list_size) for row in labeled]
    kept = []
    for row in labeled:
        rounded = quantize(torch.tensor(row.labels), config.resolution)
        taught = transform(rounded, shift=config.shift, low=config.clip_low, high=config.clip_high)
        if informative(row, config.min_spread) and len(taught.unique()) > 1:
            passages = [passage_text(passage) for passage in row.query.passages]
            kept.append({"query": row.query.question, "passages": passages, "labels": taught.tolist()})
    if not kept:
        raise ValueError(
            f"expected questions whose labels differ by more than min_spread={config.min_spread}, got none of "
            f"{len(labeled)}; lower it, or check the labels"
        )
    return kept


def claim(
    folder: Path,
    config: RankingConfig,
    arguments: BaseTrainingArguments,
    questions: Questions,
    scorer: SePerScorer,
    teacher: PassageLabeler,
) -> None:
    """Write what decides the result into the folder, or compare it with what it has; raises as ``claim_settings``."""
    settings = {
        **{name: value for name, value in asdict(config).items() if name not in _INCIDENTAL},
        **{name: getattr(arguments, name) for name in _DECISIVE},
        "data": data_key(questions),
        "scorer": content_key(scorer.fingerprint),
        "labeler_weights": getattr(teacher, "weights_hash", None),
        "processes": process_state().num_processes,
    }
    claim_settings(folder, settings)


def claim_settings(folder: Path, settings: Mapping[str, Any]) -> None:
    """Write settings into the folder, or compare them with what it has.

    Raises:
        ValueError: the folder holds a run with other settings, data, models or processes.
    """
    path = folder / "settings.json"
    settings = json.loads(json.dumps(settings, default=str))
    if path.is_file():
        before = read_json(path)
        changed = [
            f"{key} was {before.get(key)!r}, is {settings.get(key)!r}"
            for key in sorted({*before, *settings})
            if before.get(key) != settings.get(key)
        ]
        if changed:
            raise ValueError(
                f"output_dir={str(folder)!r} holds a run with other settings: {'; '.join(changed)}. "
                "Name another folder, or go back to the former settings to resume"
            )
    process_state().wait_for_everyone()
    if process_state().is_main_process:
        write_json(path, settings)


def last_checkpoint(folder: Path) -> str | None:
    """Return the newest whole checkpoint in a folder, if there is one: its state is written last."""
    whole = [path.parent for path in folder.glob("checkpoint-*/trainer_state.json")]
    return str(max(whole, key=lambda path: int(path.name.rpartition("-")[2]))) if whole else None


def compare(before: Rankings, after: Rankings, queries: Sequence[Query], judges: Judges) -> dict[str, Any]:
    """Judge the test questions' rankings before and after training; all processes come here together."""
    found = judge({"before": before, "after": after}, queries, judges)
    old_rows, new_rows = (found[name].pop("questions") for name in ("before", "after"))
    moved = {reader: changes(old_rows[reader], new_rows[reader]) for reader in judges.readers}
    return {**found, "questions": moved, "test_questions": len(queries)}


def publish(folder: Path, results: Mapping[str, Any], card: str, tracked: Run, name: str) -> None:
    """Write card, numbers and plot beside the saved model, log them, and print the table."""
    (folder / "model" / "README.md").write_text(card, encoding="utf-8")
    write_json(folder / RESULTS, results)
    sides = {side: results[side] for side in ("before", "after")}
    ranking_figure(sides, folder / "results.svg")
    tracked.log({f"test/{side}/{key}": value for side, row in sides.items() for key, value in row.items()})
    for reader, moved in results["questions"].items():
        tracked.table(f"most_changed/{Path(reader).name}", moved["most_changed"])
    tracked.artifact(name, "model", [folder / "model"])
    tracked.artifact(f"{name}-labels", "dataset", [folder / "labels.jsonl", folder / RESULTS])
    print(f"{table(sides)}\n")
    for reader, moved in results["questions"].items():
        print(
            f"SePer by question, reader {reader}: {moved['wins']} rose, {moved['losses']} fell, {moved['ties']} same"
        )
    print(f"model: {folder / 'model'}")


def card_fields(config: RankingConfig, arguments: Any, results: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the cards of both kinds of model tell."""
    from importlib.metadata import version

    return {
        **asdict(config),
        "version": version("seper-reward"),
        "seed": arguments.seed,
        "learning_rate": arguments.learning_rate,
        "epochs": arguments.num_train_epochs,
        "batch": arguments.per_device_train_batch_size,
        "table": table({side: results[side] for side in ("before", "after")}),
        "by_question": "; ".join(
            f"of `{reader}` it rose in {moved['wins']}, fell in {moved['losses']} and stayed in {moved['ties']}"
            for reader, moved in results["questions"].items()
        ),
    }


def base_name(model: str) -> str:
    """Return a model's name on the hub, where it has one."""
    return ENCODER_HUB_ID if model == EMBEDDED else model


@contextmanager
def timed(record: dict[str, float], name: str) -> Iterator[None]:
    """Write the seconds of a block into a record."""
    start = time.perf_counter()
    yield
    record[name] = round(time.perf_counter() - start, 1)
