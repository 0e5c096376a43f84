"""Does an audit of negatives by ΔSePer find answers among them, and what does it flag that holds none? (No timing.)

    python -m tests.benchmarks.false_negatives --json runs/false_negatives.json

Each of some questions of NQ has negatives that BM25 mined, in which no alias of the answer stands (`mined`). Among
them are put the passage that people marked (`gold`), a mined one in whose middle a sentence says the answer
(`planted`), and the same one with a sentence that says the answer to another question (`wrong`). The first two should
be flagged, the others not. The shares that are flagged have 95 % intervals: bootstrap over questions or, where all or
none are flagged, Wilson's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from scipy.stats import binomtest

from seper_reward import SePerScorer
from seper_reward.data.answers import contains_answer
from seper_reward.data.marks import is_relevant, role_of
from seper_reward.data.queries import read_queries
from seper_reward.data.splits import split_of, spread
from seper_reward.labels.audit import Label, false_negatives
from seper_reward.labels.labelers import DeltaSePerLabeler
from seper_reward.labels.rows import labeled_queries, read_label_rows
from seper_reward.labels.run import LabelRun
from seper_reward.statistics import ratio_over_questions, rounded
from seper_reward.types import Passage, Query
from tests.benchmarks.common import NQ, finish, parser

LABELS: tuple[Label, ...] = ("delta_seper", "delta_seper_hard")


def planted(passage: Passage, question: str, answer: str, kind: str) -> Passage:
    """Return a passage with a sentence in its middle that answers the question so."""
    words = passage.text.split()
    middle = len(words) // 2
    sentence = f'To the question "{question}?", the answer is {answer}.'
    text = " ".join([*words[:middle], sentence, *words[middle:]])
    return Passage(text, passage.title, f"{kind}-{passage.id}", {"role": kind})


def chosen(questions: int, clean: int, split: str) -> list[Query]:
    """Return questions of a split of NQ: mined negatives, the marked passage, and two in which an answer was planted.

    A wrong answer is that of the question before.
    """
    usable = [
        query
        for query in read_queries(NQ).queries
        if split_of(query.id) == split and sum(not is_relevant(each) for each in query.passages) > clean
    ]
    taken = spread(usable, questions)
    found = []
    for query, other in zip(taken, [taken[-1], *taken[:-1]], strict=True):
        if contains_answer(other.answers[0], query.answers):
            continue
        mined = [passage for passage in query.passages if not is_relevant(passage)]
        (gold, *_) = filter(is_relevant, query.passages)
        passages = [
            *(replace(passage, metadata={"role": "mined"}) for passage in mined[:clean]),
            replace(gold, metadata={"role": "gold"}),
            planted(mined[clean], query.question, query.answers[0], "planted"),
            planted(mined[clean], query.question, other.answers[0], "wrong"),
        ]
        found.append(replace(query, passages=tuple(passages)))
    return found


def shares(rows: Mapping[str, Mapping[str, Any]], label: Label) -> dict[str, Any]:
    """Return the share of passages that are flagged by role, and their number, with intervals over questions."""
    found = {}
    labeled = labeled_queries(rows, label)
    for role in ("gold", "planted", "wrong", "mined"):
        own = [
            [false_negative(each, label=label) for each in row["passages"] if role_of(each) == role] for row in rows
        ]
        flagged, count = sum(map(sum, own)), sum(map(len, own))
        share = ratio_over_questions(range(len(rows)), [(sum(few), len(few)) for few in own])
        if share["interval"] is None:
            bounds = binomtest(flagged, count).proportion_ci(method="wilson")
            share["interval"] = [rounded(bounds.low), rounded(bounds.high)]
        found[role] = {"passages": count, "share": share["mean"], "interval": share["interval"]}
    return found


def main(argv: Sequence[str] | None = None) -> None:
    made = parser(__doc__)
    made.add_argument("--questions", type=int, default=100)
    made.add_argument("--negatives", type=int, default=4, help="mined negatives per question")
    made.add_argument("--split", default="test", help="train, dev or test")
    made.add_argument("--reader", default="embedded")
    made.add_argument("--judge", default="embedded")
    made.add_argument("--output_dir", type=Path, default=Path("runs/false-negatives"), help="labels; resumes there")
    options = made.parse_args(argv)
    queries = chosen(options.questions, options.negatives, options.split)
    scorer = SePerScorer.from_pretrained(options.reader, options.judge)
    run = LabelRun(options.output_dir, DeltaSePerLabeler(scorer), queries)
    run.run()
    rows = read_label_rows(run.folder)
    result = {
        "questions": len(rows),
        "flagged": {label: shares(rows, label) for label in LABELS},
        "settings": {name: str(value) for name, value in vars(options).items()},
    }
    finish(result, options.json)


if __name__ == "__main__":
    main()
