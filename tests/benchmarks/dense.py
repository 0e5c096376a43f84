"""Is dense retrieval in bf16 faster than in fp32, and does it find the same passages?

    python -m tests.benchmarks.dense --json out.json

Embeds passages of Natural Questions (without them, of the demo) and ranks them for their questions, twice with the
same encoder in one process: under bf16 autocast, and in fp32. Prints the ratio of seconds, and how far the rankings
agree.
"""

import statistics
from collections.abc import Sequence
from typing import Any

import torch

from seper_reward.data.inputs import load_input
from seper_reward.data.queries import pool_passages
from seper_reward.data.splits import spread
from seper_reward.options import InputOptions
from seper_reward.retrieval import DenseRetriever
from tests.benchmarks.common import CLOCK, NQ, clocked, finish, parser
from trainers.models import load_encoder

DEPTH = 10


def main(arguments: Sequence[str] | None = None) -> None:
    made = parser(__doc__)
    made.add_argument("--encoder", default="embedded")
    made.add_argument("--questions", type=int, default=100, help="questions, whose passages are the corpus")
    options = made.parse_args(arguments)
    finish(measure(load_encoder(options.encoder), options.questions), options.json)


def measure(encoder: Any, count: int) -> dict[str, Any]:
    examples = load_input(InputOptions(str(NQ) if NQ.is_file() else "demo"))
    corpus = examples.corpus
    queries = spread(examples.queries, count)
    if corpus is None:
        corpus, queries = pool_passages(queries)
    asked = [query.question for query in queries]
    DenseRetriever(encoder, dict(list(corpus.items())[:16])).retrieve(asked[:16], 1)  # warm-up
    seconds, found = {}, {}
    for name, dtype in (("bfloat16", torch.bfloat16), ("float32", torch.float32)):
        spent, found[name] = clocked(
            lambda dtype=dtype: DenseRetriever(encoder, corpus, dtype=dtype).retrieve(asked, DEPTH)
        )
        seconds[name] = spent[CLOCK]
    both = list(zip(*([[passage.id for passage in row] for row in rows] for rows in found.values()), strict=True))
    return {
        "passages": len(corpus),
        "questions": len(asked),
        "seconds": {name: round(spent, 2) for name, spent in seconds.items()},
        "speedup_of_bfloat16": round(seconds["float32"] / seconds["bfloat16"], 2),
        "same_best": round(statistics.fmean(one[0] == other[0] for one, other in both), 4),
        f"overlap_of_{DEPTH}": round(statistics.fmean(len({*one} & {*other}) / len(one) for one, other in both), 4),
    }


if __name__ == "__main__":
    main()
