"""Pool the shared question sets into one file of questions and one corpus, for retrievers that are tested on halves.

    python -m tests.benchmarks.experiments.pooled runs/pooled

The corpus has each passage of the four sets once. Questions of NQ, which the retriever knows, are only trained on
(``train_only``); questions whose answer is yes or no are left out.
"""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from seper_reward.data.marks import is_relevant
from seper_reward.data.queries import pool_passages, read_queries
from seper_reward.runtime.json_files import write_lines
from seper_reward.types import Query
from tests.benchmarks.common import SHARED

SETS = ("nq_oracle_bm25neg", "popqa", "hotpotqa_distractor", "2wikimultihopqa")


def pooled(sets: Sequence[str] = SETS) -> tuple[list[dict[str, object]], list[dict[str, object]]]:
    """Return the rows of questions, which have their relevant passages, and of the corpus."""
    queries: list[Query] = []
    for name in sets:
        metadata = {"set": name, "train_only": name == SETS[0]}
        read = read_queries(SHARED / "qa" / f"{name}.jsonl.gz").queries
        queries += [replace(query, metadata=metadata) for query in read]
    corpus, queries = pool_passages(queries)
    questions: list[dict[str, object]] = [
        {
            "id": query.id,
            "question": query.question,
            "answers": list(query.answers),
            "passages": [{"id": each.id, "relevant": True} for each in query.passages if is_relevant(each)],
            **query.metadata,
        }
        for query in queries
        if {"yes", "no"}.isdisjoint(map(str.lower, query.answers))
    ]
    return questions, [{"id": each.id, "title": each.title, "text": each.text} for each in corpus.values()]


def main() -> None:
    """Write both files into the folder that is named."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("folder", nargs="?", type=Path, default=Path("runs/pooled"))
    folder = made.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    questions, corpus = pooled()
    write_lines(folder / "questions.jsonl", questions)
    write_lines(folder / "corpus.jsonl", corpus)
    print(f"{folder}: {len(questions)} questions, {len(corpus)} passages")


if __name__ == "__main__":
    main()
