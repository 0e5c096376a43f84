"""Layouts: how the samples of a prompt can share its reading, by what a model's cache and attention can do."""

import inspect
from typing import Any

import torch

from seper_reward.reader.sampler import Layout


def choose_layout(model: Any) -> Layout:
    """Choose the cheapest layout that is right for a causal language model.

    ``tree`` needs attention that is a function of mask and positions alone, so that it may see other samples' slots
    and skip them: ALiBi and windows that the attention counts for itself do not skip them. ``repeat`` needs a cache of
    keys and values, whose lines can be copied. ``alone`` needs a cache, and a model that attends to its padding mask.
    """
    from transformers.cache_utils import DynamicLayer

    parameters = inspect.signature(model.forward).parameters
    if cache_argument(model) not in parameters or "attention_mask" not in parameters:
        return "reread"
    cache = new_cache(model)
    any_mask = model.is_backend_compatible() and model.config._attn_implementation in ("sdpa", "eager")
    if {type(layer) for layer in cache.layers} == {DynamicLayer} and any_mask and "position_ids" in parameters:
        return "tree"
    # a stateful model may keep its states outside the cache, as RecurrentGemma does in older versions of transformers
    return "repeat" if has_lines(cache) and not getattr(model, "_is_stateful", False) else "alone"


def new_cache(model: Any) -> Any:
    """Return an empty cache of the model's kind."""
    from transformers import DynamicCache

    return DynamicCache(config=model.config)


def has_lines(cache: Any) -> bool:
    """Return whether a cache holds keys and values only, so that its lines can be copied and dropped."""
    from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

    # exact types: layers of recurrent states inherit methods that forget the states, which some models keep elsewhere
    kinds = {type(layer) for layer in cache.layers}
    return bool(kinds) and kinds <= {DynamicLayer, DynamicSlidingWindowLayer}


def cache_argument(model: Any) -> str:
    """Return the name by which the model takes its cache: ``cache_params`` of Mamba, else ``past_key_values``."""
    mamba = "cache_params" in inspect.signature(model.forward).parameters
    return "cache_params" if mamba else "past_key_values"


def window_of(model: Any) -> int | None:
    """Return the most tokens that the model can read, ``None`` if its configuration sets no limit."""
    try:
        window: int | None = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    except NotImplementedError:  # transformers' way to say that XLNet has no limit
        return None
    return window if window and window > 0 else None


def rope_switch(model: Any) -> int | None:
    """Return the length from which on a model with long rope (Phi-3, Phi-4-mini) has other rotary factors, if any.

    The longest row of a call decides for all its rows and tokens: beyond so many tokens it takes the long factors.
    Dynamic rope also changes, but from the end of the window on, which no prompt with its response passes.
    """
    rope = getattr(model.config.get_text_config(), "rope_parameters", None) or {}
    kinds = [rope] if "rope_type" in rope else [each for each in rope.values() if isinstance(each, dict)]
    switches = [each["original_max_position_embeddings"] for each in kinds if each.get("rope_type") == "longrope"]
    return min(switches, default=None)


def keep_logits(model: Any, which: int | torch.Tensor) -> dict[str, int | torch.Tensor]:
    """Return the model's argument for logits of the last ``which`` positions, or of given ones, if it has one."""
    return {"logits_to_keep": which} if "logits_to_keep" in inspect.signature(model.forward).parameters else {}
