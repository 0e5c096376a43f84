"""Run the checks and write their JSON; exit status 1 if one fails."""

import argparse
import json
import os
import platform
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import torch

from tests.gpu_check import engines, numbers, speed, training
from tests.gpu_check.models import Plan

Check = Callable[[Plan], dict[str, Any] | None]
#: in the order of their use: if time runs out, the last are left out
CHECKS: tuple[Check, ...] = (
    numbers.layouts, numbers.labels, numbers.batches, training.grpo_separate, training.grpo_policy_base,
    training.retriever, speed.published, speed.memory, training.two_processes, speed.halves, numbers.architectures,
    engines.grpo_vllm, engines.async_grpo, engines.grpo_vllm_server,
)  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    made = argparse.ArgumentParser(prog="python -m tests.gpu_check")
    made.add_argument("--output", type=Path, required=True, help="JSON file of the results")
    made.add_argument("--device", help="default: the first accelerator, else the CPU")
    made.add_argument("--only", nargs="+", choices=[each.__name__ for each in CHECKS], help="checks (default: all)")
    made.add_argument("--seconds", type=float, default=420, help="no check starts after this time (default: 420)")
    options = made.parse_args(arguments)
    device = torch.device(options.device) if options.device else _device()
    start, rows = time.perf_counter(), []
    with tempfile.TemporaryDirectory() as folder:
        plan = Plan.on(device, Path(folder))
        for check in CHECKS:
            if options.only and check.__name__ not in options.only:
                continue
            late = time.perf_counter() - start > options.seconds
            rows.append(_late(check) if late else _run(check, plan))
            print(f"{rows[-1]['status']:9}{rows[-1]['seconds']:7.1f} s  {check.__name__}", flush=True)
            _write(options.output, device, rows, time.perf_counter() - start)
    return int(any(row["status"] in ("failed", "late") for row in rows))


def _device() -> torch.device:
    return torch.accelerator.current_accelerator(check_available=True) or torch.device("cpu")


def _late(check: Check) -> dict[str, Any]:
    return {"name": check.__name__, "status": "late", "seconds": 0.0}


def _run(check: Check, plan: Plan) -> dict[str, Any]:
    start = time.perf_counter()
    found: dict[str, Any] = {"name": check.__name__}
    try:
        numbers_found = check(plan)
        found |= {"status": "left out"} if numbers_found is None else {"status": "passed", "found": numbers_found}
    except Exception as error:  # the next check runs all the same
        traceback.print_exc()
        found |= {"status": "failed", "error": f"{type(error).__name__}: {error}"}
    return {**found, "seconds": round(time.perf_counter() - start, 2)}


def _write(path: Path, device: torch.device, rows: Sequence[dict[str, Any]], seconds: float) -> None:
    result = {
        "passed": all(row["status"] in ("passed", "left out") for row in rows),
        "seconds": round(seconds, 1),
        "machine": {
            "device": torch.cuda.get_device_name(device) if device.type == "cuda" else str(device),
            "python": platform.python_version(),
            **{
                name: _version(name)
                for name in ("torch", "transformers", "trl", "peft", "sentence-transformers", "vllm")
            },
        },
        "checks": rows,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


if __name__ == "__main__":
    sys.exit(main())
