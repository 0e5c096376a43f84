"""Model cards of trained policies and fine-tuned readers, with code that needs transformers and PEFT only."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from pprint import pformat
from typing import Any

from seper_reward.reader.loading import READER_HUB_ID
from seper_reward.reader.prompts import PromptStyle
from seper_reward.reports.tables import cell, markdown_table

from .models import MERGED, needs_merging, public_name
from .policy_data import SEARCH, call_of, messages_of
from .policy_eval import policy_table
from .ranking.data import Questions
from .runs import model_card

_QUESTION, _PASSAGE = "Who runs the mill in Hallow?", "The mill in Hallow belongs to Ida Voss."  # examples
_ASK = """\
messages = {messages}
SEARCH = {search}
prompt = tokenizer.apply_chat_template(
    messages, tools=[SEARCH], add_generation_prompt=True, return_dict=True, return_tensors="pt"
)
"""
_PLAIN = 'prompt = tokenizer("A PROMPT AS IN THE TRAINING ROWS", return_tensors="pt")\n'
_GENERATE = """\
tokens = model.generate(**prompt, max_new_tokens=64)[0, prompt["input_ids"].shape[1] :]
print(tokenizer.decode(tokens))"""


def policy_card(
    config: Any,
    arguments: Any,
    questions: Questions,
    style: PromptStyle,
    results: Mapping[str, Mapping[str, Any]],
    steps: int,
) -> str:
    """Return the card of a policy trained for a number of steps; ``results`` are the content of ``results.json``."""
    (call,) = call_of(_QUESTION)["tool_calls"]
    return model_card(
        "policy",
        **{**asdict(config), "input": ", ".join(config.input)},
        **_model_fields(config.model, bool(config.lora_r)),
        use=_use(config.model, bool(config.lora_r), _ask(style)),
        call=json.dumps(call["function"]),
        result=style.ask(_QUESTION, [_PASSAGE]),
        train=len(questions.train),
        dev=len(questions.dev),
        test=len(questions.test),
        passages=len(questions.corpus),
        how=f"LoRA of rank {config.lora_r}" if config.lora_r else "all weights",
        **_training_fields(config, arguments, steps),
        num_generations=arguments.num_generations,
        beta=arguments.beta,
        temperature=arguments.temperature,
        max_completion_length=arguments.max_completion_length,
        table=policy_table(results),
    )


def sft_card(
    config: Any,
    arguments: Any,
    examples: Mapping[str, int],
    style: PromptStyle | None,
    log: Sequence[Mapping[str, Any]],
) -> str:
    """Return the card of a fine-tuned adapter; without a ``style``, it learned rows of a file."""
    count = sum(examples.values())
    data = f"{count} rows of `{config.data}`."
    if style is not None:
        kinds = ", ".join(f"{number} {kind}" for kind, number in examples.items())
        data = f"{count} examples ({kinds}) of the task in `{config.policy}`."
    losses = [row for row in log if "loss" in row]
    rows = [[str(row["step"]), cell(row["loss"])] for row in losses[:1] + losses[1:][-1:]]
    rows += [["mean", cell(row["train_loss"])] for row in log if "train_loss" in row]
    return model_card(
        "sft",
        **{**asdict(config), "data": data},
        **_model_fields(config.model, True),
        title="Adapter fine-tuned on prompts and completions"
        if style is None
        else "Warm-up of a policy that may search",
        use=_use(config.model, True, _PLAIN if style is None else _ask(style)),
        **_training_fields(config, arguments, max((row["step"] for row in log), default=0)),
        table=markdown_table(["step", "loss"], rows),
    )


def write_cards(card: str, *folders: Path) -> None:
    """Write a card into those of the folders that exist, in place of the default cards of PEFT and TRL."""
    for folder in folders:
        if folder.is_dir():
            (folder / "README.md").write_text(card, encoding="utf-8")


def _model_fields(model: str, adapter: bool) -> dict[str, Any]:
    merged = needs_merging(model)
    return {
        "library": "peft" if adapter and not merged else "transformers",
        "base": READER_HUB_ID if merged else public_name(model),
        "version": version("seper-reward"),
    }


def _training_fields(config: Any, arguments: Any, steps: int) -> dict[str, Any]:
    return {
        "start": "the model itself" if config.init_adapter in (None, "none") else f"`{config.init_adapter}`",
        "steps": steps,
        "batch": arguments.per_device_train_batch_size,
        "learning_rate": arguments.learning_rate,
        "seed": arguments.seed,
    }


def _ask(style: PromptStyle) -> str:
    return _ASK.format(messages=messages_of(_QUESTION, style), search=pformat(SEARCH, width=100, sort_dicts=False))


def _use(model: str, adapter: bool, prompt: str) -> str:
    """Return code that loads the model and generates after a prompt."""
    imports, kind, note = "from transformers import AutoModelForCausalLM, AutoTokenizer", "AutoModelForCausalLM", ""
    if adapter and needs_merging(model):
        note = f'# PATH: the folder "{MERGED}" of the run; its adapter alone needs seper-reward\n'
    elif adapter:
        kind = "AutoPeftModelForCausalLM"
        imports = f"from peft import {kind}\nfrom transformers import AutoTokenizer"
    load = f'tokenizer = AutoTokenizer.from_pretrained("PATH")\nmodel = {kind}.from_pretrained("PATH")'
    return f"{imports}\n\n{note}{load}\n{prompt}{_GENERATE}"
