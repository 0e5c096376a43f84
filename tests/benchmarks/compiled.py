"""What `compile_reader` costs before the first response, and what it saves from then on.

    OMP_NUM_THREADS=1 python -m tests.benchmarks.compiled --json out.json

One question with 10 contexts, by the number of passages in each: the reader as it is, compiled, and as it is once
more, in one process. Compiled programs are kept in torch's cache; its folder is new here, so that all is compiled.
"""

import os
import statistics
import sys
import tempfile
from collections.abc import Sequence
from typing import Any
from unittest import mock

from seper_reward import ResponseSampler, SePerScorer
from tests.benchmarks.common import CLOCK, clocked, contexts, finish, parser, questions
from tests.helpers import rebuilt


def main(arguments: Sequence[str] | None = None) -> None:
    made = parser(__doc__)
    made.add_argument("--reader", default="embedded")
    made.add_argument("--passages", type=int, nargs="+", default=[1, 5])
    made.add_argument("--rounds", type=int, default=3)
    options = made.parse_args(arguments)
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.dict(os.environ, {"TORCHINDUCTOR_CACHE_DIR": folder}),
    ):
        finish(measure(options.reader, options.passages, options.rounds), options.json)


def measure(reader: str, passages: Sequence[int], rounds: int) -> dict[str, Any]:
    scorer = SePerScorer.from_pretrained(reader)
    (query,) = questions(1)
    prompts = {
        count: [scorer.reader.prompts.build(query.question, sets) for sets in contexts(query, count)]
        for count in passages
    }
    plain = scorer.sampler
    before = {count: seconds(plain, asked, rounds) for count, asked in prompts.items()}
    spent, compiled = clocked(lambda: rebuilt(plain, compile_reader=True))
    if not compiled.compiled:
        sys.exit("the reader was not compiled: there is nothing to compare")
    more, _ = clocked(lambda: [compiled.sample(asked) for asked in prompts.values()])
    after = {count: seconds(compiled, asked, rounds) for count, asked in prompts.items()}
    # around the compiled one: drift falls on both
    before = {count: (before[count] + seconds(plain, asked, rounds)) / 2 for count, asked in prompts.items()}
    cost = spent[CLOCK] + more[CLOCK] - sum(after.values())
    return {
        "speedup": {f"passages_{count}": round(before[count] / after[count], 3) for count in passages},
        "seconds": {f"passages_{count}": [round(before[count], 2), round(after[count], 2)] for count in passages},
        "compiling_seconds": round(cost, 1),
        "questions_until_it_pays": {
            f"passages_{count}": round(cost / (before[count] - after[count])) if after[count] < before[count] else None
            for count in passages
        },
        "clock": CLOCK,
    }


def seconds(sampler: ResponseSampler, prompts: Sequence[str], rounds: int) -> float:
    sampler.sample(prompts)
    return statistics.median(clocked(lambda: sampler.sample(prompts))[0][CLOCK] for _ in range(rounds))


if __name__ == "__main__":
    main()
