"""Read with a model that is being trained, and leave no trace."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch


@contextmanager
def borrowed_reader(model: Any, *, adapter: bool = False) -> Iterator[Any]:
    """Make a model under training a reader for a while (ARCHITECTURE, decision 9).

    Inside: no gradients, eval mode, gradient checkpointing off (which would silently drop the key-value cache),
    LoRA adapters off unless asked for, and random numbers of its own. All of it is put back at the end, module by
    module, also after an exception.

    Args:
        model: unwrapped from DDP; a ``PeftModel`` where its adapters shall be off.
        adapter: read with the adapters, that is with the policy as it is.

    Yields:
        The model, or the base model in a ``PeftModel``, whose layers hold the adapters.

    Raises:
        ValueError: adapters shall be off, and the model has none: what is under it is the policy itself.
    """
    modules = list(model.modules())
    training = [module.training for module in modules]
    checkpointing = [
        (each, each.gradient_checkpointing) for each in modules if hasattr(each, "gradient_checkpointing")
    ]
    caching = model.config.use_cache
    if not adapter and not hasattr(model, "disable_adapter"):
        raise ValueError(
            "the policy has no adapter to switch off, so its base is gone once it is trained; train with LoRA, or "
            "give the reward a reader of its own"
        )
    devices = [model.device] if model.device.type != "cpu" else []
    with ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        stack.enter_context(torch.random.fork_rng(devices, device_type=model.device.type if devices else "cuda"))
        if not adapter:
            stack.enter_context(model.disable_adapter())
        try:
            model.eval()
            for module, _ in checkpointing:
                module.gradient_checkpointing = False
            model.config.use_cache = True
            yield model.get_base_model() if hasattr(model, "get_base_model") else model
        finally:
            model.config.use_cache = caching
            for module, value in checkpointing:
                module.gradient_checkpointing = value
            for module, mode in zip(modules, training, strict=True):
                module.training = mode
