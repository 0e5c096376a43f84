"""What reuse saves in entailment: the judgements of one question with ten contexts, made in several ways.

    python -m tests.benchmarks.entailment --json out.json

The same sampled responses, the same model, in one process, in turn:

- ``published``: both directions of every pair of responses and of every response and answer, per context;
- ``distinct``: each distinct pair once, equal texts without the model, by length; still both directions of all;
- ``ours``: only what the estimator needs: responses to answers, and between responses the second direction only where
  the first holds;
- ``cached``: ours, once more, over a warm SQLite file.
"""

import itertools
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from seper_reward import SePerScorer
from seper_reward.runtime.cache import Cache
from seper_reward.types import Asked, Pair, Query, unwrap
from tests.benchmarks.common import CLOCK, clocked, contexts, finish, parser, questions
from tests.benchmarks.reference import Reference


def main(arguments: Sequence[str] | None = None) -> None:
    made = parser(__doc__)
    made.add_argument("--reader", default="embedded")
    made.add_argument("--judge", default="embedded")
    options = made.parse_args(arguments)
    (query,) = questions(1)
    with tempfile.TemporaryDirectory() as folder:
        scorer = SePerScorer.from_pretrained(
            options.reader, options.judge, cache=Cache(str(Path(folder) / "cache.sqlite"))
        )
        finish(measure(scorer, query), options.json)


def measure(scorer: SePerScorer, query: Query) -> dict[str, Any]:
    sets = [(), *contexts(query, 1)]
    (sampled,) = scorer.responses([Asked(query.question, query.answers, tuple(sets))])  # from here on in the cache
    texts = [row.texts for row in unwrap(sampled)]
    pairs = [pair for row in texts for pair in both_ways(row, query.answers)]
    reference = Reference(scorer)
    rows = {
        "published": lambda: [reference.entails(query.question, both_ways(row, query.answers)) for row in texts],
        "distinct": lambda: scorer.judge.probs([Pair(query.question, *pair) for pair in pairs]),
        "ours": lambda: scorer.beliefs(query.question, query.answers, sets),
        "cached": lambda: scorer.beliefs(query.question, query.answers, sets),
    }
    seconds = {name: clocked(act)[0][CLOCK] for name, act in rows.items()}
    return {
        "speedup": {name: round(seconds["published"] / spent, 2) for name, spent in seconds.items()},
        "seconds": {name: round(spent, 3) for name, spent in seconds.items()},
        "pairs": {"published": len(pairs), "distinct": len(set(pairs))},
    }


def both_ways(responses: Sequence[str], answers: Sequence[str]) -> list[tuple[str, str]]:
    forward = [*itertools.product(responses, answers), *itertools.combinations(responses, 2)]
    return [*forward, *((other, one) for one, other in forward)]


if __name__ == "__main__":
    main()
