"""Where candidate passages come from: retrievers over a corpus held in memory."""

from seper_reward.retrieval.base import BM25Retriever, DenseRetriever, Retriever

__all__ = ["BM25Retriever", "DenseRetriever", "Retriever"]
