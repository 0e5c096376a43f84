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
    scorer = SePerScorer.from_pretrained(options.reader, judge=options.judge)
    if options.memory_of:
        finish({"peak_memory_mb": peak_of(scorer, options)}, options.json)
        return
    scorer.beliefs("Who?", ["Ann"], [()])  # what happens once, before any clock runs
    found = {}
    for count in options.passages:
        rows = [measure(scorer, query, options, count) for query in questions(options.questions)]
        found[f"passages_{count}"] = {name: round(statistics.median(row[name] for row in rows), 3) for name in rows[0]}
        for procedure in ("reference", "ours"):
            found[f"passages_{count}"][f"peak_memory_mb_{procedure}"] = memory_in_child(options, procedure, count)
    finish({**found, "settings": {**vars(options), "dtype": str(scorer.sampler.model.dtype)}}, options.json)


def measure(scorer: SePerScorer, query: Query, options: Namespace, passages: int) -> dict[str, float]:
    """Return ratios and seconds for so many passages per prompt."""
    sets = contexts(query, passages)
    before, _ = clocked(lambda: ours(scorer, query, sets))
    some = sets[: options.reference_contexts]
    slow, _ = clocked(lambda: Reference(scorer).beliefs(query, some))
    slow = {name: seconds * len(sets) / len(some) for name, seconds in slow.items()}
    after, _ = clocked(lambda: ours(scorer, query, sets))  # ours around the reference: drift falls on both
    fast = {name: (before[name] + after[name]) / 2 for name in before}
    ratios = {f"speedup_{name}": slow[name] / fast[name] for name in fast}
    return {**ratios, "seconds_reference": slow["wall"], "seconds": fast["wall"]}


def ours(scorer: SePerScorer, query: Query, sets: Sequence[Sequence[Passage]]) -> Any:
    return scorer.beliefs(query.question, query.answers, [(), *sets])


def peak_of(scorer: SePerScorer, options: Namespace) -> float:
    """Return the peak memory of one question in MB."""
    (query,) = questions(1)
    sets = contexts(query, *options.passages)
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
