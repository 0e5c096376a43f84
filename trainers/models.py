"""Models that recipes train: LoRA adapters, bi-encoders, and where they come from."""

from typing import Any

from peft import LoraConfig, TaskType
from sentence_transformers import SentenceTransformer
from torch import nn

from seper_reward.runtime.pretrained import EMBEDDED, ENCODER_HUB_ID, embedded_encoder_folder, no_accelerator


def new_lora(task: TaskType, r: int, **more: Any) -> LoraConfig:
    """Return LoRA of all linear layers, scaled by 2, as all our recipes train it.

    Args:
        task: What the model does.
        r: Rank of the matrices.
        **more: Other fields of ``LoraConfig``.
    """
    return LoraConfig(**{"task_type": task, "r": r, "lora_alpha": 2 * r, "target_modules": "all-linear", **more})


def causal_lora(model: Any, r: int, last_layers: int | None = None) -> LoraConfig:
    """Return LoRA of all linear layers in a causal model's blocks.

    Args:
        model: A causal language model of transformers.
        r: Rank of the matrices.
        last_layers: How many of the last blocks are adapted, so that no gradient flows below them; ``None`` for all.

    Raises:
        ValueError: The model has fewer blocks, or ``last_layers`` is below 1.
    """
    depth = model.config.get_text_config().num_hidden_layers
    if last_layers is None:
        return new_lora(TaskType.CAUSAL_LM, r)
    if not 1 <= last_layers <= depth:
        raise ValueError(f"lora_layers must be between 1 and the model's {depth} blocks, got {last_layers}")
    head = model.get_output_embeddings()
    linear = {name for name, module in model.named_modules() if isinstance(module, nn.Linear) and module is not head}
    return new_lora(
        TaskType.CAUSAL_LM,
        r,
        target_modules=sorted({name.rpartition(".")[2] for name in linear}),  # peft wants names beside layer numbers
        layers_to_transform=list(range(depth - last_layers, depth)),
    )


def load_encoder(name: str) -> SentenceTransformer:
    """Load a bi-encoder: ``"embedded"``, a hub id or a folder."""
    source = str(embedded_encoder_folder()) if name == EMBEDDED else name
    return SentenceTransformer(source, device=model_device())


def model_device() -> str | None:
    """Return the CPU where there is nothing else; ``None`` lets the library choose."""
    return "cpu" if no_accelerator() else None


def base_name(model: str) -> str:
    """Return a model's name on the hub, where it has one."""
    return ENCODER_HUB_ID if model == EMBEDDED else model
