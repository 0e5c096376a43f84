"""ΔSePer and its neighbours side by side, on the demo corpus: `make neighbours-demo`.

    python -m tests.benchmarks.experiments.neighbours_demo --output_dir runs/neighbours-demo

Compares labelers (configs/evaluate/compare-demo.yaml), tells how far retrievers fail on the same questions, and lets
their answers vote (configs/evaluate/ensemble-demo.yaml). The same command goes on where it was interrupted.
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

_CONFIGS = Path(__file__).parents[3] / "configs" / "evaluate"


@dataclass
class DemoConfig:
    """Compare ΔSePer with its neighbours on the demo corpus."""

    output_dir: str = setting(
        "runs/neighbours-demo", "Folder of the results; the same command goes on where it was interrupted."
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the three comparisons, and write their numbers into one results.json; return the exit status."""
    (config,) = parse_settings((DemoConfig,), argv, "python -m tests.benchmarks.experiments.neighbours_demo", __doc__)
    folder = Path(config.output_dir)
    consistency, ensemble, labelers = folder / "consistency.json", folder / "ensemble.json", folder / "labelers"
    # these two ask the same; what labels cost is measured without a cache
    shared = ["--config", str(_CONFIGS / "ensemble-demo.yaml"), "--cache", str(folder / "cache.sqlite")]
    for words in (
        ["evaluate", "consistency", *shared, "--json", str(consistency), "--plot", str(folder / "win-ratios.svg")],
        ["evaluate", "ensemble", *shared, "--json", str(ensemble)],
        ["evaluate", "compare", "--config", str(_CONFIGS / "compare-demo.yaml"), "--output_dir", str(labelers)],
    ):
        print(f"\nseper-reward {' '.join(words)}\n", flush=True)
        if status := cli.main(words):
            return status
    compared = read_json(labelers / "results.json")["demo"]
    write_json(folder / "results.json", summarized(compared, read_json(consistency), read_json(ensemble)))
    return 0


def summarized(
    compared: Mapping[str, Any], consistency: Mapping[str, Any], ensemble: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the numbers of the three comparisons that results.json holds.

    Args:
        compared: What ``evaluate compare`` wrote of the demo.
        consistency: What ``evaluate consistency`` wrote.
        ensemble: What ``evaluate ensemble`` wrote.

    Returns:
        ``labelers``, by name ``pearson`` with people's marks, ``kendall`` with the reader's score on the list,
        ``seconds_per_label`` and ``needs_answers``; ``consistency``, MRWR and MRLR of the source that is right most
        often; and ``ensemble``, the accuracy of the ``best_single`` retriever, of EoR as in the paper (``eor``) and of
        the ``belief_vote``, all chosen on other questions, and the ``upper_bound``.
    """
    best = max(consistency["sources"].values(), key=lambda row: row["accuracy"]["mean"])
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
            "best_single": ensemble["best_single"]["accuracy"]["mean"],
            "eor": ensemble["voters"]["eor_paper"]["accuracy"]["mean"],
            "belief_vote": ensemble["voters"]["belief_vote"]["accuracy"]["mean"],
            "upper_bound": ensemble["upper_bound"]["mean"],
        },
    }


if __name__ == "__main__":
    sys.exit(main())
