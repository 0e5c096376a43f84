"""BM25 retrieval with bm25s."""

from collections.abc import Mapping, Sequence

from seper_reward.retrieval.base import checked_top_k
from seper_reward.types import Passage


class BM25Retriever:
    """BM25 over a corpus held in memory, with English stop words and stemming.

    Args:
        corpus: Passages by id.
    """

    def __init__(self, corpus: Mapping[str, Passage]) -> None:
        import bm25s
        import Stemmer

        self._passages = list(corpus.values())
        self._stemmer = Stemmer.Stemmer("english")
        self._index = bm25s.BM25()
        self._index.index(self._tokens([passage.full_text for passage in self._passages]), show_progress=False)

    def retrieve(self, questions: Sequence[str], top_k: int) -> list[tuple[Passage, ...]]:
        """Return the ``top_k`` best passages for each question, best first.

        Raises:
            ValueError: ``top_k`` is below 1.
        """
        top_k = checked_top_k(top_k, len(self._passages))
        rows, _ = self._index.retrieve(self._tokens(questions), k=top_k, show_progress=False)
        return [tuple(self._passages[int(index)] for index in row) for row in rows]

    def _tokens(self, texts: Sequence[str]) -> object:
        import bm25s

        return bm25s.tokenize(
            list(texts),
            stopwords="en",
            stemmer=self._stemmer,
            token_pattern=r"(?u)\b\w+\b",  # bm25s's default drops single digits, which tell "mill 3" from "mill 5"
            show_progress=False,
        )
