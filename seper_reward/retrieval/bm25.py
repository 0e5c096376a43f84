"""BM25 retrieval with bm25s."""

from collections.abc import Mapping, Sequence
from typing import Any

from seper_reward.retrieval.base import checked_top_k
from seper_reward.runtime.imports import need
from seper_reward.types import Passage

# with single digits, as in "mill 3" and "mill 5"; Chinese and Japanese have no spaces between words
WORD = r"[\u3040-\u30ff\u3400-\u9fff]|[^\W\u3040-\u30ff\u3400-\u9fff]+"


class BM25Retriever:
    """BM25 over a corpus in memory, by id, with English stop words and stemming; it must have a word to search for."""

    def __init__(self, corpus: Mapping[str, Passage]) -> None:
        self._passages = list(corpus.values())
        self._index = need("bm25s", "bm25").BM25()
        tokens = self._tokens([passage.full_text for passage in self._passages])
        if not tokens.vocab:
            raise ValueError(f"corpus must have words to search for, got none in {len(self._passages)} passages")
        self._index.index(tokens, show_progress=False)

    def retrieve(self, questions: Sequence[str], top_k: int) -> list[tuple[Passage, ...]]:
        """Return the best passages of each question as ``Retriever.retrieve``; fewer if fewer share a word with it."""
        top_k = checked_top_k(top_k, len(self._passages))
        if not questions:
            return []
        results = self._index.retrieve(self._tokens(questions), k=top_k, show_progress=False)
        return [
            tuple(self._passages[int(index)] for index, score in zip(places, scores, strict=True) if score > 0)
            for places, scores in zip(results.documents, results.scores, strict=True)
        ]

    def scores(self, question: str) -> list[float]:
        """Return the BM25 score of each passage of the corpus, >= 0, in its order."""
        tokens = self._tokens([question])
        names = {number: word for word, number in tokens.vocab.items()}
        (numbers,) = tokens.ids
        if not numbers:
            return [0.0] * len(self._passages)
        scores: list[float] = self._index.get_scores([names[number] for number in numbers]).tolist()
        return scores

    def _tokens(self, texts: Sequence[str]) -> Any:
        return need("bm25s", "bm25").tokenize(
            list(texts),
            stopwords="en",
            # created per call: a stemmer cannot be pickled, but other processes need a copy of the retriever
            stemmer=need("Stemmer", "bm25").Stemmer("english"),
            token_pattern=WORD,
            show_progress=False,
        )
