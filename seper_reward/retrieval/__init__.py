"""Retrievers of candidate passages: from a corpus, a ready index or a search service. Uses no reader and no judge."""

from typing import TYPE_CHECKING, Any

from seper_reward.runtime.imports import lazy_name

if TYPE_CHECKING:
    from seper_reward.retrieval.base import Retriever
    from seper_reward.retrieval.bm25 import BM25Retriever
    from seper_reward.retrieval.cached import CachedRetriever
    from seper_reward.retrieval.dense import DenseRetriever
    from seper_reward.retrieval.fusion import FusedRetriever
    from seper_reward.retrieval.hops import next_hop, next_query, retrieve_hops
    from seper_reward.retrieval.loading import has_own_passages, load_encoder, load_index, load_retriever, save_index
    from seper_reward.retrieval.reranking import Reranker, load_reranker
    from seper_reward.retrieval.service import SearchService

__all__ = [
    "BM25Retriever",
    "CachedRetriever",
    "DenseRetriever",
    "FusedRetriever",
    "Reranker",
    "Retriever",
    "SearchService",
    "has_own_passages",
    "load_encoder",
    "load_index",
    "load_reranker",
    "load_retriever",
    "next_hop",
    "next_query",
    "retrieve_hops",
    "save_index",
]

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


def __getattr__(name: str) -> Any:
    """Import a public name on first use, since BM25 and search services do not need torch."""
    return lazy_name(__name__, name, _HOMES)
