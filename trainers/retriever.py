"""Fine-tune a bi-encoder on labels of the passages that it retrieves, in one or more rounds.

    seper-reward train retriever --config configs/retriever/demo.yaml
    torchrun --nproc_per_node 2 -m seper_reward train retriever --config configs/retriever/demo.yaml

The same command resumes a killed run. Settings: the fields below, those of the reader and its beliefs (as for
`seper-reward label`), and sentence-transformers' training arguments.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from peft import TaskType
from peft.tuners.tuners_utils import BaseTunerLayer
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.sentence_transformer.modules import Router
from torch import Tensor

from seper_reward.command import corpus_flag
from seper_reward.labels.integrity import LABELS
from seper_reward.labels.summary import label_statistics
from seper_reward.options import check_least, setting
from seper_reward.runtime.distributed import process_state, together
from seper_reward.runtime.json_files import read_json, write_json
from seper_reward.runtime.parser import parse_options
from seper_reward.runtime.pretrained import EMBEDDED
from seper_reward.scorer import SePerScorer
from seper_reward.types import LabeledQuery, Query

from .models import load_encoder, new_lora
from .ranking.candidates import propose, retriever_of
from .ranking.data import Questions, RankingConfig
from .ranking.evaluation import RankingEvaluator, rank_by
from .ranking.label_store import LabelStore
from .ranking.losses import (
    ListCollator,
    ListLoss,
    contrastive,
    kl_regularized,
    reverse_kl,
    vectors_by_text,
)
from .ranking.run import (
    ListArguments,
    begin,
    claim_ranking_folder,
    compare,
    in_folder,
    labeler_for,
    publish,
    teacher_rows,
    training_label,
)
from .runs import locked, stopwatch, suggest, tracked_run, train_from_checkpoint

_USE = """\
from sentence_transformers import SentenceTransformer

model = SentenceTransformer("PATH")
print(model.similarity(model.encode_query(["QUESTION"]), model.encode_document(["PASSAGE"])))"""
LOSSES: dict[str, Callable[..., Tensor]] = {
    "reverse_kl": reverse_kl,
    "contrastive": contrastive,
    "kl_regularized": kl_regularized,
}
_WITH_OTHERS = ("contrastive", "kl_regularized")  # already use the passages of other questions


@dataclass(frozen=True)
class RetrieverConfig(RankingConfig):
    """Fine-tune a bi-encoder on labels of the passages that it retrieves."""

    model: str = setting(EMBEDDED, "Bi-encoder to train: 'embedded' (all-MiniLM-L6-v2), a hub id or a folder.")
    rounds: int = setting(
        1, "Number of rounds, >= 1: each retrieves with the current weights, labels new passages, and trains."
    )
    loss: str = setting("reverse_kl", f"Loss: {', '.join(LOSSES)}.")
    contrastive_weight: float = setting(
        0.0,
        "Weight of an additional contrastive loss, >= 0, whose negatives are the passages of other questions; it also "
        "trains the distance to passages that are not candidates.",
    )
    teacher_temperature: float = setting(
        0.2, "Number that divides labels in the losses reverse_kl and kl_regularized, > 0."
    )
    lora_r: int = setting(0, "Rank of LoRA matrices on all linear layers, merged when saved; 0 trains all weights.")
    max_seq_length: int | None = setting(
        None,
        "Maximum number of tokens per text, >= 1, in training and afterwards; the longest text decides the time of a "
        "batch (default: the model's limit).",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.loss not in LOSSES:
            raise ValueError(f"loss must be one of {', '.join(LOSSES)}, got {self.loss!r}")
        if self.contrastive_weight < 0 or (self.contrastive_weight and self.loss in _WITH_OTHERS):
            raise ValueError(
                f"contrastive_weight must be at least 0, and 0 with loss {' or '.join(map(repr, _WITH_OTHERS))}, got "
                f"{self.contrastive_weight} with loss {self.loss!r}"
            )
        check_least(self, max_seq_length=1, rounds=1, lora_r=0)
        if not self.teacher_temperature > 0:
            raise ValueError(f"teacher_temperature must be above 0, got {self.teacher_temperature}")


@dataclass
class RetrieverArguments(ListArguments, SentenceTransformerTrainingArguments):
    """sentence-transformers' training arguments, with this recipe's defaults."""

    output_dir: str = setting(
        "runs/retriever", "Folder of the run; the same command resumes an interrupted run there."
    )


def list_loss(config: RetrieverConfig, model: SentenceTransformer) -> ListLoss:
    """Return the configured loss for a model."""
    in_batch = partial(contrastive, margin=config.margin)
    if config.loss == "contrastive":
        return ListLoss(model, in_batch, in_batch=True)
    base = LOSSES[config.loss]

    def of_scaled_labels(scores: Tensor, labels: Tensor, *more: Tensor) -> Tensor:
        return base(scores, labels / config.teacher_temperature, *more)

    if config.loss == "kl_regularized":
        return ListLoss(model, of_scaled_labels, in_batch=True, reference=True)
    if not config.contrastive_weight:
        return ListLoss(model, of_scaled_labels)

    def with_contrastive(scores: Tensor, labels: Tensor, others: Tensor) -> Tensor:
        return of_scaled_labels(scores, labels) + config.contrastive_weight * in_batch(scores, labels, others)

    return ListLoss(model, with_contrastive, in_batch=True)


def train_once(
    model: SentenceTransformer,
    labeled: Sequence[LabeledQuery],
    config: RetrieverConfig,
    arguments: SentenceTransformerTrainingArguments,
    evaluator: RankingEvaluator | None = None,
) -> list[dict[str, float]]:
    """Train the model in place on one round's labels, from the last checkpoint if there is one; return the log."""
    rows = teacher_rows(labeled, config)
    model.to(arguments.device)
    before = vectors_by_text(model, rows) if config.loss == "kl_regularized" else None
    if config.lora_r:
        torch.manual_seed(arguments.seed)  # for the new adapter: the trainer sets its seed only later
        model.add_adapter(new_lora(TaskType.FEATURE_EXTRACTION, config.lora_r))
    prompts = {"query": model.prompts.get("query", ""), "passages": model.prompts.get("document", "")}
    collator = ListCollator(preprocess_fn=model.preprocess, prompts=prompts, reference=before)
    log = fit(model, rows, config, arguments, collator, evaluator)
    if config.lora_r:
        merge_adapter(model)
    return log


def fit(
    model: SentenceTransformer,
    rows: Sequence[Mapping[str, Any]],
    config: RetrieverConfig,
    arguments: SentenceTransformerTrainingArguments,
    collator: ListCollator,
    evaluator: RankingEvaluator | None = None,
) -> list[dict[str, float]]:
    """Train the model in place on ``teacher_rows``; return the trainer's log."""
    # at least one batch per process: otherwise there would be no step
    most = max(1, len(rows) // process_state().num_processes)
    arguments = replace(arguments, per_device_train_batch_size=min(arguments.per_device_train_batch_size, most))
    trainer = SentenceTransformerTrainer(
        model=model,
        args=arguments if evaluator else replace(arguments, eval_strategy="no"),
        train_dataset=Dataset.from_list(list(rows)),
        loss=list_loss(config, model),
        evaluator=evaluator,
        data_collator=collator,
    )
    train_from_checkpoint(trainer, Path(arguments.output_dir))
    return [row for row in trainer.state.log_history if "loss" in row or any("eval" in key for key in row)]


def merge_adapter(model: SentenceTransformer) -> None:
    """Merge the LoRA matrices into the weights, and remove the adapter."""
    network = model.transformers_model
    for name, module in list(network.named_modules()):
        if isinstance(module, BaseTunerLayer):
            module.merge()
            parent, _, child = name.rpartition(".")
            setattr(network.get_submodule(parent), child, module.get_base_layer())
    network._hf_peft_config_loaded = False
    del network.peft_config


class RetrieverRun:
    """A training run in a folder, from which it resumes.

    ``first_pool`` has the training questions with the candidates of the first round (default: retrieved); ``store`` is
    a store of labels shared by several runs (default: a separate one).
    """

    def __init__(
        self,
        config: RetrieverConfig,
        arguments: SentenceTransformerTrainingArguments,
        questions: Questions,
        scorer: SePerScorer,
        first_pool: list[Query] | None = None,
        store: LabelStore | None = None,
    ) -> None:
        self.folder = Path(arguments.output_dir)
        self._config, self._arguments, self._questions = config, arguments, questions
        self._first_pool = first_pool
        labeler = labeler_for(config, scorer)
        self._base = load_encoder(config.model, config.max_seq_length)
        if config.lora_r and isinstance(self._base[0], Router):
            raise ValueError(
                f"lora_r must be 0 for a model with two encoders, got {config.lora_r} with {config.model}: an adapter "
                "would be added to only one of them"
            )
        claim_ranking_folder(self.folder, config, arguments, questions, labeler, [self._base])
        self._store = LabelStore(self.folder / LABELS, labeler, training_label(config)) if store is None else store

    def train(self, log: Callable[[Mapping[str, Any]], None] = lambda row: None) -> SentenceTransformer:
        """Run the unfinished rounds, with numbers to ``log``; return the trained model."""
        model = self._base
        for number in range(1, self._config.rounds + 1):
            folder = self._round_folder(number)
            if not together((folder / "round.json").is_file):
                self._round(model, number, log)
            # load from the folder even if just trained: LoRA checkpoints of the next round contain their base's folder
            model = load_encoder(str(folder / "model"))
        return model

    def _round(self, model: SentenceTransformer, number: int, log: Callable[[Mapping[str, Any]], None]) -> None:
        """Retrieve candidates, label them, train the model in place, and save it."""
        folder, seconds = self._round_folder(number), dict[str, float]()
        with stopwatch(seconds, "retrieval"):
            first = self._first_pool if number == 1 else None
            pool = first if first is not None else propose(model, self._config, self._questions, keep=number == 1)
        with stopwatch(seconds, "labelling"):
            labeled = self._store.label(pool)
        statistics = label_statistics(labeled, self._config.margin)
        log({"round": number, **{f"labels/{key}": value for key, value in statistics.items()}})
        with stopwatch(seconds, "training"):
            history = self._learn(model, labeled, replace(self._arguments, output_dir=str(folder / "checkpoints")))
        log({"round": number, **{f"seconds/{key}": value for key, value in seconds.items()}})
        process_state().wait_for_everyone()
        if process_state().is_main_process:
            model.save_pretrained(str(folder / "model"), create_model_card=False)
            write_json(folder / "round.json", {"labels": statistics, "seconds": seconds, "log": history})
        process_state().wait_for_everyone()

    def _learn(
        self, model: SentenceTransformer, labeled: list[LabeledQuery], arguments: SentenceTransformerTrainingArguments
    ) -> list[dict[str, float]]:
        return train_once(model, labeled, self._config, arguments, self._evaluator(model))

    def rounds(self) -> list[dict[str, Any]]:
        """Return the content of each round's ``round.json``: labels, seconds and the trainer's log."""
        files = [self._round_folder(number) / "round.json" for number in range(1, self._config.rounds + 1)]
        return [read_json(file) for file in files]

    def _round_folder(self, number: int) -> Path:
        return self.folder / f"round-{number}"

    def _evaluator(self, model: SentenceTransformer) -> RankingEvaluator | None:
        if self._arguments.eval_strategy == "no" or not self._questions.dev:
            return None
        return RankingEvaluator(model, self._questions.corpus, self._questions.dev, self._config.hops)


def main(argv: Sequence[str] | None = None) -> int:
    """Train the retriever, compare rankings before and after, and save; return 0."""
    kinds = (RetrieverConfig, RetrieverArguments)
    config, arguments = parse_options(kinds, argv, "seper-reward train retriever")
    config = in_folder(config, Path(arguments.output_dir))
    folder, questions, scorer, readers = begin(config, arguments)
    with locked(folder), tracked_run(config, arguments, "retriever") as tracked:
        run = RetrieverRun(config, arguments, questions, scorer)
        model = run.train(tracked.log)
        untrained = load_encoder(config.model, config.max_seq_length)
        before, after = (
            rank_by(retriever_of(each, config, questions.corpus, keep), questions.test, config.eval_top_k, config.hops)
            for each, keep in ((untrained, True), (model, False))
        )
        results = {**compare(before, after, questions.test, readers), "rounds": run.rounds()}
        if scorer.cache is not None:
            tracked.log({"cache/hits": scorer.cache.hits, "cache/misses": scorer.cache.misses})
        if process_state().is_main_process:
            model.save_pretrained(str(folder / "model"), create_model_card=False)
            publish(
                folder, results, tracked, "retriever", config, arguments, questions,
                model=config.model, pipeline="sentence-similarity", use=_USE,
            )  # fmt: skip
    source = f"--input {config.input}{corpus_flag(config.corpus)}"
    suggest(f"seper-reward train reranker --retriever {folder / 'model'} {source}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
