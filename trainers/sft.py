"""Supervised fine-tuning of a small causal model with TRL's SFTTrainer and a LoRA adapter.

    seper-reward train sft --config configs/sft/policy.yaml             # warm-up of a policy that may search
    seper-reward train sft --data rows.jsonl --output_dir runs/reader   # rows of {prompt, completion}

All fields of TRL's ``SFTConfig`` are settings. With ``data: policy`` the model learns to answer or to search first
(``trainers/policy_warmup.py``); with ``data: FILE.jsonl`` it learns the rows of the file.
"""

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from peft import PeftModel
from trl import SFTConfig, SFTTrainer

from seper_reward.data.rows import read_valid_rows
from seper_reward.data.splits import spread
from seper_reward.options import LoadOptions, check_least, check_types, setting
from seper_reward.reader.loading import PLAIN, load_reader, load_tokenizer
from seper_reward.reports.tables import cell, markdown_table
from seper_reward.retrieval import load_retriever
from seper_reward.reward import with_tool_template
from seper_reward.runtime.parser import parse_options
from seper_reward.runtime.pretrained import LoadedModel
from seper_reward.scorer import style_of

from .cards import generator_fields, write_card
from .models import MERGED, causal_lora, name_base, needs_merging, save_merged
from .policy_task import (
    load_task_scorer,
    new_tool,
    prompt_code,
    read_policy_questions,
    read_policy_task,
    read_scorer_config,
)
from .policy_warmup import warm_up_rows
from .runs import ThisMachine, project_completions_only, suggest


@dataclass
class SftScriptConfig:
    """Settings of model and data, in addition to TRL's SFTConfig."""

    data: str = setting(
        "policy", "Training data: 'policy' (answers and searches), or a JSONL file of {prompt, completion}."
    )
    model: str = setting(
        PLAIN,
        "Model to train: 'plain' (SmolLM2-135M-Instruct), 'embedded' (with our adapter), hub id or folder; with "
        "data=policy, the policy's model is used instead.",
    )
    init_adapter: str | None = setting(None, "Folder of an adapter to start from (default: a new one).")
    lora_r: int = setting(16, "Rank of the LoRA matrices on all linear layers.")
    lora_layers: int | None = setting(
        None, "Number of last blocks to adapt (no gradient flows below them) (default: all)."
    )
    policy: str = setting(
        "configs/policy/demo.yaml",
        "YAML file of the policy for data=policy, with its model, questions, search tool and reader.",
    )
    limit: int | None = setting(
        None, "Number of examples to train on, or of questions with data=policy (default: all)."
    )

    def __post_init__(self) -> None:
        check_types(self)
        check_least(self, limit=1)


@dataclass
class SftArguments(ThisMachine, SFTConfig):
    """TRL's SFTConfig; without an accelerator, the CPU is used."""

    max_length: int | None = setting(
        None,
        "Maximum number of tokens of an example; longer ones are cut, or left out (default: no limit; 1024 with "
        "packing).",
    )

    def __post_init__(self) -> None:
        if self.packing and self.max_length is None:
            self.max_length = SFTConfig.max_length
        super().__post_init__()


def training_rows(config: SftScriptConfig) -> list[dict[str, Any]]:
    """Return the rows of the file of ``{prompt, completion}``; a row without a text raises ``ValueError``."""
    rows = []
    for where, row in read_valid_rows(config.data):
        if not all(isinstance(row.get(name), str) for name in ("prompt", "completion")):
            raise ValueError(f"{where}: expected the texts prompt and completion, got {str(row)[:80]}")
        rows.append(dict(row))
    if not rows:
        raise ValueError(f"{config.data}: expected rows of prompt and completion, got none")
    return rows[: config.limit]


def policy_rows(config: SftScriptConfig, arguments: SFTConfig, loaded: LoadedModel) -> list[dict[str, Any]]:
    """Return the warm-up rows of the policy in ``config.policy``; all processes must call this together."""
    task = read_policy_task(config.policy)
    scorer = load_task_scorer(task, Path(arguments.output_dir), loaded)
    questions = read_policy_questions(task)
    return warm_up_rows(
        spread(questions.train, config.limit),
        scorer,
        new_tool(task, load_retriever(task.retriever, questions.corpus), scorer.reader.prompts.style),
        # a separate tokenizer: the reader's must keep its chat template
        with_tool_template(load_tokenizer(config.model)),
        max_turns=task.max_turns,
        seed=arguments.seed,
    )


def new_trainer(config: SftScriptConfig, arguments: SFTConfig) -> tuple[SFTTrainer, Counter[str]]:
    """Return the trainer, with model and examples, and the number of examples by kind."""
    loaded = load_reader(config.model, LoadOptions(device="cpu" if arguments.use_cpu else None))
    rows = policy_rows(config, arguments, loaded) if config.data == "policy" else training_rows(config)
    learned = [{name: row[name] for name in ("prompt", "completion")} for row in rows]
    torch.manual_seed(arguments.seed)
    model = loaded.model.train()
    lora = causal_lora(model, config.lora_r, config.lora_layers)
    if config.init_adapter:
        model, lora = PeftModel.from_pretrained(model, config.init_adapter, is_trainable=True), None
    trainer = SFTTrainer(
        model=model,
        args=arguments,
        train_dataset=Dataset.from_list(learned),
        processing_class=loaded.tokenizer,
        peft_config=lora,
    )
    return trainer, Counter(str(row.get("kind", "")) for row in rows)


def train(config: SftScriptConfig, arguments: SFTConfig) -> Path:
    """Train the adapter, save it with its tokenizer and card, and merged if PEFT cannot load it; return its folder."""
    trainer, kinds = new_trainer(config, arguments)
    folder = Path(arguments.output_dir)
    print(f"{kinds.total()} examples: {dict(kinds)}")
    with project_completions_only():
        trainer.train(resume_from_checkpoint=arguments.resume_from_checkpoint)
    if trainer.accelerator.is_main_process:
        adapter = trainer.accelerator.unwrap_model(trainer.model)
        # fp16 halves the file, loading merges in fp32; the vocabulary is unchanged: PEFT need not check it on the hub
        adapter.half().save_pretrained(folder, save_embedding_layers=False)
        name_base(folder, config.model)
        warm_up = config.data == "policy"
        tokenizer = load_tokenizer(config.model)
        if warm_up:
            tokenizer = with_tool_template(tokenizer)
        tokenizer.save_pretrained(folder)
        if needs_merging(config.model):
            save_merged(folder, folder / MERGED, tokenizer)
        how = generator_fields(config.model, True)
        if warm_up:
            task = read_policy_task(config.policy)
            reading = read_scorer_config(task.scorer)
            style = style_of(reading, reading.reader if task.reader == "separate" else task.model)
            how = generator_fields(config.model, True, prompt_code(style))
        losses = [row for row in trainer.state.log_history if "loss" in row]
        rows = [[str(row["step"]), cell(row["loss"])] for row in losses[:1] + losses[1:][-1:]]
        rows += [["mean", cell(row["train_loss"])] for row in trainer.state.log_history if "train_loss" in row]
        kind = "Warm-up of a policy that may search" if warm_up else "Adapter fine-tuned on prompts and completions"
        write_card(
            [folder, folder / MERGED], kind, "sft", config, arguments,
            results=f"{kinds.total()} examples: {dict(kinds)}. Mean loss per token of the completions, in nats:\n\n"
            + markdown_table(["step", "loss"], rows),
            **how,
        )  # fmt: skip
    trainer.accelerator.wait_for_everyone()
    return folder


def main(argv: Sequence[str] | None = None) -> int:
    """Train the adapter and save it; return 0."""
    kinds = (SftScriptConfig, SftArguments)
    config, arguments = parse_options(kinds, argv, "seper-reward train sft")
    if config.data == "policy":
        config.model = read_policy_task(config.policy).model
    adapter = train(config, arguments)
    if config.data == "policy":
        suggest(f"seper-reward train policy --config {config.policy} --init_adapter {adapter}")
    else:
        suggest(f"seper-reward label --reader {adapter} --input QUESTIONS.jsonl")
    return 0


if __name__ == "__main__":
    sys.exit(main())
