"""Supervised fine-tuning of a small causal model with TRL's SFTTrainer and a LoRA adapter.

seper-reward train sft --config configs/sft/policy.yaml             # warm-up of a policy that may search
seper-reward train sft --data rows.jsonl --output_dir runs/reader   # rows of {prompt, completion}
"""

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from peft import PeftModel
from trl import SFTConfig, SFTTrainer

from seper_reward.data.rows import read_valid_rows
from seper_reward.options import ModelOptions
from seper_reward.reader.loading import load_reader, load_tokenizer
from seper_reward.reader.prompts import prompt_style
from seper_reward.reports.tables import cell, markdown_table
from seper_reward.reward import with_tool_template
from seper_reward.runtime.distributed import wait_for_all
from seper_reward.runtime.parser import parse_options

from .cards import generator_fields, write_card
from .models import MERGED, causal_lora, name_base, needs_merging, save_merged
from .options import SftDefaults, SftScriptConfig
from .policy_task import policy_rows, prompt_code, read_policy_task, read_scorer_config
from .runs import ThisMachine, project_completions_only, suggest


@dataclass
class SftArguments(ThisMachine, SftDefaults, SFTConfig):
    """TRL's SFTConfig; without an accelerator, the CPU is used."""

    def __post_init__(self) -> None:
        if self.packing and self.max_length is None:
            self.max_length = SFTConfig.max_length
        super().__post_init__()


def training_rows(config: SftScriptConfig) -> list[dict[str, Any]]:
    """Return the rows of the file of ``{prompt, completion}``."""
    examples = []
    for where, example in read_valid_rows(config.data):
        if not all(isinstance(example.get(name), str) for name in ("prompt", "completion")):
            raise ValueError(f"{where}: expected the texts prompt and completion, got {str(example)[:80]}")
        examples.append(dict(example))
    if not examples:
        raise ValueError(f"{config.data}: expected rows of prompt and completion, got none")
    return examples[: config.limit]


def new_trainer(config: SftScriptConfig, arguments: SFTConfig) -> tuple[SFTTrainer, Counter[str]]:
    """Return the trainer, with model and examples, and the number of examples by kind."""
    loaded = load_reader(config.model, ModelOptions(device="cpu" if arguments.use_cpu else None))
    if config.data == "policy":
        # a separate tokenizer: the reader's must keep its chat template
        tokenizer = with_tool_template(load_tokenizer(config.model))
        examples = policy_rows(config.policy, config.limit, arguments, loaded, tokenizer)
    else:
        examples = training_rows(config)
    learned = [{name: example[name] for name in ("prompt", "completion")} for example in examples]
    torch.manual_seed(arguments.seed)
    model = loaded.model.train()
    lora = causal_lora(model, config.lora_r, config.lora_layers)
    if config.init_adapter:
        model, lora = PeftModel.from_pretrained(model, config.init_adapter, is_trainable=True), None
    dataset = Dataset.from_list(learned)
    trainer = SFTTrainer(model, arguments, train_dataset=dataset, processing_class=loaded.tokenizer, peft_config=lora)
    return trainer, Counter(str(example.get("kind", "")) for example in examples)


def train(config: SftScriptConfig, arguments: SFTConfig) -> Path:
    """Train the adapter, save it with its tokenizer and card, and merged if PEFT cannot load it; return its folder."""
    trainer, kinds = new_trainer(config, arguments)
    folder, examples = Path(arguments.output_dir), f"{kinds.total()} examples: {dict(kinds)}"
    print(examples)
    with project_completions_only():
        trainer.train(resume_from_checkpoint=arguments.resume_from_checkpoint)
    weights = trainer.accelerator.get_state_dict(trainer.model)  # gathered from all processes if they are sharded
    if trainer.accelerator.is_main_process:
        adapter = trainer.accelerator.unwrap_model(trainer.model)
        # fp16 halves the file, loading merges in fp32; the vocabulary is unchanged: PEFT need not check it on the hub
        halves = {name: weight.half() for name, weight in weights.items() if "lora_" in name}
        adapter.save_pretrained(folder, state_dict=halves, save_embedding_layers=False)
        name_base(folder, config.model)
        tokenizer, how = load_tokenizer(config.model), generator_fields(config.model, True)
        kind = "Adapter fine-tuned on prompts and completions"
        if config.data == "policy":
            task, tokenizer = read_policy_task(config.policy), with_tool_template(tokenizer)
            reading = read_scorer_config(task.scorer)
            style = prompt_style(reading if task.reader == "separate" else replace(reading, reader=task.model))
            how = generator_fields(config.model, True, prompt_code(style))
            kind = "Warm-up of a policy that may search"
        tokenizer.save_pretrained(folder)
        if needs_merging(config.model):
            save_merged(folder, folder / MERGED, tokenizer)
        losses = [entry for entry in trainer.state.log_history if "loss" in entry]
        rows = [[str(entry["step"]), cell(entry["loss"])] for entry in losses[:1] + losses[1:][-1:]]
        rows += [["mean", cell(entry["train_loss"])] for entry in trainer.state.log_history if "train_loss" in entry]
        table = markdown_table(["step", "loss"], rows)
        results = f"{examples}. Mean loss per token of the completions, in nats:\n\n{table}"
        write_card([folder, folder / MERGED], kind, "sft", config, arguments, results=results, **how)
    wait_for_all()
    return folder


def main(argv: Sequence[str] | None = None) -> int:
    """Train the adapter and save it; return 0."""
    kinds = (SftScriptConfig, SftArguments)
    config, arguments = parse_options(kinds, argv, "seper-reward train sft")
    if config.data == "policy":
        adapter = train(replace(config, model=read_policy_task(config.policy).model), arguments)
        suggest(f"seper-reward train policy --config {config.policy} --init_adapter {adapter}")
    else:
        suggest(f"seper-reward label --reader {train(config, arguments)} --input QUESTIONS.jsonl")
    return 0


if __name__ == "__main__":
    sys.exit(main())
