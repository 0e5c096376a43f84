"""Which labels train the better reranker? Cross-encoders that order the first passages of a retriever.

    python -m tests.benchmarks.experiments.pooled runs/pooled
    python -m tests.benchmarks.experiments.rerankers candidates --folder runs/pooled
    seper-reward label --input runs/pooled/reranked/candidates.jsonl --max_passage_tokens 128 \
        --output_dir runs/pooled/reranked/labels
    python -m tests.benchmarks.experiments.rerankers train --folder runs/pooled
    python -m tests.benchmarks.experiments.rerankers table --folder runs/pooled

Labelled and trained on are all questions that ``query_side`` may label, with the first eight passages of the untrained
retriever; tested are all other questions of the three sets, with its first ten. The base is the embedded judge with a
new head. Each finished training is a file, so the same command resumes.
"""

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from seper_reward.runtime.json_files import write_json, write_lines
from seper_reward.runtime.pretrained import fast_dtype
from tests.benchmarks.experiments import query_side
from tests.benchmarks.experiments.query_side import LABELS, LEARNT, TOKENS, UNTRAINED, Frame
from trainers.models import load_encoder
from trainers.options import RerankerConfig
from trainers.ranking.evaluation import Rankings
from trainers.reranker import RerankerArguments, load_cross_encoder, rerank, train

FIRST = 10  # passages of a tested question
PAIR_TOKENS = 160  # of a question with a passage
BATCH, RATE = 4, 1e-4
MEASURES = {"recall@1": "R@1", "recall@5": "R@5", "ndcg@10": "nDCG@10", "mrr": "RR"}


def candidates(frame: Frame) -> list[dict[str, object]]:
    """Return the questions to label with the first passages by the untrained retriever."""
    chosen = query_side.spread_by_id([query for query in frame.queries if query_side.may_teach(query)])
    first = frame.rank(load_encoder("embedded", TOKENS), [query.question for query in chosen], query_side.TOP)
    return [query_side.candidate_row(query, passages) for query, passages in zip(chosen, first, strict=True)]


def train_all(frame: Frame, folder: Path, names: Sequence[str]) -> None:
    """Train and measure the reranker of each label and seed that the folder lacks."""
    learnt = {query.id for query in query_side.taught(folder)}
    tested = [query for query in frame.queries if query.metadata["set"] in LEARNT and query.id not in learnt]
    before: Rankings = frame.rank(load_encoder("embedded", TOKENS), [query.question for query in tested], FIRST)
    for name, seed, path in query_side.unfinished(folder / "trained", names):
        began, rankings = time.perf_counter(), before
        if name != UNTRAINED:
            torch.manual_seed(seed)  # for the new head
            model = load_cross_encoder("embedded", PAIR_TOKENS)
            with tempfile.TemporaryDirectory() as checkpoints:
                arguments = RerankerArguments(
                    output_dir=checkpoints, seed=seed, learning_rate=RATE, num_train_epochs=1,
                    per_device_train_batch_size=BATCH, save_strategy="no",
                )  # fmt: skip
                train(model, query_side.targets(frame, folder, name), RerankerConfig(labeler="gold"), arguments)
            with torch.autocast(model.device.type, fast_dtype(model.device)):
                rankings = rerank(model, before, tested)
        seconds = round(time.perf_counter() - began, 1)
        write_json(path, {"seconds": seconds, "questions": query_side.measured(rankings, tested, MEASURES)})
        print(f"{path.stem}: {seconds} s", flush=True)


def main(argv: Sequence[str] | None = None) -> None:
    """Do what the first word names."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("act", choices=["candidates", "train", "table"])
    made.add_argument("--folder", type=Path, default=Path("runs/pooled"))
    made.add_argument("--labels", nargs="+", choices=LABELS, default=LABELS, help="labels to train on")
    words = made.parse_args(argv)
    reranked = words.folder / "reranked"
    reranked.mkdir(exist_ok=True)
    match words.act:
        case "candidates":
            write_lines(reranked / "candidates.jsonl", candidates(Frame(words.folder)))
        case "train":
            train_all(Frame(words.folder), reranked, words.labels)
        case _:
            print(query_side.table(reranked / "trained", MEASURES))


if __name__ == "__main__":
    main()
