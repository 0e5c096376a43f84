"""What all recipes' training arguments take from the machine."""

from dataclasses import fields
from pathlib import Path

import pytest
import torch
from datasets import Dataset
from transformers import Trainer, TrainingArguments

from seper_reward import options
from seper_reward.cli import find_commands
from seper_reward.runtime.cache import Cache
from trainers import runs
from trainers.entailment import EntailmentArguments
from trainers.options import RECIPE_OPTIONS
from trainers.policy import PolicyArguments
from trainers.retriever import RetrieverArguments
from trainers.sft import SftArguments


def test_options_of_commands_and_recipes_stay_few():
    kinds = [found.options for found in find_commands().values() if found.options]
    kinds += [kind for both in RECIPE_OPTIONS.values() for kind in both]
    names = {each.name for kind in (*kinds, options.AuditSearchesOptions) for each in fields(kind)}
    assert len(names) <= 140, len(names)


KINDS = [SftArguments, PolicyArguments, RetrieverArguments, EntailmentArguments]


@pytest.mark.parametrize("kind", KINDS)
def test_arguments_take_bf16_if_fast_and_one_gpu(tmp_path, monkeypatch, kind):
    for fast in (torch.float32, torch.bfloat16):
        monkeypatch.setattr(runs, "fast_dtype", lambda device, fast=fast: fast)
        assert kind(output_dir=str(tmp_path), use_cpu=True).bf16 == (fast == torch.bfloat16)
        assert [kind(output_dir=str(tmp_path), use_cpu=True, bf16=bf16).bf16 for bf16 in (True, False)] == [
            True,
            False,
        ]
    monkeypatch.setattr(TrainingArguments, "n_gpu", property(lambda self: 2))
    with pytest.raises(ValueError, match="several GPUs need torchrun or accelerate launch"):
        kind(output_dir=str(tmp_path), use_cpu=True)


class Line(torch.nn.Module):
    """Learns the slope of a line through 0."""

    def __init__(self):
        super().__init__()
        self.slope = torch.nn.Parameter(torch.zeros(1))

    def forward(self, x, labels):
        return {"loss": ((self.slope * x - labels) ** 2).mean(), "logits": x}


def test_train_from_checkpoint_takes_no_further_step(tmp_path):
    """Five rows are five steps an epoch, so three steps end within one."""
    rows = Dataset.from_list([{"x": float(x), "labels": 2.0 * x} for x in range(5)])
    given = {"save_steps": 1, "logging_steps": 1, "per_device_train_batch_size": 1, "report_to": "none"}

    def run(steps):
        arguments = TrainingArguments(
            str(tmp_path), max_steps=steps, lr_scheduler_type="constant", use_cpu=True, disable_tqdm=True, **given
        )
        trainer = Trainer(Line(), arguments, train_dataset=rows)
        runs.train_from_checkpoint(trainer, tmp_path)
        losses = [row["loss"] for row in trainer.state.log_history if "loss" in row]
        assert len(losses) == trainer.state.global_step == steps
        return trainer.model.slope.item(), losses

    first = run(3)
    assert first[0] > 0
    assert run(3) == first
    assert sorted(path.name for path in tmp_path.glob("checkpoint-*")) == [f"checkpoint-{step}" for step in (1, 2, 3)]
    assert run(4)[1][:3] == first[1]


def test_tracked_run_refuses_a_missing_tracker(tmp_path):
    arguments = TrainingArguments(str(tmp_path), report_to=["wandb", "no_tracker"], use_cpu=True)
    with pytest.raises(OSError, match=r"--report_to no_tracker: not installed, or unknown to transformers"):
        runs.tracked_run(options.JudgeOptions(), arguments, "retriever").__enter__()


def test_trainer_cache_is_local_on_several_machines(tmp_path, monkeypatch, capsys):
    assert runs.trainer_cache(tmp_path / "run") == str(tmp_path / "run" / "cache.sqlite")
    monkeypatch.setattr(runs, "gather_in_order", lambda mine: ["a", "b"])
    monkeypatch.setattr(runs.tempfile, "gettempdir", lambda: str(tmp_path))
    path = runs.trainer_cache(tmp_path / "run")
    assert Path(path).parent.parent == tmp_path
    assert path in capsys.readouterr().err
    assert path == runs.trainer_cache(tmp_path / "run")  # a resumed run finds it again
    assert path != runs.trainer_cache(tmp_path / "other")
    Cache(path)
