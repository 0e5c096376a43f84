"""Checks of memory and speed: the published procedure, new shapes, and what stays allocated."""

import gc
import time
import warnings
from collections.abc import Mapping
from functools import partial
from typing import Any

import torch

from seper_reward.reader.sampler import Request
from seper_reward.runtime.profiling import profiling
from tests.benchmarks.common import peak_memory
from tests.benchmarks.reference import Reference
from tests.gpu_check.models import Plan, demo_prompts, demo_questions, load_sampler, load_scorer

_SLACK = 32 * 2**20  # bytes that libraries keep, such as workspaces of matrix products


def memory(plan: Plan) -> dict[str, Any]:
    """Peak memory by batch size; nothing stays allocated when a sampler is gone."""
    prompts = demo_prompts(max(plan.batch_sizes))
    load_sampler(plan).sample(list(map(Request, prompts[:1])))  # workspaces are made once
    before = _allocated(plan.device)
    sampler = load_sampler(plan, max_batch_tokens=10**9)
    peaks = {str(size): peak_memory(partial(sampler.sample, prompts[:size])) for size in plan.batch_sizes}
    del sampler
    left = _allocated(plan.device) - before
    assert left <= _SLACK, f"{left} bytes stay allocated when the sampler is gone"
    return {"peak_mb_by_prompts": {size: round(peak, 1) for size, peak in peaks.items()}, "bytes_left": left}


def halves(plan: Plan) -> dict[str, Any] | None:
    """A batch that does not fit is halved, and its responses stay the same; needs a limit of memory, as on CUDA."""
    if plan.device.type != "cuda":
        return None
    prompts = demo_prompts(64)
    sampler = load_sampler(plan, max_batch_tokens=10**9)
    expected = sampler.sample(list(map(Request, prompts)))
    torch.cuda.empty_cache()
    used, total = torch.cuda.memory_allocated(), torch.cuda.get_device_properties(plan.device).total_memory
    peak = int(peak_memory(lambda: sampler.sample(list(map(Request, prompts)))) * 1e6)
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction((used + 0.6 * (peak - used)) / total)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = sampler.sample(list(map(Request, prompts)))
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    halved = sum("halved" in str(each.message) for each in caught)
    same = sum(one.token_ids == two.token_ids for one, two in zip(expected, found, strict=True))
    assert halved, "the batch was not halved"
    assert same >= 0.95 * len(prompts), {"halved": halved, "same": same}
    return {"halved": halved, "same_prompts": same, "prompts": len(prompts)}


def published(plan: Plan) -> dict[str, Any]:
    """Labels against the published procedure: `generate` per prompt, entailment both ways of every pair."""
    scorer = load_scorer(plan, dtype=_dtype(plan))
    asked = demo_questions(2 if plan.device.type == "cpu" else 8)
    scorer.beliefs("Who?", ["Ann"], [()])  # kernels are loaded once
    seconds = {"ours": 0.0, "published": 0.0}
    reference = Reference(scorer)
    reference.beliefs(asked[0], [asked[0].passages[:1]])
    reference.seconds.clear()
    for query in asked:
        sets = [(passage,) for passage in query.passages]
        start = _now(plan.device)
        scorer.beliefs(query.question, query.answers, [(), *sets])
        middle = _now(plan.device)
        reference.beliefs(query, sets)
        seconds["ours"] += middle - start
        seconds["published"] += _now(plan.device) - middle
    with profiling() as profile:
        for query in asked:
            scorer.beliefs(query.question, query.answers, [(), *((passage,) for passage in query.passages)])
    return {
        "seconds": _rounded(seconds),
        "seconds_ours": _rounded(profile.seconds),
        "seconds_published": _rounded(reference.seconds),
        "ratio": round(seconds["published"] / seconds["ours"], 2),
        "prompts": sum(len(query.passages) for query in asked),
        "dtype": _dtype(plan),
    }


def _allocated(device: torch.device) -> int:
    gc.collect()
    if device.type != "cuda":
        return 0
    torch.cuda.empty_cache()
    return torch.cuda.memory_allocated(device)


def _dtype(plan: Plan) -> str:
    return "float32" if plan.device.type == "cpu" else "bfloat16"


def _rounded(seconds: Mapping[str, float]) -> dict[str, float]:
    return {name: round(value, 3) for name, value in seconds.items()}


def _now(device: torch.device) -> float:
    if device.type != "cpu":
        torch.accelerator.synchronize()
    return time.perf_counter()
