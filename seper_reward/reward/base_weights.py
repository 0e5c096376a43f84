"""Copy of a policy's base weights, for trainers that merge the adapter into the base at each synchronisation.

TRL merges the LoRA into the base to send the policy's weights to vLLM, and subtracts it afterwards. Each merge rounds
the base: in bfloat16 most adapted weights differ after one synchronisation, and the differences add up
(huggingface/trl#6688). A reader on the base needs the weights from before training.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor


class BaseWeights:
    """Copy, in CPU memory, of the base weights that have an adapter, from a policy with unsharded weights.

    Raises:
        ValueError: An adapted weight is quantized, so a copy of its numbers does not undo a merge.
    """

    def __init__(self, policy: Any) -> None:
        weights = _adapted(policy)
        quantized = next((each.dtype for each in weights if not each.is_floating_point()), None)
        if quantized is not None:
            raise ValueError(
                f"reader='policy-base' cannot restore a base of {quantized} after use_vllm merges the adapter "
                "into it; load the policy without quantization, or use reader='separate'"
            )
        self._copies = [_on_host(each) for each in weights]

    @contextmanager
    def in_place(self, policy: Any) -> Iterator[None]:
        """Put the copy into the policy with unsharded weights, and restore the current weights when the block ends."""
        weights = _adapted(policy)
        merged = [_on_host(each) for each in weights]
        try:
            _fill(weights, self._copies)
            yield
        finally:
            _fill(weights, merged)


def _adapted(policy: Any) -> list[Tensor]:
    """Return the base weights of all layers with an adapter, in the order of the modules."""
    from peft.tuners.tuners_utils import BaseTunerLayer

    return [
        weight.data
        for layer in policy.modules()
        if isinstance(layer, BaseTunerLayer)
        for weight in layer.get_base_layer().parameters(recurse=False)
    ]


def _on_host(weight: Tensor) -> Tensor:
    # copy=True: weights on the CPU would otherwise not be copied
    return weight.detach().to("cpu", copy=True)


@torch.no_grad()
def _fill(weights: list[Tensor], values: list[Tensor]) -> None:
    # in place: the gathered weights of sharded policies are views
    for weight, value in zip(weights, values, strict=True):
        weight.copy_(value)
