"""Replace a saved adapter by a share of it and the rest of another one that it was trained on from.

    python -m tests.benchmarks.adapters.mean runs/entailment-second-more runs/entailment-modified 0.6

Weights of a fine-tuned model and of its start lie in one basin (WiSE-FT, Wortsman et al., arXiv:2109.01903).
"""

import sys
from pathlib import Path

from safetensors.torch import load_file, save_file


def average(adapter: Path, other: Path, share: float) -> None:
    """Write ``share`` of the adapter and the rest of the other one into the adapter's file, in float16."""
    file = adapter / "adapter_model.safetensors"
    trained, start = load_file(file), load_file(other / file.name)
    mean = {name: (share * each.float() + (1 - share) * start[name].float()).half() for name, each in trained.items()}
    save_file(mean, file, metadata={"format": "pt"})


if __name__ == "__main__":
    average(Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3]))
