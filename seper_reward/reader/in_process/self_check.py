"""The check of a reader: does it give tokens the same probabilities however it is asked?"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

PROBES = (
    "Question: Who wrote Hamlet?\nAnswer:",
    "Passage: The mill burned down.\nWhen?",
    "Which river runs through Vienna, and where does it",
)
#: responses sampled for each prompt of a check, and tokens of each
PROBE_SAMPLES, PROBE_TOKENS = 2, 3

# nats: readers that are right differ by less than 0.001 in float32 and, but for flips, by some hundredths in low
# precision; those that lose their cache, their positions or their mask differ by more than 1
_TOLERANCE, _TOLERANCE_LOW_PRECISION = 0.05, 0.5


def check_tolerance(dtype: torch.dtype) -> float:
    """Return the greatest difference, in nats, that rounding explains in a dtype."""
    return _TOLERANCE if dtype in (torch.float32, torch.float64) else _TOLERANCE_LOW_PRECISION


def probes(dtype: torch.dtype) -> tuple[str, ...]:
    """Return the texts of which a right reader passes the check with at least one.

    In low precision a single flip of the routing to experts can move all that follows a prompt; it is not in all.
    """
    return PROBES[:1] if dtype in (torch.float32, torch.float64) else PROBES


def probe_ids(ids: Sequence[int], room: int) -> list[list[int]]:
    """Return two prompts of unequal length with a common start, from the last ``room`` token ids of a probe."""
    whole = list(ids[-room:])
    return [whole, whole[: -(-2 * len(whole) // 3)]]


@torch.no_grad()
def plain_log_probs(model: Any, prompt: Sequence[int], responses: Sequence[Sequence[int]]) -> list[Tensor]:
    """Return the log-probabilities of responses to a prompt by one call of the model: no cache given, no padding.

    Args:
        model: Causal language model in eval mode.
        prompt: Token ids of the prompt.
        responses: T token ids each.

    Returns:
        Per response, ``(T,)`` natural-log probabilities at temperature 1, on the CPU.
    """
    ids = torch.tensor([[*prompt, *token_ids] for token_ids in responses], device=model.device)
    logits: Tensor = model(input_ids=ids).logits[:, len(prompt) - 1 : -1]
    log_probs = logits.float().log_softmax(-1)
    return list(log_probs.gather(-1, ids[:, len(prompt) :, None])[..., 0].cpu())


def greatest_difference(found: Sequence[Tensor], expected: Sequence[Tensor]) -> float:
    """Return the greatest mean absolute difference over a response's tokens; NaN counts as infinite."""
    means = torch.stack([(one - other).abs().mean() for one, other in zip(found, expected, strict=True)])
    return float(means.nan_to_num(nan=torch.inf).max())
