"""The weights of a policy that a trainer shards over its ranks, gathered on each of them for a while.

Under FSDP and ZeRO-3 a forward pass is collective: all ranks must make the same number of them, which ranks that read
different passages do not. With whole weights, and without the hooks that would gather and shard them again, forward
passes are each rank's own. It takes the memory of the whole policy on every rank, as TRL's generation does under
ZeRO-3.
"""

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

_HOOKS = ("_forward_pre_hooks", "_forward_hooks")  # where a module of torch keeps them


def is_sharded(trainer: Any) -> bool:
    """Return whether a trainer of TRL shards the weights of its policy, or will once it trains."""
    plugin = getattr(trainer.accelerator.state, "deepspeed_plugin", None)
    return bool(trainer.is_fsdp_enabled) or (plugin is not None and plugin.zero_stage == 3)


@contextmanager
def whole_policy(trainer: Any) -> Iterator[tuple[Any, str]]:
    """Yield a trainer's policy, unwrapped and with whole weights, and how it was sharded.

    Nothing but reading may be done with it: changed weights are lost. All ranks must enter the block together; one
    that fails within it does not keep the others waiting.

    Args:
        trainer: Trainer of TRL.

    Yields:
        The model without the wrappers of DDP, FSDP and DeepSpeed, and ``"FSDP1"``, ``"FSDP2"``, ``"ZeRO-3"`` or, where
        weights are not sharded, ``""``.

    Raises:
        ValueError: The weights are sharded in a way that cannot be undone for a while, as by tensor parallelism.
    """
    from torch.distributed.fsdp import FSDPModule, FullyShardedDataParallel

    wrapped = getattr(trainer, "model_wrapped", trainer.model)
    modules = list(wrapped.modules())
    policy = trainer.accelerator.unwrap_model(trainer.model)
    if any(hasattr(weight, "ds_id") for weight in wrapped.parameters()):
        gathered, sharding = _whole_zero3(wrapped), "ZeRO-3"
    elif old := [each for each in modules if isinstance(each, FullyShardedDataParallel)]:
        gathered, sharding = _whole_fsdp1(wrapped, old), "FSDP1"
    else:
        new = [each for each in modules if isinstance(each, FSDPModule)]
        gathered, sharding = _whole_fsdp2(new), "FSDP2" if new else ""
    with gathered:
        _refuse_pieces(trainer, policy)
        yield policy, sharding


@contextmanager
def _whole_fsdp1(root: Any, wrappers: list[Any]) -> Iterator[None]:
    summon = type(wrappers[0]).summon_full_params
    with summon(root, writeback=False), ExitStack() as stack:
        for wrapper in wrappers:  # in this state FSDP refuses a forward pass; its module does not
            vars(wrapper)["forward"] = wrapper.module.__call__
            stack.callback(vars(wrapper).pop, "forward")
        yield


@contextmanager
def _whole_fsdp2(modules: list[Any]) -> Iterator[None]:
    with ExitStack() as stack:
        for module in modules:
            module.unshard()
            stack.callback(module.reshard)
            # with its hooks, a module would shard its weights again after the first forward pass
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


def _refuse_pieces(trainer: Any, policy: Any) -> None:
    """Refuse a policy whose weights are still in pieces."""
    from torch.distributed.tensor import DTensor

    if getattr(trainer, "is_fsdp_xla_enabled", False) or any(
        isinstance(each, DTensor) for each in policy.parameters()
    ):
        raise ValueError(
            "the policy's weights are sharded, and cannot be gathered (FSDP, FSDP2 and ZeRO-3 can, tensor parallelism "
            "and XLA's FSDP cannot): each forward pass is collective, and ranks read different passages; use "
            "reader='separate'"
        )
