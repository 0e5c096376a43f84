"""Is a ranking better than the one before? By relevance, by ΔSePer gains, and by what readers make of it."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sentence_transformers import SentenceTransformer
from sentence_transformers.base.evaluation import BaseEvaluator

from seper_reward.config import reader_options
from seper_reward.evaluation.rankings import MEASURES, downstream, gold_relevance, graded_relevance, rank_metrics
from seper_reward.labels.labelers import DeltaSePerLabeler
from seper_reward.reader.in_process.response_sampler import ResponseSampler
from seper_reward.reader.loading import reader_defaults
from seper_reward.retrieval import DenseRetriever
from seper_reward.runtime.hashing import content_key
from seper_reward.scorer import SePerScorer
from seper_reward.types import Passage, Query
from trainers.ranking.data import RankingConfig
from trainers.ranking.label_store import LabelStore

DEPTH = 10  # passages per question that are ranked
_GRADED = 5  # of them, by ΔSePer gains

Rankings = Sequence[tuple[Passage, ...]]


@dataclass(frozen=True)
class RankingReaders:
    """The readers that rankings are measured with, and the labels for graded gains.

    Attributes:
        scorers: Scorers by name of the reader; the first also made the labels, the others did not and so do not
            measure what they taught.
        gains: Labels of the passages that rankings hold, for nDCG with ΔSePer gains; ``None`` leaves that out.
        top_k: How many passages a reader sees at once.
    """

    scorers: Mapping[str, SePerScorer]
    gains: LabelStore | None
    top_k: int = 1


def load_readers(config: RankingConfig, scorer: SePerScorer, folder: Path, data: str) -> RankingReaders:
    """Load the readers beside the labelling one, each asked in its own default way; all share entailment and cache.

    Args:
        config: Names the readers.
        scorer: Scorer of the labelling reader.
        folder: Where the labels for gains are kept.
        data: Hash of the questions and passages.
    """
    sampling = scorer.sampler.options
    scorers = {config.reader: scorer}
    for name in config.eval_readers:
        defaults = reader_defaults(name)
        sampler = ResponseSampler.from_pretrained(
            name,
            replace(reader_options(config), revision=None, backend="process", refill=False, compile_reader=False),
            seed=sampling.seed,
            num_samples=sampling.num_samples,
            temperature=defaults.temperature,
            max_new_tokens=defaults.max_new_tokens,
        )
        scorers[name] = SePerScorer(
            sampler, scorer.entailment, prompt=defaults.prompt, estimator=scorer.estimator, cache=scorer.cache
        )
    gains = None
    if config.eval_gains:
        path = folder / f"evaluation_labels-{content_key(scorer.fingerprint, data)[:8]}.jsonl"
        gains = LabelStore(path, DeltaSePerLabeler(scorer))
    return RankingReaders(scorers, gains, config.eval_top_k)


def rank(
    encoder: SentenceTransformer, corpus: Mapping[str, Passage], queries: Sequence[Query], least: int = 1
) -> Rankings:
    """Return each question's best passages of the corpus, ``DEPTH`` or ``least``; every process does all of it."""
    return DenseRetriever(encoder, corpus).retrieve([query.question for query in queries], max(DEPTH, least))


def measure_rankings(
    rankings: Mapping[str, Rankings], queries: Sequence[Query], readers: RankingReaders
) -> dict[str, dict[str, Any]]:
    """Measure several rankings of the same passages side by side; all processes come here together.

    Args:
        rankings: By name, one ranking per question.
        queries: With gold answers; marks of relevance are in their passages' metadata.
        readers: What to measure with.

    Returns:
        Per name: the measures of ``rank_metrics`` with marks (``ndcg@5``, ...) and with ΔSePer gains
        (``ndcg@5_gain``, ..., of the top 5), ``seper@k`` and ``exact_match@k`` (``..._READER`` for held-out readers),
        and ``questions``: rows of ``downstream`` by reader.
    """
    gold = [gold_relevance(query) for query in queries]
    found: dict[str, dict[str, Any]] = {name: dict(rank_metrics(rows, gold)) for name, rows in rankings.items()}
    if readers.gains is not None:
        gains = _gains(rankings, queries, readers.gains)
        for name, rows in rankings.items():
            measured = rank_metrics([row[:_GRADED] for row in rows], gains)
            found[name] |= {f"{key}_gain": value for key, value in measured.items() if key != "ndcg@10"}
    for number, (reader, scorer) in enumerate(readers.scorers.items()):
        suffix = f"@{readers.top_k}" + (f"_{Path(reader).name}" if number else "")
        for name, rows in rankings.items():
            read = downstream(scorer, queries, rows, readers.top_k)
            found[name] |= {f"{key}{suffix}": _mean(row[key] for row in read) for key in ("seper", "exact_match")}
            found[name].setdefault("questions", {})[reader] = read
    return found


def _gains(rankings: Mapping[str, Rankings], queries: Sequence[Query], store: LabelStore) -> list[dict[str, int]]:
    """Label the queries' own passages and the top of every ranking: one pool for all."""
    pooled = []
    for number, query in enumerate(queries):
        tops = [passage for rows in rankings.values() for passage in rows[number][:_GRADED]]
        own = {passage.id: passage for passage in query.passages}
        pooled.append(replace(query, passages=tuple({**{top.id: top for top in tops}, **own}.values())))
    labeled = {row.query.id: row for row in store.label(pooled)}
    return [graded_relevance(labeled[query.id]) if query.id in labeled else {} for query in queries]


def changes(
    before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]], least: float = 0.05
) -> dict[str, Any]:
    """Tell how SePer changed question by question; those that could not be scored on both sides are left out.

    Returns:
        How many rose (``wins``), fell (``losses``), or stayed within ``least`` (``ties``); and
        ``most_changed``: the 20 that changed most, with the passages the reader saw.
    """
    rows = [
        {
            "id": new["id"],
            "question": new["question"],
            "before": old["seper"],
            "after": new["seper"],
            "passages_before": old["passages"],
            "passages_after": new["passages"],
        }
        for old, new in zip(before, after, strict=True)
        if old["seper"] is not None and new["seper"] is not None
    ]
    moved = [row["after"] - row["before"] for row in rows]
    return {
        "wins": sum(change > least for change in moved),
        "losses": sum(change < -least for change in moved),
        "ties": sum(abs(change) <= least for change in moved),
        "most_changed": sorted(rows, key=lambda row: -abs(row["after"] - row["before"]))[:20],
    }


class RankingEvaluator(BaseEvaluator):
    """Measures a bi-encoder's ranking of the corpus by people's marks, for sentence-transformers' trainer.

    Args:
        corpus: passages by id.
        queries: held-out questions, whose own passages carry the marks.
    """

    def __init__(self, corpus: Mapping[str, Passage], queries: Sequence[Query]) -> None:
        super().__init__()
        self._corpus, self._queries = corpus, queries
        self.primary_metric = MEASURES[0]

    def __call__(
        self, model: SentenceTransformer, output_path: str | None = None, epoch: float = -1, steps: int = -1
    ) -> dict[str, float]:
        """Return the measures, without those that no question defines."""
        rows = rank(model, self._corpus, self._queries)
        found = rank_metrics(rows, [gold_relevance(query) for query in self._queries])
        return {name: value for name, value in found.items() if value is not None}


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(statistics.fmean(known), 4) if known else None
