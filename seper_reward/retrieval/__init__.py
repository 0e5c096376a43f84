"""Retrievers of candidate passages: from a corpus, a ready index or a search service. Uses no reader and no judge."""

from typing import TYPE_CHECKING, Any

from seper_reward.runtime.imports import lazy_name

if TYPE_CHECKING:
    from seper_reward.retrieval.base import Retriever as Retriever
    from seper_reward.retrieval.bm25 import BM25Retriever as BM25Retriever
    from seper_reward.retrieval.cached import CachedRetriever as CachedRetriever
    from seper_reward.retrieval.dense import DenseRetriever as DenseRetriever
    from seper_reward.retrieval.fusion import FusedRetriever as FusedRetriever
    from seper_reward.retrieval.hops import next_hop as next_hop
    from seper_reward.retrieval.hops import next_query as next_query
    from seper_reward.retrieval.hops import retrieve_hops as retrieve_hops
    from seper_reward.retrieval.loading import has_own_passages as has_own_passages
    from seper_reward.retrieval.loading import load_encoder as load_encoder
    from seper_reward.retrieval.loading import load_index as load_index
    from seper_reward.retrieval.loading import load_retriever as load_retriever
    from seper_reward.retrieval.loading import save_index as save_index
    from seper_reward.retrieval.reranking import Reranker as Reranker
    from seper_reward.retrieval.reranking import load_reranker as load_reranker
    from seper_reward.retrieval.service import SearchService as SearchService

_HOMES = {
    "base": ("Retriever",),
    "bm25": ("BM25Retriever",),
    "cached": ("CachedRetriever",),
    "dense": ("DenseRetriever",),
    "fusion": ("FusedRetriever",),
    "hops": ("next_hop", "next_query", "retrieve_hops"),
    "loading": ("has_own_passages", "load_encoder", "load_index", "load_retriever", "save_index"),
    "reranking": ("Reranker", "load_reranker"),
    "service": ("SearchService",),
}
__all__ = [name for names in _HOMES.values() for name in names]


def __getattr__(name: str) -> Any:
    """Import a public name on first use, since BM25 and search services do not need torch."""
    return lazy_name(__name__, name, _HOMES)
