"""Candidate passages for labelling, from the questions or from the retriever in training."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sentence_transformers import SentenceTransformer

from seper_reward.retrieval import DenseRetriever, Retriever, retrieve_hops
from seper_reward.runtime.distributed import gather_in_order, shard
from seper_reward.types import Passage, Query

from .data import Questions, RankingConfig


def propose(model: SentenceTransformer, config: RankingConfig, questions: Questions, keep: bool = True) -> list[Query]:
    """Return the training questions with the passages to label; all processes must call this together.

    ``keep`` is as for ``retriever_of``.
    """
    retriever = None if config.candidates == "given" else retriever_of(model, config, questions.corpus, keep)
    return candidates(questions.train, retriever, config.top_k, config.candidates != "retrieved", config.hops)


def retriever_of(
    model: SentenceTransformer, config: RankingConfig, corpus: Mapping[str, Passage], keep: bool = False
) -> DenseRetriever:
    """Return a retriever over a corpus; processes share the embedding, and must call this together.

    With ``keep``, embeddings are stored in ``embeddings_dir``, because the same weights are used again.
    """
    return DenseRetriever(model, corpus, share=True, cache_dir=config.embeddings_folder if keep else None)


def candidates(
    queries: Sequence[Query], retriever: Retriever | None, top_k: int, given: bool, hops: int = 1
) -> list[Query]:
    """Return the queries with the passages to label; all processes must call this together.

    These are the queries' own passages if ``given``, which come first, and those that ``retrieve_hops`` finds.
    """
    mine = shard(queries)
    retrieved: Sequence[tuple[Passage, ...]] = [()] * len(mine)
    if retriever is not None:
        retrieved = retrieve_hops(retriever, [query.question for query in mine], hops, top_k)
    return gather_in_order([_with(query, passages, given) for query, passages in zip(mine, retrieved, strict=True)])


def _with(query: Query, retrieved: Sequence[Passage], given: bool) -> Query:
    own = {passage.id: passage for passage in query.passages}
    # only a query's own passages have this query's metadata, such as marks
    chosen = {passage.id: own.get(passage.id, passage) for passage in retrieved}
    return replace(query, passages=tuple((own | chosen if given else chosen).values()))
