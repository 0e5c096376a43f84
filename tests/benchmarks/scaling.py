"""How time and memory grow with samples, passages, questions, corpus and processes.

    python -m tests.benchmarks.scaling --json out.json --plot out.svg

Each curve is measured in one run on the embedded models and real text, with the slope of its end on logarithmic axes
(between its last two points): 1 is linear growth, less is better. Memory is the peak of the process, models included.
"""

import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from seper_reward import SePerScorer
from seper_reward.data.inputs import load_input
from seper_reward.retrieval import BM25Retriever
from seper_reward.runtime.imports import need
from seper_reward.types import Asked, Passage
from tests.benchmarks.common import CLOCK, clocked, finish, parser, peak_memory, questions

ROOT = Path(__file__).parents[2]


def main(arguments: Sequence[str] | None = None) -> None:
    made = parser(__doc__)
    made.add_argument("--reader", default="embedded")
    made.add_argument("--judge", default="embedded")
    made.add_argument("--samples", type=int, nargs="+", default=[1, 2, 4, 8, 16, 32])
    made.add_argument("--passages", type=int, nargs="+", default=[1, 2, 5, 10, 20])
    made.add_argument("--questions", type=int, nargs="+", default=[10, 100, 1_000])
    made.add_argument("--corpus", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    made.add_argument("--batch_sizes", type=int, nargs="+", default=[1, 4, 16], help="questions side by side")
    made.add_argument("--processes", type=int, nargs="+", default=[1, 2], help="wall clock of `label --input demo`")
    made.add_argument("--plot", help="draw the curves into this image")
    options = made.parse_args(arguments)
    scorer = SePerScorer.from_pretrained(options.reader, options.judge)
    scorer.beliefs("Who?", ["Ann"], [()])  # what happens once
    measured = {
        "samples": curve(options.samples, lambda count: with_samples(scorer, count)),
        "passages": curve(options.passages, lambda count: with_passages(scorer, count)),
        "questions": curve(options.questions, lambda count: with_questions(scorer, count)),
        "corpus": curve(options.corpus, with_corpus),
        "batch_size": curve(options.batch_sizes, lambda count: with_batch_size(scorer, count)),
        "processes": with_processes(options, options.processes),
    }
    if options.plot:
        draw(measured, Path(options.plot))
    finish(measured, options.json)


def curve(counts: Sequence[int], work: Callable[[int], Callable[[], Any]]) -> dict[str, Any]:
    """Return the seconds and the peak memory in MB per count, and the slope of the time between the last two."""
    seconds, memory = {}, {}
    for count in counts:
        act = work(count)
        spent: dict[str, float] = {}
        memory[str(count)] = round(peak_memory(lambda act=act, spent=spent: spent.update(clocked(act)[0])))
        seconds[str(count)] = round(spent[CLOCK], 3)
    return {"seconds": seconds, "peak_mb": memory, "slope": slope(seconds)}


def slope(seconds: dict[str, float]) -> float:
    (low, before), (high, after) = list(seconds.items())[-2:] if len(seconds) > 1 else [("1", 1.0), ("2", 1.0)]
    return round(math.log(after / before) / math.log(int(high) / int(low)), 2)


def with_samples(scorer: SePerScorer, count: int) -> Callable[[], Any]:
    """One question with five passages, each by itself, and so many samples."""
    other = scorer.with_sampling(num_samples=count)
    (query,) = questions(1)
    return lambda: other.utilities([replace(query, passages=query.passages[:5])])


def with_passages(scorer: SePerScorer, count: int) -> Callable[[], Any]:
    """One question with so many passages, each by itself."""
    one, other = questions(2)
    query = replace(one, passages=(*one.passages, *other.passages)[:count])
    return lambda: scorer.utilities([query])


def with_questions(scorer: SePerScorer, count: int) -> Callable[[], Any]:
    """So many questions with one passage of 40 words each."""
    asked = [replace(query, passages=query.passages[:1]) for query in questions(count, words=40)]
    return lambda: scorer.utilities(asked)


def with_corpus(count: int) -> Callable[[], Any]:
    """Ten questions' best passages by BM25 among so many, without building the index."""
    asked = questions(10)
    texts = [passage.text for query in asked for passage in query.passages]
    # the same texts again and again, each with a word of its own
    corpus = {str(at): Passage(f"{texts[at % len(texts)]} number{at}", id=str(at)) for at in range(count)}
    retriever = BM25Retriever(corpus)
    return lambda: retriever.retrieve([query.question for query in asked], 5)


def with_batch_size(scorer: SePerScorer, count: int) -> Callable[[], Any]:
    """Sixteen questions of the demo with their passages, so many side by side."""
    queries = load_input().queries[::10][:16]
    asked = [Asked(query.question, query.answers, tuple(query.contexts)) for query in queries]
    return lambda: scorer.measure(asked, count)


def with_processes(options: Any, counts: Sequence[int]) -> dict[str, Any]:
    """Label 16 questions of the demo with so many processes, one thread each; wall clock, loading included."""
    seconds = {}
    for count in counts:
        launch = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(count)] if count > 1 else []
        with tempfile.TemporaryDirectory() as folder:
            words = ["--input", "demo", "--limit", "16", "--output_dir", folder, "--reader", options.reader]
            command = [
                sys.executable, *launch, "-m", "seper_reward", "label", *words, "--judge", options.judge,
            ]  # fmt: skip
            environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
            start = time.perf_counter()
            subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=True)
            seconds[str(count)] = round(time.perf_counter() - start, 3)
    return {"seconds": seconds, "slope": slope(seconds)}


def draw(measured: dict[str, Any], path: Path) -> None:
    """Draw time above and memory below."""
    figure = need("matplotlib.figure", "figures").Figure(figsize=(2.6 * len(measured), 4.6), layout="constrained")
    grid = figure.subplots(2, len(measured))
    for place, (name, found) in enumerate(measured.items()):
        for axes, what in zip(grid[:, place], ("seconds", "peak_mb"), strict=True):
            if what not in found:
                axes.set_visible(False)
                continue
            counts = [int(count) for count in found[what]]
            axes.plot(counts, list(found[what].values()), "o-")
            axes.set_ylim(bottom=0)
            axes.locator_params(axis="x", integer=True, nbins=5)
            axes.xaxis.set_major_formatter("{x:,.0f}")
            axes.tick_params(labelsize=7)
            axes.set_xlabel(name)
        grid[0, place].set_title(f"time ~ {name}^{found['slope']} at the end", fontsize=8)
    grid[0, 0].set_ylabel("seconds")
    grid[1, 0].set_ylabel("peak memory, MB")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


if __name__ == "__main__":
    main()
