"""Does memory grow with the number of questions, and how long does the command of a finished run take?

    python -m tests.benchmarks.many_questions --questions 10000 100000 1000000 --json out.json

Runs ``seper-reward label --labeler contains`` on synthetic questions with two passages each, twice: to the end, and
again. Prints peak memory and seconds, of the processor and by the clock.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.benchmarks.common import finish, parser
from tests.helpers import ENVIRONMENT


def main(arguments: Sequence[str] | None = None) -> None:
    made = parser(__doc__)
    made.add_argument("--questions", type=int, nargs="+", default=[10_000, 100_000])
    options = made.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        finish({str(count): measure(Path(folder), count) for count in options.questions}, options.json)


def measure(folder: Path, count: int) -> dict[str, Any]:
    source, out = folder / f"{count}.jsonl", folder / str(count)
    with source.open("w", encoding="utf-8") as file:
        for at in range(count):
            passages = [f"Voss {at} built mill {at}.", "A mill grinds corn."]
            row = {
                "id": f"q{at}",
                "question": f"Who built mill {at}?",
                "answers": [f"Voss {at}"],
                "passages": passages,
            }
            file.write(json.dumps(row) + "\n")
    words = ["label", "--labeler", "contains", "--input", str(source), "--output_dir", str(out)]
    first, again = _run(words), _run(words)
    files = len(list(out.glob("labels*.jsonl")))
    return {"input_mb": source.stat().st_size >> 20, "label_files": files, "label": first, "finished": again}


def _run(words: Sequence[str]) -> dict[str, float]:
    start = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "seper_reward", *words],
        env=ENVIRONMENT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    errors = process.stderr.read()
    _, status, used = os.wait4(process.pid, 0)
    assert status == 0, errors.decode()[-2000:]
    return {
        "peak_mb": used.ru_maxrss >> 10,
        "cpu_seconds": round(used.ru_utime + used.ru_stime, 1),
        "seconds": round(time.perf_counter() - start, 1),
    }


if __name__ == "__main__":
    main()
