"""Milliseconds of the host's processor per context, by stage, without the models' forward passes.

    python -m tests.benchmarks.host --json host.json

The host decides how many contexts per second one process can label if the accelerator costs nothing. Seconds are the
processor's, of this thread. With ``--recorded`` the responses of the reader come from a cache, which is filled first;
reading it does not count as the host's.
"""

import functools
import gc
import json
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from tabulate import tabulate

import seper_reward.judge.judge
import seper_reward.scorer
from seper_reward import Passage, Query, SePerReward, SePerScorer
from seper_reward.judge import equality, values
from seper_reward.judge.entailment import EntailmentScorer
from seper_reward.judge.judge import Judge
from seper_reward.labels import rows
from seper_reward.labels.labelers.delta_seper import DeltaSePerLabeler
from seper_reward.reader import prompted
from seper_reward.reader.in_process.response_sampler import ResponseSampler
from seper_reward.reader.prompts import PromptBuilder
from seper_reward.types import unwrap
from tests.benchmarks.common import finish, parser, questions
from tests.tiny_models import make_entailment, make_reader

#: Stages of the host, and of the models.
PLACES: dict[str, tuple[tuple[Any, str], ...]] = {
    "prompts": ((PromptBuilder, "fit"),),
    "cache": ((prompted, "answers_through"),),
    "reader": ((ResponseSampler, "sample"),),
    "rules": (),  # see ``stages``
    "judge": ((EntailmentScorer, "probs"),),
    "belief": (
        (seper_reward.scorer, "belief"),
        (seper_reward.scorer, "pairs_of"),
        (seper_reward.scorer, "reverse_pairs"),
    ),
    "lengths": ((rows, "passage_lengths"),),
    "rows": ((rows, "label_row"),),
}
#: Stages that are not the host's own: a run that samples does not read the responses from a cache.
OTHERS = ("cache", "models")
SHAPES = ("default", "rollouts")  # labels, and rewards of rollouts with a passage each; per context or rollout


class Stages:
    """Milliseconds by stage; time in a nested stage counts only for the nested one."""

    def __init__(self) -> None:
        self.milliseconds: defaultdict[str, float] = defaultdict(float)
        self._running = ["rest"]
        self._since = time.thread_time()

    def switch(self) -> None:
        """Count the time since the last call for the running stage."""
        now = time.thread_time()
        self.milliseconds[self._running[-1]] += (now - self._since) * 1000
        self._since = now

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Measure the block as a stage."""
        self.switch()
        self._running.append(name)
        try:
            yield
        finally:
            self.switch()
            self._running.pop()

    def timed(self, stage: str, act: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function whose calls are measured as a stage."""

        @functools.wraps(act)
        def wrapped(*args: Any, **options: Any) -> Any:
            with self.stage(stage):
                return act(*args, **options)

        return wrapped


@contextmanager
def stages(scorer: Any) -> Iterator[Stages]:
    """Measure the stages of a scorer within the block."""
    found = Stages()
    with ExitStack() as stack:
        for stage, places in PLACES.items():
            for owner, name in places:
                stack.enter_context(mock.patch.object(owner, name, found.timed(stage, getattr(owner, name))))
        stack.enter_context(
            mock.patch.object(seper_reward.judge.judge, "timed", found.stage)
        )  # the rules, all at once
        for model in (scorer.sampler.model, scorer.entailment.model):
            stack.enter_context(mock.patch.object(model, "forward", found.timed("models", model.forward)))
        yield found
        found.switch()


def measure(scorer: SePerScorer, shape: str, count: int) -> dict[str, float]:
    """Return milliseconds per context by stage, of labelling ``count`` questions after another one."""
    passages = 8 if shape == "rollouts" else 5
    scorer = scorer.with_sampling(num_samples=10)
    scorer.judge = Judge(scorer.entailment)  # no cache of its scores
    asked = questions(10)
    texts = [passage for query in asked for passage in query.passages]
    queries = [
        Query(
            str(number),
            query.question,
            query.answers[:1],
            tuple(Passage(f"{texts[(number + at) % len(texts)].text} {at}", id=str(at)) for at in range(passages)),
        )
        for number, query in enumerate(asked[: count + 1])
    ]
    values.unit_registry()  # reading it takes half a second, once, as does looking for the scripts of the judge
    scorer.entailment.unread("é")
    label(scorer, queries[:1])
    if scorer.cache or shape == "rollouts":  # answers of rollouts, and responses to read from the cache
        responses = scorer.responses(queries[1:])
    for each in (equality, values, seper_reward.judge.judge):  # what an earlier shape has left
        for function in vars(each).values():
            if hasattr(function, "cache_clear") and function is not values.unit_registry:
                function.cache_clear()
    act, contexts = partial(label, scorer, queries[1:]), sum(len(query.contexts) for query in queries[1:])
    if shape == "rollouts":
        texts_drawn = [row.texts[0] for found in responses for row in unwrap(found)[1:]]
        act, contexts = partial(reward, scorer, queries[1:], texts_drawn), len(texts_drawn)
    with stages(scorer) as found:
        act()
    per_context = {stage: spent / contexts for stage, spent in found.milliseconds.items()}
    every = {stage: per_context.get(stage, 0.0) for stage in (*PLACES, "rest", "models")}
    return {"host": sum(spent for stage, spent in every.items() if stage not in OTHERS), **every}


def label(scorer: SePerScorer, queries: Sequence[Query]) -> None:
    """Label queries, and write their rows to nowhere."""
    labeler = DeltaSePerLabeler(scorer)
    for query, labeled in zip(queries, labeler.label_batch(queries), strict=True):
        json.dumps(rows.label_row(unwrap(labeled), labeler.name, rows.passage_lengths(scorer, query)))


def reward(scorer: SePerScorer, queries: Sequence[Query], completions: Sequence[str]) -> None:
    """Reward a rollout for each passage of each query, which is what its search found."""
    asked = [query for query in queries for _ in query.passages]
    SePerReward(scorer)(
        completions,
        question=[query.question for query in asked],
        answers=[query.answers for query in asked],
        passages=[[passage] for query in queries for passage in query.passages],
    )


def main(arguments: Sequence[str] | None = None) -> None:
    made = parser(__doc__)
    made.add_argument("--reader", help="a reader's folder or name (default: a tiny random one)")
    made.add_argument("--judge", help="likewise the judge")
    made.add_argument("--recorded", type=Path, help="cache of the reader's responses, filled first if it has none")
    made.add_argument("--questions", type=int, default=8)
    made.add_argument("--shapes", nargs="+", default=SHAPES, choices=SHAPES)
    options = made.parse_args(arguments)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        scorer = SePerScorer.from_pretrained(
            reader=options.reader or str(make_reader(Path(folder) / "reader")),
            judge=options.judge or str(make_entailment(Path(folder) / "judge")),
            cache=options.recorded and str(options.recorded),
            dtype="float32",
            device="cpu",
        )
        gc.freeze()  # as in `label`
        found = {name: measure(scorer, name, options.questions) for name in options.shapes}
    finish(found, options.json)
    columns = list(next(iter(found.values())))
    table = [[name, *(f"{row[column]:.1f}" for column in columns)] for name, row in found.items()]
    print(tabulate(table, ["ms per context", *columns], disable_numparse=True))


if __name__ == "__main__":
    main()
