"""Candidates for labelling, from the retriever that is being trained."""

from collections.abc import Sequence
from dataclasses import replace

from sentence_transformers import SentenceTransformer

from seper_reward.retrieval import DenseRetriever, Retriever
from seper_reward.runtime.distributed import gather_in_order, shard
from seper_reward.types import Passage, Query
from trainers.ranking.data import Questions, RankingConfig


def propose(model: SentenceTransformer, config: RankingConfig, questions: Questions) -> list[Query]:
    """Return the training questions with the passages to judge; all processes come here together."""
    retriever = None
    if config.candidates != "given":
        retriever = DenseRetriever(model, questions.corpus, share=True)
    return candidates(questions.train, retriever, config.top_k, config.candidates != "retrieved")


def candidates(queries: Sequence[Query], retriever: Retriever | None, top_k: int, given: bool) -> list[Query]:
    """Return the queries with the passages to judge.

    Args:
        queries: with their own passages.
        retriever: whose best passages are candidates; ``None`` for none.
        top_k: how many of them.
        given: the queries' own passages are candidates, too, and come first.
    """
    mine = shard(queries)
    found: Sequence[tuple[Passage, ...]] = [()] * len(mine)
    if retriever is not None:
        found = retriever.retrieve([query.question for query in mine], top_k)
    return gather_in_order([_with(query, passages, given) for query, passages in zip(mine, found, strict=True)])


def _with(query: Query, retrieved: Sequence[Passage], given: bool) -> Query:
    own = {passage.id: passage for passage in query.passages}
    # a query's own passages carry what is known of them for this query
    chosen = {passage.id: own.get(passage.id, passage) for passage in retrieved}
    return replace(query, passages=tuple((own | chosen if given else chosen).values()))
