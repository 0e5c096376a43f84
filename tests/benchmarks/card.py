"""Contexts per second of an accelerator: the same questions with small and large batches, several processes, and vLLM.

    python -m tests.benchmarks.card --reader org/reader --input questions.jsonl --limit 300 --json card.json

A context is a question with one passage or with none. Each case is one run of ``seper-reward label``; the seconds are
those of labelling, without loading; r is the correlation of the labels with those of the first case, which vLLM draws
anew. Processes on one GPU run at the same time only with NVIDIA's MPS, whose daemon this starts for the cases that
name it.
"""

import contextlib
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tabulate import tabulate

from seper_reward.labels.load import load_labels
from tests.benchmarks.common import finish, parser

SHARED_BLOCK = "--batch_size 16"  # questions, for several processes: each needs several blocks
#: processes, whether they share the GPU by MPS, and settings
CASES = {
    "small batches": (1, False, "--batch_size 16 --max_batch_tokens 32768"),
    "default": (1, False, ""),
    "4 processes": (4, False, SHARED_BLOCK),
    "4 processes, MPS": (4, True, SHARED_BLOCK),
    "8 processes, MPS": (8, True, SHARED_BLOCK),
    "vLLM": (1, False, "--engine vllm"),
    "vLLM, 4 processes, MPS": (4, True, f"--engine vllm --gpu_memory_utilization 0.2 {SHARED_BLOCK}"),
}
_STAGES = re.compile(r"seconds of this process: (.*)")
_STAGE = re.compile(r"(\w+) ([\d.]+)")
_COUNTS = re.compile(r"(\d+) questions?, (\d+) passages?:")


def main() -> None:
    """Run the cases one after another, and print a table and the numbers."""
    made = parser(__doc__)
    made.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES))
    made.add_argument("--env", nargs="*", default=[], metavar="NAME=VALUE", help="variables for vLLM only")
    options, settings = made.parse_known_args()
    rows = []
    for name in options.cases:
        rows.append(_run(name, settings, dict(each.split("=", 1) for each in options.env)))
        shown = {key: value for key, value in rows[-1].items() if key not in ("error", "labels")}
        print(shown, rows[-1].get("error", ""), flush=True)
    done = [row for row in rows if "error" not in row]
    labels = [row.pop("labels") for row in done]
    for row, own in zip(done, labels, strict=True):
        row["ratio"] = round(row["contexts_per_second"] / done[0]["contexts_per_second"], 2)
        both = [(labels[0][name], own[name]) for name in own if name in labels[0]]
        row["r"] = round(float(np.corrcoef(both, rowvar=False)[0, 1]), 4)
    columns = ("case", "contexts", "seconds", "contexts_per_second", "ratio", "r", "std_error")
    print(tabulate([[row[name] for name in columns] for row in done], columns, tablefmt="github"))
    finish({"settings": settings, "cases": rows}, options.json)


def _run(name: str, settings: Sequence[str], variables: dict[str, str]) -> dict[str, Any]:
    processes, shared, own = CASES[name]
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(processes)] * (processes > 1)
    with tempfile.TemporaryDirectory() as folder, _mps() if shared else contextlib.nullcontext({}) as mps:
        words = ["-m", "seper_reward", "label", *settings, *own.split(), "--output_dir", folder]
        environment = {**os.environ, **mps, **(variables if "vLLM" in name else {}), "OMP_NUM_THREADS": "1"}
        start = time.perf_counter()
        done = subprocess.run(
            [sys.executable, *launcher, *words], capture_output=True, text=True, env=environment, check=False
        )
        whole = time.perf_counter() - start
        labelled = load_labels(folder).labeled() if any(Path(folder).glob("labels*.jsonl")) else []
    stages, counts = _STAGES.search(done.stdout), _COUNTS.search(done.stdout)
    if not stages or not counts:
        said = done.stdout + done.stderr
        first = next((line for line in said.splitlines() if "Error" in line), "")  # a launcher's own comes last
        return {"case": name, "error": f"exit status {done.returncode}: {first}\n{said[-2000:]}"}
    by_stage = {stage: float(spent) for stage, spent in _STAGE.findall(stages[1])}
    contexts, seconds = int(counts[1]) + int(counts[2]), sum(by_stage.values())
    return {
        "case": name,
        "exit_status": done.returncode,
        "contexts": contexts,
        "seconds": round(seconds, 1),
        "contexts_per_second": round(contexts / seconds, 1),
        "with_loading": round(whole, 1),
        "host": by_stage,  # of the first process
        "labels": {(row.query.id, at): label for row in labelled for at, label in enumerate(row.labels)},
        "std_error": round(float(np.mean([error for row in labelled for error in row.std_errors])), 4),
    }


@contextlib.contextmanager
def _mps() -> Iterator[dict[str, str]]:
    """Run NVIDIA's MPS daemon, and yield the variables with which processes find it."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        variables = {"CUDA_MPS_PIPE_DIRECTORY": folder, "CUDA_MPS_LOG_DIRECTORY": folder}
        environment = {**os.environ, **variables}
        subprocess.run(["nvidia-cuda-mps-control", "-d"], env=environment, check=True)
        try:
            yield variables
        finally:
            subprocess.run(["nvidia-cuda-mps-control"], input="quit\n", text=True, env=environment, check=False)


if __name__ == "__main__":
    main()
