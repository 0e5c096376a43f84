"""Checks of numbers: every layout against plain forward passes, labels against the CPU's, and batches."""

import time
from typing import Any

import torch

from seper_reward.options import ReaderOptions
from seper_reward.reader.in_process.response_sampler import ResponseSampler
from seper_reward.reader.in_process.self_check import check_tolerance
from seper_reward.reader.sampler import Request
from tests.gpu_check.models import Plan, demo_prompts, demo_questions, load_sampler, load_scorer
from tests.reader.in_process.architectures import ARCHITECTURES, tokenizer

LAYOUTS = ("tree", "repeat", "alone", "reread")
CPU = torch.device("cpu")


def layouts(plan: Plan) -> dict[str, Any]:
    """Self-check of every layout, in float32 and bfloat16; raises what the check raises."""
    checked = []
    for dtype in ("float32", "bfloat16"):
        for layout in LAYOUTS:
            load_sampler(plan, dtype=dtype, layout=layout).check()
            checked.append(f"{layout} {dtype}")
    return {"checked": checked}


def architectures(plan: Plan) -> dict[str, Any]:
    """Self-check of a tiny random model of each architecture that quick tests have, in its own layout."""
    problems, checked = {}, 0
    for each in ARCHITECTURES:
        if each.slow:
            continue
        try:
            options = ReaderOptions(num_samples=3, max_new_tokens=4)
            ResponseSampler(each.model().to(plan.device), tokenizer(), options).check()
            checked += 1
        except Exception as error:  # the next architecture is checked all the same
            problems[each.family] = f"{type(error).__name__}: {error}"
    if problems:
        raise AssertionError(f"{len(problems)} architectures fail: {problems}")
    return {"checked": checked}


def labels(plan: Plan) -> dict[str, Any]:
    """ΔSePer of passages in float32, on the device and on the CPU: equal responses have equal labels."""
    asked = demo_questions(plan.questions)
    here, there = (load_scorer(plan, device).utilities(asked) for device in (CPU, plan.device))
    pairs = [(one, two) for ones, twos in zip(here, there, strict=True) for one, two in zip(ones, twos, strict=True)]
    same = [(one, two) for one, two in pairs if one.belief.sampled.token_ids == two.belief.sampled.token_ids]
    differences = [abs(one.delta_seper - two.delta_seper) for one, two in same]
    found = {"labels": len(pairs), "same_responses": len(same), "greatest_difference": max(differences, default=None)}
    # rounding flips a token now and then, and all that follows it
    assert len(same) >= 0.9 * len(pairs), found
    assert max(differences) < 1e-3, found
    return found


def batches(plan: Plan) -> dict[str, Any]:
    """Log-probabilities and speed by how many prompts are sampled together."""
    sampler = load_sampler(plan, max_batch_tokens=10**9)
    requests = list(map(Request, demo_prompts(max(plan.batch_sizes))))
    alone = [sampler.sample([request])[0] for request in requests]
    rows: dict[str, Any] = {}
    for size in plan.batch_sizes:
        _wait(plan.device)
        start = time.perf_counter()
        found = [row for at in range(0, len(requests), size) for row in sampler.sample(requests[at : at + size])]
        _wait(plan.device)
        seconds = time.perf_counter() - start
        tokens = sum(map(len, (ids for row in found for ids in row.token_ids)))
        same = [
            (one, two)
            for row, other in zip(alone, found, strict=True)
            for one, two, ids, others in zip(
                row.token_log_probs, other.token_log_probs, row.token_ids, other.token_ids, strict=True
            )
            if ids == others
        ]
        rows[str(size)] = {
            "tokens_per_second": round(tokens / seconds),
            "same_responses": round(len(same) / (len(requests) * plan.samples), 4),
            "greatest_difference": max(float((one - two).abs().max()) for one, two in same),
        }
    assert all(row["same_responses"] >= 0.95 for row in rows.values()), rows
    assert all(row["greatest_difference"] < check_tolerance(torch.float32) for row in rows.values()), rows
    return rows


def _wait(device: torch.device) -> None:
    if device.type != "cpu":
        torch.accelerator.synchronize()
