"""The base weights of a policy that an adapter is merged into, and taken out of, again and again.

TRL merges the LoRA into the base to send the policy's weights to vLLM, and subtracts it afterwards. Each time the base
is rounded: in bfloat16 most of the adapted weights have changed after one synchronisation, and the changes add up
(huggingface/trl#6688). A reader that is the base needs the weights that the policy began with.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor


class BaseWeights:
    """Copy of the base weights that a policy's adapters are merged into, in the memory of the host.

    Args:
        policy: The policy with whole weights, before its first synchronisation with an engine.

    Raises:
        ValueError: An adapted weight is quantized, so merging changes more than its numbers.
    """

    def __init__(self, policy: Any) -> None:
        weights = _adapted(policy)
        quantized = next((each.dtype for each in weights if not each.is_floating_point()), None)
        if quantized is not None:
            raise ValueError(
                f"reader='policy-base' cannot keep a base of {quantized} as it is while use_vllm merges the adapter "
                "into it; load the policy without quantization, or use reader='separate'"
            )
        self._copies = [_on_host(each) for each in weights]

    @contextmanager
    def in_place(self, policy: Any) -> Iterator[None]:
        """Put the copy into the policy; the weights that were there return at the end.

        Args:
            policy: The same policy; its weights are whole.
        """
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
    # a copy also of weights that are on the CPU already
    return weight.detach().to("cpu", copy=True)


@torch.no_grad()
def _fill(weights: list[Tensor], values: list[Tensor]) -> None:
    # in place: sharded policies lend views of their gathered weights
    for weight, value in zip(weights, values, strict=True):
        weight.copy_(value)
