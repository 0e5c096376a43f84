"""Train the entailment adapter that ships: MiniLM with LoRA and a head, on NLI sets and pairs of answers.

    seper-reward train entailment --config configs/entailment/demo.yaml          # NLI and EVOUNA, from MiniLM
    seper-reward train entailment --config configs/entailment/confusable.yaml    # then also answers of one type
    seper-reward train entailment --config configs/entailment/forms.yaml         # then also forms of answers
    seper-reward train entailment --config configs/entailment/traps.yaml         # then also texts that state nothing
    seper-reward train entailment --config configs/entailment/traps-more.yaml    # then twice as many of them
    seper-reward train entailment --config configs/entailment/modified.yaml      # then also answers that say more

A killed run goes on from its last checkpoint. Training uses only sets whose licences allow shipping weights
(``LICENCES``). Scores are on held-out premises and questions. The adapter (safetensors), ``scores.json`` and the model
card are written into ``--output_dir``.
"""

import json
import os
import shutil
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from peft import PeftModel, TaskType, get_peft_model
from safetensors.torch import load_file, save_file
from scipy.optimize import minimize_scalar
from transformers import DataCollatorWithPadding, Trainer, TrainingArguments

from seper_reward.data.demo import EQUIVALENCE
from seper_reward.data.splits import split_of
from seper_reward.estimators.entailment import EntailmentScorer, new_entailment_model
from seper_reward.estimators.judge import BeliefJudge
from seper_reward.estimators.seper import Estimator
from seper_reward.estimators.statements import Statement, StatementEncoder
from seper_reward.evaluate.equivalence import METHODS, Verdict, best_alias_probs, equivalence, read_verdicts
from seper_reward.evaluate.judge import Traps, traps
from seper_reward.runtime.json_files import read_json, write_json
from seper_reward.runtime.parser import parse_settings
from seper_reward.runtime.pretrained import ENCODER_HUB_ID
from seper_reward.runtime.run_folder import claim_settings
from seper_reward.runtime.settings import check_types

from .adapters.entailment_data import (
    CAPS,
    EVALUATION_ONLY,
    LABELS,
    LICENCES,
    NOT_ENTAILMENT,
    NOT_NLI,
    LabeledPair,
    nli_pairs,
    training_pairs,
    trap_verdicts,
)
from .adapters.substitution import words_of
from .models import new_lora
from .runs import SETTINGS, ThisMachine, last_checkpoint, locked, model_card, suggest

SCORES = "scores.json"
_CHECKPOINTS = "checkpoints"
_INCIDENTAL = {"data_dir", "output_dir", "temperature", "evaluate_only"}  # settings that decide no weight


@dataclass
class EntailmentArguments(ThisMachine, TrainingArguments):
    """Transformers' training arguments; the CPU and bf16 as they suit the machine."""

    bf16: bool | None = None


@dataclass
class EntailmentTrainingConfig:
    """Settings of the entailment adapter and of its training."""

    data_dir: str = field(
        default_factory=lambda: os.environ.get("SEPER_SHARED_DATA", "../shared/data"),
        metadata={"help": "Folder with nli/, evouna/ and qa/; not given: $SEPER_SHARED_DATA, else ../shared/data."},
    )
    output_dir: str = field(
        default="runs/entailment", metadata={"help": "Folder to write adapter, scores and model card into."}
    )
    init_adapter: str | None = field(
        default=None, metadata={"help": "Folder of an adapter to start from; not given: a new one."}
    )
    confusable: bool = field(
        default=False,
        metadata={
            "help": "Whether to train on answers that are easily confused, too: mined ones and ones of one type."
        },
    )
    forms: bool = field(
        default=False,
        metadata={"help": "Whether to train on generated forms of answers, too: negated, hedged, lists, numbers, ..."},
    )
    traps: int = field(
        default=0,
        metadata={"help": "Number of texts that state nothing to train on, too: prose, gibberish, echoes, lists, ..."},
    )
    modified: int = field(
        default=0,
        metadata={"help": "Number of answers to train on, too, that say more than was asked: an American actress."},
    )
    lora_r: int = field(default=32, metadata={"help": "Rank of the LoRA matrices on all linear layers."})
    learning_rate: float = field(default=1e-3, metadata={"help": "Peak learning rate."})
    batch_size: int = field(default=64, metadata={"help": "Pairs of premise and hypothesis per step."})
    max_steps: int = field(default=2500, metadata={"help": "Number of optimizer steps."})
    temperature: float | None = field(
        default=None,
        metadata={"help": "Temperature that logits are divided by; not given: fitted on EVOUNA's dev split."},
    )
    evaluate_only: bool = field(
        default=False, metadata={"help": "Whether the adapter in output_dir is only scored again."}
    )
    seed: int = field(default=0, metadata={"help": "Seed of the choice of pairs, their order, and initial weights."})

    def __post_init__(self) -> None:
        check_types(self)


def three_way_loss(outputs: Any, labels: torch.Tensor, num_items_in_batch: Any = None) -> torch.Tensor:
    """Return the mean cross-entropy over pairs, in nats.

    Where a label is ``NOT_ENTAILMENT``, neutral and contradiction count as one class.

    Args:
        outputs: The model's outputs, with ``logits`` ``(B, 3)``.
        labels: ``(B,)`` classes, as in ``LABELS``.
        num_items_in_batch: Not used; the trainer passes it.
    """
    log_probs = outputs["logits"].float().log_softmax(-1)  # (B, 3)
    not_entailed = log_probs[:, 1:].logsumexp(-1, keepdim=True)  # (B, 1)
    return -torch.cat([log_probs, not_entailed], dim=-1).gather(1, labels[:, None]).mean()


def train(config: EntailmentTrainingConfig) -> Path:
    """Train the adapter and save it; return its folder."""
    data_dir, output = Path(config.data_dir), Path(config.output_dir)
    torch.manual_seed(config.seed)
    model, tokenizer = new_entailment_model()
    lora = new_lora(
        TaskType.SEQ_CLS,
        config.lora_r,
        lora_dropout=0.05,
        target_modules=["query", "key", "value", "dense"],
        exclude_modules=["pooler.dense"],
        modules_to_save=["classifier", "pooler"],
    )
    if config.init_adapter:
        model = PeftModel.from_pretrained(model, config.init_adapter, is_trainable=True)
    else:
        model = get_peft_model(model, lora)
    pairs = training_pairs(data_dir, config.seed, config.confusable, config.forms, config.traps, config.modified)
    print(f"{len(pairs)} training pairs", Counter(pair.source for pair in pairs))
    inputs = StatementEncoder(tokenizer, model.config)
    encoded = inputs.encode(_short_statements(inputs, pairs))
    rows = [{**{name: encoded[name][i] for name in encoded}, "labels": pair.label} for i, pair in enumerate(pairs)]
    checkpoints = output / _CHECKPOINTS
    arguments = EntailmentArguments(
        output_dir=str(checkpoints),
        max_steps=config.max_steps,
        per_device_train_batch_size=config.batch_size,
        learning_rate=config.learning_rate,
        lr_scheduler_type="cosine",
        warmup_steps=config.max_steps // 20,
        weight_decay=0.01,
        train_sampling_strategy="group_by_length",
        logging_steps=50,
        save_steps=50,
        save_total_limit=1,
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
    checkpoints.mkdir(parents=True, exist_ok=True)
    trainer.train(resume_from_checkpoint=last_checkpoint(checkpoints))
    # the path on this machine means nothing elsewhere
    model.peft_config["default"].base_model_name_or_path = ENCODER_HUB_ID
    model.half().save_pretrained(output, save_embedding_layers=False)  # fp16 halves the file; loading merges in fp32
    return output


def _short_statements(inputs: StatementEncoder, pairs: Sequence[LabeledPair]) -> list[Statement]:
    """Return pairs as they are judged; of a long premise, the part that shares most words with the hypothesis."""
    asked = {question: inputs.asked(question) for question in {pair.question for pair in pairs}}
    statements = [Statement(pair.premise, pair.hypothesis, asked[pair.question]) for pair in pairs]
    parts = inputs.parts(statements)
    return [
        max(parts[row][0], key=lambda part: len(words & words_of(part.premise)))
        for row, words in ((row, words_of(row.hypothesis)) for row in statements)
    ]


def fitted_temperature(adapter: Path, dev: Sequence[Verdict]) -> float:
    """Return the temperature T that fits the saved classifier's probabilities to verdicts.

    Temperature scaling (Guo et al., arXiv:1706.04599): T minimises the negative log-likelihood of the verdicts.

    Args:
        adapter: Folder of the adapter.
        dev: Verdicts that training did not use.
    """
    probs = best_alias_probs(EntailmentScorer.from_pretrained(str(adapter)), dev)
    verdicts = torch.tensor([float(row.equivalent) for row in dev])
    uncertain = probs.max(dim=-1).values < 1  # equal texts get probability 1 without the model
    log_probs, outcomes = probs[uncertain].log(), verdicts[uncertain]

    def loss(temperature: float) -> float:
        entailed = (log_probs / temperature).softmax(-1)[:, 0]
        return float(torch.nn.functional.binary_cross_entropy(entailed, outcomes))

    return float(minimize_scalar(loss, bounds=(0.25, 4.0), method="bounded").x)


def divide_logits(adapter: Path, temperature: float) -> None:
    """Divide the saved classifier's last layer, and so its logits, by a temperature: no loader has to know of it."""
    file = adapter / "adapter_model.safetensors"
    weights = load_file(file)
    weights |= {name: tensor / temperature for name, tensor in weights.items() if ".classifier." in name}
    save_file(weights, file, metadata={"format": "pt"})


def evaluate(adapter: Path, data_dir: Path) -> dict[str, Any]:
    """Score the saved adapter on held-out premises, on questions with human verdicts, and on our own test set.

    Returns:
        ``nli``: ``accuracy`` in % and ``n`` by set. ``evouna_test`` and ``own``: what ``equivalence`` returns.
        ``stress``: what ``traps`` returns. ``own_all``: the column of all rows of ``own`` together.
    """
    scorer = EntailmentScorer.from_pretrained(str(adapter))
    accuracy = {}
    for name in [*(name for name in LICENCES if name not in NOT_NLI), *EVALUATION_ONLY]:
        pairs = nli_pairs(data_dir, name, "test")
        classes = scorer.class_probs([(pair.premise, pair.hypothesis) for pair in pairs]).argmax(-1).tolist()
        right = [_agrees(predicted, pair.label) for predicted, pair in zip(classes, pairs, strict=True)]
        accuracy[name] = {"accuracy": round(100 * sum(right) / len(right), 1), "n": len(pairs)}
    own = read_verdicts(EQUIVALENCE, column_by="kind")
    return {
        "nli": accuracy,
        "evouna_test": equivalence(scorer, read_verdicts(data_dir / "evouna" / "NQ.json.gz")).as_dict(),
        "own": equivalence(scorer, own, threshold=0.5).as_dict(),
        "stress": asdict(traps(BeliefJudge(scorer, Estimator(), cache=None))),
        "own_all": equivalence(scorer, [replace(row, column="all") for row in own], threshold=0.5).columns["all"],
    }


def _agrees(predicted: int, label: int) -> bool:
    return predicted != LABELS["entailment"] if label == NOT_ENTAILMENT else predicted == label


def card(config: EntailmentTrainingConfig, scores: dict[str, Any]) -> str:
    """Return the model card."""
    data = "\n".join(f"| {name} | {licence} | {CAPS.get(name, 'all')} |" for name, licence in LICENCES.items())
    nli = "\n".join(
        f"| {name}{' (not trained on)' if name in EVALUATION_ONLY else ''} | {row['accuracy']} | {row['n']} |"
        for name, row in scores["nli"].items()
    )
    own = scores["own"]["columns"] | {"all": scores["own_all"]}
    return model_card(
        "entailment_adapter",
        data=data,
        nli=nli,
        evouna=_method_rows(scores["evouna_test"]["columns"]),
        own=_method_rows(own),
        thresholds=scores["evouna_test"]["thresholds"],
        ece=scores["evouna_test"]["calibration"]["ece"],
        own_ece=scores["own"]["calibration"]["ece"],
        stress="\n".join(f"| {trap} | {value:.3f} |" for trap, value in Traps(**scores["stress"]).rows()),
        **{**vars(config), "temperature": scores["temperature"]},
    )


def _method_rows(columns: dict[str, Any]) -> str:
    return "\n".join(
        f"| {name} | "
        + " | ".join(f"{row[f'{p}f1']} / {row[f'{p}accuracy']}" for p in METHODS.values())
        + f" | {row['n']} |"
        for name, row in columns.items()
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Train and calibrate the adapter (unless ``--evaluate_only``), score it, and write its model card; return 0."""
    (config,) = parse_settings((EntailmentTrainingConfig,), argv, "seper-reward train entailment", __doc__)
    with locked(Path(config.output_dir)):
        make(config)
    suggest(f"seper-reward evaluate judge --entailment {config.output_dir}")
    return 0


def make(config: EntailmentTrainingConfig) -> None:
    """Train and calibrate the adapter, unless it is only to be scored; score it, and write its model card.

    Raises:
        ValueError: The folder holds a training with other settings.
    """
    adapter, data_dir = Path(config.output_dir), Path(config.data_dir)
    if config.evaluate_only:
        temperature = read_json(adapter / SCORES)["temperature"]
    else:
        claim_settings(
            adapter / SETTINGS, {name: value for name, value in vars(config).items() if name not in _INCIDENTAL}
        )
        train(config)
        people = read_verdicts(data_dir / "evouna" / "NQ.json.gz")
        dev = [row for row in people if split_of(row.question) == "dev"]
        dev += trap_verdicts(data_dir, len(dev), config.seed) if config.traps else ()
        temperature = config.temperature or fitted_temperature(adapter, dev)
        divide_logits(adapter, temperature)
        write_json(adapter / SCORES, {"temperature": temperature})  # ``--evaluate_only`` reads it
    scores = {**evaluate(adapter, data_dir), "temperature": temperature}
    write_json(adapter / SCORES, scores)
    (adapter / "README.md").write_text(card(config, scores))
    print(json.dumps(scores, indent=2))
    shutil.rmtree(adapter / _CHECKPOINTS, ignore_errors=True)  # only now: until here the same command goes on


if __name__ == "__main__":
    sys.exit(main())
