"""Train the shipped entailment adapter: MiniLM + LoRA + head on natural language inference and answer pairs.

    python -m trainers.entailment --config configs/entailment/demo.yaml          # NLI and EVOUNA, from MiniLM
    python -m trainers.entailment --config configs/entailment/confusable.yaml    # then answers of one type

Only licence-clean sets are used (see ``LICENCES``); everything is measured on held-out premises and questions.
Writes the adapter (safetensors), ``scores.json`` and the model card into ``--output_dir``.
"""

import json
import os
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, PeftModel, TaskType, get_peft_model
from sklearn.metrics import accuracy_score, f1_score
from transformers import DataCollatorWithPadding, Trainer, TrainingArguments
from trl import TrlParser

from seper_reward.entailment import EntailmentScorer, normalize_answer
from seper_reward.models import ENCODER_HUB_ID, new_entailment_model
from trainers.entailment_data import (
    CAPS,
    EVALUATION_ONLY,
    LICENCES,
    SYSTEMS,
    Row,
    aliases_of,
    evouna_rows,
    nli_pairs,
    training_pairs,
)


@dataclass
class EntailmentTrainingConfig:
    """Settings of the adapter and of its training."""

    data_dir: str = field(
        default_factory=lambda: os.environ.get("SEPER_SHARED_DATA", "../shared/data"),
        metadata={"help": "Folder with nli/ and evouna/ (default: $SEPER_SHARED_DATA or ../shared/data)."},
    )
    output_dir: str = field(default="runs/entailment", metadata={"help": "Where the adapter, scores and card go."})
    init_adapter: str | None = field(default=None, metadata={"help": "Go on from this adapter's weights."})
    confusable: bool = field(default=False, metadata={"help": "Add mined and same-type answers to the mix."})
    lora_r: int = field(default=32, metadata={"help": "Rank of the LoRA matrices (all linear layers)."})
    learning_rate: float = field(default=1e-3, metadata={"help": "Peak learning rate."})
    batch_size: int = field(default=64, metadata={"help": "Pairs per step."})
    max_steps: int = field(default=2500, metadata={"help": "Optimizer steps."})
    max_length: int = field(default=128, metadata={"help": "Tokens per pair in training; longer is cut."})
    evaluate_only: bool = field(default=False, metadata={"help": "Score the adapter in output_dir again."})
    seed: int = field(default=0, metadata={"help": "Seed of sampling, initial weights and order."})


def three_way_loss(outputs: Any, labels: torch.Tensor, num_items_in_batch: Any = None) -> torch.Tensor:
    """Cross-entropy; for ``NOT_ENTAILMENT`` that of the summed probability of the two other classes."""
    log_probs = outputs["logits"].float().log_softmax(-1)  # (B, 3)
    not_entailed = log_probs[:, 1:].logsumexp(-1, keepdim=True)  # (B, 1)
    return -torch.cat([log_probs, not_entailed], dim=-1).gather(1, labels[:, None]).mean()


def train(config: EntailmentTrainingConfig) -> Path:
    """Train the adapter and save it; return its folder."""
    data_dir, output = Path(config.data_dir), Path(config.output_dir)
    torch.manual_seed(config.seed)
    model, tokenizer = new_entailment_model()
    lora = LoraConfig(
        task_type=TaskType.SEQ_CLS,
        r=config.lora_r,
        lora_alpha=2 * config.lora_r,
        lora_dropout=0.05,
        target_modules=["query", "key", "value", "dense"],
        exclude_modules=["pooler.dense"],
        modules_to_save=["classifier", "pooler"],
    )
    if config.init_adapter:
        model = PeftModel.from_pretrained(model, config.init_adapter, is_trainable=True)
    else:
        model = get_peft_model(model, lora)
    pairs = training_pairs(data_dir, config.seed, config.confusable)
    print(f"{len(pairs)} training pairs", Counter(pair.source for pair in pairs))
    encoded = tokenizer(
        [pair.premise for pair in pairs],
        [pair.hypothesis for pair in pairs],
        truncation="longest_first",
        max_length=config.max_length,
    )
    rows = [{**{name: encoded[name][i] for name in encoded}, "labels": pair.label} for i, pair in enumerate(pairs)]
    arguments = TrainingArguments(
        output_dir=str(output / "checkpoints"),
        max_steps=config.max_steps,
        per_device_train_batch_size=config.batch_size,
        learning_rate=config.learning_rate,
        lr_scheduler_type="cosine",
        warmup_steps=config.max_steps // 20,
        weight_decay=0.01,
        bf16=True,
        use_cpu=not torch.accelerator.is_available(),
        train_sampling_strategy="group_by_length",
        logging_steps=50,
        save_strategy="no",
        report_to="none",
        seed=config.seed,
        disable_tqdm=not sys.stderr.isatty(),
    )
    trainer = Trainer(
        model=model,
        args=arguments,
        train_dataset=rows,
        data_collator=DataCollatorWithPadding(tokenizer),
        compute_loss_func=three_way_loss,
    )
    trainer.train()
    model.peft_config["default"].base_model_name_or_path = ENCODER_HUB_ID  # not this machine's path
    model.half().save_pretrained(output, save_embedding_layers=False)  # fp16 halves the file; merged in fp32 on load
    return output


def evaluate(adapter: Path, data_dir: Path) -> dict[str, Any]:
    """Score the saved adapter on held-out premises (three-way accuracy) and questions (human verdicts)."""
    scorer = EntailmentScorer.from_pretrained(str(adapter))
    accuracy = {}
    for name in [*(name for name in LICENCES if name != "evouna"), *EVALUATION_ONLY]:
        pairs = nli_pairs(data_dir, name, "test")
        classes = scorer.class_probs([(pair.premise, pair.hypothesis) for pair in pairs]).argmax(-1)
        correct = accuracy_score([pair.label for pair in pairs], classes)
        accuracy[name] = {"accuracy": round(100 * correct, 1), "n": len(pairs)}
    dev, test = evouna_rows(data_dir, "dev"), evouna_rows(data_dir, "test")
    systems = {system: equivalence(scorer, system, dev, test) for system in SYSTEMS}
    return {"nli": accuracy, "evouna_test": systems}


def equivalence(scorer: EntailmentScorer, system: str, dev: list[Row], test: list[Row]) -> dict[str, float]:
    """Compare entailment of the gold answer with human verdicts; the threshold is the best for F1 on dev."""
    dev_scores, dev_verdicts = best_alias_scores(scorer, system, dev)
    scores, verdicts = best_alias_scores(scorer, system, test)
    threshold = max(
        (step / 100 for step in range(1, 100)),
        key=lambda cut: f1_score(dev_verdicts, [score >= cut for score in dev_scores]),
    )
    judged = [score >= threshold for score in scores]
    lexical = [
        any(normalize_answer(alias) in normalize_answer(row[f"answer_{system}"]) for alias in aliases_of(row))
        for row in judged_rows(system, test)
    ]
    return {
        "f1": round(100 * f1_score(verdicts, judged), 1),
        "accuracy": round(100 * accuracy_score(verdicts, judged), 1),
        "lexical_f1": round(100 * f1_score(verdicts, lexical), 1),
        "lexical_accuracy": round(100 * accuracy_score(verdicts, lexical), 1),
        "threshold": threshold,
        "n": len(verdicts),
    }


def best_alias_scores(scorer: EntailmentScorer, system: str, rows: list[Row]) -> tuple[list[float], list[bool]]:
    """Return each judged answer's entailment of its best-matching gold alias, and the human verdicts."""
    rows = judged_rows(system, rows)
    pairs = [(position, alias) for position, row in enumerate(rows) for alias in aliases_of(row)]
    found = scorer.score(
        [(rows[position][f"answer_{system}"], alias) for position, alias in pairs],
        [rows[position]["question"] for position, _ in pairs],
    )
    best = [0.0] * len(rows)
    for (position, _), score in zip(pairs, found.tolist(), strict=True):
        best[position] = max(best[position], score)
    return best, [row[f"judge_{system}"] for row in rows]


def judged_rows(system: str, rows: list[Row]) -> list[Row]:
    """Keep the rows in which a person judged the system's answer."""
    return [row for row in rows if row[f"answer_{system}"] and row[f"judge_{system}"] is not None]


def card(config: EntailmentTrainingConfig, scores: dict[str, Any]) -> str:
    """Return the model card."""
    data = "\n".join(f"| {name} | {licence} | {CAPS.get(name, 'all')} |" for name, licence in LICENCES.items())
    nli = "\n".join(
        f"| {name}{' (not trained on)' if name in EVALUATION_ONLY else ''} | {row['accuracy']} | {row['n']} |"
        for name, row in scores["nli"].items()
    )
    evouna = "\n".join(
        f"| {name} | {row['f1']} / {row['accuracy']} | {row['lexical_f1']} / {row['lexical_accuracy']} | {row['n']} |"
        for name, row in scores["evouna_test"].items()
    )
    stage = f"on from `{config.init_adapter}`, " if config.init_adapter else ""
    return CARD.format(data=data, nli=nli, evouna=evouna, stage=stage, **vars(config))


CARD = """\
---
license: cc-by-sa-4.0
base_model: sentence-transformers/all-MiniLM-L6-v2
library_name: peft
---
# Entailment adapter

LoRA (r={lora_r}, all linear layers of the encoder) with pooler and a three-way head on all-MiniLM-L6-v2 (Apache-2.0).
It judges whether one answer to a question entails another; both sides read "question answer".
Shipped in float16, merged in float32 when loaded. CC BY-SA 4.0, after the most demanding of its training sets.

Made by `python -m trainers.entailment` in two stages: `configs/entailment/demo.yaml` (2500 steps of 64 pairs, peak
learning rate 1e-3, without mined and same-type pairs), then `configs/entailment/confusable.yaml` ({max_steps} steps
of {batch_size} pairs, peak learning rate {learning_rate}, seed {seed}, {stage}all sets below).

## Training data (train splits of `../shared/data`; see its README)

| set | licence | pairs at most |
|---|---|---|
{data}

EVOUNA gives human verdicts on answers (not entailed = neutral or contradiction), aliases of one answer, and answers
swapped between questions, by kind and by closeness in MiniLM. `trainers/answer_types.py` (ours) adds 10,000 pairs of
confusable answers of one type: two cities, two colours, two years. EVOUNA's questions that are in a dev or test split
of NQ (`qa/nq_oracle_bm25neg`) were left out.

## Scores on held-out data

Three-way accuracy, % (premises not seen in training):

| set | accuracy | n |
|---|---|---|
{nli}

Agreement with human verdicts on answers (EVOUNA-NQ, test split by question), F1 / accuracy in %, threshold chosen
for F1 on the dev split; lexical = a gold alias is contained in the answer, both normalised:

| system | entailment | lexical | n |
|---|---|---|---|
{evouna}

Known limits: six layers and 22M parameters; long answers and fine distinctions (ANLI) are beyond it.
"""


def main() -> None:
    """Parse, train (unless ``--evaluate_only``), evaluate, write the card."""
    (config,) = TrlParser((EntailmentTrainingConfig,)).parse_args_and_config()
    adapter = Path(config.output_dir) if config.evaluate_only else train(config)
    scores = evaluate(adapter, Path(config.data_dir))
    (adapter / "scores.json").write_text(json.dumps(scores, indent=2) + "\n")
    (adapter / "README.md").write_text(card(config, scores))
    print(json.dumps(scores, indent=2))


if __name__ == "__main__":
    main()
