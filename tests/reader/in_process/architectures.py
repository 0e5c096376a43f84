"""Tiny random readers of many architectures, with a tokenizer of their own."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import transformers
import yaml

VOCABULARY = 300
_SIZES = {
    "vocab_size": VOCABULARY, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "initializer_range": 0.3, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0,
}  # fmt: skip
_GROUPED = {"num_key_value_heads": 2, "intermediate_size": 128, "max_position_embeddings": 256}


@dataclass(frozen=True)
class Architecture:
    """A tiny model and what the project does with it.

    Attributes:
        family: Name in the table of ``docs/readers.md``.
        config: Name of the configuration's class, without ``Config``.
        layout: How its samples share a prompt.
        sizes: Fields of the configuration, beside the common ones.
        slow: Whether it is left out of quick runs.
    """

    family: str
    config: str
    layout: str
    sizes: dict[str, Any] = field(default_factory=dict)
    slow: bool = False

    def __str__(self) -> str:
        return self.family

    def configuration(self) -> Any:
        """Return the model's configuration."""
        return getattr(transformers, f"{self.config}Config")(**{**_SIZES, **_GROUPED, **self.sizes})

    def model(self) -> Any:
        """Return the random model, in eval mode."""
        torch.manual_seed(0)
        return transformers.AutoModelForCausalLM.from_config(self.configuration()).eval().requires_grad_(False)


def tokenizer() -> Any:
    """Return a byte-level tokenizer of 300 tokens, trained on a few words."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    bytes_to_text = Tokenizer(models.BPE())
    bytes_to_text.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bytes_to_text.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=["<pad>", "<s>", "</s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bytes_to_text.train_from_iterator(["the mill burned down in 1840, says the parish book"] * 8, trainer)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=bytes_to_text, pad_token="<pad>", bos_token="<s>", eos_token="</s>", model_max_length=256
    )


_TABLE = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
ARCHITECTURES = [Architecture(family, **fields) for family, fields in _TABLE["families"].items()]
