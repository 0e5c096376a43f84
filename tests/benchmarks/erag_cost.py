"""How much cheaper are eRAG's labels of single passages than end-to-end evaluation (eRAG, arXiv:2404.13781)?

    python -m tests.benchmarks.erag_cost

To evaluate a list of k passages by how the reader answers, end-to-end evaluation shows it all k together. For a metric
of the list that needs a label of every passage it is run on every prefix of the list, eRAG on every passage alone. The
paper compares time and memory with attention that is quadratic in the length. Both are measured here with the reader's
greedy answers on the same lists, in turn in one process: seconds a question, and the peak memory above the loaded
model, of the accelerator if there is one, else of this process.
"""

import functools
import statistics
from collections.abc import Sequence
from pathlib import Path

from seper_reward import SePerScorer
from seper_reward.labels.labelers import ERAGLabeler, ERAGOptions
from seper_reward.types import Asked, Passage, Query
from tests.benchmarks.common import CONTEXTS, clocked, finish, parser, peak_memory, questions

DEPTHS = (1, 5, 10, 20)


def main(arguments: Sequence[str] | None = None) -> None:
    made = parser(__doc__)
    made.add_argument("--reader", default="embedded")
    made.add_argument("--questions", type=int, default=8)
    made.add_argument("--depths", type=int, nargs="+", default=DEPTHS)
    options = made.parse_args(arguments)
    scorer = SePerScorer.from_pretrained(options.reader, max_new_tokens=16)
    labeler = ERAGLabeler(scorer, options=ERAGOptions.preset("paper"))
    queries = questions(options.questions * -(-max(options.depths) // CONTEXTS))
    lists = [_longer(queries, at, max(options.depths)) for at in range(options.questions)]
    rest = peak_memory(lambda: None)
    _read(labeler, lists[0], [lists[0].passages[:1]])  # the first forward pass prepares kernels
    result = {}
    for depth in options.depths:
        ways = {
            "whole_list": lambda query, k=depth: [query.passages[:k]],
            "every_prefix": lambda query, k=depth: [query.passages[:end] for end in range(1, k + 1)],
            "each_passage": lambda query, k=depth: [(passage,) for passage in query.passages[:k]],
        }
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        memory = dict.fromkeys(ways, 0.0)
        for query in lists:
            for name, contexts in ways.items():
                act = functools.partial(_read, labeler, query, contexts(query))
                seconds[name].append(clocked(act)[0]["wall"])
                memory[name] = max(memory[name], peak_memory(act) - rest)
        result[f"k_{depth}"] = {
            **{f"seconds_{name}": round(statistics.median(found), 3) for name, found in seconds.items()},
            **{f"megabytes_{name}": round(found) for name, found in memory.items()},
            **{f"each_passage_over_{name}": _ratio(seconds, name) for name in ways if name != "each_passage"},
        }
    finish({"reader": Path(options.reader).name, "questions": len(lists), **result}, options.json)


def _longer(queries: Sequence[Query], at: int, depth: int) -> Query:
    """Return a question with the passages of the following ones behind its own."""
    passages = [passage for query in [*queries[at:], *queries[:at]] for passage in query.passages]
    return Query(queries[at].id, queries[at].question, queries[at].answers, tuple(passages[:depth]))


def _read(labeler: ERAGLabeler, query: Query, contexts: Sequence[Sequence[Passage]]) -> None:
    asked = Asked(query.question, query.answers, tuple(map(tuple, contexts)))
    if any(isinstance(row, Exception) for row in labeler.read([asked], 1)):
        raise ValueError(f"the reader cannot read {len(contexts[0])} passages together; take smaller --depths")


def _ratio(seconds: dict[str, list[float]], name: str) -> float:
    pairs = zip(seconds["each_passage"], seconds[name], strict=True)
    return round(statistics.median(single / other for single, other in pairs), 2)


if __name__ == "__main__":
    main()
