"""What the parts of a RAG system are worth to the reader: depth, reranking, compression (SePer, Figures 4 and 5)."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tqdm.auto import tqdm

from seper_reward.baselines.compression import Compressor, load_compressor
from seper_reward.data.answers import exact_match, expected_metric
from seper_reward.estimators.utility import utility
from seper_reward.evaluate.measuring import Context, measured
from seper_reward.evaluate.statistics import lead_over_questions, mean, mean_over_questions
from seper_reward.retrieval import Reranker, Retriever
from seper_reward.runtime.messages import tell_left_out
from seper_reward.scorer import SePerScorer
from seper_reward.types import Belief, Passage, Query, UnscorableError, Utility

NONE = "none"


class Variant(NamedTuple):
    """One way to make the reader's context: the ``k`` best passages by a reranker, then compressed."""

    reranker: str
    compression: str
    k: int

    @property
    def without(self) -> "Variant":
        """The same without the last part that was added: the compression or, where there is none, the reranker."""
        return self._replace(compression=NONE) if self.compression != NONE else self._replace(reranker=NONE)


def components(
    scorers: Mapping[str, SePerScorer],
    queries: Sequence[Query],
    retriever: Retriever,
    rerankers: Mapping[str, Reranker],
    compressions: Sequence[str],
    *,
    depths: Sequence[int],
    candidates: int = 20,
    keep: float = 0.5,
    margin: float = 0.05,
) -> dict[str, Any]:
    """Measure ΔSePer of what the reader is shown (SePer, arXiv:2503.01478, Figures 4 and 5).

    Args:
        scorers: Scorers by the name of their reader.
        queries: Questions with gold answers.
        retriever: Where the candidates come from.
        rerankers: Rerankers of the candidates, by name; the retriever's own order is measured always.
        compressions: Names of compressors (``load_compressor``); no compression is measured always.
        depths: Numbers of passages that the reader sees, each >= 1.
        candidates: How many passages are retrieved and reranked, at least as many as the greatest depth.
        keep: Share of the passages that compression keeps, in (0, 1].
        margin: Distance below 0 that the whole 95 % interval of ΔSePer must have to count as harm.

    Returns:
        By reader: ``questions``, and how many are ``left_out`` because they cannot be measured; ``baseline_seper``,
        the mean without a passage; and ``variants``, one row for each ``reranker``, ``compression`` and ``k``, with
        ``delta_seper``, ``exact_match`` (expected over the samples) and ``harm_rate``, each with ``mean`` and a 95 %
        bootstrap ``interval`` over questions; the ``lead`` in ΔSePer over the same without the compression
        or, where there is none, without the reranker (``lead_over_questions``; ``None`` without both); and the mean
        numbers of ``passages`` that are left and of the reader's ``tokens`` in them.

    Raises:
        ValueError: A depth is below 1 or above ``candidates``, there is no such compressor, or a reader can measure no
            question.
    """
    if not depths or min(depths) < 1 or max(depths) > candidates:
        raise ValueError(f"depths must be in [1, candidates], at least one, got {list(depths)} of {candidates}")
    compressors = {
        name: {each: load_compressor(each, scorer.reader, keep) for each in compressions if each != NONE}
        for name, scorer in scorers.items()
    }
    found = retriever.retrieve([query.question for query in queries], candidates)
    orders: dict[str, list[Context]] = {NONE: found}
    for name, reranker in rerankers.items():
        bar = tqdm(zip(queries, found, strict=True), total=len(queries), desc=f"reranking by {name}", unit="question")
        orders[name] = [reranker.rerank(query.question, passages) for query, passages in bar]
    variants = [
        Variant(*each)
        for each in itertools.product(orders, dict.fromkeys([NONE, *compressions]), dict.fromkeys(depths))
    ]
    return {
        "questions": len(queries),
        "readers": {
            name: _of_reader(name, scorer, queries, orders, variants, compressors[name], margin)
            for name, scorer in scorers.items()
        },
    }


def _of_reader(
    name: str,
    scorer: SePerScorer,
    queries: Sequence[Query],
    orders: Mapping[str, Sequence[Context]],
    variants: Sequence[Variant],
    compressors: Mapping[str, Compressor],
    margin: float,
) -> dict[str, Any]:
    shown: list[dict[Variant, Context]] = []
    kept: list[Query] = []
    for number, query in enumerate(tqdm(queries, desc=f"compressing for {name}", unit="question")):
        lists = {reranker: order[number] for reranker, order in orders.items()}
        try:
            shown.append({variant: _context(query, lists, variant, compressors) for variant in variants})
        except UnscorableError as error:
            tell_left_out(query.id, error)
        else:
            kept.append(query)
    contexts = [[(), *row.values()] for row in shown]
    beliefs = measured(scorer, kept, contexts, title=f"measuring {name}")
    rows = [_Row(query, own, row) for query, own, row in zip(kept, shown, beliefs, strict=True) if row is not None]
    if not rows:
        raise ValueError(f"expected questions that reader {name!r} can measure, got none of {len(queries)}")
    return {
        "questions": len(rows),
        "left_out": len(queries) - len(rows),
        "baseline_seper": mean([row.beliefs[()].seper for row in rows]),
        "variants": [_described(variant, rows, scorer, margin) for variant in variants],
    }


class _Row(NamedTuple):
    """A question, what the reader is shown by each variant, and its beliefs by context."""

    query: Query
    shown: Mapping[Variant, Context]
    beliefs: Mapping[Context, Belief]

    def moved(self, variant: Variant) -> Utility:
        return utility(self.beliefs[self.shown[variant]], self.beliefs[()])


def _context(
    query: Query, lists: Mapping[str, Context], variant: Variant, compressors: Mapping[str, Compressor]
) -> Context:
    passages = lists[variant.reranker][: variant.k]
    if variant.compression == NONE:
        return passages
    return compressors[variant.compression].compress(query.question, passages)


def _described(variant: Variant, rows: Sequence[_Row], scorer: SePerScorer, margin: float) -> dict[str, Any]:
    moved = [row.moved(variant) for row in rows]
    deltas = [each.delta_seper for each in moved]
    without = [row.moved(variant.without).delta_seper for row in rows]
    matches = [
        expected_metric(each.belief, row.query.answers, exact_match) for row, each in zip(rows, moved, strict=True)
    ]
    return {
        **variant._asdict(),
        "delta_seper": mean_over_questions(deltas),
        "lead": None if variant == variant.without else lead_over_questions(deltas, without),
        "exact_match": mean_over_questions(matches),
        "harm_rate": mean_over_questions([each.soft.high < -margin for each in moved]),
        "passages": mean([len(row.shown[variant]) for row in rows]),
        "tokens": mean([_tokens(scorer, row.shown[variant]) for row in rows]),
    }


def _tokens(scorer: SePerScorer, passages: Sequence[Passage]) -> int:
    texts = [passage.full_text for passage in passages]
    return sum(map(len, scorer.sampler.tokenizer(texts, add_special_tokens=False).input_ids)) if texts else 0
