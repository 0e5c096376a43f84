"""How fast are labels made, against the published procedure?

    python -m tests.benchmarks.sampling --json out.json

For 1 and 5 passages of 100 words per prompt, 10 contexts per question, N=10, same dtype, one process: the published
procedure (`reference.py`) against `SePerScorer.beliefs`, in seconds of the wall clock and of the processor, which a
busy machine distorts less; and peak memory of either, models included, each in a separate process.
"""

import json
import statistics
import subprocess
import sys
from argparse import Namespace
from collections.abc import Sequence
from typing import Any

import torch

from seper_reward import SePerScorer
from seper_reward.types import Passage, Query
from tests.benchmarks.common import CONTEXTS, clocked, contexts, finish, parser, peak_memory, questions
from tests.benchmarks.reference import Reference


def main(arguments: Sequence[str] | None = None) -> None:
    made = parser(__doc__)
    made.add_argument("--questions", type=int, default=1)
    made.add_argument("--reader", default="embedded")
    made.add_argument("--judge", default="embedded")
    made.add_argument("--reference_contexts", type=int, default=CONTEXTS, help="scaled up to 10 where fewer")
    made.add_argument("--memory_of", choices=["ours", "reference"], help="only this one's peak memory, for --passages")
    made.add_argument("--passages", type=int, nargs="+", default=[1, 5])
    options = made.parse_args(arguments)
    scorer = load(options)
    if options.memory_of:
        finish({"peak_memory_mb": peak_of(scorer, options)}, options.json)
        return
    scorer.beliefs("Who?", ["Ann"], [()])  # what happens once, before any clock runs
    measured = {f"passages_{count}": measure(scorer, options, count) for count in options.passages}
    memory = {
        f"{procedure}_passages_{count}": memory_in_child(options, procedure, count)
        for count in options.passages
        for procedure in ("reference", "ours")
    }
    result = {
        "speedup_vs_reference": {name: row["speedup"] for name, row in measured.items()},
        "peak_memory_mb": memory,
        "measured": measured,
        "settings": {**vars(options), "threads": torch.get_num_threads(), "dtype": str(scorer.sampler._model.dtype)},
    }
    finish(result, options.json)


def load(options: Namespace) -> SePerScorer:
    return SePerScorer.from_pretrained(options.reader, options.judge)


def measure(scorer: SePerScorer, options: Namespace, passages: int) -> dict[str, float]:
    """Return ratios and seconds for so many passages per prompt; medians over questions."""
    rows = [measure_question(scorer, query, options, passages) for query in questions(options.questions)]
    return {name: round(statistics.median(row[name] for row in rows), 3) for name in rows[0]}


def measure_question(scorer: SePerScorer, query: Query, options: Namespace, passages: int) -> dict[str, float]:
    sets = contexts(query, passages)
    before, _ = clocked(lambda: ours(scorer, query, sets))
    some = sets[: options.reference_contexts]
    slow, _ = clocked(lambda: Reference(scorer).beliefs(query, some))
    slow = {name: seconds * len(sets) / len(some) for name, seconds in slow.items()}
    after, _ = clocked(lambda: ours(scorer, query, sets))  # ours around the reference: drift falls on both
    fast = {name: (before[name] + after[name]) / 2 for name in before}
    return {
        "speedup": slow["wall"] / fast["wall"],
        "speedup_cpu": slow["cpu"] / fast["cpu"],
        "seconds_reference": slow["wall"],
        "seconds": fast["wall"],
    }


def ours(scorer: SePerScorer, query: Query, sets: Sequence[Sequence[Passage]]) -> Any:
    return scorer.beliefs(query.question, query.answers, [(), *sets])


def peak_of(scorer: SePerScorer, options: Namespace) -> float:
    """Return the peak memory of one question in MB."""
    (query,) = questions(1)
    (passages,) = options.passages
    sets = contexts(query, passages)
    if options.memory_of == "ours":
        return peak_memory(lambda: ours(scorer, query, sets))
    return peak_memory(lambda: Reference(scorer).beliefs(query, sets[:1]))  # it holds one prompt at a time


def memory_in_child(options: Namespace, procedure: str, passages: int) -> float:
    words = ["--reader", options.reader, "--judge", options.judge]
    command = [sys.executable, "-m", __spec__.name, "--memory_of", procedure, "--passages", str(passages), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return round(float(json.loads(done.stdout)["peak_memory_mb"]), 1)


if __name__ == "__main__":
    main()
