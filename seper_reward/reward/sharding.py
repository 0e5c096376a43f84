"""The weights of a policy in training: a sharded policy as a whole within a block, and a copy of its base.

Under FSDP and ZeRO-3 a forward pass is collective: all ranks must make the same number of forward passes, but ranks
that read different passages do not. With full weights, and without the hooks that would gather and shard them again,
the forward passes of the ranks are independent. Every rank needs the memory of the full policy, as in TRL's generation
under ZeRO-3.
"""

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PreTrainedModel, Trainer

_HOOKS = ("_forward_pre_hooks", "_forward_hooks")  # attributes of a torch module that contain its hooks


@contextmanager
def whole_policy(trainer: "Trainer") -> Iterator[tuple[Any, str]]:
    """Yield a trainer's policy with full weights and no wrappers, and the kind of sharding; "" if there is none.

    The kinds are ``"FSDP1"``, ``"FSDP2"`` and ``"ZeRO-3"``; changes of the weights are lost. All ranks must enter the
    block together. Raises ``ValueError`` if the weights cannot be gathered, as with tensor parallelism.
    """
    from torch.distributed.fsdp import FSDPModule, FullyShardedDataParallel

    wrapped = getattr(trainer, "model_wrapped", trainer.model)
    modules = list(wrapped.modules())
    policy = trainer.accelerator.unwrap_model(trainer.model)
    if any(hasattr(weight, "ds_id") for weight in wrapped.parameters()):
        gathered, sharding = _whole_zero3(wrapped), "ZeRO-3"
    elif old := [module for module in modules if isinstance(module, FullyShardedDataParallel)]:
        gathered, sharding = _whole_fsdp1(wrapped, old), "FSDP1"
    else:
        new = [module for module in modules if isinstance(module, FSDPModule)]
        gathered, sharding = _whole_fsdp2(new), "FSDP2" if new else ""
    with gathered:
        _refuse_pieces(trainer, policy)
        yield policy, sharding


@contextmanager
def _whole_fsdp1(root: object, wrappers: list[Any]) -> Iterator[None]:
    summon = type(wrappers[0]).summon_full_params
    with summon(root, writeback=False), ExitStack() as stack:
        for wrapper in wrappers:  # FSDP refuses a forward pass in this state, but its module does not
            vars(wrapper)["forward"] = wrapper.module.__call__
            stack.callback(vars(wrapper).pop, "forward")
        yield


@contextmanager
def _whole_fsdp2(modules: list[Any]) -> Iterator[None]:
    with ExitStack() as stack:
        for module in modules:
            module.unshard()
            stack.callback(module.reshard)
            # the hooks of a module would shard its weights again after the first forward pass
            stack.callback(vars(module).update, {name: vars(module)[name] for name in _HOOKS})
            vars(module).update({name: OrderedDict() for name in _HOOKS})
        yield


@contextmanager
def _whole_zero3(engine: Any) -> Iterator[None]:
    import deepspeed
    from trl.models.utils import add_hooks, remove_hooks

    with deepspeed.zero.GatheredParameters(list(engine.parameters())):
        remove_hooks(engine)
        try:
            yield
        finally:
            add_hooks(engine)


def _refuse_pieces(trainer: "Trainer", policy: "PreTrainedModel") -> None:
    """Raise if the weights of a policy are still sharded."""
    from torch.distributed.tensor import DTensor

    if getattr(trainer, "is_fsdp_xla_enabled", False) or any(
        isinstance(weight, DTensor) for weight in policy.parameters()
    ):
        raise ValueError(
            "the policy's weights are sharded, and cannot be gathered (FSDP, FSDP2 and ZeRO-3 can, tensor parallelism "
            "and XLA's FSDP cannot): each forward pass is collective, and ranks read different passages; use "
            "reader='separate'"
        )


class BaseWeights:
    """Copy, in CPU memory, of the base weights that have an adapter, from a policy with unsharded weights.

    TRL merges the LoRA into the base for vLLM, and subtracts it afterwards; each merge rounds the base, and the
    differences add up (huggingface/trl#6688). A quantized weight raises ``ValueError``.
    """

    def __init__(self, policy: "PreTrainedModel") -> None:
        weights = _adapted(policy)
        quantized = next((weight.dtype for weight in weights if not weight.is_floating_point()), None)
        if quantized is not None:
            raise ValueError(
                f"reader='policy-base' cannot restore a base of {quantized} after use_vllm merges the adapter "
                "into it; load the policy without quantization, or use reader='separate'"
            )
        self._copies = [_on_host(weight) for weight in weights]

    @contextmanager
    def in_place(self, policy: "PreTrainedModel") -> Iterator[None]:
        """Put the copy into the policy with unsharded weights, and restore the current weights when the block ends."""
        weights = _adapted(policy)
        merged = [_on_host(weight) for weight in weights]
        try:
            _fill(weights, self._copies)
            yield
        finally:
            _fill(weights, merged)


def _adapted(policy: "PreTrainedModel") -> list[Any]:
    """Return the base weights of all layers with an adapter, in the order of the modules."""
    from peft.tuners.tuners_utils import BaseTunerLayer

    return [
        weight.data
        for layer in policy.modules()
        if isinstance(layer, BaseTunerLayer)
        for weight in layer.get_base_layer().parameters(recurse=False)
    ]


def _on_host(weight: Any) -> object:
    # copy=True: weights on the CPU would otherwise not be copied
    return weight.detach().to("cpu", copy=True)


def _fill(weights: list[Any], values: list[object]) -> None:
    import torch

    with torch.no_grad():
        # in place: the gathered weights of sharded policies are views
        for weight, value in zip(weights, values, strict=True):
            weight.copy_(value)
