"""Which labels train a retriever for questions that need two passages? Labels of sets against single passages.

    python -m tests.benchmarks.experiments.pooled runs/pooled
    python -m tests.benchmarks.experiments.two_hops candidates --folder runs/pooled
    seper-reward label --input runs/pooled/hops/candidates.jsonl --label seper_gain --sets conditional \
        --max_passage_tokens 128 --output_dir runs/pooled/hops/seper_gain --cache runs/pooled/hops/cache.sqlite
    python -m tests.benchmarks.experiments.two_hops train --folder runs/pooled
    python -m tests.benchmarks.experiments.answers runs/pooled/hops/trained --top 2 --reader runs/qwen
    python -m tests.benchmarks.experiments.two_hops table --folder runs/pooled

The same command with another ``--label`` labels by ``question_gain``, ``delta_belief`` or ``delta_seper``. As in
``query_side``, the question's side alone learns, with a fixed index of the corpus. Trained on are 120 questions of
HotpotQA and 2Wiki with two relevant passages, in the dev and test splits; tested are all other such questions. A
retriever searches twice, the second time with the passage that it found first, and so do its rivals.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
from sentence_transformers import SentenceTransformer

from seper_reward.evaluate.rankings import gold_relevance
from seper_reward.labels.rows import labeled_queries, read_label_rows
from seper_reward.reports.tables import markdown_table
from seper_reward.retrieval import Retriever, retrieve_hops
from seper_reward.runtime.json_files import write_json, write_lines
from seper_reward.types import LabeledQuery, Passage, Query
from tests.benchmarks.experiments import query_side
from tests.benchmarks.experiments.query_side import DEPTH, TOKENS, TOP, UNTRAINED, Frame, lead
from trainers.models import load_encoder
from trainers.options import RetrieverConfig
from trainers.ranking.run import label_temperature, teacher_rows

OF_SETS = ("seper_gain", "question_gain", "delta_belief", "delta_seper")
LABELS = (*OF_SETS, "human labels", "seper_gain of singles", "bm25 of singles")
ONCE = "untrained, one search"
TAUGHT = 120  # questions to train on
TEMPERATURE, RATE = 0.3, 1e-4  # by human labels better than 1
_SETS = ("hotpotqa_distractor", "2wikimultihopqa")
Learn = Literal["singles", "paths"]
_MEASURES = {"recall@2": "R@2", "recall@5": "R@5", "recall@20": "R@20"}


@dataclass(frozen=True)
class _QuerySide(Retriever):
    """Ranks the frame's passages by the vectors that a model gives to questions."""

    frame: Frame
    model: SentenceTransformer

    def retrieve(self, questions: Sequence[str], top_k: int) -> list[tuple[Passage, ...]]:
        return self.frame.rank(self.model, questions, top_k)


def two_hop_questions(frame: Frame) -> list[Query]:
    """Return the questions of both sets that have two relevant passages."""
    return [
        query for query in frame.queries if query.metadata["set"] in _SETS and sum(gold_relevance(query).values()) == 2
    ]


def candidates(frame: Frame) -> list[dict[str, object]]:
    """Return the questions to label, spread over the sets, with the first passages of two searches."""
    chosen = [query for query in two_hop_questions(frame) if query_side.may_teach(query)]
    chosen = query_side.spread_by_id(chosen)[:TAUGHT]
    untrained = _QuerySide(frame, load_encoder("embedded", TOKENS))
    rankings = retrieve_hops(untrained, [query.question for query in chosen], 2, TOP)
    return [query_side.candidate_row(query, passages) for query, passages in zip(chosen, rankings, strict=True)]


def targets(frame: Frame, folder: Path, name: str) -> tuple[list[LabeledQuery], Learn]:
    """Return the questions to train on with the labels of this name, and what a training learns from them."""
    if name in OF_SETS:
        return labeled_queries(read_label_rows(folder / name), name), "paths"
    if name == "seper_gain of singles":
        return labeled_queries(read_label_rows(folder / "seper_gain"), "seper_gain"), "singles"
    taught = query_side.targets(frame, folder, name.removesuffix(" of singles"))
    if name == "human labels":
        return [replace(labeled, graded=True) for labeled in taught], "paths"
    return taught, "singles"


def train_all(frame: Frame, folder: Path, trained: Path, names: Sequence[str]) -> None:
    """Train and measure the retriever of each label and seed that the folder lacks; it searches twice."""
    labelled = {query.id for query in query_side.taught(folder)}
    tested = [query for query in two_hop_questions(frame) if query.id not in labelled]
    texts = [query.question for query in tested]
    for name, seed, path in query_side.unfinished(trained, names, (ONCE, UNTRAINED)):
        model, rows = load_encoder("embedded", TOKENS), []
        if name not in (ONCE, UNTRAINED):
            labeled, learn_from = targets(frame, folder, name)
            config = RetrieverConfig(teacher_temperature=TEMPERATURE, learn_from=learn_from, labeler="gold")
            rows = teacher_rows(labeled, config)
            query_side.train(model, frame, rows, label_temperature(rows, config), seed, RATE)
        rankings = retrieve_hops(_QuerySide(frame, model), texts, 1 if name == ONCE else 2, DEPTH)
        write_json(path, {"rows": len(rows), "questions": query_side.measured(rankings, tested, _MEASURES)})
        print(path.stem, len(rows), flush=True)


def table(trained: Path) -> str:
    """Return Markdown: the measures by label, of all questions and by set, and the leads of the first label."""
    values, questions = query_side.trained_values(trained, (*LABELS, UNTRAINED, ONCE), _MEASURES)
    sets = np.array([of_set for _, of_set in questions])
    chosen = {"both": np.isin(sets, _SETS), **{name: sets == name for name in _SETS}}
    header = query_side.headings(chosen)
    best, rows = values[LABELS[0]], []
    shown = [key for key in best if key != "recall@20"]
    for name, measures in values.items():
        leads = ["" if name == LABELS[0] else lead(best[key], measures[key]) for key in shown]
        rows.append([name, *query_side.means(measures, chosen), *leads])
    return markdown_table([" / ".join(best), *header, *(f"lead in {name}" for name in shown)], rows)


def main(argv: Sequence[str] | None = None) -> None:
    """Do what the first word names."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("act", choices=["candidates", "train", "table"])
    made.add_argument("--folder", type=Path, default=Path("runs/pooled"))
    made.add_argument("--labels", nargs="+", choices=LABELS, default=LABELS, help="labels to train on")
    made.add_argument("--trained", default="trained", help="folder of the trainings, in hops of --folder")
    words = made.parse_args(argv)
    hops = words.folder / "hops"
    hops.mkdir(exist_ok=True)
    trained = hops / words.trained
    match words.act:
        case "candidates":
            write_lines(hops / "candidates.jsonl", candidates(Frame(words.folder)))
        case "train":
            train_all(Frame(words.folder), hops, trained, words.labels)
        case _:
            print(table(trained))


if __name__ == "__main__":
    main()
