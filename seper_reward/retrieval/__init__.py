"""Where candidate passages come from: retrievers over a corpus held in memory."""

from seper_reward.retrieval.base import Retriever
from seper_reward.retrieval.bm25 import BM25Retriever
from seper_reward.retrieval.dense import DenseRetriever
from seper_reward.retrieval.hops import next_hop, next_query, retrieve_hops
from seper_reward.retrieval.loading import load_retriever, retrieve_sources

__all__ = [
    "BM25Retriever",
    "DenseRetriever",
    "Retriever",
    "load_retriever",
    "next_hop",
    "next_query",
    "retrieve_hops",
    "retrieve_sources",
]
