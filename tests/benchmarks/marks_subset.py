"""Write the questions of the table "Human relevance marks" (docs/results.md): two CPU cores label them in an hour.

    python -m tests.benchmarks.marks_subset --output_dir runs/marks/input
    seper-reward label --input runs/marks/input/popqa.test.jsonl --output_dir runs/marks/popqa
    seper-reward evaluate labels --labels runs/marks/popqa --split all --weights 0.25 0.5

A slice has evenly spread questions of a split, with at most the given number of passages: the first relevant ones, but
two less than that number, and the first others. In RAMDocs, passages of the type ``correct`` are relevant.
"""

import argparse
import gzip
import json
from collections.abc import Sequence
from pathlib import Path

from seper_reward.data.splits import split_of
from seper_reward.runtime.json_files import write_lines
from tests.benchmarks.common import SHARED

# by set: passages per question, questions that are spread over the split, and the first of them that are written
SLICES = {
    "nq_bearers.test": (7, 70, 40),
    "nq_bearers.dev": (7, 30, 30),
    "popqa.test": (6, 60, 40),
    "popqa.dev": (6, 30, 30),
    "hotpotqa_distractor.test": (6, 60, 34),
    "2wikimultihopqa.test": (6, 60, 40),
    "nq_oracle_bm25neg.test": (4, 60, 40),
    "nq_qed.test": (4, 60, 27),
    "ramdocs.test": (8, 60, 29),
}


def slice_of(name: str) -> list[dict[str, object]]:
    """Return the questions of a slice."""
    data, split = name.split(".")
    passages, spread, first = SLICES[name]
    with gzip.open(SHARED / "qa" / f"{data}.jsonl.gz", "rt", encoding="utf-8") as file:
        rows = [row for row in map(json.loads, file) if split_of(str(row["id"])) == split]
    step = max(1.0, len(rows) / spread)
    rows = [rows[int(at * step)] for at in range(min(spread, len(rows)))]
    for row in rows:
        for passage in row["passages"]:
            if "type" in passage:
                passage["relevant"] = passage["type"] == "correct"
        if len(row["passages"]) > passages:
            relevant = [each for each in row["passages"] if each["relevant"]][: passages - 2]
            others = [each for each in row["passages"] if not each["relevant"]][: passages - len(relevant)]
            row["passages"] = [each for each in row["passages"] if each in relevant + others]
    return rows[:first]


def main(arguments: Sequence[str] | None = None) -> None:
    """Write all slices."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.marks_subset", description=__doc__)
    parser.add_argument("--output_dir", type=Path, default=Path("runs/marks/input"))
    folder = parser.parse_args(arguments).output_dir
    folder.mkdir(parents=True, exist_ok=True)
    for name in SLICES:
        write_lines(folder / f"{name}.jsonl", slice_of(name))


if __name__ == "__main__":
    main()
