"""How time grows with samples, passages, questions, corpus and processes.

    python -m tests.benchmarks.scaling --json out.json --plot out.svg

Each curve is measured in one run on the embedded models and real text, with the slope of its end on logarithmic axes
(between its last two points): 1 is linear growth, less is better.
"""

import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from seper_reward import ResponseSampler, SePerScorer
from seper_reward.extras import need
from seper_reward.retrieval import BM25Retriever
from seper_reward.types import Passage
from tests.benchmarks.common import CLOCK, clocked, finish, parser, questions

ROOT = Path(__file__).parents[2]


def main(arguments: Sequence[str] | None = None) -> None:
    made = parser(__doc__)
    made.add_argument("--reader", default="embedded")
    made.add_argument("--entailment", default="embedded")
    made.add_argument("--samples", type=int, nargs="+", default=[1, 2, 4, 8, 16, 32])
    made.add_argument("--passages", type=int, nargs="+", default=[1, 2, 5, 10, 20])
    made.add_argument("--questions", type=int, nargs="+", default=[2, 4, 8, 16])
    made.add_argument("--corpus", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    made.add_argument("--processes", type=int, nargs="+", default=[1, 2], help="wall clock of `label --input demo`")
    made.add_argument("--plot", help="draw the curves into this image")
    options = made.parse_args(arguments)
    scorer = SePerScorer.from_pretrained(options.reader, options.entailment)
    scorer.beliefs("Who?", ["Ann"], [()])  # what happens once
    measured = {
        "samples": curve(options.samples, lambda count: with_samples(scorer, count)),
        "passages": curve(options.passages, lambda count: with_passages(scorer, count)),
        "questions": curve(options.questions, lambda count: with_questions(scorer, count)),
        "corpus": curve(options.corpus, with_corpus),
        "processes": curve(options.processes, lambda count: with_processes(options, count)),
    }
    if options.plot:
        draw(measured, Path(options.plot))
    finish(measured, options.json)


def curve(counts: Sequence[int], seconds: Callable[[int], float]) -> dict[str, Any]:
    """Return the seconds per count, and the slope between the last two."""
    found = {count: seconds(count) for count in counts}
    (low, before), (high, after) = list(found.items())[-2:] if len(found) > 1 else [(1, 1.0), (math.e, 1.0)]
    slope = math.log(after / before) / math.log(high / low)
    return {"seconds": {str(count): round(value, 3) for count, value in found.items()}, "slope": round(slope, 2)}


def with_samples(scorer: SePerScorer, count: int) -> float:
    """One question with five passages, each by itself, and so many samples."""
    old = scorer.sampler
    options = {**vars(old.options), "num_samples": count}
    sampler = ResponseSampler(old._model, old.tokenizer, **options)
    other = SePerScorer(sampler, scorer.entailment, prompt="brief", estimator=scorer.estimator)
    (query,) = questions(1)
    return clocked(lambda: other.query_utilities(replace(query, passages=query.passages[:5])))[0][CLOCK]


def with_passages(scorer: SePerScorer, count: int) -> float:
    """One question with so many passages, each by itself."""
    one, other = questions(2)
    query = replace(one, passages=(*one.passages, *other.passages)[:count])
    return clocked(lambda: scorer.query_utilities(query))[0][CLOCK]


def with_questions(scorer: SePerScorer, count: int) -> float:
    """So many questions with two passages each."""
    asked = [replace(query, passages=query.passages[:2]) for query in questions(count)]
    return clocked(lambda: scorer.utilities(asked))[0][CLOCK]


def with_corpus(count: int) -> float:
    """Ten questions' best passages by BM25 among so many, without building the index."""
    asked = questions(10)
    texts = [passage.text for query in asked for passage in query.passages]
    # the same texts again and again, each with a word of its own
    corpus = {str(at): Passage(f"{texts[at % len(texts)]} number{at}", id=str(at)) for at in range(count)}
    retriever = BM25Retriever(corpus)
    return clocked(lambda: retriever.retrieve([query.question for query in asked], 5))[0][CLOCK]


def with_processes(options: Any, count: int) -> float:
    """Label 16 questions of the demo with so many processes, one thread each; wall clock, loading included."""
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(count)] if count > 1 else []
    with tempfile.TemporaryDirectory() as folder:
        words = ["--input", "demo", "--limit", "16", "--output_dir", folder, "--reader", options.reader]
        command = [sys.executable, *launch, "-m", "seper_reward", "label", *words, "--entailment", options.entailment]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
        run = lambda: subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=True)  # noqa: E731
        return clocked(run)[0]["wall"]


def draw(measured: dict[str, Any], path: Path) -> None:
    figure = need("matplotlib.figure", "figures").Figure(figsize=(3 * len(measured), 3), layout="constrained")
    for axes, (name, found) in zip(figure.subplots(1, len(measured)), measured.items(), strict=True):
        counts = [int(count) for count in found["seconds"]]
        axes.plot(counts, list(found["seconds"].values()), "o-")
        axes.set_ylim(bottom=0)
        axes.locator_params(axis="x", integer=True, nbins=5)
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.tick_params(labelsize=7)
        axes.set_xlabel(name)
        axes.set_title(f"time ~ {name}^{found['slope']} at the end", fontsize=8)
    figure.supylabel("seconds")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


if __name__ == "__main__":
    main()
