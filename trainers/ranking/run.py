"""Parts shared by runs of retriever and reranker: arguments, rows to learn, comparison, and output files."""

import os
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import torch
from sentence_transformers.base.training_args import BaseTrainingArguments

from seper_reward.data.marks import NO_MARKS
from seper_reward.labels.heterogeneity import beyond_chance
from seper_reward.labels.integrity import LABELS
from seper_reward.labels.labelers import PassageLabeler, load_labeler, parse_labeler
from seper_reward.labels.rows import DELTA_SEPER
from seper_reward.labels.targets import lists_to_learn
from seper_reward.options import POSITIVE, FormatOptions
from seper_reward.reports.tracking import Run
from seper_reward.retrieval import next_hop
from seper_reward.runtime.distributed import process_state
from seper_reward.runtime.hashing import content_key, weights_hash
from seper_reward.runtime.json_files import write_json
from seper_reward.runtime.messages import plural
from seper_reward.runtime.pretrained import EMBEDDED, ENCODER_HUB_ID
from seper_reward.scorer import SePerScorer
from seper_reward.statistics import mean_or_none
from seper_reward.types import LabeledQuery, Query

from ..cards import write_card
from ..options import RankingConfig, RetrieverConfig
from ..runs import claim_run, trainer_cache
from .data import Questions, data_key, read_questions
from .evaluation import RankingReaders, Rankings, leads, load_readers, measure_rankings
from .labelling import label
from .tables import label_statistics, measures_table, plot_ranking

RESULTS = "results.json"
RESOLUTION = 0.1  # labels are rounded to multiples of it: smaller differences are noise
# settings that may change when a run is resumed; options of reading the input are covered by the hash of the data
_INCIDENTAL = {
    "eval_readers", "eval_top_k", "cache", "device",
    "engine",  # the labeler's fingerprint has the served model
    *FormatOptions.__dataclass_fields__,
}  # fmt: skip


class RankingRun(NamedTuple):
    """A run's folder, its folder of corpus embeddings, questions, labelling scorer, and readers that measure."""

    folder: Path
    embeddings: Path
    questions: Questions
    scorer: SePerScorer
    readers: RankingReaders


def begin(config: RankingConfig, arguments: BaseTrainingArguments) -> RankingRun:
    """Read the questions; load the labelling scorer, with a cache (default: in the run's folder), and all readers."""
    folder = Path(arguments.output_dir)
    fsdp = os.environ.get("ACCELERATE_USE_FSDP", "false") == "true"
    if fsdp or os.environ.get("ACCELERATE_DEEPSPEED_ZERO_STAGE") == "3":
        raise ValueError(
            f"{'FSDP' if fsdp else 'ZeRO-3'} shards the weights, but a ranking model must be whole in each process to "
            "rank and be saved; launch with configs/accelerate/eight_gpus.yaml (DDP) or zero2.yaml instead"
        )
    parse_labeler(config.labeler)  # raises before models are loaded
    questions = read_questions(config)
    scorer = SePerScorer.from_pretrained(config, seed=arguments.seed, cache=config.cache or trainer_cache(folder))
    return RankingRun(folder, folder / "embeddings", questions, scorer, load_readers(config, scorer))


def labeler_for(config: RankingConfig, scorer: SePerScorer) -> PassageLabeler:
    """Return the configured labeler, of sets of passages if ``sets`` is set."""
    return load_labeler(config.labeler, lambda: scorer, config.set_options, config.label)


def label_pool(
    run: RankingRun, config: RankingConfig, labeler: PassageLabeler, pool: Sequence[Query]
) -> tuple[list[LabeledQuery], dict[str, float], str]:
    """Label the candidates into the run's folder; return the labels, their statistics for logs, and their field."""
    chosen = config.label if config.labeler == DELTA_SEPER else None
    labeled, column = label(labeler, pool, chosen, run.folder / LABELS)
    return labeled, label_statistics(labeled, POSITIVE), column


def shortened(labeled: LabeledQuery, most: int) -> LabeledQuery:
    """Return the query with at most ``most`` (>= 2) passages: the best, the worst, and evenly spaced ranks between."""
    order = sorted(range(len(labeled.labels)), key=lambda at: -labeled.labels[at])
    if len(order) <= most:
        return labeled
    return labeled.keep([order[round(step * (len(order) - 1) / (most - 1))] for step in range(most)])


def teacher_rows(queries: Sequence[LabeledQuery], config: RankingConfig) -> list[dict[str, Any]]:
    """Return ``{query, passages, labels}`` rows for the losses, per hop: filtered, shrunk and rounded."""
    queries = lists_to_learn(queries, config.learn_from, next_hop)
    # before lists are shortened: the best and the worst of many passages differ more by chance than a random pair
    differing = beyond_chance(queries, heterogeneity=config.heterogeneity, shrink=config.shrink)
    if config.list_size is not None:
        differing = [shortened(labeled, config.list_size) for labeled in differing]
    rows = []
    for labeled in differing:
        targets = (torch.tensor(labeled.labels) / RESOLUTION).round() * RESOLUTION
        several = len(targets.unique()) > 1  # type: ignore[no-untyped-call]
        if several and max(labeled.labels) - min(labeled.labels) > config.min_spread:
            passages = [passage.full_text for passage in labeled.query.passages]
            rows.append({"query": labeled.query.question, "passages": passages, "labels": targets.tolist()})
    if not rows:
        raise ValueError(
            f"expected questions whose labels differ by more than chance (heterogeneity={config.heterogeneity}) and "
            f"by more than min_spread={config.min_spread}, got none of {len(queries)}; raise heterogeneity, lower "
            "min_spread, or check the labels"
        )
    if process_state().is_main_process:
        lists = "questions by hop" if config.learn_from == "paths" else "questions"
        print(f"{len(rows)} of {len(queries)} {lists} have labels to learn from", file=sys.stderr)
    return rows


def label_temperature(rows: Sequence[Mapping[str, Any]], config: RetrieverConfig) -> float:
    """Return the number that divides the labels of ``teacher_rows`` in the loss."""
    return config.teacher_temperature * statistics.fmean(statistics.pstdev(question["labels"]) for question in rows)


def claim_ranking_run(
    config: RankingConfig,
    arguments: BaseTrainingArguments,
    questions: Questions,
    labeler: PassageLabeler,
    *models: torch.nn.Module,
) -> None:
    """Call ``claim_run``; the models are those for training and retrieval, before training."""
    weights = [weights_hash(model) for model in models]
    data, labels = data_key(questions), content_key(labeler.fingerprint)
    claim_run(config, arguments, _INCIDENTAL, data=data, labels=labels, weights=weights)


def publish(
    run: RankingRun,
    config: RankingConfig,
    arguments: BaseTrainingArguments,
    tracked: Run,
    model: Any,
    rankings: tuple[Rankings, Rankings],
    more: Mapping[str, object],
    *,
    name: str,
    labels: str,
    base: str,
    **card: str,
) -> None:
    """Measure rankings before and after training; save model, card with ``labels``, plot, results, ``more``."""
    folder, (train, dev, test) = run.folder, map(len, run.questions[1:])
    sides = dict(zip(("before", "after"), rankings, strict=True))
    by_question = measure_rankings(sides, run.questions.test, run.readers)
    if not process_state().is_main_process:
        return
    model.save_pretrained(str(folder / "model"), create_model_card=False)
    measures = {
        side: {key: mean_or_none(values) for key, values in columns.items()} for side, columns in by_question.items()
    }
    lead = leads(by_question["after"], by_question["before"])
    compared = {**measures, "lead": {key: asdict(value) for key, value in lead.items()}}
    write_json(folder / RESULTS, {**compared, "test_questions": test, **more})
    counts = f"{plural(train, 'question')} for training, {dev} for evaluation during training, {test} for testing."
    explained = (
        f"`seper`, `exact_match`: a reader's answers with the top {config.eval_top_k} passages; the suffix names "
        "readers that were not used for labelling. `lead`: after less before, with its 95 % interval over questions."
    )
    if config.hops > 1:
        explained += " After the first hop, the query is `QUESTION [SEP] PASSAGE` (`retrieval.next_query`)."
    table = measures_table({**measures, "lead": lead})
    write_card(
        [folder / "model"], f"{name.capitalize()} trained on {labels} labels", name, config, arguments,
        base=ENCODER_HUB_ID if base == EMBEDDED else base, library="sentence-transformers",
        results=f"{counts}\n\n{table}\n\n{explained}", **card,
    )  # fmt: skip
    plot_ranking(measures, folder / "results.svg")
    tracked.log({f"test/{side}/{key}": value for side, values in measures.items() for key, value in values.items()})
    tracked.artifact(name, "model", [folder / "model"])
    tracked.artifact(f"{name}-labels", "dataset", [folder / LABELS, folder / RESULTS])
    print(f"{table}\n")
    if measures["after"]["ndcg@10"] is None:
        print(f"{NO_MARKS}\n")
    print(f"model: {folder / 'model'}")
