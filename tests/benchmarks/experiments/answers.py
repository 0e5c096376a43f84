"""Does a reader answer better with the passages of a trained retriever? SePer and exact match with the first ones.

    python -m tests.benchmarks.experiments.answers runs/pooled/hops/trained --top 2 --reader runs/qwen

goes through the finished trainings of an experiment, whose rankings are in this folder, and adds two measures to each
question: SePer of the reader with the first passages, and the expected exact match of its responses.
The reader should be another than the one that labelled. Contexts that rankings have in common are measured once, and a
stopped run resumes, both from ``--cache``.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from seper_reward.runtime.json_files import read_json, write_json
from seper_reward.scorer import SePerScorer
from tests.benchmarks.experiments.query_side import TOKENS, Frame
from trainers.ranking.evaluation import downstream


def answer(trained: Path, frame: Frame, scorer: SePerScorer, top: int) -> None:
    """Add both measures to each question of the trainings in a folder.

    Raises ``ValueError`` if the reader cannot read a question: the means of the table are of all of them.
    """
    queries = {query.id: query for query in frame.queries}
    trainings = {path: read_json(path) for path in sorted(trained.glob("*.json"))}
    for training in trainings.values():
        questions = training["questions"]
        rankings = [[frame.corpus[name] for name in question["passages"]] for question in questions]
        measures = downstream(scorer, [queries[question["id"]] for question in questions], rankings, top)
        if unread := [one["id"] for one, seper in zip(questions, measures["seper"], strict=True) if seper is None]:
            raise ValueError(f"expected a reader that can read all questions, got too long ones: {', '.join(unread)}")
        for question, *values in zip(questions, *measures.values(), strict=True):
            question |= {f"{name}@{top}": value for name, value in zip(measures, values, strict=True)}
    for path, training in trainings.items():
        write_json(path, training)


def main(argv: Sequence[str] | None = None) -> None:
    """Measure the trainings of a folder."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("trained", type=Path, help="folder of finished trainings")
    made.add_argument(
        "--folder", type=Path, default=Path("runs/pooled"), help="folder of the corpus and the questions"
    )
    made.add_argument("--top", type=int, required=True, help="number of passages that the reader sees")
    made.add_argument("--reader", default="runs/qwen", help="reader, as in `seper-reward label`")
    made.add_argument("--cache", default="runs/pooled/answers.sqlite", help="cache of its responses")
    words = made.parse_args(argv)
    scorer = SePerScorer.from_pretrained(words.reader, cache=words.cache, max_passage_tokens=TOKENS)
    answer(words.trained, Frame(words.folder), scorer, words.top)


if __name__ == "__main__":
    main()
