"""Train an entailment adapter for multilingual-e5-small, LoRA with a three-way head, on a file of pairs.

    seper-reward train entailment --pairs pairs.jsonl --dev_pairs dev.jsonl --output_dir runs/entailment
    seper-reward label --judge runs/entailment --input questions.jsonl ...

Labels are entailment, neutral, contradiction, and not_entailment for either of the latter two. A question is prepended
to the texts, as in the judgment of responses. A killed run resumes from its last checkpoint.
"""

import re
import shutil
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from peft import PeftModel, TaskType, get_peft_model
from safetensors.torch import load_file, save_file
from scipy.optimize import minimize_scalar
from transformers import DataCollatorWithPadding, Trainer, TrainingArguments

from seper_reward.data.rows import BadRowError, read_valid_rows
from seper_reward.evaluate.judge import Verdict, best_alias_probs, calibration
from seper_reward.judge.entailment import EntailmentScorer, new_entailment_model
from seper_reward.judge.judge import Judge
from seper_reward.runtime.distributed import process_state
from seper_reward.runtime.hashing import content_key
from seper_reward.runtime.json_files import leaves, write_json
from seper_reward.runtime.multilingual_encoder import MULTILINGUAL_HUB_ID
from seper_reward.runtime.parser import parse_options
from seper_reward.types import Pair

from .cards import write_card
from .models import new_lora
from .options import EntailmentConfig, EntailmentDefaults
from .runs import ThisMachine, claim_run, suggest, tracked_run, train_from_checkpoint

NOT_ENTAILMENT = 3  # human verdicts "not the same answer", which may be neutral or contradiction
LABELS = {"entailment": 0, "neutral": 1, "contradiction": 2, "not_entailment": NOT_ENTAILMENT}
SCORES = "scores.json"
CHECKPOINTS = "checkpoints"
_USE = """\
from seper_reward import SePerScorer

scorer = SePerScorer.from_pretrained(judge="PATH")"""
_INCIDENTAL = {"pairs", "dev_pairs", "temperature"}  # settings without effect on the weights


class LabeledPair(NamedTuple):
    """One training or test example: does ``premise`` entail ``hypothesis``? ``label`` is a class of ``LABELS``."""

    premise: str
    hypothesis: str
    label: int
    source: str = ""
    question: str = ""


@dataclass
class EntailmentArguments(ThisMachine, EntailmentDefaults, TrainingArguments):
    """Transformers' training arguments, with this recipe's defaults."""


def read_pairs(path: str | Path) -> list[LabeledPair]:
    """Read pairs from a file of rows ``{premise, hypothesis, label, question?}``; an unusable row raises."""
    pairs = []
    for where, pair in read_valid_rows(path):
        for name in ("premise", "hypothesis"):
            if not isinstance(pair.get(name), str):
                raise BadRowError(f"{where}: expected {name!r} as a text, got {pair.get(name)!r}; fill it in")
        if pair.get("label") not in LABELS:
            raise BadRowError(f"{where}: label must be one of {', '.join(LABELS)}, got {pair.get('label')!r}")
        question = pair.get("question") or ""
        pairs.append(
            LabeledPair(
                pair["premise"], pair["hypothesis"], LABELS[pair["label"]], str(pair.get("source", "")), question
            )
        )
    if not pairs:
        raise ValueError(f"{path}: expected pairs, got none")
    return pairs


def three_way_loss(outputs: Any, labels: torch.Tensor, num_items_in_batch: object = None) -> torch.Tensor:
    """Return the mean cross-entropy over pairs, in nats; ``logits`` are ``(B, 3)``, and labels ``(B,)``."""
    log_probs = outputs["logits"].float().log_softmax(-1)  # (B, 3)
    # for the label NOT_ENTAILMENT, neutral and contradiction are one class
    not_entailed = log_probs[:, 1:].logsumexp(-1, keepdim=True)  # (B, 1)
    return -torch.cat([log_probs, not_entailed], dim=-1).gather(1, labels[:, None]).mean()


def train(config: EntailmentConfig, arguments: EntailmentArguments) -> Path:
    """Train the adapter and save it; return its folder."""
    output = Path(arguments.output_dir)
    torch.manual_seed(arguments.seed)
    model, tokenizer = new_entailment_model()
    lora = new_lora(
        TaskType.SEQ_CLS,
        config.lora_r,
        target_modules=["query", "key", "value", "dense"],
        exclude_modules=["pooler.dense"],
        modules_to_save=["classifier", "pooler"],
    )
    if config.init_adapter:
        model = PeftModel.from_pretrained(model, config.init_adapter, is_trainable=True)
    else:
        model = get_peft_model(model, lora)
    pairs = read_pairs(config.pairs)
    print(f"{len(pairs)} training pairs", dict(Counter(pair.source for pair in pairs if pair.source)))
    encoded = short_inputs(EntailmentScorer(model, tokenizer), pairs)
    rows = [{**{name: encoded[name][i] for name in encoded}, "labels": pair.label} for i, pair in enumerate(pairs)]
    checkpoints = output / CHECKPOINTS
    trainer = Trainer(
        model=model,
        args=replace(arguments, output_dir=str(checkpoints)),
        train_dataset=rows,
        data_collator=DataCollatorWithPadding(tokenizer, pad_to_multiple_of=8),
        compute_loss_func=three_way_loss,
    )
    checkpoints.mkdir(parents=True, exist_ok=True)
    train_from_checkpoint(trainer, checkpoints)
    # the local path is meaningless on other machines
    model.peft_config["default"].base_model_name_or_path = MULTILINGUAL_HUB_ID
    model.half().save_pretrained(output, save_embedding_layers=False)  # fp16 halves the file; loading merges in fp32
    return output


def short_inputs(scorer: EntailmentScorer, pairs: Sequence[LabeledPair]) -> Any:
    """Return encoded pairs; of a long premise only the part that shares most words with the hypothesis."""

    def words(text: str) -> set[str]:
        return set(re.findall(r"\w+", text.lower()))

    grids = scorer.parts([Pair(pair.question, pair.premise, pair.hypothesis) for pair in pairs])
    inputs = [(grid[0], words(pair.hypothesis)) for grid, pair in zip(grids, pairs, strict=True)]
    return scorer.encode(
        [max(parts, key=lambda part: len(hypothesis & words(part.premise))) for parts, hypothesis in inputs]
    )


def fitted_temperature(adapter: Path, dev: Sequence[Verdict]) -> float:
    """Return the temperature T that fits the saved classifier's probabilities to held-out verdicts.

    Temperature scaling (Guo et al., arXiv:1706.04599): T minimises the negative log-likelihood of the verdicts.
    """
    probs = best_alias_probs(Judge(EntailmentScorer.from_pretrained(str(adapter))), dev)
    verdicts = torch.tensor([float(verdict.equivalent) for verdict in dev])
    uncertain = probs.max(dim=-1).values < 1  # rules give equal texts probability 1 without the model
    log_probs, outcomes = probs[uncertain].log(), verdicts[uncertain]

    def loss(temperature: float) -> float:
        entailed = (log_probs / temperature).softmax(-1)[:, 0]
        return float(torch.nn.functional.binary_cross_entropy(entailed, outcomes))

    return float(minimize_scalar(loss, bounds=(0.25, 4.0), method="bounded").x)


def divide_logits(adapter: Path, temperature: float) -> None:
    """Divide the saved classifier's last layer, and so its logits, by a temperature; loaders need no change."""
    file = adapter / "adapter_model.safetensors"
    weights = load_file(file)
    weights |= {name: tensor / temperature for name, tensor in weights.items() if ".classifier." in name}
    save_file(weights, file, metadata={"format": "pt"})


def verdicts_of(pairs: Sequence[LabeledPair]) -> list[Verdict]:
    """Return pairs as verdicts on responses: the premise is right if it entails the hypothesis."""
    return [Verdict(pair.question, (pair.hypothesis,), pair.premise, pair.label == 0) for pair in pairs]


def score(adapter: Path, dev: Sequence[Verdict]) -> dict[str, Any]:
    """Return the saved adapter's agreement with verdicts: ``n``, ``accuracy`` in % (threshold .5), and ``ece``."""
    probs = best_alias_probs(Judge(EntailmentScorer.from_pretrained(str(adapter))), dev)[:, 0].tolist()
    outcomes = [verdict.equivalent for verdict in dev]
    right = sum((prob >= 0.5) == outcome for prob, outcome in zip(probs, outcomes, strict=True))
    return {"n": len(dev), "accuracy": round(100 * right / len(dev), 1), "ece": calibration(probs, outcomes)["ece"]}


def main(argv: Sequence[str] | None = None) -> int:
    """Train and calibrate the adapter, score it on the dev pairs, and write its model card; return 0."""
    kinds = (EntailmentConfig, EntailmentArguments)
    config, arguments = parse_options(kinds, argv, "seper-reward train entailment")
    if process_state().num_processes > 1:
        raise ValueError("train entailment runs in one process; start it without torchrun or accelerate launch")
    adapter, pairs = Path(arguments.output_dir), read_pairs(config.pairs)
    dev = verdicts_of(read_pairs(config.dev_pairs)) if config.dev_pairs else []
    with tracked_run(config, arguments, "entailment") as tracked:
        claim_run(config, arguments, _INCIDENTAL, data=content_key(*pairs))
        train(config, arguments)
        temperature = config.temperature or (fitted_temperature(adapter, dev) if dev else 1.0)
        divide_logits(adapter, temperature)
        scores: dict[str, Any] = {"temperature": temperature, **({"dev": score(adapter, dev)} if dev else {})}
        write_json(adapter / SCORES, scores)
        results = f"Trained on {len(pairs)} pairs; the logits are divided by {temperature:.3f}. "
        if dev:
            results += "Accuracy on {n} dev pairs, entailed or not: {accuracy} %. Expected calibration error: {ece}."
        else:
            results += "No dev pairs were given, so the adapter is neither calibrated nor scored."
        write_card(
            [adapter], "Entailment adapter", "entailment", config, arguments,
            library="peft", pipeline="text-classification", base=MULTILINGUAL_HUB_ID, use=_USE,
            results=results.format(**scores.get("dev", {})),
        )  # fmt: skip
        tracked.log(dict(leaves(scores)))
        tracked.artifact("entailment", "model", [adapter / "adapter_model.safetensors", adapter / "README.md"])
        shutil.rmtree(adapter / CHECKPOINTS, ignore_errors=True)  # not earlier: until here the same command resumes
    print(scores)
    suggest(f"seper-reward evaluate judge --judge {adapter} --file VERDICTS.jsonl")
    return 0


if __name__ == "__main__":
    sys.exit(main())
