"""Where candidate passages come from, and what is done with them: retrievers, rerankers, compression, workflows."""

from seper_reward.retrieval.base import Retriever
from seper_reward.retrieval.bm25 import BM25Retriever
from seper_reward.retrieval.compression import COMPRESSORS, Compressor, load_compressor
from seper_reward.retrieval.dense import DenseRetriever
from seper_reward.retrieval.fusion import FusedRetriever
from seper_reward.retrieval.hops import next_hop, next_query, retrieve_hops
from seper_reward.retrieval.loading import load_index, load_retriever, retrieve_sources, save_index
from seper_reward.retrieval.reranking import Reranker, load_reranker
from seper_reward.retrieval.service import SearchService

__all__ = [
    "COMPRESSORS",
    "BM25Retriever",
    "Compressor",
    "DenseRetriever",
    "FusedRetriever",
    "Reranker",
    "Retriever",
    "SearchService",
    "load_compressor",
    "load_index",
    "load_reranker",
    "load_retriever",
    "next_hop",
    "next_query",
    "retrieve_hops",
    "retrieve_sources",
    "save_index",
]
