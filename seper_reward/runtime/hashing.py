"""Hashes by content: of texts and options, of files, and of models."""

import hashlib
import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from seper_reward.runtime.control_tokens import end_tokens

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

_DIGITS = 16  # hexadecimal digits of a model's hash
_PROBE = "Who runs Élan's mill?\n 1,990 geese. "  # shows normalization, merges, and tokens at the ends
_WRAPPERS = re.compile(r"_fsdp_wrapped_module\.|_checkpoint_wrapped_module\.")  # in FSDP1's parameter names


def content_key(*parts: object) -> str:
    """Return a SHA-256 hash of JSON-able parts, 64 hexadecimal digits; other values count by their text."""
    text = json.dumps(parts, ensure_ascii=True, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def file_hash(path: Path) -> str | None:
    """Return the SHA-256 hash of a file, 64 hexadecimal digits; ``None`` if there is no such file."""
    if not path.is_file():
        return None
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def weights_hash(model: nn.Module) -> str:
    """Return a hash over names, dtypes, shapes and bytes of all parameters and buffers but inactive LoRA matrices."""
    off = [name for name, module in model.named_modules() if getattr(module, "disable_adapters", False) is True]
    weights = {
        _WRAPPERS.sub("", name).replace(".base_layer.", "."): weight
        for name, weight in _state(model).items()
        if not any(name.startswith(f"{layer}.lora_") for layer in off)
    }
    digest = hashlib.sha256()
    for name, tensor in sorted(weights.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        # a copy: memory shared with numpy cannot be resized, and FSDP could not free gathered weights
        copied = tensor.detach().to("cpu", copy=True)
        digest.update(copied.contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()[:_DIGITS]


def identity_hash(model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase") -> str:
    """Return a hash over everything that decides a model's output: weights, configuration, tokenizer, end tokens."""
    # the path and transformers' version are left out: they do not change the model
    left_out = ("_name_or_path", "transformers_version")
    settings = {key: value for key, value in model.config.to_dict().items() if key not in left_out}
    return hash_with_tokenizer([weights_hash(model), settings, sorted(end_tokens(model, tokenizer))], tokenizer)


def hash_with_tokenizer(parts: list[object], tokenizer: "PreTrainedTokenizerBase") -> str:
    """Return a hash over JSON-able parts, the tokenizer's vocabulary and chat template, and the tokens of a text."""
    # static embeddings have a tokenizer of the library ``tokenizers``
    probe = tokenizer(_PROBE).input_ids if callable(tokenizer) else tokenizer.encode(_PROBE).ids
    parts = [*parts, tokenizer.get_vocab(), getattr(tokenizer, "chat_template", None), probe]
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]


def _state(model: nn.Module) -> dict[str, Tensor]:
    """Return parameters and persistent buffers by name as ``state_dict``, which under FSDP shards weights again."""
    fsdp = sys.modules.get("torch.distributed.fsdp")  # not in use if not imported; importing it takes a second
    kinds = () if fsdp is None else (fsdp.FSDPModule, fsdp.FullyShardedDataParallel)
    if not any(isinstance(module, kinds) for module in model.modules()):
        return model.state_dict()
    return {
        f"{path}.{name}".removeprefix("."): tensor
        for path, module in model.named_modules(remove_duplicate=False)
        for name, tensor in (module._parameters | module._buffers).items()
        if tensor is not None and name not in module._non_persistent_buffers_set
    }
