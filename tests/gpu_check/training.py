"""Checks of training: steps of GRPO with each reader, a retriever, and two processes on one device."""

import json
import math
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from seper_reward.reward.reward import SePerReward
from tests.gpu_check.models import (
    Plan,
    demo_questions,
    load_scorer,
    new_tokenizer,
    write_encoder,
    write_judge,
    write_reader,
)

if TYPE_CHECKING:
    from datasets import Dataset

_STEPS = 3  # of GRPO; the first has no share, because it has no step before it


def grpo_separate(plan: Plan) -> dict[str, Any]:
    """GRPO with a reader of its own in the trainer's process."""
    return grpo(plan, "separate")


def grpo_policy_base(plan: Plan) -> dict[str, Any]:
    """GRPO with the policy's base as the reader."""
    return grpo(plan, "policy-base")


def grpo(plan: Plan, reader: str, **engine: Any) -> dict[str, Any]:
    """Train a LoRA policy for a few steps; return rewards and times, which are checked."""
    import trl
    from peft import LoraConfig
    from transformers import AutoModelForCausalLM

    dtype = torch.float32 if plan.device.type == "cpu" else torch.bfloat16
    reward = SePerReward(load_scorer(plan, dtype=str(dtype).removeprefix("torch.")), price=0.1, reader=reader)
    trainer = trl.GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(write_reader(plan), dtype=dtype),
        # equal answers have equal rewards, so that only the second reward is sure to move the weights
        reward_funcs=[reward, distinct],
        args=trl.GRPOConfig(
            gradient_checkpointing=True, scale_rewards="none", **arguments(plan, reader, dtype), **engine
        ),
        train_dataset=dataset(),
        processing_class=new_tokenizer(),
        peft_config=LoraConfig(r=4, target_modules=["q_proj", "v_proj"]),
    )
    if reader != "separate":
        reward.attach(trainer)
    trainer.train()
    assert not reward.failures, reward.failures
    return checked(plan, trainer)


def arguments(plan: Plan, name: str, dtype: torch.dtype) -> dict[str, Any]:
    """Return the training arguments that trainers of TRL share."""
    return {
        "output_dir": str(plan.folder / name), "max_steps": _STEPS, "per_device_train_batch_size": 8,
        "num_generations": 8, "report_to": "none", "max_completion_length": 2 * plan.new_tokens,
        "learning_rate": 1e-3, "seed": 3, "save_strategy": "no", "use_cpu": plan.device.type == "cpu",
        "bf16": dtype == torch.bfloat16, "disable_tqdm": True, "logging_steps": 1,
    }  # fmt: skip


def dataset(conversational: bool = False) -> "Dataset":
    """Return four questions of the demo with their passages, as trainers of TRL read them."""
    from datasets import Dataset

    rows = []
    for each in demo_questions(4):
        text = f"Question: {each.question}\nAnswer:"
        rows.append(
            {
                "prompt": [{"role": "user", "content": text}] if conversational else text,
                "question": each.question,
                "answers": list(each.answers),
                "passages": [passage.text for passage in each.passages],
            }
        )
    return Dataset.from_list(rows)


def checked(plan: Plan, trainer: Any) -> dict[str, Any]:
    """Return rewards and times of a trainer; every step must have a reward, and the adapter must have moved."""
    names = ("rewards/seper/mean", "rewards/seper")  # of GRPOTrainer and of AsyncGRPOTrainer
    log = [row for row in trainer.state.log_history if not {*names}.isdisjoint(row)]
    moved = max(float(each.abs().max()) for name, each in trainer.model.named_parameters() if "lora_B" in name)
    found = {
        "device": str(trainer.model.device),
        "rewards": [row[name] for row in log for name in names if name in row],
        "share_of_step": [row["seper/share_of_step"] for row in log if "seper/share_of_step" in row],
        "seconds_step": [row["step_time"] for row in log if "step_time" in row],
        "greatest_lora_b": moved,
    }
    assert trainer.model.device.type == plan.device.type, found
    assert len(log) == _STEPS, found
    assert all(map(math.isfinite, found["rewards"])), found
    assert 0 < moved < math.inf, found
    return found


def distinct(completion_ids: Sequence[Sequence[int]], **_: Any) -> list[float]:
    """Return rewards that differ between most completions."""
    return [float(sum(ids) % 7) for ids in completion_ids]


def retriever(plan: Plan) -> dict[str, Any]:
    """`seper-reward train retriever` for one epoch."""
    from tests.tiny_models import lane_rows
    from trainers.retriever import main

    questions = plan.folder / "lane.jsonl"
    questions.write_text("".join(json.dumps(row) + "\n" for row in lane_rows()), encoding="utf-8")
    output, held_out = plan.folder / "retriever", plan.folder / "held-out"
    held_out.symlink_to(write_reader(plan))
    words = [
        "--input", questions, "--model", write_encoder(plan), "--reader", write_reader(plan),
        "--judge", write_judge(plan), "--prompt", "brief", "--dtype", "float32",
        "--device", f"{plan.device}", "--num_samples", 3, "--max_new_tokens", 4, "--test_share", 0.25,
        "--top_k", 2, "--min_spread", "0", "--heterogeneity", "1",
        "--shrink", "false", "--output_dir", output, "--bf16", "false", "--num_train_epochs", 1,
        "--per_device_train_batch_size", 4, "--learning_rate", 1e-3, "--logging_steps", 1, "--report_to", "none",
        "--eval_readers", held_out,
    ]  # fmt: skip
    if plan.device.type == "cpu":
        words += ["--use_cpu", "true"]
    assert main(list(map(str, words))) == 0
    (weights, *_) = sorted(output.rglob("*.safetensors"))
    return {"results": sorted(each.name for each in output.glob("*.json")), "weights": weights.name}


def two_processes(plan: Plan) -> dict[str, Any]:
    """Two processes that label on one device at a time: the same bytes as one alone."""
    questions = plan.folder / "questions.jsonl"
    questions.write_text(
        "".join(
            json.dumps(
                {
                    "id": each.id,
                    "question": each.question,
                    "answers": list(each.answers),
                    "passages": [{"id": str(place), "text": row.text} for place, row in enumerate(each.passages)],
                }
            )
            + "\n"
            for each in demo_questions(plan.questions)
        ),
        encoding="utf-8",
    )
    write_reader(plan)
    write_judge(plan)
    alone = _label(plan, questions, "alone")
    with ThreadPoolExecutor(2) as pool:
        both = list(pool.map(lambda name: _label(plan, questions, name), ("one", "two")))
    assert both == [alone, alone], "labels of processes that share a device differ from those of a process alone"
    return {"labels": alone.count(b"\n")}


def _label(plan: Plan, questions: Path, name: str) -> bytes:
    output = plan.folder / f"labels-{name}"
    words = [
        "--input", questions, "--output_dir", output, "--reader", write_reader(plan),
        "--judge", write_judge(plan), "--prompt", "brief",
        "--num_samples", plan.samples, "--max_new_tokens", plan.new_tokens,
        "--dtype", "float32", "--device", f"{plan.device}",
    ]  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "seper_reward", "label", *map(str, words)], capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return (output / "labels.jsonl").read_bytes()
