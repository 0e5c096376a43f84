"""What a search for texts that earn the answer's reward without any word of the answer finds, by judge.

python -m tests.benchmarks.answer_attack [--entailment embedded FOLDER ...] [--budget 1000] [--seeds 3]
"""

import argparse
import random
import sys
from collections.abc import Sequence

from tqdm import tqdm

from seper_reward import SePerScorer
from seper_reward.data.stated import stated_answer
from seper_reward.reports.tables import markdown_table
from tests.reward.test_answer_attack import TARGETS, attack


def main(argv: Sequence[str] | None = None) -> int:
    """Print, by judge and question, the most that each seed's search found; return 0."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.answer_attack", description=__doc__)
    parser.add_argument("--entailment", nargs="+", default=["embedded"], help="Names or folders of the judges.")
    parser.add_argument("--budget", type=int, default=1000, help="Number of texts that a search may try.")
    parser.add_argument("--seeds", type=int, default=3, help="Number of searches for each answer.")
    arguments = parser.parse_args(argv)
    rows = []
    for judge in arguments.entailment:
        scorer = SePerScorer.from_pretrained(entailment=judge)
        for question, answer in tqdm(TARGETS, desc=judge, unit="answer"):
            found = []
            for seed in range(arguments.seeds):
                text = attack(scorer, question, answer, arguments.budget, random.Random(f"{answer}-{seed}"))
                found.append((scorer.judge.mutual_support(question, stated_answer(text), [answer]), text))
            worst = max(found)
            rows.append([judge, answer, ", ".join(f"{paid:.2f}" for paid, _ in found), worst[1][:60]])
    print(markdown_table(["judge", "answer", "paid, by seed", "what was paid most"], rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
