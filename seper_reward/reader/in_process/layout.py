"""Layouts: sharing of a prompt's computation among its samples, as far as a model's cache and attention allow."""

import inspect
from typing import TYPE_CHECKING, Any

from seper_reward.options import Layout

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def choose_layout(model: "PreTrainedModel") -> Layout:
    """Choose the cheapest layout that is correct for a causal language model.

    ``tree`` needs attention that depends only on mask and positions, and so can skip other samples' slots; ALiBi and
    windows counted in slots cannot. ``repeat`` needs a cache of keys and values, whose lines can be copied, and
    ``alone`` a cache and a model that respects its padding mask. ``reread`` needs neither, and is for long rope as
    well.
    """
    from transformers.cache_utils import DynamicLayer

    parameters = inspect.signature(model.forward).parameters
    if cache_argument(model) is None or "attention_mask" not in parameters or _has_long_rope(model):
        return "reread"
    cache = new_cache(model)
    any_mask = model.is_backend_compatible() and model.config._attn_implementation in ("sdpa", "eager")
    if {type(layer) for layer in cache.layers} == {DynamicLayer} and any_mask and "position_ids" in parameters:
        return "tree"
    # stateful models may keep states outside the cache, like RecurrentGemma in older versions of transformers
    return "repeat" if has_lines(cache) and not getattr(model, "_is_stateful", False) else "alone"


def new_cache(model: "PreTrainedModel") -> Any:
    """Return an empty cache of the model's type."""
    from transformers import DynamicCache

    return DynamicCache(config=model.config)


def has_lines(cache: Any) -> bool:
    """Return whether a cache contains only keys and values, whose lines can be copied and dropped."""
    from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

    # exact types: layers of recurrent states inherit methods that ignore the states, which some models keep elsewhere
    kinds = {type(layer) for layer in cache.layers}
    return bool(kinds) and kinds <= {DynamicLayer, DynamicSlidingWindowLayer}


def cache_argument(model: "PreTrainedModel") -> str | None:
    """Return the name of the cache argument: ``cache`` since transformers 5.24, ``cache_params`` for Mamba."""
    parameters = inspect.signature(model.forward).parameters
    return next((name for name in ("cache", "past_key_values", "cache_params") if name in parameters), None)


def window_of(model: "PreTrainedModel") -> int | None:
    """Return the length of the model's window in tokens, ``None`` if its configuration sets no limit."""
    try:
        window: int | None = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    except NotImplementedError:  # XLNet, which has no limit
        return None
    return window if window and window > 0 else None


def _has_long_rope(model: "PreTrainedModel") -> bool:
    """Return whether the longest row of a call decides the rotary factors of all (Phi-3 and Phi-4-mini)."""
    rope = getattr(model.config.get_text_config(), "rope_parameters", None) or {}
    kinds = [rope] if "rope_type" in rope else [kind for kind in rope.values() if isinstance(kind, dict)]
    return any(kind.get("rope_type") == "longrope" for kind in kinds)
