"""Pool the shared question sets into one file of questions and one corpus.

    python -m tests.benchmarks.experiments.pooled runs/pooled

The corpus has each passage of the four sets once. Questions whose answer is yes or no are left out. With
``--retrievers``, a table has the recall of each, of 200 questions per set, and the lead of the last one over the
others.
"""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from seper_reward.data.marks import is_relevant
from seper_reward.data.queries import pool_passages, read_corpus, read_queries
from seper_reward.data.splits import spread
from seper_reward.evaluate.rankings import rank_values
from seper_reward.reports.tables import lead_text, markdown_table
from seper_reward.retrieval import load_retriever
from seper_reward.runtime.json_files import write_lines
from seper_reward.statistics import lead_over_questions, mean_over_questions
from seper_reward.types import Query
from tests.benchmarks.common import SHARED

_DEPTHS, _LIMIT = (1, 5, 10, 20), 200
SETS = ("nq_oracle_bm25neg", "popqa", "hotpotqa_distractor", "2wikimultihopqa")


def pooled(sets: Sequence[str] = SETS) -> tuple[list[dict[str, object]], list[dict[str, object]]]:
    """Return the rows of questions, which have their relevant passages, and of the corpus."""
    queries: list[Query] = []
    for name in sets:
        read = read_queries(SHARED / "qa" / f"{name}.jsonl.gz").queries
        queries += [replace(query, metadata={"set": name}) for query in read]
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


def recall_table(folder: Path, questions: Sequence[Mapping[str, Any]], names: Sequence[str]) -> str:
    """Return a Markdown table of the share of relevant passages among the first k of each retriever."""
    marked = [[row for row in questions if row["set"] == name and row["passages"]] for name in SETS]
    tested = [row for rows in marked for row in spread(rows, _LIMIT)]
    relevance = [{passage["id"]: 1 for passage in row["passages"]} for row in tested]
    corpus = read_corpus(folder / "corpus.jsonl")
    recalls = {}
    for name in names:
        retriever = load_retriever(name, corpus, folder / "embeddings")
        rankings = retriever.retrieve([row["question"] for row in tested], max(_DEPTHS))
        recalls[name] = rank_values(rankings, relevance, {f"recall@{depth}": f"R@{depth}" for depth in _DEPTHS})
    rows = []
    for measure in (f"recall@{depth}" for depth in _DEPTHS):
        recall = {name: [(values or {})[measure] for values in recalls[name]] for name in names}
        leads = [lead_text(lead_over_questions(recall[names[-1]], recall[name])) for name in names[:-1]]
        rows.append([measure, *(mean_over_questions(recall[name]) for name in names), *leads])
    return markdown_table([f"n={len(tested)}", *names, *(f"lead over {name}" for name in names[:-1])], rows)


def main() -> None:
    """Write both files into the folder that is named."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("folder", nargs="?", type=Path, default=Path("runs/pooled"))
    made.add_argument("--retrievers", nargs="+", default=[], help="Names, such as bm25 minilm bm25+minilm.")
    arguments = made.parse_args()
    folder = arguments.folder
    folder.mkdir(parents=True, exist_ok=True)
    questions, corpus = pooled()
    write_lines(folder / "questions.jsonl", questions)
    write_lines(folder / "corpus.jsonl", corpus)
    print(f"{folder}: {len(questions)} questions, {len(corpus)} passages")
    if arguments.retrievers:
        print(recall_table(folder, questions, arguments.retrievers))


if __name__ == "__main__":
    main()
