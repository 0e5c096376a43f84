"""Retrieval in hops, for questions that need several passages: read the best one, then search again with its text."""

from collections.abc import Sequence
from dataclasses import replace

from seper_reward.retrieval.base import Retriever
from seper_reward.types import Passage, Query

_SEPARATOR = " [SEP] "  # BERT's separator of two texts
_WORDS_READ = 120  # about half of the 256 tokens that the embedded encoder reads


def next_query(question: str, read: Sequence[Passage]) -> str:
    """Return the query for the next passage: the question, then the passages read (MDR, arXiv:2009.12756).

    The question comes first because encoders cut long texts at the end. The read passages share 120 words: the encoder
    sees a part of each.

    >>> next_query("Who runs the mill?", [Passage("The mill is Ida Voss's.", title="Hallow")])
    "Who runs the mill? [SEP] Hallow: The mill is Ida Voss's."
    """
    texts = (" ".join(passage.full_text.split()[: _WORDS_READ // len(read)]) for passage in read)
    return _SEPARATOR.join([question, *texts])


def next_hop(query: Query, read: Sequence[Passage]) -> Query:
    """Return a query with the ``next_query`` as its question, and the ids of the read passages appended to its own id.

    >>> next_hop(Query("q1", "Who runs the mill?", ("Ida",)), [Passage("Fog.", id="p1"), Passage("Rain.", id="p2")]).id
    'q1|p1+p2'
    """
    if not read:
        return query
    ids = "+".join(passage.id for passage in read)
    return replace(query, id=f"{query.id}|{ids}", question=next_query(query.question, read))


def retrieve_hops(retriever: Retriever, questions: Sequence[str], hops: int, top_k: int) -> list[tuple[Passage, ...]]:
    """Retrieve several times, each time with the ``next_query`` of the question and the best passages found so far.

    Each of the ``hops`` >= 1 searches reads the best passage that was not read before. Returns at most ``top_k``
    passages: those read, in order, then all others by their best rank in a hop.
    """
    if hops < 1:
        raise ValueError(f"hops must be at least 1, got {hops}")
    read: list[list[Passage]] = [[] for _ in questions]
    best_ranks: list[dict[Passage, int]] = [{} for _ in questions]
    for hop in range(hops):
        queries = [next_query(*pair) for pair in zip(questions, read, strict=True)]
        # passages that were read can be found again
        for known, ranks, passages in zip(read, best_ranks, retriever.retrieve(queries, top_k + hop), strict=True):
            unread = [passage for passage in passages if passage not in known]
            for rank, passage in enumerate(unread):
                ranks[passage] = min(rank, ranks.get(passage, rank))
            known += unread[:1]
    return [
        (*known, *sorted((passage for passage in ranks if passage not in known), key=ranks.__getitem__))[:top_k]
        for known, ranks in zip(read, best_ranks, strict=True)
    ]
