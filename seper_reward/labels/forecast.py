"""Dry runs: measure a few questions, and estimate the seconds, tokens and memory of a whole run."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from seper_reward.batching import query_cost
from seper_reward.data.splits import spread
from seper_reward.labels.labelers.base import PassageLabeler
from seper_reward.labels.loop import label_batches
from seper_reward.runtime.distributed import gathered, process_state
from seper_reward.runtime.memory import device_peak_bytes, peak_bytes
from seper_reward.runtime.profiling import profiling
from seper_reward.types import Query, UnscorableError

_MOST_PASSAGES = 32  # of a measured question


@dataclass(frozen=True)
class Forecast:
    """Estimate of a run."""

    questions: int  # of the run, including finished ones
    contexts: int  # each question with each of its passages, and without a passage
    finished: int  # questions that an earlier run finished, or all if it is complete
    measured: int = 0  # questions that were measured
    unscorable: tuple[str, ...] = ()  # reasons why measured questions cannot be scored
    seconds: float = 0.0  # for the remaining questions, on all processes together
    prompt_tokens: int = 0  # of the remaining questions
    response_tokens: int = 0  # of the responses to them
    peak_bytes: int = 0  # memory of a process, including models
    device_peak_bytes: int | None = None  # allocated on a process's GPU; None without a GPU


def measure(
    labeler: PassageLabeler, queries: Sequence[Query], left: Sequence[slice], placebo: Sequence[Query], sample: int
) -> dict[str, Any]:
    """Label a few of the batches that are ``left``; all processes must call this together.

    Returns the measured fields of ``Forecast``; none if no batch is left. The most expensive batch is labelled first,
    which warms up the models and shows peak memory. ``sample`` questions are rounded up to whole batches.
    """
    if not left:
        return {}
    costs = [_cost(queries[places]) for places in left]
    warm_up = queries[left[costs.index(max(costs))]]
    list(label_batches(labeler, [_shortened(warm_up)]))
    batches = [_shortened(queries[places]) for places in spread(left, -(-sample // len(queries[left[0]])))]
    start = time.perf_counter()
    with profiling() as profile:
        labels = [labeled for _, labeled in label_batches(labeler, batches)]
    spent = time.perf_counter() - start
    share = (sum(costs) + _cost(placebo)) / sum(map(_cost, batches))
    processes = gathered((spent, peak_bytes(), device_peak_bytes()))
    return {
        "measured": len(labels),
        "unscorable": tuple(str(label) for label in labels if isinstance(label, UnscorableError)),
        "seconds": max(seconds for seconds, *_ in processes) * share / process_state().num_processes,
        "prompt_tokens": round(profile.counts["prompt_tokens"] * share),
        "response_tokens": round(profile.counts["response_tokens"] * share),
        "peak_bytes": max(peak for _, peak, _ in processes),
        "device_peak_bytes": max((peak for *_, peak in processes if peak is not None), default=None),
    }


def _shortened(queries: Sequence[Query]) -> list[Query]:
    return [replace(query, passages=tuple(spread(query.passages, _MOST_PASSAGES))) for query in queries]


def _cost(queries: Sequence[Query]) -> float:
    return sum(map(query_cost, queries))
