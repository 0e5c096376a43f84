"""What the benchmarks share: their command line, real text to work on, and clocks."""

import argparse
import json
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch

from seper_reward.data.queries import read_queries
from seper_reward.types import Passage, Query

SHARED = Path(os.environ.get("SEPER_SHARED_DATA", Path(__file__).parents[3] / "shared" / "data"))
NQ = SHARED / "qa" / "nq_oracle_bm25neg.jsonl.gz"
CONTEXTS = 10  # per question
CLOCK = "wall" if torch.accelerator.is_available() else "cpu"  # a busy processor distorts the wall clock more


def parser(about: str | None) -> argparse.ArgumentParser:
    """Return a parser with what every benchmark takes."""
    made = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--json", help="write the numbers to this file, too")
    return made


def finish(result: dict[str, Any], path: str | None) -> None:
    """Print the numbers, and write them where asked."""
    text = json.dumps(result, indent=2)
    print(text)
    if path:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(text + "\n", encoding="utf-8")


def clocked(act: Callable[[], Any]) -> tuple[dict[str, float], Any]:
    """Return what an act took, in wall and in processor seconds of this process, and what it gave."""
    wall, processor = time.perf_counter(), time.process_time()
    given = act()
    if torch.accelerator.is_available():
        torch.accelerator.synchronize()
    return {"wall": time.perf_counter() - wall, "cpu": time.process_time() - processor}, given


def peak_memory(act: Callable[[], Any]) -> float:
    """Return the peak memory of this process during an act, in MB, models included."""
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
        act()
        return torch.cuda.max_memory_allocated() / 1e6
    Path("/proc/self/clear_refs").write_text("5")  # forget earlier peaks, as that of merging adapters in float32
    act()
    lines = Path("/proc/self/status").read_text().splitlines()  # ru_maxrss would start at the parent's
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024


def now() -> float:
    """Return the seconds of ``CLOCK``."""
    if CLOCK == "cpu":
        return time.process_time()
    torch.accelerator.synchronize()
    return time.perf_counter()


def questions(count: int, words: int = 100) -> list[Query]:
    """Return questions of NQ with ``CONTEXTS`` passages of about ``words`` words."""
    fit = [query for query in read_queries(NQ).queries if len(query.passages) == CONTEXTS]
    fit = [query for query in fit if all(len(each.text.split()) >= 0.9 * words for each in query.passages)]
    return [
        replace(
            query, passages=tuple(Passage(" ".join(each.text.split()[:words]), each.title) for each in query.passages)
        )
        for query in fit[:: max(len(fit) // count, 1)][:count]
    ]


def contexts(query: Query, passages: int) -> list[tuple[Passage, ...]]:
    """Return ``CONTEXTS`` sets of so many passages: neighbours on the ring of the query's passages."""
    ring = [*query.passages, *query.passages]
    return [tuple(ring[at : at + passages]) for at in range(CONTEXTS)]
