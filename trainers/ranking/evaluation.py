"""Measures of several rankings: by relevance, by ΔSePer gains, and by the beliefs of readers."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sentence_transformers import SentenceTransformer
from sentence_transformers.base.evaluation import BaseEvaluator

from seper_reward.evaluate.rankings import MEASURES, downstream, gold_relevance, rank_metrics
from seper_reward.options import ReaderOptions, pick
from seper_reward.reader.in_process.response_sampler import ResponseSampler
from seper_reward.reader.loading import reader_defaults
from seper_reward.retrieval import DenseRetriever, Retriever, retrieve_hops
from seper_reward.scorer import SePerScorer
from seper_reward.types import Passage, Query

from .data import RankingConfig

DEPTH = 10  # passages per question in a ranking
_TIE = 0.05  # greatest change of SePer that counts as none

Rankings = Sequence[tuple[Passage, ...]]


@dataclass(frozen=True)
class RankingReaders:
    """The readers for measuring rankings with ``top_k`` passages; only the first was also used for labelling."""

    scorers: Mapping[str, SePerScorer]
    top_k: int = 1

    def suffix(self, reader: str) -> str:
        """Return the suffix of a reader's measures: ``@k``, and the reader's name if it was not used for labelling."""
        return f"@{self.top_k}" + (f"_{Path(reader).name}" if reader != next(iter(self.scorers)) else "")


def load_readers(config: RankingConfig, scorer: SePerScorer) -> RankingReaders:
    """Load the readers that were not used for labelling, with their own default prompt and sampling options.

    All readers share the entailment model and the cache of the labelling reader.
    """
    sampling = scorer.sampler.options
    scorers = {config.reader: scorer}
    for name in config.eval_readers:
        defaults = reader_defaults(name)
        sampler = ResponseSampler.from_pretrained(
            name,
            # settings of the labelling reader alone are reset
            pick(ReaderOptions, config, chat_template=None),
            seed=sampling.seed,
            num_samples=sampling.num_samples,
            temperature=defaults.temperature,
            max_new_tokens=defaults.max_new_tokens,
        )
        scorers[name] = SePerScorer(
            sampler,
            scorer.entailment,
            prompt=defaults.prompt,
            max_passage_tokens=config.max_passage_tokens,
            estimator=scorer.estimator,
            cache=scorer.cache,
        )
    return RankingReaders(scorers, config.eval_top_k)


def rank_by(retriever: Retriever, queries: Sequence[Query], least: int = 1, hops: int = 1) -> Rankings:
    """Return each question's best passages, ``max(DEPTH, least)`` of them.

    With several ``hops``, passages of earlier hops come first (``retrieve_hops``). Each process ranks all questions.
    """
    return retrieve_hops(retriever, [query.question for query in queries], hops, max(DEPTH, least))


def measure_rankings(
    rankings: Mapping[str, Rankings], queries: Sequence[Query], readers: RankingReaders
) -> dict[str, dict[str, Any]]:
    """Measure several rankings for the same questions, by name; all processes must call this together.

    Questions have gold answers, and marks of relevance in the metadata of their passages. The measures are those of
    ``rank_metrics`` (``ndcg@5``, ...), ``seper@k`` and ``exact_match@k`` for k passages (with the suffix ``_READER``
    for readers not used for labelling), and ``questions``: the rows of ``downstream`` by reader.
    """
    gold = [gold_relevance(query) for query in queries]
    measures: dict[str, dict[str, Any]] = {name: dict(rank_metrics(rows, gold)) for name, rows in rankings.items()}
    for reader, scorer in readers.scorers.items():
        suffix = readers.suffix(reader)
        for name, rows in rankings.items():
            answered = downstream(scorer, queries, rows, readers.top_k)
            measures[name] |= {
                f"{key}{suffix}": _mean(row[key] for row in answered) for key in ("seper", "exact_match")
            }
            measures[name].setdefault("questions", {})[reader] = answered
    return measures


def changes(before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Compare SePer before and after by question, from rows of ``downstream`` in the same order.

    Questions that are not scored on both sides are left out; a change of at most 0.05 is a tie. ``most_changed`` are
    the 20 questions with the greatest change, with the passages in the reader's prompt.
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
    differences = [row["after"] - row["before"] for row in rows]
    return {
        "wins": sum(difference > _TIE for difference in differences),
        "losses": sum(difference < -_TIE for difference in differences),
        "ties": sum(abs(difference) <= _TIE for difference in differences),
        "most_changed": sorted(rows, key=lambda row: -abs(row["after"] - row["before"]))[:20],
    }


class RankingEvaluator(BaseEvaluator):
    """Measures a bi-encoder's ranking of the corpus by human marks, for sentence-transformers' trainer.

    It needs the whole bi-encoder. If the trainer has only its trained part, the main process embeds everything, and
    other processes wait.
    """

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
        rows = rank_by(DenseRetriever(self._model, self._corpus), self._queries, hops=self._hops)
        measures = rank_metrics(rows, [gold_relevance(query) for query in self._queries])
        return {name: value for name, value in measures.items() if value is not None}


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(statistics.fmean(known), 4) if known else None
