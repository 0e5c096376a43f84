"""What a search for texts that earn the answer's reward without any word of the answer finds, by judge.

python -m tests.benchmarks.answer_attack [--judge embedded FOLDER ...] [--budget 1000] [--seeds 4] [--processes 2]
"""

import multiprocessing
import random
import sys
from collections.abc import Sequence
from typing import Any

import torch
from tqdm import tqdm

from seper_reward import SePerScorer
from seper_reward.judge.extract import extract_answer
from seper_reward.judge.support import Stated, mutual_supports
from seper_reward.reports.tables import markdown_table
from tests.benchmarks.common import parser
from tests.helpers import texts_of
from tests.reward.test_answer_attack import TARGETS, attack

ANSWERS = [*TARGETS, *map(tuple, texts_of(__file__))]
MOST = 0.05  # of the reward, that a text without the answer may earn
Search = tuple[str, str, str, int, int]  # judge, question, answer, seed, budget
_scorers: dict[str, SePerScorer] = {}  # by judge, one in each process


def search(task: Search) -> tuple[Search, float, str]:
    """Return the task, the most that one of the texts found is paid, and that text."""
    judge, question, answer, seed, budget = task
    torch.set_num_threads(1)
    if judge not in _scorers:
        _scorers[judge] = SePerScorer.from_pretrained(judge=judge)
        _scorers[judge].entailment.max_batch_tokens = 1024  # small batches hold texts of one length
    scorer = _scorers[judge]
    found = attack(scorer, question, answer, budget, random.Random(f"{answer}-{seed}"))
    paid = mutual_supports(scorer.judge, [Stated(question, extract_answer(text), [answer]) for _, text in found])
    best = max(range(len(found)), key=lambda at: (paid[at], found[at][0]))
    return task, paid[best], found[best][1]


def main(argv: Sequence[str] | None = None) -> int:
    """Print, by judge and question, the most that each seed's search found; return 0."""
    made = parser(__doc__)
    made.add_argument("--judge", nargs="+", default=["embedded"], help="Names or folders of the judges.")
    made.add_argument("--budget", type=int, default=1000, help="Number of texts that a search may try.")
    made.add_argument("--seeds", type=int, default=4, help="Number of searches for each answer.")
    made.add_argument("--processes", type=int, default=1, help="Number of searches at a time (default: 1).")
    arguments = made.parse_args(argv)
    tasks = [
        (judge, question, answer, seed, arguments.budget)
        for judge in arguments.judge
        for question, answer in ANSWERS
        for seed in range(arguments.seeds)
    ]
    found: dict[tuple[str, str, str], list[tuple[float, str]]] = {}
    with multiprocessing.get_context("spawn").Pool(arguments.processes) as pool:
        done = tqdm(pool.imap_unordered(search, tasks), total=len(tasks), unit="search")
        for (judge, question, answer, *_), paid, text in done:
            found.setdefault((judge, question, answer), []).append((paid, text))
    rows: list[list[Any]] = []
    for (judge, question, answer), own in found.items():
        own.sort(reverse=True)
        rows.append([judge, question, answer, ", ".join(f"{paid:.2f}" for paid, _ in own), own[0][1][:60]])
    rows.sort(key=lambda row: (row[0], -float(row[3].split(",")[0])))
    print(markdown_table(["judge", "question", "answer", "paid, by seed", "what was paid most"], rows))
    for judge in arguments.judge:
        most = [paid for (name, *_), own in found.items() if name == judge for paid, _ in own]
        print(f"{judge}: {sum(paid > MOST for paid in most)} of {len(most)} searches found a text paid above {MOST}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
