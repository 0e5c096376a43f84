"""Where candidate passages come from: retrievers over a corpus, a ready index, or a search service."""

from seper_reward.retrieval.base import Retriever
from seper_reward.retrieval.bm25 import BM25Retriever
from seper_reward.retrieval.dense import DenseRetriever
from seper_reward.retrieval.hops import next_hop, next_query, retrieve_hops
from seper_reward.retrieval.loading import load_index, load_retriever, retrieve_sources, save_index
from seper_reward.retrieval.service import SearchService

__all__ = [
    "BM25Retriever",
    "DenseRetriever",
    "Retriever",
    "SearchService",
    "load_index",
    "load_retriever",
    "next_hop",
    "next_query",
    "retrieve_hops",
    "retrieve_sources",
    "save_index",
]
