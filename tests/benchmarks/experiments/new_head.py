"""Give a bi-encoder a new last layer, which knows nothing: a weak start, from which labels have something to teach.

python -m tests.benchmarks.experiments.new_head --dimension 64 --output_dir runs/weak
python -m tests.benchmarks.experiments.compare_labelers --model runs/weak --only_head true ...
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense

from seper_reward.options import setting
from seper_reward.runtime.parser import parse_options
from seper_reward.runtime.pretrained import EMBEDDED
from trainers.models import load_encoder
from trainers.runs import suggest


@dataclass
class NewHeadConfig:
    """Give a bi-encoder a new last layer."""

    model: str = setting(EMBEDDED, "Bi-encoder: 'embedded' (all-MiniLM-L6-v2), a hub id or a folder.")
    dimension: int = setting(64, "Numbers in the new embeddings, >= 1; fewer keep less of what the bi-encoder knows.")
    seed: int = setting(0, "Seed of the layer's weights.")
    output_dir: str = setting("runs/weak", "Folder to save the bi-encoder in.")

    def __post_init__(self) -> None:
        if self.dimension < 1:
            raise ValueError(f"dimension must be at least 1, got {self.dimension}")


def with_new_head(model: SentenceTransformer, dimension: int, seed: int) -> SentenceTransformer:
    """Return the bi-encoder with a random linear layer without bias behind its embeddings."""
    torch.manual_seed(seed)
    width = model.get_embedding_dimension()
    head = Dense(width, dimension, bias=False, activation_function=torch.nn.Identity())
    return SentenceTransformer(modules=[*model, head], device=str(model.device), prompts=model.prompts)


def main(argv: Sequence[str] | None = None) -> int:
    """Save the bi-encoder with its new layer; return 0."""
    (config,) = parse_options((NewHeadConfig,), argv, "python -m tests.benchmarks.experiments.new_head")
    model = with_new_head(load_encoder(config.model), config.dimension, config.seed)
    model.save_pretrained(config.output_dir, create_model_card=False)
    print(f"model: {config.output_dir}")
    suggest(f"python -m tests.benchmarks.experiments.compare_labelers --model {config.output_dir} --only_head true")
    return 0


if __name__ == "__main__":
    sys.exit(main())
