"""What two ranks save where they share the work of a reward: contexts measured, and seconds, alone and shared.

    python -m tests.benchmarks.ranks --json out.json

Each step has rollouts on both ranks, which found some of a question's ten passages or none. In `one_group` all of a
step's rollouts are of one question, in `a_group_each` a rank has a question of its own. Both ways of scoring take
turns in the same processes, each with a memory of its own. A step takes as long as its slower rank: its seconds are
that one's, by the processor's clock where there is no accelerator.
"""

import functools
import itertools
import json
import random
import subprocess
import sys
import tempfile
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from transformers import TrainerState

from seper_reward.config import ScorerConfig, load_scorer
from seper_reward.reward.reward import SePerReward
from seper_reward.runtime.distributed import gathered, process_state
from seper_reward.scorer import SePerScorer
from seper_reward.types import Asked, Measured, Query, UnscorableError
from tests.benchmarks.common import finish, now, parser, questions

RANKS = 2


class Counting(SePerScorer):
    """A scorer that counts the contexts it measures."""

    def __init__(self, scorer: SePerScorer) -> None:
        self.__dict__ |= scorer.__dict__
        self.contexts = 0

    def measure(self, asked: Sequence[Asked], batch_size: int | None = None) -> list[Measured | UnscorableError]:
        """Measure as ever."""
        self.contexts += sum(len(each.contexts) for each in asked)
        return super().measure(asked, batch_size)


def main(arguments: Sequence[str] | None = None) -> None:
    made = parser(__doc__)
    made.add_argument("--steps", type=int, default=4, help="of each of the two layouts")
    made.add_argument("--rollouts", type=int, default=8, help="of a rank in a step")
    made.add_argument("--words", type=int, default=60, help="of a passage")
    made.add_argument("--reader", default="embedded")
    made.add_argument("--entailment", default="embedded")
    made.add_argument("--dtype", default="float32")
    made.add_argument("--rank_of", help="set by the benchmark itself: the file for the results of its ranks")
    options = made.parse_args(arguments)
    if options.rank_of:
        results = {layout: measure(options, layout) for layout in ("one_group", "a_group_each")}
        if process_state().is_main_process:
            Path(options.rank_of).write_text(json.dumps(results), encoding="utf-8")
        return
    with tempfile.TemporaryDirectory() as folder:
        words = list(arguments if arguments is not None else sys.argv[1:])
        launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(RANKS)]
        launch += ["-m", "tests.benchmarks.ranks", *words, "--rank_of", f"{folder}/results.json"]
        subprocess.run(launch, check=True, cwd=Path(__file__).parents[2])
        results = json.loads(Path(folder, "results.json").read_text(encoding="utf-8"))
    about = {"ranks": RANKS, "steps": options.steps, "rollouts_of_a_rank": options.rollouts, "words": options.words}
    finish(about | results, options.json)


def measure(options: Namespace, layout: str) -> dict[str, Any]:
    """Return what the ranks measured and took in one layout, alone and shared."""
    rank = process_state().process_index
    config = ScorerConfig(reader=options.reader, entailment=options.entailment, dtype=options.dtype)
    scorer = load_scorer(config, 0)
    ways = {way: Counting(scorer) for way in ("alone", "shared")}
    rewards = {way: SePerReward(scorer, answer_weight=0.0, price=0.0) for way, scorer in ways.items()}
    seconds = dict.fromkeys(ways, 0.0)
    found: dict[str, list[Any]] = {way: [] for way in ways}
    asked = questions(RANKS * options.steps, options.words)
    for step in range(options.steps):
        mine = asked[RANKS * step] if layout == "one_group" else asked[RANKS * step + rank]
        columns = rollouts(mine, options.rollouts, seed=RANKS * step + rank)
        for way, reward in rewards.items():
            gathered(lambda: None)  # all begin together
            start = now()
            found[way] += reward(**columns, trainer_state=TrainerState() if way == "shared" else None)
            spent = now() - start
            seconds[way] += max(gathered(functools.partial(float, spent)))
    by_rank = gathered(lambda: ([counting.contexts for counting in ways.values()], found))
    contexts = dict(zip(ways, (sum(counts) for counts in zip(*(row for row, _ in by_rank), strict=True)), strict=True))
    alone, shared = (itertools.chain.from_iterable(values[way] for _, values in by_rank) for way in ways)
    return {
        "contexts": contexts,
        "seconds": {way: round(spent, 2) for way, spent in seconds.items()},
        "speedup": round(seconds["alone"] / seconds["shared"], 2),
        "greatest_difference": max(abs(one - other) for one, other in zip(alone, shared, strict=True)),
    }


def rollouts(query: Query, count: int, seed: int) -> dict[str, Any]:
    """Return the columns of some rollouts of a question: most found one of its passages, some did not search."""
    rng = random.Random(seed)
    passages = [rng.choice([[], *([passage.full_text] for passage in query.passages)]) for _ in range(count)]
    return {"question": [query.question] * count, "answers": [list(query.answers)] * count, "passages": passages}


if __name__ == "__main__":
    main()
