"""What is a retriever for two hops taught best: what passages do, or what they lead to?

    python -m tests.benchmarks.experiments.hops --json out.json
    python -m tests.benchmarks.experiments.hops --ways paths gold --loss kl_regularized \\
        --contrastive_weight 0 --learning_rate 1e-4

Labels the questions of a comparison that need two passages (conditional ΔSePer) and trains a bi-encoder on them, by
each value of `--learn_from`, and on people's marks: on the training questions, measured on
the held-out ones, and the other way round, by two seeds of labels and training. Prints the share of the supporting
passages among the two that are found in two hops (and at once), by fold and seed. Other settings are those of the
comparison.
"""

import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

from seper_reward.evaluate.rankings import gold_relevance, rank_metrics
from seper_reward.options import LearnFrom
from seper_reward.retrieval import DenseRetriever
from seper_reward.runtime.parser import parse_options
from seper_reward.scorer import load_scorer
from seper_reward.types import LabeledQuery, Query
from tests.benchmarks.common import finish, parser
from tests.benchmarks.experiments.compare_labelers import CompareConfig
from tests.benchmarks.experiments.questions import read_questions
from trainers.models import load_encoder
from trainers.ranking.data import Questions
from trainers.ranking.evaluation import rank_by
from trainers.ranking.label_store import LabelStore
from trainers.ranking.run import labeler_for
from trainers.retriever import RetrieverArguments, RetrieverConfig, train_once

DEPTH = 2
MARKS, SETS = "gold", "conditional_delta_seper"
WAYS = (*get_args(LearnFrom), MARKS)


def main(arguments: Sequence[str] | None = None) -> None:
    made = parser(__doc__)
    made.add_argument("--config", default="tests/benchmarks/experiments/configs/compare-two-hop.yaml")
    made.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    made.add_argument("--ways", nargs="+", choices=WAYS, default=WAYS, help="what is learned from; not given: each")
    made.add_argument("--labels", help="folder that keeps the labels; not given: they are made each time")
    options, more = made.parse_known_args(arguments)
    with tempfile.TemporaryDirectory() as scratch:
        words = [
            "--config",
            options.config,
            "--output_dir",
            scratch,
            "--save_strategy",
            "no",
            "--disable_tqdm",
            "true",
            *more,
        ]
        config, training = parse_options((CompareConfig, RetrieverArguments), words, "hops")
        questions = read_questions(config)
        found: dict[str, list[dict[str, float]]] = {"untrained": []}
        for seed in options.seeds:
            labeled = labels(config, questions, seed, Path(options.labels or scratch))
            for fold, (learned, asked) in enumerate((("train", "test"), ("test", "train"))):
                queries = getattr(questions, asked)
                where = {"fold": fold, "seed": seed}
                found["untrained"].append(where | recalls(load_encoder(config.model), questions, queries))
                for way in options.ways:
                    model = load_encoder(config.model)
                    kind = MARKS if way == MARKS else SETS
                    train_once(model, labeled[kind, learned], recipe(config, way), replace(training, seed=seed))
                    found.setdefault(way, []).append(where | recalls(model, questions, queries))
                    print(way, found[way][-1], flush=True)
    mean = {way: {key: mean_of(rows, key) for key in ("in_two_hops", "at_once")} for way, rows in found.items()}
    finish(
        {"questions": {"train": len(questions.train), "test": len(questions.test)}, "mean": mean, "runs": found},
        options.json,
    )


def recipe(config: CompareConfig, way: str) -> RetrieverConfig:
    """Return the settings of a retriever that learns in one of ``WAYS``."""
    # settings refuse sets that nothing uses: singles are those of the same labels
    return config.of({"singles": "delta_seper", "paths": SETS, MARKS: MARKS}[way])


def labels(
    config: CompareConfig, questions: Questions, seed: int, folder: Path
) -> dict[tuple[str, str], list[LabeledQuery]]:
    """Return the labels by kind and split."""
    scorer, found = load_scorer(config, seed), {}
    for kind in (SETS, MARKS):
        for split in ("train", "test"):
            labeler = labeler_for(config.of(kind), scorer)
            store = LabelStore(folder / f"{kind}-{split}-{seed}.jsonl", labeler, labeler.name)
            found[kind, split] = store.label(getattr(questions, split))
    return found


def recalls(model: Any, questions: Questions, queries: Sequence[Query]) -> dict[str, float]:
    """Return the share of the supporting passages among the two that are found, mean over questions."""
    gold, retriever = [gold_relevance(query) for query in queries], DenseRetriever(model, questions.corpus)
    return {
        name: round(rank_metrics(rank_by(retriever, queries, DEPTH, hops), gold)[f"recall@{DEPTH}"], 4)
        for name, hops in (("in_two_hops", DEPTH), ("at_once", 1))
    }


def mean_of(rows: Sequence[dict[str, float]], key: str) -> float:
    return round(statistics.fmean(row[key] for row in rows), 4)


if __name__ == "__main__":
    main()
