"""Candidates of a vote: a reader's answers with several retrievers' passages, and how alike they are.

In EoR (arXiv:2405.20680) the answers vote. Ours: in place of one answer with each retriever's passages, all sampled
responses vote, each by its probability and for all responses that mean the same.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from seper_reward.baselines.voting import (
    SIMILARITIES,
    Similarity,
    VoteOptions,
    VoteWeights,
    heaviest_answer,
    winners,
)
from seper_reward.data.answers import abstains, normalize_answer, share_held
from seper_reward.estimators.belief import weigh
from seper_reward.estimators.judge import BeliefJudge
from seper_reward.evaluate.bertscore import bertscore_f1
from seper_reward.reader.sampler import GREEDY
from seper_reward.retrieval.loading import load_encoder
from seper_reward.scorer import SePerScorer
from seper_reward.types import Asked, Passage, Responses, unwrap


@dataclass(frozen=True)
class Candidates:
    """What may be answered to a question, with the passages of R retrievers.

    Attributes:
        texts: The reader's likeliest answer with each retriever's passages.
        silent: ``(R,)`` bool, whether it says nothing: blank, "unknown" or the like.
        similarity: ``(K, R, R)`` how alike they are (``AnswerSimilarity.compare``).
        sampled: The L distinct responses that were sampled with any of them and say something.
        masses: ``(L, R)`` their probabilities with each retriever's passages, as the estimator weighs responses; a
            column sums to 1 less what said nothing.
        cluster_ids: The semantic cluster of each, over all retrievers together.
    """

    texts: tuple[str, ...]
    silent: Any
    similarity: Any
    sampled: tuple[str, ...]
    masses: Any
    cluster_ids: tuple[int, ...]

    def vote(self, weights: VoteWeights, options: VoteOptions) -> str:
        """Return the answer that wins the vote of EoR."""
        (place,) = winners(self.similarity[None], self.silent[None], weights, options).tolist()
        text: str = self.texts[place]
        return text

    def belief_vote(self, strength: Sequence[float] | None = None) -> str:
        """Return the answer that the beliefs elect (``heaviest_answer``).

        Args:
            strength: What the beliefs with each retriever's passages count; ``None``: all the same. Where all that
                count say nothing, so does the answer.
        """
        counts = np.ones(len(self.texts)) if strength is None else np.asarray(strength, dtype=float)
        if not (self.masses @ counts).any():
            return self.texts[int(counts.argmax())]
        return self.sampled[heaviest_answer(self.masses, self.cluster_ids, counts)]


class Ensemble:
    """Asks a reader with the passages of several retrievers.

    Args:
        scorer: Scorer whose reader answers and whose judge compares answers.
        encoder: A ``SentenceTransformer`` over BERT, for BERTScore; ``None`` loads the embedded one.
    """

    def __init__(self, scorer: SePerScorer, encoder: Any = None) -> None:
        self._scorer, self._reader = scorer, scorer.reader
        self._greedy = scorer.with_sampling(**GREEDY).reader
        self._similarity = AnswerSimilarity(scorer.judge, encoder or load_encoder("minilm"))

    def expect(self, question: str, shown: Sequence[Sequence[Passage]]) -> None:
        """Begin to sample what ``candidates`` will be called with, if the sampler can."""
        asked = [_asked(question, shown)]
        self._greedy.expect(asked)
        self._reader.expect(asked)

    def candidates(self, question: str, shown: Sequence[Sequence[Passage]]) -> Candidates:
        """Return what may be answered to a question.

        Args:
            question: The question.
            shown: The passages of each of R retrievers; empty ones for a reader that retrieves nothing.

        Raises:
            UnscorableError: The question is longer than the reader's window.
        """
        asked = [_asked(question, shown)]
        texts = tuple(row.texts[0] for row in unwrap(self._greedy.responses(asked)[0]))
        sampled, masses = self._beliefs(unwrap(self._reader.responses(asked)[0]))
        return Candidates(
            texts,
            silent=np.array(list(map(_says_nothing, texts))),
            similarity=self._similarity.compare(question, texts),
            sampled=sampled,
            masses=masses,
            cluster_ids=tuple(self._scorer.judge.clusters(question, sampled)),
        )

    def _beliefs(self, responses: Sequence[Responses]) -> tuple[tuple[str, ...], Any]:
        """Return the distinct responses that say something, and their ``(L, R)`` masses."""
        columns: list[dict[str, float]] = []
        for row in responses:
            draws, column = weigh(self._scorer.estimator, row), dict[str, float]()
            for text, weight in zip(draws.responses.texts, draws.weights.tolist(), strict=True):
                column[text] = column.get(text, 0.0) + weight  # one text may be tokenized in two ways
            columns.append(column)
        sampled = tuple(dict.fromkeys(text for column in columns for text in column if not _says_nothing(text)))
        masses = [[column.get(text, 0.0) for column in columns] for text in sampled]
        return sampled, np.array(masses).reshape(len(sampled), len(columns))


def _asked(question: str, shown: Sequence[Sequence[Passage]]) -> Asked:
    return Asked(question, (), tuple(map(tuple, shown)))


def _says_nothing(text: str) -> bool:
    return not text.strip() or abstains(text)


class AnswerSimilarity:
    """Compares answers by their words, by an encoder's vectors of their tokens, and by entailment.

    Args:
        judge: Judge of the entailment model, and its cache.
        encoder: A ``SentenceTransformer`` over BERT, whose vectors of tokens are compared.
    """

    def __init__(self, judge: BeliefJudge, encoder: Any) -> None:
        self._judge, self._encoder = judge, encoder

    def compare(self, question: str, texts: Sequence[str]) -> Any:
        """Return ``(K, R, R)`` all K of ``SIMILARITIES`` of R answers, symmetric and in [0, 1].

        ``exact_match`` is 1 for answers that are equal once normalised, ``containment`` also where one holds the other
        as words; ``bertscore`` is ``bertscore_f1``; ``entailment`` is the mean of both directions, of the texts by
        themselves, and ``entailment_with_question`` of the texts as answers to the question. Equal texts are alike in
        all of them. A blank one is like none; the official code takes it for contained in all.
        """
        said = [" ".join(text.split()) for text in texts]
        distinct = sorted({text for text in said if text})
        pairs = list(itertools.combinations(distinct, 2))
        vectors = dict(zip(distinct, self._token_vectors(distinct), strict=True))
        found: dict[Similarity, list[float]] = {
            "exact_match": [float(normalize_answer(one) == normalize_answer(other)) for one, other in pairs],
            "containment": [max(share_held(one, (other,)), share_held(other, (one,))) for one, other in pairs],
            "bertscore": [bertscore_f1(vectors[one], vectors[other]) for one, other in pairs],
            "entailment": self._mutual("", pairs),
            "entailment_with_question": self._mutual(question, pairs),
        }
        number = {text: at for at, text in enumerate([*distinct, ""])}
        table = np.zeros((len(SIMILARITIES), len(number), len(number)))
        table[:, range(len(distinct)), range(len(distinct))] = 1.0
        for at, (one, other) in enumerate(pairs):
            values = [found[name][at] for name in SIMILARITIES]
            table[:, number[one], number[other]] = table[:, number[other], number[one]] = values
        places = [number[text] for text in said]
        return table[:, places][:, :, places]

    def _mutual(self, question: str, pairs: Sequence[tuple[str, str]]) -> list[float]:
        probs = self._judge.entailment(question, {*pairs, *((other, one) for one, other in pairs)})
        return [(probs[one, other] + probs[other, one]) / 2 for one, other in pairs]

    def _token_vectors(self, texts: Sequence[str]) -> list[Tensor]:
        vectors = self._encoder.encode(list(texts), output_value="token_embeddings", show_progress_bar=False)
        return [row[1:-1].float().cpu() for row in vectors]  # without the tokens that begin and end each text
