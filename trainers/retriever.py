"""Fine-tune a bi-encoder on labels of its own candidates: retrieve, judge, train, and again.

    python -m trainers.retriever --config configs/retriever/demo.yaml
    torchrun --nproc_per_node 2 -m trainers.retriever --config configs/retriever/demo.yaml

The same command goes on where a killed run was. The settings are those below, those of the scorer (as for
`seper-reward label`), and sentence-transformers' training arguments.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from peft import LoraConfig, TaskType
from peft.tuners.tuners_utils import BaseTunerLayer
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from torch import Tensor
from transformers.trainer_utils import get_last_checkpoint
from trl import TrlParser

from seper_reward.config import load_scorer, setting
from seper_reward.distributed import process_state
from seper_reward.labelers import PassageLabeler, labeler
from seper_reward.labels import informative, sure, transform
from seper_reward.models import EMBEDDED, ENCODER_HUB_ID, embedded_encoder_folder, fast_dtype, resolve_device
from seper_reward.report import ranking_figure
from seper_reward.retrieval import DenseRetriever
from seper_reward.scorer import SePerScorer
from seper_reward.tracking import Run
from seper_reward.types import LabeledQuery, Query
from trainers.feedback import LabelStore, candidates, label_statistics, teacher_rows
from trainers.ranking_data import Questions, RankingConfig, read_questions
from trainers.ranking_eval import Judges, RankingEvaluator, judge, load_judges, rank, table, wins
from trainers.ranking_losses import ListCollator, ListLoss, contrastive, kl_divergence, margin_mse, ranknet

LOSSES: dict[str, Callable[..., Tensor]] = {
    "kl": kl_divergence,
    "reverse_kl": partial(kl_divergence, reverse=True),
    "margin_mse": margin_mse,
    "ranknet": ranknet,
    "contrastive": contrastive,
}
RESULTS = "results.json"


@dataclass
class RetrieverConfig(RankingConfig):
    """Fine-tune a bi-encoder on labels of its own candidates."""

    model: str = setting(EMBEDDED, "Bi-encoder: 'embedded' (all-MiniLM-L6-v2), a hub id or a folder.")
    rounds: int = setting(1, "How often to retrieve with the current weights, judge what is new, and train.")
    loss: str = setting("reverse_kl", f"One of {', '.join(LOSSES)}.")
    student_temperature: float = setting(0.05, "Divides cosine similarities, > 0.")
    teacher_temperature: float = setting(0.2, "Divides labels in kl, reverse_kl and margin_mse, > 0.")
    lora_r: int = setting(0, "Rank of LoRA matrices on all linear layers, merged when saved; 0 trains all weights.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.loss not in LOSSES:
            raise ValueError(f"loss must be one of {', '.join(LOSSES)}, got {self.loss!r}")
        if self.rounds < 1:
            raise ValueError(f"rounds must be at least 1, got {self.rounds}")


@dataclass
class RetrieverArguments(SentenceTransformerTrainingArguments):
    """sentence-transformers' arguments, with defaults for lists of passages; on the CPU where there is no GPU."""

    output_dir: str = field(default="runs/retriever", metadata={"help": "Folder of the model; resumes there."})
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
        self.use_cpu = self.use_cpu or not torch.accelerator.is_available()
        if self.bf16 is None:
            self.bf16 = not self.fp16 and fast_dtype(resolve_device("cpu" if self.use_cpu else None)) == torch.bfloat16
        self.disable_tqdm = self.disable_tqdm or not sys.stderr.isatty()
        super().__post_init__()


def load_encoder(name: str) -> SentenceTransformer:
    """Load a bi-encoder: ``"embedded"``, a hub id or a folder."""
    folder = str(embedded_encoder_folder()) if name == EMBEDDED else name
    device = "cpu" if not torch.accelerator.is_available() else None
    return SentenceTransformer(folder, device=device)


def list_loss(config: RetrieverConfig, model: SentenceTransformer) -> ListLoss:
    """Build the loss, with its transform of the labels."""
    if config.loss == "contrastive":
        function = partial(contrastive, temperature=config.student_temperature, margin=config.margin)
        return ListLoss(model, function, in_batch=True)
    if config.loss == "ranknet":
        return ListLoss(model, partial(ranknet, temperature=config.student_temperature, margin=config.margin))
    base = LOSSES[config.loss]
    teach = partial(
        transform,
        shift=config.shift,
        low=config.clip_low,
        high=config.clip_high,
        temperature=config.teacher_temperature,
    )

    def loss(scores: Tensor, labels: Tensor) -> Tensor:
        return base(scores, teach(labels), temperature=config.student_temperature)

    return ListLoss(model, loss)


def train_once(
    model: SentenceTransformer,
    labeled: Sequence[LabeledQuery],
    config: RetrieverConfig,
    arguments: SentenceTransformerTrainingArguments,
    evaluator: RankingEvaluator | None = None,
) -> list[dict[str, float]]:
    """Train the model in place on one round's labels, from the last checkpoint in ``output_dir`` if there is one.

    Returns:
        The trainer's log.

    Raises:
        ValueError: no question has labels that differ.
    """
    if config.max_std_error is not None:
        labeled = [sure(row, config.max_std_error) for row in labeled]
    rows = teacher_rows([row for row in labeled if informative(row, config.min_spread)])
    if not rows:
        raise ValueError(
            f"expected questions whose labels differ by more than min_spread={config.min_spread}, got none of "
            f"{len(labeled)}; lower it, or check the labels"
        )
    if config.lora_r:
        model.add_adapter(
            LoraConfig(
                task_type=TaskType.FEATURE_EXTRACTION,
                r=config.lora_r,
                lora_alpha=2 * config.lora_r,
                target_modules="all-linear",
            )
        )
    prompts = {"query": model.prompts.get("query", ""), "passages": model.prompts.get("document", "")}
    trainer = SentenceTransformerTrainer(
        model=model,
        args=arguments if evaluator else replace(arguments, eval_strategy="no"),
        train_dataset=Dataset.from_list([dict(row) for row in rows]),
        loss=list_loss(config, model),
        evaluator=evaluator,
        data_collator=ListCollator(preprocess_fn=model.preprocess, prompts=prompts),
    )
    trainer.train(resume_from_checkpoint=_last_checkpoint(Path(arguments.output_dir)))
    if config.lora_r:
        merge_adapter(model)
    return [row for row in trainer.state.log_history if "loss" in row or any("eval" in key for key in row)]


def merge_adapter(model: SentenceTransformer) -> None:
    """Fold LoRA matrices into the weights, so that the model is an ordinary one again."""
    network = model.transformers_model
    for name, module in list(network.named_modules()):
        if isinstance(module, BaseTunerLayer):
            module.merge()
            parent, _, child = name.rpartition(".")
            setattr(network.get_submodule(parent), child, module.get_base_layer())
    network._hf_peft_config_loaded = False
    del network.peft_config


def _last_checkpoint(folder: Path) -> str | None:
    return get_last_checkpoint(str(folder)) if folder.is_dir() else None


class RetrieverRun:
    """One training run in one folder, which it resumes.

    Args:
        config: of the script.
        arguments: of sentence-transformers' trainer.
        questions: by use.
        teacher: judges the candidates.

    Raises:
        ValueError: the folder holds a run with other settings.
    """

    def __init__(
        self,
        config: RetrieverConfig,
        arguments: SentenceTransformerTrainingArguments,
        questions: Questions,
        teacher: PassageLabeler,
    ) -> None:
        self.folder = Path(arguments.output_dir)
        self._config, self._arguments, self._questions, self._teacher = config, arguments, questions, teacher
        self._store = LabelStore(self.folder / "labels.jsonl")
        self._claim()

    def train(self, log: Callable[[Mapping[str, Any]], None] = lambda row: None) -> SentenceTransformer:
        """Run the rounds that are left; return the trained model."""
        model = load_encoder(self._config.model)
        for number in range(1, self._config.rounds + 1):
            folder = self.folder / f"round-{number}"
            if (folder / "round.json").is_file():
                model = load_encoder(str(folder / "model"))
                continue
            seconds: dict[str, float] = {}
            with _timed(seconds, "retrieval"):
                pool = self._candidates(model)
            with _timed(seconds, "labelling"):
                labeled = self._store.label(pool, self._teacher)
            statistics = label_statistics(labeled, self._config.margin)
            log({"round": number, **{f"labels/{key}": value for key, value in statistics.items()}})
            with _timed(seconds, "training"):
                history = train_once(model, labeled, self._config, self._round_arguments(folder), self._evaluator())
            log({"round": number, **{f"seconds/{key}": value for key, value in seconds.items()}})
            process_state().wait_for_everyone()
            if process_state().is_main_process:
                model.save_pretrained(str(folder / "model"), create_model_card=False)
                write_json(folder / "round.json", {"labels": statistics, "seconds": seconds, "log": history})
            process_state().wait_for_everyone()
        return model

    def rounds(self) -> list[dict[str, Any]]:
        """Return what each finished round wrote down."""
        files = [self.folder / f"round-{number}" / "round.json" for number in range(1, self._config.rounds + 1)]
        return [json.loads(file.read_text(encoding="utf-8")) for file in files]

    def _candidates(self, model: SentenceTransformer) -> list[Query]:
        config, questions = self._config, self._questions
        retriever = None
        if config.candidates != "given":
            retriever = DenseRetriever(model, questions.corpus, share=True)
        return candidates(questions.train, retriever, config.top_k, config.candidates != "retrieved")

    def _round_arguments(self, folder: Path) -> SentenceTransformerTrainingArguments:
        return replace(self._arguments, output_dir=str(folder / "checkpoints"))

    def _evaluator(self) -> RankingEvaluator | None:
        if self._arguments.eval_strategy == "no" or not self._questions.dev:
            return None
        return RankingEvaluator(self._questions.corpus, self._questions.dev)

    def _claim(self) -> None:
        path = self.folder / "settings.json"
        # results depend on these; where they are written, or reported to, does not matter
        settings = json.loads(json.dumps({**asdict(self._config), **_decisive(self._arguments)}, default=str))
        if path.is_file():
            before = json.loads(path.read_text(encoding="utf-8"))
            changed = [
                f"{key} was {before.get(key)!r}, is {settings.get(key)!r}"
                for key in sorted({*before, *settings})
                if before.get(key) != settings.get(key)
            ]
            if changed:
                raise ValueError(
                    f"output_dir={str(self.folder)!r} holds a run with other settings: {'; '.join(changed)}. "
                    "Name another folder, or go back to the former settings to resume"
                )
        process_state().wait_for_everyone()
        if process_state().is_main_process:
            write_json(path, settings)


def _decisive(arguments: SentenceTransformerTrainingArguments) -> dict[str, Any]:
    names = (
        "seed", "num_train_epochs", "max_steps", "learning_rate", "per_device_train_batch_size",
        "gradient_accumulation_steps", "weight_decay", "warmup_steps", "bf16", "fp16",
    )  # fmt: skip
    return {name: getattr(arguments, name) for name in names} | {"scheduler": str(arguments.lr_scheduler_type)}


@contextmanager
def _timed(record: dict[str, float], name: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    record[name] = round(time.perf_counter() - start, 1)


def compare(
    run: RetrieverRun, model: SentenceTransformer, config: RetrieverConfig, questions: Questions, judges: Judges
) -> dict[str, Any]:
    """Judge the model on the test questions, before and after training."""
    base = load_encoder(config.model)
    rankings = {
        name: rank(each, questions.corpus, questions.test) for name, each in (("before", base), ("after", model))
    }
    found = judge(rankings, questions.test, judges)
    before, after = (found[name].pop("questions") for name in ("before", "after"))
    changed = [
        {"id": new["id"], "question": new["question"], "before": old["seper"], "after": new["seper"],
         "passages_before": old["passages"], "passages_after": new["passages"]}
        for old, new in zip(before, after, strict=True)
    ]  # fmt: skip
    return {
        **found,
        "seper_by_question": wins(before, after),
        "test_questions": len(questions.test),
        "most_changed": sorted(changed, key=lambda row: -abs(row["after"] - row["before"]))[:20],
        "rounds": run.rounds(),
    }


CARD = """\
---
library_name: sentence-transformers
pipeline_tag: sentence-similarity
base_model: {base}
tags: [sentence-transformers, feature-extraction, retrieval, seper-reward]
---
# Bi-encoder trained on {labeler} labels

`SentenceTransformer("PATH")`: ordinary weights, cosine similarity. Made by `python -m trainers.retriever` of
seper-reward {version} from `{model}`.

- questions: `{input}`, {train} for training, {dev} dev, {test} test (by sha1 of the id)
- labels: `{labeler}` by the reader `{reader}` and the entailment model `{entailment}`, {num_samples} samples; of
  {top_k} retrieved passages a question and round, candidates `{candidates}`
- {rounds} round(s), loss `{loss}` (student temperature {student_temperature}, teacher {teacher_temperature}), {how},
  seed {seed}, learning rate {learning_rate}, {epochs} epochs a round, {batch} questions a step and process

## On the test questions

{table}

`_gain`: relevance by ΔSePer instead of people's marks. `seper`, `exact_match`: of a reader that sees the top
{judge_top_k}; the suffix names a reader that made no labels. SePer of {wins[wins]} questions rose, of {wins[losses]}
fell.
"""


def card(config: RetrieverConfig, arguments: Any, questions: Questions, results: Mapping[str, Any]) -> str:
    """Return the model card."""
    from importlib.metadata import version

    return CARD.format(
        **asdict(config),
        base=ENCODER_HUB_ID if config.model == EMBEDDED else config.model,
        version=version("seper-reward"),
        train=len(questions.train),
        dev=len(questions.dev),
        test=len(questions.test),
        how=f"LoRA of rank {config.lora_r}" if config.lora_r else "all weights",
        seed=arguments.seed,
        learning_rate=arguments.learning_rate,
        epochs=arguments.num_train_epochs,
        batch=arguments.per_device_train_batch_size,
        table=table({name: results[name] for name in ("before", "after")}),
        wins=results["seper_by_question"],
    )


def write_json(path: Path, value: Any) -> None:
    """Write a value as indented JSON, with its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def publish(
    model: SentenceTransformer,
    folder: Path,
    config: RetrieverConfig,
    arguments: Any,
    questions: Questions,
    results: Mapping[str, Any],
    tracked: Run,
) -> None:
    """Write model, card, numbers and plot, and log them."""
    model.save_pretrained(str(folder / "model"), create_model_card=False)
    (folder / "model" / "README.md").write_text(card(config, arguments, questions, results), encoding="utf-8")
    write_json(folder / RESULTS, results)
    ranking_figure({name: results[name] for name in ("before", "after")}, folder / "results.svg")
    tracked.log({f"test/{when}/{key}": value for when in ("before", "after") for key, value in results[when].items()})
    tracked.table("most_changed", results["most_changed"])
    tracked.artifact("retriever", "model", [folder / "model"])
    tracked.artifact("retriever-labels", "dataset", [folder / "labels.jsonl", folder / RESULTS])


def main(argv: Sequence[str] | None = None) -> int:
    """Parse, train, compare, save."""
    parser = TrlParser((RetrieverConfig, RetrieverArguments), prog="python -m trainers.retriever", description=__doc__)
    config, arguments = parser.parse_args_and_config(argv)
    folder = Path(arguments.output_dir)
    config.cache = config.cache or str(folder / "cache.sqlite")
    questions = read_questions(config)
    scorer: SePerScorer = load_scorer(config, arguments.seed)
    run = RetrieverRun(config, arguments, questions, labeler(config.labeler, scorer))
    with Run(arguments.report_to, "retriever", {**asdict(config), **arguments.to_dict()}) as tracked:
        model = run.train(tracked.log)
        judges = load_judges(
            scorer, config.reader, config.judges, folder, top_k=config.judge_top_k, gains=config.judge_gains
        )
        results = compare(run, model, config, questions, judges)
        if scorer.cache is not None:
            tracked.log({"cache/hits": scorer.cache.hits, "cache/misses": scorer.cache.misses})
        if process_state().is_main_process:
            publish(model, folder, config, arguments, questions, results, tracked)
            print(table({name: results[name] for name in ("before", "after")}))
            print(f"SePer by question: {results['seper_by_question']}\nmodel: {folder / 'model'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
