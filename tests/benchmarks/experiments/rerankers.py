"""Which labels train the better reranker? Cross-encoders that order the first passages of a retriever.

    python -m tests.benchmarks.experiments.rerankers train --folder runs/pooled
    python -m tests.benchmarks.experiments.rerankers table --folder runs/pooled

Trained on are the candidates and labels of ``query_side`` in the same folder. Tested are all other questions of the
three sets, with the untrained retriever's first ten passages. The base is the embedded judge with a new head. Each
finished training is a file, so the same command resumes.
"""

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from seper_reward.runtime.json_files import write_json
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
TRAINED = "trained-rerankers"  # in the folder of the corpus
MEASURES = {"recall@1": "R@1", "recall@5": "R@5", "ndcg@10": "nDCG@10", "mrr": "RR"}


def train_all(frame: Frame, folder: Path, names: Sequence[str]) -> None:
    """Train and measure the reranker of each label and seed that the folder lacks."""
    learnt = {query.id for query in query_side.taught(folder)}
    tested = [query for query in frame.queries if query.metadata["set"] in LEARNT and query.id not in learnt]
    before: Rankings = frame.rank(load_encoder("embedded", TOKENS), [query.question for query in tested], FIRST)
    for name, seed, path in query_side.unfinished(folder / TRAINED, names):
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
    made.add_argument("act", choices=["train", "table"])
    made.add_argument("--folder", type=Path, default=Path("runs/pooled"))
    made.add_argument("--labels", nargs="+", choices=LABELS, default=LABELS, help="labels to train on")
    words = made.parse_args(argv)
    if words.act == "train":
        train_all(Frame(words.folder), words.folder, words.labels)
    else:
        print(query_side.table(words.folder / TRAINED, MEASURES))


if __name__ == "__main__":
    main()
