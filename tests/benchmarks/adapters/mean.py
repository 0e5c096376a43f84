"""The mean of two adapters of one shape, as a folder like the second: it makes fewer errors than either.

python -m tests.benchmarks.adapters.mean runs/entailment-fourth runs/entailment-fifth runs/entailment
"""

import shutil
import sys
from pathlib import Path

from safetensors.torch import load_file, save_file


def main(one: Path, other: Path, folder: Path) -> None:
    """Write the mean of the weights of two adapters into ``folder``."""
    shutil.copytree(other, folder, ignore=shutil.ignore_patterns("checkpoints"), dirs_exist_ok=True)
    first, second = (load_file(source / "adapter_model.safetensors") for source in (one, other))
    mean = {name: ((first[name].float() + weight.float()) / 2).to(weight.dtype) for name, weight in second.items()}
    save_file(mean, folder / "adapter_model.safetensors", metadata={"format": "pt"})


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
