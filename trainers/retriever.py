"""Fine-tune a bi-encoder on labels of the passages that it retrieves, in one or more rounds.

seper-reward train retriever --config configs/retriever/demo.yaml
torchrun --nproc_per_node 2 -m seper_reward train retriever --config configs/retriever/demo.yaml
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from datasets import Dataset
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)

from seper_reward.command import corpus_flag
from seper_reward.retrieval import DenseRetriever
from seper_reward.runtime.distributed import process_state, together
from seper_reward.runtime.json_files import read_json, write_json
from seper_reward.runtime.parser import parse_options

from .models import load_encoder
from .options import RetrieverConfig, RetrieverDefaults
from .ranking.evaluation import RankingEvaluator, Rankings, rank_by
from .ranking.labelling import propose
from .ranking.losses import ListCollator, ListLoss, vectors_by_text
from .ranking.run import (
    RankingRun,
    begin,
    claim_ranking_run,
    label_pool,
    label_temperature,
    labeler_for,
    publish,
    teacher_rows,
)
from .runs import ThisMachine, stopwatch, suggest, tracked_run, train_from_checkpoint

_USE = """\
from sentence_transformers import SentenceTransformer

model = SentenceTransformer("PATH")
print(model.similarity(model.encode_query(["QUESTION"]), model.encode_document(["PASSAGE"])))"""


@dataclass
class RetrieverArguments(ThisMachine, RetrieverDefaults, SentenceTransformerTrainingArguments):
    """sentence-transformers' training arguments, with this recipe's defaults."""


def train_once(
    model: SentenceTransformer,
    rows: list[dict[str, Any]],
    config: RetrieverConfig,
    arguments: SentenceTransformerTrainingArguments,
    evaluator: RankingEvaluator | None = None,
) -> list[dict[str, float]]:
    """Train the model in place on ``teacher_rows``, from the last checkpoint if there is one; return the log."""
    model.to(arguments.device)
    before = vectors_by_text(model, rows) if config.loss == "kl_regularized" else None
    prompts = {"query": model.prompts.get("query", ""), "passages": model.prompts.get("document", "")}
    collator = ListCollator(preprocess_fn=model.preprocess, prompts=prompts, reference=before)
    # at least one batch per process: otherwise there would be no step
    most = max(1, len(rows) // process_state().num_processes)
    arguments = replace(arguments, per_device_train_batch_size=min(arguments.per_device_train_batch_size, most))
    trainer = SentenceTransformerTrainer(
        model=model,
        args=arguments if evaluator else replace(arguments, eval_strategy="no"),
        train_dataset=Dataset.from_list(rows),
        loss=ListLoss(model, label_temperature(rows, config), reference=config.loss == "kl_regularized"),
        evaluator=evaluator,
        data_collator=collator,
    )
    train_from_checkpoint(trainer, Path(arguments.output_dir))
    return [entry for entry in trainer.state.log_history if "loss" in entry or any("eval" in key for key in entry)]


def train_rounds(
    run: RankingRun,
    config: RetrieverConfig,
    arguments: RetrieverArguments,
    log: Callable[[Mapping[str, object]], None],
) -> SentenceTransformer:
    """Run the unfinished rounds; return the trained model. All processes must call this together."""
    model = load_encoder(config.model, config.max_seq_length)
    labeler = labeler_for(config, run.scorer)
    claim_ranking_run(config, arguments, run.questions, labeler, model)
    for number in range(1, config.rounds + 1):
        folder, seconds = run.folder / f"round-{number}", dict[str, float]()
        if not together((folder / "round.json").is_file):
            with stopwatch(seconds, "retrieval"):
                embeddings = run.embeddings if number == 1 else None  # those of later weights are used once
                retriever = partial(DenseRetriever, model, run.questions.corpus, share=True, cache_dir=embeddings)
                pool = propose(config, run.questions.train, retriever)
            with stopwatch(seconds, "labelling"):
                labeled, statistics, column = label_pool(run, config, labeler, pool)
            log({"round": number, **{f"labels/{key}": value for key, value in statistics.items()}})
            measured = run.questions.dev if arguments.eval_strategy != "no" else []
            evaluator = RankingEvaluator(model, run.questions.corpus, measured, config.hops) if measured else None
            with stopwatch(seconds, "training"):
                round_arguments = replace(arguments, output_dir=str(folder / "checkpoints"))
                history = train_once(model, teacher_rows(labeled, config), config, round_arguments, evaluator)
            log({"round": number, **{f"seconds/{key}": value for key, value in seconds.items()}})
            done = {"label": column, "labels": statistics, "seconds": seconds, "log": history}
            together(partial(_save_round, folder, model, done))
        model = load_encoder(str(folder / "model"))
    return model


def _save_round(folder: Path, model: SentenceTransformer, done: Mapping[str, object]) -> None:
    model.save_pretrained(str(folder / "model"), create_model_card=False)
    write_json(folder / "round.json", done)


def main(argv: Sequence[str] | None = None) -> int:
    """Train the retriever, compare rankings before and after, and save; return 0."""
    kinds = (RetrieverConfig, RetrieverArguments)
    config, arguments = parse_options(kinds, argv, "seper-reward train retriever")
    run = begin(config, arguments)

    def ranked(encoder: SentenceTransformer, embeddings: Path | None) -> Rankings:
        retriever = DenseRetriever(encoder, run.questions.corpus, share=True, cache_dir=embeddings)
        return rank_by(retriever, run.questions.test, config.eval_top_k, config.hops)

    with tracked_run(config, arguments, "retriever") as tracked:
        model = train_rounds(run, config, arguments, tracked.log)
        before = ranked(load_encoder(config.model, config.max_seq_length), run.embeddings)
        rounds = [read_json(run.folder / f"round-{number + 1}" / "round.json") for number in range(config.rounds)]
        publish(
            run, config, arguments, tracked, model, (before, ranked(model, None)), {"rounds": rounds},
            name="retriever", labels=rounds[-1]["label"], base=config.model, pipeline="sentence-similarity", use=_USE,
        )  # fmt: skip
        if run.scorer.cache is not None:
            tracked.log({"cache/hits": run.scorer.cache.hits, "cache/misses": run.scorer.cache.misses})
    source = f"--input {config.input}{corpus_flag(config.corpus)}"
    suggest(f"seper-reward train reranker --retriever {run.folder / 'model'} {source}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
