"""Tools of all recipes: choice of device, trackers, checkpoints and a stopwatch."""

import os
import platform
import sys
import tempfile
import time
from collections.abc import Container, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

import torch
import trl
from transformers import Trainer, TrainerState, TrainingArguments
from transformers.integrations import get_available_reporting_integrations

from seper_reward.reports.tracking import Run
from seper_reward.runtime.distributed import gather_in_order, process_state, together
from seper_reward.runtime.hashing import content_key
from seper_reward.runtime.pretrained import fast_dtype, no_accelerator, resolve_device
from seper_reward.runtime.run_folder import claim_settings, lock_folder

SETTINGS = "settings.json"  # in a run's folder: settings at its start
# prefixes of training arguments without effect on the result
_INCIDENTAL = (
    "output_dir", "logging_", "log_", "save_", "num_completions_to_print", "report_to", "run_name", "project",
    "trackio_", "hub_", "push_to_hub", "disable_tqdm", "dataloader_", "ddp_", "per_device_eval_batch_size",
    "vllm_server", "vllm_group_port", "vllm_gpu", "resume_from_checkpoint", "local_rank", "use_cpu", "debug",
)  # fmt: skip


class ThisMachine:
    """Mixin for training arguments, before their class: CPU without an accelerator, bf16 autocast if it is fast."""

    use_cpu: bool
    fp16: bool
    bf16: bool | None
    n_gpu: int
    disable_tqdm: bool | None

    def __post_init__(self) -> None:
        self.disable_tqdm = self.disable_tqdm or not sys.stderr.isatty()
        self.use_cpu = self.use_cpu or no_accelerator()
        if self.bf16 is None:
            device = resolve_device("cpu" if self.use_cpu else None)
            self.bf16 = not self.fp16 and fast_dtype(device) == torch.bfloat16
        super().__post_init__()  # type: ignore[misc]
        if self.n_gpu > 1:  # losses and rewards need a process each
            raise ValueError("several GPUs need torchrun or accelerate launch; or set CUDA_VISIBLE_DEVICES=0")


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a run's folder while the block lasts; all processes must call this together."""
    locks: list[IO[str]] = []
    together(lambda: locks.append(lock_folder(folder)))
    try:
        yield
    finally:
        for lock in locks:
            lock.close()


@contextmanager
def tracked_run(config: Any, arguments: TrainingArguments, kind: str) -> Iterator[Run]:
    """Lock a run's folder, and log to its run in W&B, as does a trainer created in the block."""
    settings, folder = {**asdict(config), **arguments.to_dict()}, Path(arguments.output_dir)
    # before hours of labelling: transformers notices this only when training starts
    if missing := set(arguments.report_to) - {"wandb", *get_available_reporting_integrations()}:
        raise OSError(f"--report_to {' '.join(sorted(missing))}: not installed, or unknown to transformers")
    with locked(folder), Run(arguments.report_to, kind, settings, folder, arguments.run_name) as run:
        yield run


def claim_run(config: Any, arguments: TrainingArguments, incidental: Container[str], **decides: object) -> None:
    """Write all that decides the result into the run's folder, or raise ``ValueError`` if it has other content."""
    values = {name: value for name, value in arguments.to_dict().items() if not name.startswith(_INCIDENTAL)}
    settings = {name: value for name, value in {**asdict(config), **values}.items() if name not in incidental}
    settings |= {**decides, "processes": process_state().num_processes}
    together(lambda: claim_settings(Path(arguments.output_dir) / SETTINGS, settings))


def suggest(command: str) -> None:
    """Print the next command to run."""
    if process_state().is_main_process:
        print(f"next: {command}", file=sys.stderr)


def last_checkpoint(folder: Path) -> str | None:
    """Return the newest complete checkpoint in a folder; ``None`` if there is none."""
    # a checkpoint is complete once it has this file, which trainers write last
    complete = [path.parent for path in folder.glob("checkpoint-*/trainer_state.json")]
    return str(max(complete, key=checkpoint_step)) if complete else None


def checkpoint_step(checkpoint: Path) -> int:
    """Return the number of steps before a checkpoint, from its name."""
    return int(checkpoint.name.rpartition("-")[2])


def train_from_checkpoint(trainer: Trainer, folder: Path) -> None:
    """Train from the newest checkpoint in a folder, if there is one; a finished run only loads its weights and log."""
    checkpoint = last_checkpoint(folder)  # transformers 5.15 trains one more step of a finished run
    loads_itself = trainer.is_deepspeed_enabled or trainer.args.load_best_model_at_end
    if checkpoint is None or loads_itself or not 0 < trainer.args.max_steps <= checkpoint_step(Path(checkpoint)):
        trainer.train(resume_from_checkpoint=checkpoint)
        return
    trainer._load_from_checkpoint(checkpoint)
    done = TrainerState.load_from_json(str(Path(checkpoint) / "trainer_state.json"))
    trainer.state.global_step, trainer.state.log_history = done.global_step, done.log_history


@contextmanager
def stopwatch(record: dict[str, float], name: str) -> Iterator[None]:
    """Write the duration of a block in seconds into ``record[name]``."""
    start = time.perf_counter()
    yield
    record[name] = round(time.perf_counter() - start, 1)


def evaluated(trainer: Trainer) -> None:
    """Evaluate a trainer's model that is trained afterwards; all processes must call this together."""
    # Accelerate 1.15 prepares a model once: after a plain evaluation, ``train`` would not wrap it in DDP, and each
    # process would train on its own gradients
    wrapped, sharding = trainer.model_wrapped, trainer.is_fsdp_enabled
    if (
        sharding and not trainer.accelerator._models
    ):  # before training; FSDP2 shards a model only together with its optimizer
        trainer.is_fsdp_enabled = False
    trainer.evaluate()
    trainer.is_fsdp_enabled = sharding
    if wrapped is trainer.model and trainer.model_wrapped is trainer.model:  # not wrapped, for example by FSDP
        trainer.accelerator._models.clear()
        trainer.model._is_accelerate_prepared = False


@contextmanager
def project_completions_only() -> Iterator[None]:
    """Make TRL project only the completions' positions to the vocabulary, also on the CPU; losses are the same."""
    # without Triton, TRL 1.16 also projects prompts and padding, in more than a quarter of the demo's step on a CPU
    original = getattr(trl.trainer.utils, "_use_triton", None)
    if original is not None:
        trl.trainer.utils._use_triton = lambda device: device.type == "cpu" or original(device)
    try:
        yield
    finally:
        if original is not None:
            trl.trainer.utils._use_triton = original


def trainer_cache(output_dir: Path) -> str:
    """Return the file of a trainer's cache, in the output folder; all processes must call this together.

    Processes on several machines have one in each temporary folder: SQLite's locks are unreliable over a network.
    """
    if len(set(gather_in_order([platform.node()]))) == 1:
        return str(output_dir / "cache.sqlite")
    name = content_key(str(output_dir.resolve()))[:16]
    path = Path(tempfile.gettempdir()) / f"seper-reward-{os.getuid()}" / f"{name}.sqlite"
    path.parent.mkdir(mode=0o700, exist_ok=True)
    if process_state().is_main_process:
        print(f"cache: {path}, one per machine; --cache names another file", file=sys.stderr)
    return str(path)
