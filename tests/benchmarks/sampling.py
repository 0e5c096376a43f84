"""How fast are labels made: against the published procedure, and against what the hardware allows?

    python -m tests.benchmarks.sampling --json out.json

For 1 and 5 passages of 100 words a prompt, 10 contexts a question, N=10, same dtype, one process, in turn:

- the published procedure (`reference.py`) against `SePerScorer.beliefs`; wall clock, and processor time, which a busy
  machine distorts less;
- `SePerScorer.beliefs`, all of it, against the floor: its prompts and sampled tokens through bare prefill and decode
  calls of the reader at the best batch size;
- where the factor comes from, one change at a time, on the first contexts;
- peak memory of either procedure, models included, each in a process of its own.
"""

import itertools
import json
import statistics
import subprocess
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from typing import Any

import torch

from seper_reward import SePerScorer
from seper_reward.reader.in_process.layout import cache_argument, new_cache
from seper_reward.runtime.profiling import profiling
from seper_reward.types import Passage, Query
from tests.benchmarks.common import CLOCK, CONTEXTS, clocked, contexts, finish, parser, peak_memory, questions
from tests.benchmarks.reference import Reference
from tests.helpers import asking, prompt_ids, rebuilt

Clock = dict[str, float]
BATCHES = (1, 2, 5, 10)  # prompts; rows when decoding are ten times as many


def main(arguments: Sequence[str] | None = None) -> None:
    made = parser(__doc__)
    made.add_argument("--questions", type=int, default=1)
    made.add_argument("--reader", default="embedded")
    made.add_argument("--judge", default="embedded")
    made.add_argument("--reference_contexts", type=int, default=CONTEXTS, help="scaled up to 10 where fewer")
    made.add_argument("--factor_contexts", type=int, default=2, help="contexts for the factors, scaled up; 0: none")
    made.add_argument("--memory_of", choices=["ours", "reference"], help="only this one's peak memory, for --passages")
    made.add_argument("--passages", type=int, nargs="+", default=[1, 5])
    options = made.parse_args(arguments)
    scorer = load(options)
    if options.memory_of:
        finish({"peak_memory_mb": peak_of(scorer, options)}, options.json)
        return
    scorer.beliefs("Who?", ["Ann"], [()])  # what happens once, before any clock runs
    measured = {f"passages_{count}": measure(scorer, options, count) for count in options.passages}
    memory = {
        f"{procedure}_passages_{count}": memory_in_child(options, procedure, count)
        for count in options.passages
        for procedure in ("reference", "ours")
    }
    result = {
        "speedup_vs_reference": {name: row["speedup"] for name, row in measured.items()},
        "ratio_to_floor": max(row["ratio_to_floor"] for row in measured.values()),
        "peak_memory_mb": memory,
        "measured": measured,
        "settings": {**vars(options), "threads": torch.get_num_threads(), "dtype": str(scorer.sampler._model.dtype)},
    }
    finish(result, options.json)


def load(options: Namespace) -> SePerScorer:
    return SePerScorer.from_pretrained(options.reader, options.judge)


def measure(scorer: SePerScorer, options: Namespace, passages: int) -> dict[str, Any]:
    """Measure all ratios for so many passages a prompt; medians over questions."""
    rows = [measure_question(scorer, query, options, passages) for query in questions(options.questions)]
    return {
        name: _median([row[name] for row in rows])
        for name in (
            "speedup",
            "speedup_cpu",
            "questions_per_minute",
            "ratio_to_floor",
            "ratio_to_floor_cpu",
            "factors",
            "seconds",
        )
    }


def measure_question(scorer: SePerScorer, query: Query, options: Namespace, passages: int) -> dict[str, Any]:
    sets = contexts(query, passages)
    before, _ = clocked(lambda: ours(scorer, query, sets))
    reference = Reference(scorer)
    some = sets[: options.reference_contexts]
    slow, _ = clocked(lambda: reference.beliefs(query, some))
    slow = {name: seconds * len(sets) / len(some) for name, seconds in slow.items()}
    after, _ = clocked(lambda: ours(scorer, query, sets))  # ours around the reference: drift falls on both
    fast = {name: (before[name] + after[name]) / 2 for name in before}
    least = floor(scorer, query, sets)
    again, _ = clocked(lambda: ours(scorer, query, sets))
    return {
        "speedup": slow["wall"] / fast["wall"],
        "speedup_cpu": slow["cpu"] / fast["cpu"],
        "questions_per_minute": {"reference": 60 / slow["wall"], "ours": 60 / fast["wall"]},
        "ratio_to_floor": (after["wall"] + again["wall"]) / 2 / least["wall"],
        "ratio_to_floor_cpu": (after["cpu"] + again["cpu"]) / 2 / least["cpu"],
        "seconds": {"reference": slow["wall"], "ours": fast["wall"], "floor": least["wall"]},
        "factors": factors(scorer, query, sets, options.factor_contexts) if options.factor_contexts else {},
    }


def ours(scorer: SePerScorer, query: Query, sets: Sequence[Sequence[Passage]]) -> Any:
    return scorer.beliefs(query.question, query.answers, [(), *sets])


@torch.no_grad()
def floor(scorer: SePerScorer, query: Query, sets: Sequence[Sequence[Passage]]) -> Clock:
    """Return the seconds of the same tokens through bare prefill and decode calls at the best batch size."""
    sampler, model = scorer.sampler, scorer.sampler._model
    prompts = [scorer.reader.prompts.build(query.question, passages) for passages in [(), *sets]]
    sampled = sampler.sample(asking(prompts))
    drawn = sum(len(ids) - 1 for row in sampled for ids in row.token_ids)  # the first is prefill's
    lines = [prompt_ids(sampler, prompt) for prompt in prompts]
    baseline, length = lines[0], max(map(len, lines[1:]))
    prefill, decode = [], []
    for batch in BATCHES:
        ids = torch.tensor([(line * (length // len(line) + 1))[:length] for line in lines[1 : 1 + batch]])
        prefill.append(_each(len(ids), lambda ids=ids: model(ids, use_cache=True, logits_to_keep=1)))
        cache = new_cache(model)
        model(ids, **{cache_argument(model): cache}, use_cache=True, logits_to_keep=1)
        cache.batch_repeat_interleave(sampler.options.num_samples)
        newest = ids[:, -1:].repeat_interleave(sampler.options.num_samples, dim=0)
        decode.append(_each(len(newest), lambda ids=newest, cache=cache: model(ids, **{cache_argument(model): cache})))
    alone = _each(1, lambda: model(torch.tensor([baseline]), use_cache=True, logits_to_keep=1))
    return {
        name: alone[name] + len(sets) * min(row[name] for row in prefill) + drawn * min(row[name] for row in decode)
        for name in alone
    }


def _each(rows: int, act: Callable[[], Any]) -> Clock:
    return {name: seconds / rows for name, seconds in clocked(act)[0].items()}


def factors(scorer: SePerScorer, query: Query, sets: Sequence[Sequence[Passage]], count: int) -> dict[str, float]:
    """Return what each change is worth, in the order in which they are made; their product is the speedup.

    Read from ``count`` contexts, scaled to all.
    """
    some, scale = sets[:count], len(sets) / count
    reference = Reference(scorer)
    reference.beliefs(query, some)
    spent = {stage: seconds * scale for stage, seconds in reference.seconds.items()}
    with profiling() as profile:
        whole, _ = clocked(lambda: ours(scorer, query, sets))
    judged = profile.seconds["entailment"] + profile.seconds["clustering"]
    once = spent["baseline"] / len(sets)
    halved = spent["entailment"] * (len(sets) + 1) / (2 * len(sets))
    steps = [
        ("", sum(spent.values())),
        ("baseline_reuse", spent["context"] + once + halved),
        ("entailment_reuse", spent["context"] + once + judged),
        (
            "own_loop_dropped_rows",
            _sampled(scorer, query, some, scale, layout="alone", max_batch_tokens=1) + judged,
        ),
        ("prefix", _sampled(scorer, query, some, scale, max_batch_tokens=1) + judged),
        ("batching", whole[CLOCK]),
    ]
    found = {name: before / after for (_, before), (name, after) in itertools.pairwise(steps)}
    return {**found, "dtype_if_float32": _float32(scorer, query, some) / _sampled(scorer, query, some)}


def _sampled(
    scorer: SePerScorer, query: Query, sets: Sequence[Sequence[Passage]], scale: float = 1.0, **changes: Any
) -> float:
    """Return seconds of sampling the contexts (scaled) and the baseline with another set-up of the sampler."""
    sampler = rebuilt(scorer.sampler, **changes)
    prompts = [scorer.reader.prompts.build(query.question, passages) for passages in sets]
    baseline, _ = clocked(lambda: sampler.sample(asking([scorer.reader.prompts.build(query.question, ())])))
    return clocked(lambda: sampler.sample(asking(prompts)))[0][CLOCK] * scale + baseline[CLOCK]


def _float32(scorer: SePerScorer, query: Query, sets: Sequence[Sequence[Passage]]) -> float:
    """Return seconds of sampling in float32; the reader goes back to its dtype, unchanged."""
    model = scorer.sampler._model
    dtype = model.dtype
    try:
        model.float()
        return _sampled(scorer, query, sets)
    finally:
        model.to(dtype)


def peak_of(scorer: SePerScorer, options: Namespace) -> float:
    """Return the peak memory of one question in MB."""
    (query,) = questions(1)
    (passages,) = options.passages
    sets = contexts(query, passages)
    if options.memory_of == "ours":
        return peak_memory(lambda: ours(scorer, query, sets))
    return peak_memory(lambda: Reference(scorer).beliefs(query, sets[:1]))  # it holds one prompt at a time


def memory_in_child(options: Namespace, procedure: str, passages: int) -> float:
    words = ["--reader", options.reader, "--judge", options.judge]
    command = [sys.executable, "-m", __spec__.name, "--memory_of", procedure, "--passages", str(passages), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return round(float(json.loads(done.stdout)["peak_memory_mb"]), 1)


def _median(values: Sequence[Any]) -> Any:
    if isinstance(values[0], dict):
        return {name: _median([value[name] for value in values]) for name in values[0]}
    return round(statistics.median(values), 3)


if __name__ == "__main__":
    main()
