"""Supervised fine-tuning of a small causal model with TRL's SFTTrainer and a LoRA adapter.

    seper-reward train sft --config configs/sft/reader.yaml             # the reader adapter that ships,
    seper-reward train sft --config configs/sft/reader-sharpen.yaml     # in two stages
    seper-reward train sft --config configs/sft/policy.yaml             # warm-up of a policy that may search

All fields of TRL's ``SFTConfig`` are settings here, too, but packing must be off. With ``data: reader`` the model
learns to answer briefly from passages and from memory (``trainers/adapters/reader_data.py``), and ``scores.json`` and
the model card are written beside the adapter. With ``data: policy`` it learns to answer or to search first
(``trainers/policy_data.py``). With ``data: FILE.jsonl`` it learns the rows of that file.
"""

import os
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from datasets import Dataset
from peft import PeftModel
from trl import SFTConfig, SFTTrainer

from seper_reward.data.rows import read_valid_rows
from seper_reward.reader.loading import (
    PLAIN,
    READER_DEFAULTS,
    ReaderDefaults,
    load_reader,
    load_tokenizer,
    save_reader_defaults,
)
from seper_reward.reader.sampler import SamplingOptions
from seper_reward.retrieval import load_retriever
from seper_reward.reward.chat_template import with_tool_template
from seper_reward.runtime.json_files import write_json
from seper_reward.runtime.parser import parse_settings
from seper_reward.runtime.pretrained import EMBEDDED, LoadedModel, LoadOptions
from seper_reward.runtime.settings import check_types

from .adapters.reader_data import LICENCES, reader_rows
from .adapters.reader_scores import evaluate, score_table
from .models import causal_lora, name_base
from .policy_data import decision_rows, read_policy_questions, warm_up_rows
from .policy_task import load_task_scorer, new_tool, read_policy_task
from .runs import ThisMachine, model_card, suggest


@dataclass
class SftScriptConfig:
    """Settings of model and data, beside TRL's SFTConfig."""

    data: str = field(
        default="reader",
        metadata={
            "help": "Training data: 'reader' (short answers), 'policy' (answers and searches), or a JSONL file of "
            "{prompt, completion}."
        },
    )
    data_dir: str = field(
        default_factory=lambda: os.environ.get("SEPER_SHARED_DATA", "../shared/data"),
        metadata={
            "help": "Folder with qa/, needed for data=reader; not given: $SEPER_SHARED_DATA, else ../shared/data."
        },
    )
    model: str = field(
        default=PLAIN,
        metadata={
            "help": "Model to train: 'plain' (SmolLM2-135M-Instruct), 'embedded' (with our adapter), hub id or "
            "folder; with data=policy it is that policy's."
        },
    )
    prompts: list[str] = field(
        default_factory=lambda: ["brief", "brief", "brief", "paper"],
        metadata={"help": "Prompt styles (paper, brief, few_shot) for data=reader; each example gets a random one."},
    )
    sentences: bool = field(
        default=False, metadata={"help": "Whether the answers of data=reader are full sentences; no scores then."}
    )
    init_adapter: str | None = field(
        default=None, metadata={"help": "Folder of an adapter to start from; not given: a new one."}
    )
    lora_r: int = field(default=16, metadata={"help": "Rank of the LoRA matrices on all linear layers."})
    lora_layers: int | None = field(
        default=None,
        metadata={"help": "Number of last blocks to adapt, no gradient flows below them; not given: all."},
    )
    policy: str = field(
        default="configs/policy/demo.yaml",
        metadata={
            "help": "YAML file of the policy that data=policy warms up; its model, questions, search tool and reader "
            "are taken from there."
        },
    )
    warmup_on: Literal["answers", "decision"] = field(
        default="answers",
        metadata={
            "help": "What data=policy learns: answers (calls of the tool and the reader's own answers) or decision "
            "(calls, and of an answer the first token)."
        },
    )
    limit: int | None = field(default=None, metadata={"help": "Number of examples to train on; not given: all."})
    evaluate_only: bool = field(
        default=False, metadata={"help": "Whether the adapter in output_dir is only scored again."}
    )

    def __post_init__(self) -> None:
        check_types(self)
        if self.limit is not None and self.limit < 1:
            raise ValueError(f"limit must be at least 1, got {self.limit}")


@dataclass
class SftArguments(ThisMachine, SFTConfig):
    """TRL's SFTConfig; the CPU is used where there is no accelerator."""

    help_group = "the trainer"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.packing or self.padding_free or self.n_gpu > 1:
            raise ValueError(
                "packing and padding_free must be off, and several GPUs need torchrun or accelerate launch"
            )


class CompletionTrainer(SFTTrainer):
    """SFTTrainer that projects only the completions' positions to the vocabulary.

    TRL's own loss projects the prompts, too. With answers of five tokens after prompts of two hundred, that takes 40 %
    of a step on 2 CPU cores.
    """

    def compute_loss(
        self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """Return the mean negative log-likelihood of the completions' tokens, in nats."""
        targets = inputs["labels"][:, 1:]  # (B, T-1), -100 on prompts and padding
        positions = (targets != -100).any(0).nonzero()[:, 0]  # positions of a completion in any row
        outputs = model(
            input_ids=inputs["input_ids"],
            attention_mask=inputs["attention_mask"],
            use_cache=False,
            logits_to_keep=positions,
        )
        targets = targets[:, positions]
        losses = torch.nn.functional.cross_entropy(
            outputs.logits.float().flatten(0, 1), targets.flatten(), ignore_index=-100, reduction="none"
        )
        if self.args.loss_type == "dft":
            losses = losses * (-losses).exp().detach()  # Dynamic Fine-Tuning, arXiv:2508.05629, eq. 9
        count = (targets != -100).sum() if num_items_in_batch is None else torch.as_tensor(num_items_in_batch)
        loss = losses.sum() / count.clamp(min=1)
        if self.args.average_tokens_across_devices and num_items_in_batch is not None:
            loss = loss * self.accelerator.num_processes  # DDP will average the gradients
        return (loss, outputs) if return_outputs else loss


def training_rows(config: SftScriptConfig, tokenizer: Any, seed: int) -> list[dict[str, Any]]:
    """Return the training examples, rows of ``{prompt, completion}``.

    Raises:
        OSError: A file is missing or cannot be read.
        ValueError: A row lacks one of the texts, or there is no row.
    """
    if config.data == "reader":
        rows = reader_rows(Path(config.data_dir), tokenizer, seed, config.prompts, config.sentences)
    else:
        rows = []
        for where, row in read_valid_rows(config.data):
            if not all(isinstance(row.get(name), str) for name in ("prompt", "completion")):
                raise ValueError(f"{where}: expected the texts prompt and completion, got {str(row)[:80]}")
            rows.append(dict(row))
        if not rows:
            raise ValueError(f"{config.data}: expected rows of prompt and completion, got none")
    return rows[: config.limit]


def policy_rows(config: SftScriptConfig, arguments: SFTConfig, loaded: LoadedModel) -> list[dict[str, Any]]:
    """Return the warm-up of the policy in ``config.policy``; all processes must call this together."""
    task = read_policy_task(config.policy)
    scorer = load_task_scorer(task, Path(arguments.output_dir), loaded)
    questions = read_policy_questions(task)
    rows = warm_up_rows(
        questions.train,
        scorer,
        new_tool(task, load_retriever(task.retriever, questions.corpus), scorer.reader.prompts.style),
        # another tokenizer than the reader's, which must keep its chat template
        with_tool_template(load_tokenizer(config.model)),
        needed=task.needed,
        max_turns=task.max_turns,
        seed=arguments.seed,
    )
    return rows[: config.limit]


def new_trainer(config: SftScriptConfig, arguments: SFTConfig) -> tuple[CompletionTrainer, Counter[str]]:
    """Return the trainer, with model and examples, and the number of examples by kind.

    Raises:
        ValueError: The data are for another model.
    """
    if config.data == "reader" and config.model != PLAIN:
        raise ValueError(
            f"model={config.model!r}: the reader adapter is for {PLAIN!r}; go on from an adapter with init_adapter"
        )
    loaded = load_reader(config.model, LoadOptions(device="cpu" if arguments.use_cpu else None))
    if config.data == "policy":
        rows = policy_rows(config, arguments, loaded)
    else:
        rows = training_rows(config, loaded.tokenizer, arguments.seed)
    learned = [{name: row[name] for name in ("prompt", "completion")} for row in rows]
    if config.data == "policy" and config.warmup_on == "decision":
        learned = decision_rows(rows, loaded.tokenizer)
    torch.manual_seed(arguments.seed)
    model = loaded.model.train()
    lora = causal_lora(model, config.lora_r, config.lora_layers)
    if config.init_adapter:
        model, lora = PeftModel.from_pretrained(model, config.init_adapter, is_trainable=True), None
    trainer = CompletionTrainer(
        model=model,
        args=arguments,
        train_dataset=Dataset.from_list(learned),
        processing_class=loaded.tokenizer,
        peft_config=lora,
    )
    return trainer, Counter(str(row.get("kind", "")) for row in rows)


def train(config: SftScriptConfig, arguments: SFTConfig) -> Path:
    """Train the adapter and save it; return its folder."""
    trainer, kinds = new_trainer(config, arguments)
    print(f"{kinds.total()} examples: {dict(kinds)}")
    trainer.train(resume_from_checkpoint=arguments.resume_from_checkpoint)
    if trainer.accelerator.is_main_process:
        adapter = trainer.accelerator.unwrap_model(trainer.model)
        # fp16 halves the file, loading merges in fp32; the vocabulary was not touched, and no hub need say so
        adapter.half().save_pretrained(arguments.output_dir, save_embedding_layers=False)
        name_base(Path(arguments.output_dir), config.model)
    trainer.accelerator.wait_for_everyone()
    return Path(arguments.output_dir)


def card(config: SftScriptConfig, kinds: Counter[str], scores: dict[str, Any]) -> str:
    """Return the model card of the reader adapter."""
    return model_card(
        "reader_adapter",
        lora_r=config.lora_r,
        prompts=", ".join(
            f"{name} ({count} of {len(config.prompts)})" for name, count in Counter(config.prompts).items()
        ),
        data="\n".join(f"| {name} | {licence} |" for name, licence in LICENCES.items()),
        kinds="\n".join(f"| {kind} | {count} |" for kind, count in kinds.most_common()),
        samples=SamplingOptions().num_samples,
        table=score_table(scores),
    )


def asked_as_trained(config: SftScriptConfig) -> ReaderDefaults:
    """Return how a reader that was trained like this is to be asked: by the prompt that most examples had."""
    prompt, _ = Counter(config.prompts).most_common(1)[0]
    return READER_DEFAULTS[None if config.sentences else EMBEDDED]._replace(prompt=prompt)


def score(config: SftScriptConfig, arguments: SftArguments, adapter: Path) -> None:
    """Score a reader adapter beside the plain reader, and write scores and model card into its folder."""
    scores = evaluate([(PLAIN, "brief", 1.0), (str(adapter), "brief", 1.0)], Path(config.data_dir))
    rows = training_rows(config, load_tokenizer(PLAIN), arguments.seed)
    write_json(adapter / "scores.json", scores)
    (adapter / "README.md").write_text(card(config, Counter(row["kind"] for row in rows), scores))
    print(score_table(scores))


def main(argv: Sequence[str] | None = None) -> int:
    """Train (unless ``--evaluate_only``); for ``data: reader`` score the adapter and write its card; return 0."""
    kinds = (SftScriptConfig, SftArguments)
    config, arguments = parse_settings(kinds, argv, "seper-reward train sft", __doc__)
    if config.data == "policy":
        config.model = read_policy_task(config.policy).model
    adapter = Path(arguments.output_dir)
    if not config.evaluate_only:
        train(config, arguments)
    if config.data == "reader" and int(os.environ.get("RANK", "0")) == 0:
        save_reader_defaults(adapter, asked_as_trained(config))
        if not config.sentences:
            score(config, arguments, adapter)
    if config.data == "policy":
        suggest(f"seper-reward train policy --config {config.policy} --init_adapter {adapter}")
    else:
        suggest(f"seper-reward label --reader {adapter} --input QUESTIONS.jsonl")
    return 0


if __name__ == "__main__":
    sys.exit(main())
