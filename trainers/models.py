"""Models that recipes train: LoRA adapters and bi-encoders."""

from pathlib import Path

from peft import LoraConfig, TaskType
from sentence_transformers import SentenceTransformer
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from seper_reward import retrieval
from seper_reward.options import ModelOptions
from seper_reward.reader.loading import PLAIN, READER_HUB_ID, save_reader
from seper_reward.runtime.json_files import read_json, write_json
from seper_reward.runtime.pretrained import EMBEDDED, base_of_adapter

MERGED = "merged"  # in a run's folder: the trained model, if PEFT alone cannot load its adapter


def new_lora(task: TaskType, r: int, **more: object) -> LoraConfig:
    """Return the LoRA settings of all recipes, all linear layers, scaled by 2; further fields override them."""
    return LoraConfig(**{"task_type": task, "r": r, "lora_alpha": 2 * r, "target_modules": "all-linear", **more})


def causal_lora(model: PreTrainedModel, r: int, last_layers: int | None = None) -> LoraConfig:
    """Return LoRA settings for all linear layers in a causal model's blocks, or only in the last ones."""
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
        # PEFT rejects "all-linear" together with layer numbers
        target_modules=sorted({name.rpartition(".")[2] for name in linear}),
        layers_to_transform=list(range(depth - last_layers, depth)),
    )


def name_base(folder: Path, reader: str) -> None:
    """Write the reader's name into a saved adapter; PEFT writes a path, which is meaningless on other machines."""
    # not before saving: PEFT would look up the name on the hub
    path = folder / "adapter_config.json"
    write_json(path, {**read_json(path), "base_model_name_or_path": public_name(reader)})


def public_name(reader: str) -> str:
    """Return a reader's name for adapters and cards: a hub id for the plain reader, other names unchanged."""
    return READER_HUB_ID if reader == PLAIN else reader


def needs_merging(reader: str) -> bool:
    """Return whether PEFT cannot load adapters of a reader, because the reader itself has an adapter."""
    return reader == EMBEDDED or base_of_adapter(reader) is not None


def save_merged(adapter: Path, folder: Path, tokenizer: PreTrainedTokenizerBase | None = None) -> None:
    """Save an adapter's model in bf16 with all adapters merged, for ``AutoModelForCausalLM.from_pretrained``."""
    save_reader(str(adapter), folder, ModelOptions(dtype="bfloat16", device="cpu"))
    if tokenizer is not None:
        tokenizer.save_pretrained(folder)


def load_encoder(name: str, max_seq_length: int | None = None) -> SentenceTransformer:
    """Load a bi-encoder, ``"embedded"``, a hub id or a folder; texts have at most ``max_seq_length`` tokens."""
    encoder: SentenceTransformer = retrieval.load_encoder(name)
    if max_seq_length is not None:
        positions = getattr(getattr(encoder.transformers_model, "config", None), "max_position_embeddings", None)
        if positions is not None and max_seq_length > positions:
            raise ValueError(
                f"max_seq_length must be at most {positions}, the positions of {name}, got {max_seq_length}"
            )
        encoder.max_seq_length = max_seq_length
    return encoder
