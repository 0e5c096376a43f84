"""Where candidate passages come from, and what is done with them: retrievers, ensembles, compression, workflows."""

from seper_reward.retrieval.base import Retriever
from seper_reward.retrieval.bm25 import BM25Retriever
from seper_reward.retrieval.cached import CachedRetriever
from seper_reward.retrieval.compression import COMPRESSORS, Compressor, load_compressor
from seper_reward.retrieval.dense import DenseRetriever
from seper_reward.retrieval.ensemble import Candidates, Ensemble
from seper_reward.retrieval.fusion import FusedRetriever
from seper_reward.retrieval.hops import next_hop, next_query, retrieve_hops
from seper_reward.retrieval.loading import has_own_passages, load_encoder, load_index, load_retriever, save_index
from seper_reward.retrieval.pool import retrieve_sources
from seper_reward.retrieval.reranking import Reranker, load_reranker
from seper_reward.retrieval.service import SearchService
from seper_reward.retrieval.voting import VoteOptions, VoteWeights

__all__ = [
    "COMPRESSORS",
    "BM25Retriever",
    "CachedRetriever",
    "Candidates",
    "Compressor",
    "DenseRetriever",
    "Ensemble",
    "FusedRetriever",
    "Reranker",
    "Retriever",
    "SearchService",
    "VoteOptions",
    "VoteWeights",
    "has_own_passages",
    "load_compressor",
    "load_encoder",
    "load_index",
    "load_reranker",
    "load_retriever",
    "next_hop",
    "next_query",
    "retrieve_hops",
    "retrieve_sources",
    "save_index",
]
