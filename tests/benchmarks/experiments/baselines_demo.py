"""ΔSePer next to the baselines, on the demo corpus: `make baselines-demo`.

    python -m tests.benchmarks.experiments.baselines_demo --output_dir runs/baselines-demo

Compares retrievers and lets their answers vote (configs/baselines/eor-demo.yaml), and compares labelers
(tests/benchmarks/experiments/configs/labelers-demo.yaml). The same command goes on where it was interrupted.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seper_reward import cli
from seper_reward.runtime.json_files import read_json, write_json
from seper_reward.runtime.parser import parse_settings
from seper_reward.runtime.settings import setting
from seper_reward.shipped import configs_folder
from tests.benchmarks.experiments import compare

_CONFIGS = Path(__file__).parent / "configs"


@dataclass
class DemoConfig:
    """Compare ΔSePer with the baselines on the demo corpus."""

    output_dir: str = setting(
        "runs/baselines-demo", "Folder of the results; the same command goes on where it was interrupted."
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run both comparisons, and write their numbers into one results.json; return the exit status."""
    (config,) = parse_settings((DemoConfig,), argv, "python -m tests.benchmarks.experiments.baselines_demo", __doc__)
    folder = Path(config.output_dir)
    eor, labelers = folder / "eor.json", folder / "labelers"
    words = ["baseline", "eor", "--config", str(configs_folder() / "baselines" / "eor-demo.yaml")]
    words += ["--cache", str(folder / "cache.sqlite"), "--json", str(eor), "--plot", str(folder / "win-ratios.svg")]
    # without a cache, as the costs of labels are measured
    compared = ["--config", str(_CONFIGS / "labelers-demo.yaml"), "--output_dir", str(labelers)]
    for run, arguments in ((cli.main, words), (compare.main, compared)):
        print(f"\n{' '.join(arguments)}\n", flush=True)
        if status := run(arguments):
            return status
    results = summarized(read_json(labelers / "results.json")["demo"], read_json(eor))
    write_json(folder / "results.json", results)
    return 0


def summarized(compared: Mapping[str, Any], eor: Mapping[str, Any]) -> dict[str, Any]:
    """Return the numbers of both comparisons that results.json contains.

    Args:
        compared: The labelers' results on the demo.
        eor: The result of ``baseline eor``.

    Returns:
        ``labelers``, by name ``pearson`` with people's marks, ``kendall`` with the reader's score on the list,
        ``seconds_per_label`` and ``needs_answers``; ``consistency``, MRWR and MRLR of the source that is right most
        often; and ``ensemble``, the accuracy of the ``best_single`` retriever and of EoR as in the paper (``eor``),
        both chosen on other questions, and the ``upper_bound``.
    """
    best = max(eor["consistency"]["sources"].values(), key=lambda row: row["accuracy"]["mean"])
    return {
        "labelers": {
            name: {
                "pearson": row["marks"]["pearson"],
                "kendall": row["score"]["kendall"]["value"],
                "seconds_per_label": row["per_label"]["seconds"],
                "needs_answers": row["needs_answers"],
            }
            for name, row in compared["labelers"].items()
        },
        "consistency": {name: best[name]["mean"] for name in ("mrwr", "mrlr")},
        "ensemble": {
            "best_single": eor["best_single"]["accuracy"]["mean"],
            "eor": eor["voters"]["eor_paper"]["accuracy"]["mean"],
            "upper_bound": eor["consistency"]["upper_bound"]["mean"],
        },
    }


if __name__ == "__main__":
    sys.exit(main())
