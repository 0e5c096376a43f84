"""Measures of several rankings: by relevance, by ΔSePer gains, and by the beliefs of readers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sentence_transformers import SentenceTransformer
from sentence_transformers.base.evaluation import BaseEvaluator

from seper_reward.data.answers import exact_match, expected_metric
from seper_reward.evaluate.measuring import measured
from seper_reward.evaluate.rankings import gold_relevance, rank_values
from seper_reward.options import ScorerOptions
from seper_reward.reader.in_process.response_sampler import ResponseSampler
from seper_reward.reader.prompts import prompt_style
from seper_reward.retrieval import DenseRetriever, Retriever, retrieve_hops
from seper_reward.scorer import SePerScorer
from seper_reward.statistics import Statistic, mean_or_none, mean_over_questions
from seper_reward.types import Passage, Query

from ..options import RankingConfig

DEPTH = 10  # passages per question in a ranking
# by the names in ir-measures
_NAMES = {
    "ndcg@5": "nDCG@5", "ndcg@10": "nDCG@10", "mrr": "RR", "recall@1": "R@1", "recall@2": "R@2", "recall@5": "R@5",
}  # fmt: skip
MEASURES = tuple(_NAMES)

Rankings = Sequence[tuple[Passage, ...]]


@dataclass(frozen=True)
class RankingReaders:
    """The readers for measuring rankings with ``top_k`` passages; the first is the one that labels by ΔSePer use."""

    scorers: Mapping[str, SePerScorer]
    top_k: int = 1

    def suffix(self, reader: str) -> str:
        """Return the suffix of a reader's measures: ``@k``, and the reader's name if it was not used for labelling."""
        return f"@{self.top_k}" + (f"_{Path(reader).name}" if reader != next(iter(self.scorers)) else "")


def load_readers(config: RankingConfig, scorer: SePerScorer) -> RankingReaders:
    """Load the other readers, with their own defaults, and the judge and the cache of the labelling reader."""
    sampling = scorer.sampler.options
    # settings of the labelling reader alone are reset
    common = {**config.loading, "seed": sampling.seed, "num_samples": sampling.num_samples}
    common["max_batch_tokens"] = config.max_batch_tokens
    shared: dict[str, Any] = {
        "max_passage_tokens": config.max_passage_tokens,
        "estimator": scorer.estimator,
        "cache": scorer.cache,
    }
    scorers = {config.reader: scorer}
    for name in config.eval_readers:
        options = ScorerOptions(reader=name, **common)
        sampler = ResponseSampler.from_pretrained(options)
        scorers[name] = SePerScorer(sampler, scorer.entailment, prompt=prompt_style(options), **shared)
    return RankingReaders(scorers, config.eval_top_k)


def rank_by(retriever: Retriever, queries: Sequence[Query], least: int = 1, hops: int = 1) -> Rankings:
    """Return each question's best passages by ``retrieve_hops``, ``max(DEPTH, least)`` of them."""
    return retrieve_hops(retriever, [query.question for query in queries], hops, max(DEPTH, least))


def rank_metrics(
    retrieved: Sequence[Sequence[Passage]], relevance: Sequence[Mapping[str, int]]
) -> dict[str, float | None]:
    """Return means of ``MEASURES`` over the questions with a relevant passage; ``None`` each without such a question.

    nDCG (Järvelin and Kekäläinen, 2002) has linear gains. Arguments are those of ``rank_values``.
    """
    return {name: mean_or_none(values) for name, values in _rank_columns(retrieved, relevance).items()}


def _rank_columns(
    retrieved: Sequence[Sequence[Passage]], relevance: Sequence[Mapping[str, int]]
) -> dict[str, list[float | None]]:
    by_question = [values or {} for values in rank_values(retrieved, relevance, _NAMES)]
    return {name: [values.get(name) for values in by_question] for name in MEASURES}


def downstream(
    scorer: SePerScorer, queries: Sequence[Query], retrieved: Sequence[Sequence[Passage]], top_k: int = 1
) -> dict[str, list[float | None]]:
    """Measure a reader that sees each question's ``top_k`` best passages together; processes share the questions.

    Returns SePer and the expected exact match of each question, ``None`` if it has no gold answer or is too long.
    """
    tops = [tuple(passages[:top_k]) for passages in retrieved]
    contexts = [[top] if query.answers else [] for query, top in zip(queries, tops, strict=True)]
    measures: dict[str, list[float | None]] = {"seper": [], "exact_match": []}
    for query, top, beliefs in zip(queries, tops, measured(scorer, queries, contexts, title="reading"), strict=True):
        belief = beliefs[top] if beliefs else None
        measures["seper"].append(round(belief.seper, 6) if belief else None)
        matches = round(expected_metric(belief, query.answers, exact_match), 6) if belief else None
        measures["exact_match"].append(matches)
    return measures


def measure_rankings(
    rankings: Mapping[str, Rankings], queries: Sequence[Query], readers: RankingReaders
) -> dict[str, dict[str, list[float | None]]]:
    """Return by ranking and measure the number of each question, ``None`` if it has none.

    The measures are those of ``rank_metrics`` and, with the suffix of each reader, of ``downstream``.
    """
    relevance = [gold_relevance(query) for query in queries]
    measures = {}
    for name, ranking in rankings.items():
        measures[name] = _rank_columns(ranking, relevance)
        for reader, scorer in readers.scorers.items():
            answered = downstream(scorer, queries, ranking, readers.top_k)
            measures[name] |= {f"{key}{readers.suffix(reader)}": values for key, values in answered.items()}
    return measures


def leads(
    measures: Mapping[str, Sequence[float | None]], other: Mapping[str, Sequence[float | None]]
) -> dict[str, Statistic]:
    """Return how far each measure of a ranking is ahead of that of another, over questions that both have."""
    pairs = {name: zip(values, other[name], strict=True) for name, values in measures.items()}
    return {
        name: mean_over_questions([one - two for one, two in both if one is not None and two is not None])
        for name, both in pairs.items()
    }


class RankingEvaluator(BaseEvaluator):
    """Measures the ranking of a corpus by a bi-encoder in training, by human labels."""

    def __init__(
        self, model: SentenceTransformer, corpus: Mapping[str, Passage], queries: Sequence[Query], hops: int = 1
    ) -> None:
        super().__init__()
        self._model, self._corpus, self._queries, self._hops = model, corpus, queries, hops
        self.primary_metric = MEASURES[0]

    def __call__(
        self, model: SentenceTransformer, output_path: str | None = None, epoch: float = -1, steps: int = -1
    ) -> dict[str, float]:
        """Return the measures of ``rank_metrics`` that are defined for these questions."""
        ranked = rank_by(DenseRetriever(self._model, self._corpus), self._queries, hops=self._hops)
        measures = rank_metrics(ranked, [gold_relevance(query) for query in self._queries])
        return {name: value for name, value in measures.items() if value is not None}
