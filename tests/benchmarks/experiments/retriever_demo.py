"""What labels are good for, on the demo corpus: `make retriever-demo`.

    python -m tests.benchmarks.experiments.retriever_demo --output_dir runs/retriever-demo
    python -m tests.benchmarks.experiments.retriever_demo --full true --output_dir runs/retriever-demo-full

Compares retrievers that labels of single passages trained (configs/compare-demo.yaml in this folder) and, on the
questions that need two passages, those that labels of sets trained (compare-two-hop.yaml), and lets a model decide
whether to use a passage at all (gating-demo.yaml). All three measure through one cache. The same command resumes.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from seper_reward.runtime.distributed import process_state
from seper_reward.runtime.json_files import read_json, write_json
from seper_reward.runtime.parser import parse_settings
from seper_reward.runtime.settings import setting
from tests.benchmarks.experiments import compare_labelers, gating
from tests.benchmarks.experiments.compare_labelers import OTHER_FIELDS
from trainers.ranking.run import RESULTS
from trainers.runs import suggest

_CONFIGS = Path(__file__).parent / "configs"
_TWO_HOP, _GATING = "two-hop", "gating"


@dataclass
class DemoConfig:
    """Train and compare on the demo corpus."""

    full: bool = setting(
        False,
        "Whether to take all of the demo's questions for single passages (else 48), to hold out every question once "
        "for the gate (else a part), and to judge by a reader that made no labels, too (else by the one that did, on "
        "other responses). It takes three times as long.",
    )
    output_dir: str = setting(
        "runs/retriever-demo", "Folder of the runs; the same command resumes an interrupted one there."
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the three comparisons and write their numbers into one results.json; return 0."""
    (config,) = parse_settings((DemoConfig,), argv, "python -m tests.benchmarks.experiments.retriever_demo", __doc__)
    folder = Path(config.output_dir)
    cache = ["--cache", str(folder / "cache.sqlite")]
    quick = ["--eval_readers", "none"]
    for command, settings, output, less in (
        (compare_labelers.main, "compare-demo.yaml", folder, ["--limit", "48", *quick]),
        (compare_labelers.main, "compare-two-hop.yaml", folder / _TWO_HOP, quick),
        (gating.main, "gating-demo.yaml", folder / _GATING, ["--folds", "1", *quick]),
    ):
        more = [] if config.full else less
        command(["--config", str(_CONFIGS / settings), "--output_dir", str(output), *cache, *more])
    if process_state().is_main_process:
        results, two_hop, gates = (read_json(each / RESULTS) for each in (folder, folder / _TWO_HOP, folder / _GATING))
        results["two_hop"] = {name: row for name, row in two_hop.items() if name not in OTHER_FIELDS}
        write_json(folder / RESULTS, {**results, "gating": gates["gating"]})
    suggest("seper-reward train retriever --input YOURS.jsonl --corpus CORPUS.jsonl")
    return 0


if __name__ == "__main__":
    sys.exit(main())
