"""Fine-tune a cross-encoder on labels of a retriever's candidates.

seper-reward train reranker --config configs/reranker/demo.yaml
seper-reward train retriever --labeler runs/reranker/model ...   # distils it
"""

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from datasets import Dataset
from sentence_transformers import CrossEncoder
from sentence_transformers.cross_encoder import CrossEncoderTrainer, CrossEncoderTrainingArguments
from sentence_transformers.cross_encoder.losses import RankNetLoss

from seper_reward.command import corpus_flag
from seper_reward.judge.entailment import load_entailment
from seper_reward.options import ModelOptions
from seper_reward.retrieval import DenseRetriever, retrieve_hops
from seper_reward.retrieval.reranking import CrossEncoderReranker
from seper_reward.runtime.parser import parse_options
from seper_reward.runtime.pretrained import EMBEDDED, expecting_new_head, no_accelerator, save_here
from seper_reward.types import LabeledQuery, Passage, Query

from .models import load_encoder
from .options import RerankerConfig, RerankerDefaults
from .ranking.evaluation import Rankings, rank_by
from .ranking.labelling import propose
from .ranking.run import (
    begin,
    claim_ranking_run,
    label_pool,
    labeler_for,
    publish,
    teacher_rows,
)
from .runs import ThisMachine, stopwatch, suggest, tracked_run, train_from_checkpoint

_USE = """\
from sentence_transformers import CrossEncoder

print(CrossEncoder("PATH").rank("QUESTION", ["PASSAGE", "ANOTHER PASSAGE"]))"""


@dataclass
class RerankerArguments(ThisMachine, RerankerDefaults, CrossEncoderTrainingArguments):
    """sentence-transformers' training arguments, with this recipe's defaults."""


def load_cross_encoder(name: str, pair_tokens: int | None = None) -> CrossEncoder:
    """Load a cross-encoder with one score per pair, cut to ``pair_tokens``; ``"embedded"`` has a new head."""
    device = "cpu" if no_accelerator() else None
    options: dict[str, object] = {"num_labels": 1, "device": device, "max_length": pair_tokens}
    if name != EMBEDDED:
        return CrossEncoder(name, **options)
    entailment = load_entailment(EMBEDDED, ModelOptions(dtype="float32"))
    # loading a saved copy replaces the head of three classes by a new head of one score
    with tempfile.TemporaryDirectory() as folder:
        save_here(entailment.model, entailment.tokenizer, folder)
        with expecting_new_head():
            return CrossEncoder(folder, **options, model_kwargs={"ignore_mismatched_sizes": True})


def train(
    model: CrossEncoder,
    labeled: Sequence[LabeledQuery],
    config: RerankerConfig,
    arguments: CrossEncoderTrainingArguments,
) -> list[dict[str, float]]:
    """Train the model in place, from the last checkpoint in ``output_dir`` if there is one; return the log."""
    rows, loss = Dataset.from_list(teacher_rows(labeled, config)), RankNetLoss(model, mini_batch_size=-1)
    trainer = CrossEncoderTrainer(model=model, args=arguments, train_dataset=rows, loss=loss)
    train_from_checkpoint(trainer, Path(arguments.output_dir))
    return [entry for entry in trainer.state.log_history if "loss" in entry]


class Reranked:
    """A retriever that ranks given candidates of each question instead of a corpus."""

    def __init__(self, model: CrossEncoder, candidates: Rankings) -> None:
        self._reranker, self._candidates = CrossEncoderReranker(model), candidates

    def retrieve(self, questions: Sequence[str], top_k: int) -> list[tuple[Passage, ...]]:
        """Return the candidates of all questions by the model's scores, best first."""
        pairs = zip(questions, self._candidates, strict=True)
        return [self._reranker.rerank(question, passages)[:top_k] for question, passages in pairs]


def rerank(model: CrossEncoder, rankings: Rankings, queries: Sequence[Query], hops: int = 1) -> Rankings:
    """Order each question's passages by the model's scores, hop by hop (``retrieve_hops``)."""
    longest = max(map(len, rankings), default=1)
    return retrieve_hops(Reranked(model, rankings), [query.question for query in queries], hops, longest)


def main(argv: Sequence[str] | None = None) -> int:
    """Label candidates, train the reranker, compare rankings before and after, and save; return 0."""
    kinds = (RerankerConfig, RerankerArguments)
    config, arguments = parse_options(kinds, argv, "seper-reward train reranker")
    run = begin(config, arguments)
    folder, questions, labeler = run.folder, run.questions, labeler_for(config, run.scorer)
    encoder = load_encoder(config.retriever)
    torch.manual_seed(arguments.seed)  # for the new head: the trainer sets its seed only later
    model = load_cross_encoder(config.model, config.pair_tokens)
    seconds: dict[str, float] = {}
    with tracked_run(config, arguments, "reranker") as tracked:
        claim_ranking_run(config, arguments, questions, labeler, encoder, model)
        retriever = DenseRetriever(encoder, questions.corpus, share=True, cache_dir=run.embeddings)
        pool = propose(config, questions.train, lambda: retriever)
        with stopwatch(seconds, "labelling"):
            labeled, statistics, column = label_pool(run, config, labeler, pool)
        tracked.log({f"labels/{key}": value for key, value in statistics.items()})
        with stopwatch(seconds, "training"):
            history = train(model, labeled, config, replace(arguments, output_dir=str(folder / "checkpoints")))
        before = rank_by(retriever, questions.test, max(config.top_k, config.eval_top_k), config.hops)
        publish(
            run, config, arguments, tracked, model, (before, rerank(model, before, questions.test, config.hops)),
            {"labels": statistics, "seconds": seconds, "log": history},
            name="reranker", labels=column, base=config.model, pipeline="text-ranking", use=_USE,
        )  # fmt: skip
    source = f"--input {config.input}{corpus_flag(config.corpus)}"
    suggest(f"seper-reward train retriever --labeler {folder / 'model'} {source}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
