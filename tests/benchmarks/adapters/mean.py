"""The mean of two adapters of one shape, as a folder like the second: it makes fewer errors than either.

python -m tests.benchmarks.adapters.mean runs/entailment-fourth runs/entailment-fifth runs/entailment-mean

Scale and shift calibrate the head: the logit of entailment becomes scale * logit + shift. The mean of models is less
sure than each of them, and most responses of a reader are wrong, while half of the pairs that it learned are right.
"""

import shutil
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from pathlib import Path

from safetensors.torch import load_file, save_file

from trainers.entailment import LABELS

_HEAD = "base_model.model.classifier"


def main(one: Path, other: Path, folder: Path, scale: float, shift: float) -> None:
    """Write the mean of the weights of two adapters into ``folder``, with a calibrated head."""
    shutil.copytree(other, folder, ignore=shutil.ignore_patterns("checkpoints"), dirs_exist_ok=True)
    first, second = (load_file(source / "adapter_model.safetensors") for source in (one, other))
    mean = {name: (first[name].float() + weight.float()) / 2 for name, weight in second.items()}
    for name in ("weight", "bias"):
        mean[f"{_HEAD}.{name}"] *= scale
    mean[f"{_HEAD}.bias"][LABELS["entailment"]] += shift
    rounded = {name: weight.to(second[name].dtype) for name, weight in mean.items()}
    save_file(rounded, folder / "adapter_model.safetensors", metadata={"format": "pt"})


if __name__ == "__main__":
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs=3, type=Path, metavar="FOLDER", help="two adapters, and where the mean goes")
    parser.add_argument("--scale", type=float, default=1.0, help="factor of all logits")
    parser.add_argument("--shift", type=float, default=0.0, help="added to the logit of entailment")
    options = parser.parse_args()
    one, other, folder = options.folders
    main(one, other, folder, options.scale, options.shift)
