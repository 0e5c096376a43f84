"""100,000 passages embedded, indexed and searched: what does each kind of index cost, and what does it miss?

    python -m tests.benchmarks.search --json out.json

The corpus is every passage of ../shared/data/qa (without it, of the demo), in windows of 40 words that overlap. Prints
how many passages a second are embedded, how much faster kept embeddings are read, and for each kind of index the
seconds to build it, the time per question against exact search, and the share of the exact ten best that it finds.
"""

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from seper_reward.data.inputs import load_input
from seper_reward.data.queries import InputOptions, pool_passages
from seper_reward.retrieval.dense import build_index
from seper_reward.retrieval.embeddings import Embedder
from seper_reward.types import Query
from tests.benchmarks.common import CLOCK, SHARED, clocked, finish, parser
from trainers.models import load_encoder

WORDS = 40
DEPTH = 10
KINDS = {"exact": True, "ivf": False}


def main(arguments: Sequence[str] | None = None) -> None:
    made = parser(__doc__)
    made.add_argument("--encoder", default="embedded")
    made.add_argument("--passages", type=int, default=100_000)
    made.add_argument("--questions", type=int, default=1000)
    made.add_argument("--stride", type=int, default=8, help="words between the windows' beginnings; 8 makes 100,000")
    options = made.parse_args(arguments)
    queries = [query for path in files() for query in load_input(InputOptions(path)).queries]
    texts = list(dict.fromkeys(windows(queries, options.stride)))[: options.passages]
    finish(
        measure(load_encoder(options.encoder), texts, [query.question for query in queries][: options.questions]),
        options.json,
    )


def files() -> list[str]:
    """Return the files of questions with passages that are here."""
    return sorted(map(str, (SHARED / "qa").glob("*.jsonl.gz"))) or ["demo"]


def windows(queries: Sequence[Query], stride: int) -> Iterator[str]:
    """Yield the passages of all questions in windows of ``WORDS`` words, each after its title."""
    for passage in pool_passages(queries)[0].values():
        words = passage.text.split()
        for start in range(0, max(len(words) - WORDS, 0) + stride, stride):
            yield " ".join([passage.title, *words[start : start + WORDS]]).strip()


def measure(encoder: Any, texts: Sequence[str], questions: Sequence[str]) -> dict[str, Any]:
    embedder = Embedder(encoder)
    embedder.questions(questions[:64])  # warm-up
    with tempfile.TemporaryDirectory() as folder:
        made, vectors = clocked(lambda: embedder.passages(texts, Path(folder)))
        again, kept = clocked(lambda: embedder.passages(texts, Path(folder)))
    assert np.array_equal(kept, vectors)
    asked = embedder.questions(questions)
    kinds: dict[str, dict[str, Any]] = {}
    found: dict[str, Any] = {}
    for kind, exact in KINDS.items():
        built, index = clocked(lambda exact=exact: build_index(vectors, exact))
        index.search(asked[:8], DEPTH)
        searched, (_, found[kind]) = clocked(lambda index=index: index.search(asked, DEPTH))
        overlap = [len({*one} & {*other}) / DEPTH for one, other in zip(found[kind], found["exact"], strict=True)]
        kinds[kind] = {
            "seconds_to_build": round(built[CLOCK], 2),
            "ms_per_question": round(1000 * searched[CLOCK] / len(questions), 3),
            f"found_of_{DEPTH}": round(float(np.mean(overlap)), 4),
        }
    for row in kinds.values():
        row["faster_than_exact"] = round(kinds["exact"]["ms_per_question"] / row["ms_per_question"], 1)
    return {
        "passages": len(texts),
        "questions": len(questions),
        "embedded_per_second": round(len(texts) / made[CLOCK], 1),
        "kept_embeddings_faster": round(made[CLOCK] / again[CLOCK], 1),
        "index": kinds,
    }


if __name__ == "__main__":
    main()
