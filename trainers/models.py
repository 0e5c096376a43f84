"""The adapters that recipes train."""

from typing import Any

from peft import LoraConfig, TaskType
from torch import nn


def new_lora(model: Any, r: int, last_layers: int | None = None) -> LoraConfig:
    """Return LoRA of all linear layers in a causal model's blocks, scaled by 2.

    Args:
        model: a causal language model of transformers.
        r: rank.
        last_layers: adapt only the last so many blocks, so that no gradient flows below them; ``None`` for all.

    Raises:
        ValueError: the model has fewer blocks, or ``last_layers`` is below 1.
    """
    depth = model.config.get_text_config().num_hidden_layers
    if last_layers is None:
        return LoraConfig(task_type=TaskType.CAUSAL_LM, r=r, lora_alpha=2 * r, target_modules="all-linear")
    if not 1 <= last_layers <= depth:
        raise ValueError(f"lora_layers must be between 1 and the model's {depth} blocks, got {last_layers}")
    head = model.get_output_embeddings()
    linear = {name for name, module in model.named_modules() if isinstance(module, nn.Linear) and module is not head}
    return LoraConfig(
        task_type=TaskType.CAUSAL_LM,
        r=r,
        lora_alpha=2 * r,
        target_modules=sorted({name.rpartition(".")[2] for name in linear}),  # peft wants names beside layer numbers
        layers_to_transform=list(range(depth - last_layers, depth)),
    )
