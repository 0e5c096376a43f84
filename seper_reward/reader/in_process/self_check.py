"""The check of a reader: the probabilities of tokens must not depend on batching and caching."""

import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from seper_reward.options import Layout
from seper_reward.reader.in_process.teacher_forcing import forced_log_probs
from seper_reward.runtime.inference import inference
from seper_reward.types import Responses, UnscorableError

if TYPE_CHECKING:
    from transformers import PreTrainedModel

PROBES = (
    "Question: Who wrote Hamlet?\nAnswer:",
    "Passage: The mill burned down.\nWhen?",
    "Which river runs through Vienna, and where does it",
)
#: number of responses per prompt of a check, and of tokens per response
PROBE_SAMPLES, PROBE_TOKENS = 2, 3

# nats: correct readers differ by less than 0.001 in float32 and, without flips of experts, by some hundredths in low
# precision; readers that lose their cache, positions or mask differ by more than 1
_TOLERANCE, _TOLERANCE_LOW_PRECISION = 0.05, 0.5


def check_tolerance(dtype: torch.dtype) -> float:
    """Return the maximum difference, in nats, that rounding explains in a dtype."""
    return _TOLERANCE if dtype in (torch.float32, torch.float64) else _TOLERANCE_LOW_PRECISION


def probes(dtype: torch.dtype) -> tuple[str, ...]:
    """Return the texts of the check, of which one must pass: in low precision, experts may flip."""
    return PROBES[:1] if dtype in (torch.float32, torch.float64) else PROBES


def greatest_difference(actual: Sequence[Tensor], expected: Sequence[Tensor]) -> float:
    """Return the greatest mean absolute difference over a response's tokens; NaN counts as infinite."""
    means = torch.stack([(one - other).abs().mean() for one, other in zip(actual, expected, strict=True)])
    return float(means.nan_to_num(nan=torch.inf).max())


@inference()
def decoding_problem(
    model: "PreTrainedModel",
    name: str,
    layout: Layout,
    pad_id: int,
    prompts: Sequence[Sequence[int]],
    sample: Callable[[], Sequence[Responses]],
    tolerance: float | None = None,
) -> str | None:
    """Return a problem with log-probabilities of responses that ``sample`` draws; ``tolerance`` is in nats."""
    reader = f"reader {name!r} ({type(model).__name__}, layout {layout})"
    try:
        sampled = sample()
        lines = [(ids, responses.token_ids) for ids, responses in zip(prompts, sampled, strict=True)]
        forced = forced_log_probs(model, lines, pad_id, layout)
        plain = [log_probs for ids, responses in lines for log_probs in _plain_log_probs(model, ids, responses)]
    except (torch.OutOfMemoryError, UnscorableError):
        raise
    except Exception as error:  # the model's code may raise any exception; the message must name the model
        reason = "".join(str(error).strip().splitlines()[:1])
        return f"{reader} does not decode with a key-value cache: {type(error).__name__}: {reason}"
    drawn = [log_probs for responses in sampled for log_probs in responses.token_log_probs]
    difference = greatest_difference([*drawn, *itertools.chain(*forced)], [*plain, *plain])
    most = check_tolerance(model.dtype) if tolerance is None else tolerance
    if difference <= most:
        return None
    return (
        f"{reader}: sampled and teacher-forced log-probabilities differ by {difference:.2f} nats (expected: at "
        f"most {most:g})"
    )


def _plain_log_probs(
    model: "PreTrainedModel", prompt: Sequence[int], responses: Sequence[Sequence[int]]
) -> list[Tensor]:
    ids = torch.tensor([[*prompt, *token_ids] for token_ids in responses], device=model.device)
    log_probs = model(input_ids=ids).logits[:, len(prompt) - 1 : -1].float().log_softmax(-1)
    return list(log_probs.gather(-1, ids[:, len(prompt) :, None])[..., 0].cpu())
