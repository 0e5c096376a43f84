"""Candidates of a vote (EoR, arXiv:2405.20680): a reader's answers with several retrievers, and their similarities."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from seper_reward.baselines.voting import (
    SIMILARITIES,
    Similarity,
    VoteOptions,
    VoteWeights,
    vote_scores,
    winners,
)
from seper_reward.data.answers import (
    abstains,
    exact_match,
    holds_answer,
    normalize_answer,
)
from seper_reward.evaluate.similarity import bertscore_f1
from seper_reward.judge.judge import Judge
from seper_reward.reader.sampler import GREEDY
from seper_reward.retrieval.loading import load_encoder
from seper_reward.scorer import SePerScorer
from seper_reward.types import Asked, Pair, Passage, Query, unwrap

_RIGHT = 0.8  # least entailment of a right answer, like the paper's threshold of BEM


class Elected(NamedTuple):
    """An answer that won a vote."""

    text: str
    source: int  # position of the retriever of the answer
    scores: list[float]  # (R,) score of each retriever's answer, NaN if it could not win


@dataclass(frozen=True)
class Candidates:
    """Candidates for the answer to a question, with the passages of R retrievers."""

    texts: tuple[str, ...]  # the reader's likeliest answer with each retriever's passages
    silent: Any  # (R,) bool, whether each answer is blank or abstains ("unknown" or similar)
    similarity: Any  # (K, R, R) of `answer_similarities`

    def vote(self, weights: VoteWeights, options: VoteOptions) -> Elected:
        """Return the answer that wins the vote of EoR."""
        scores = vote_scores(self.similarity[None], self.silent[None], weights, options)
        (place,) = winners(scores, weights).tolist()
        return Elected(self.texts[place], place, [each if each >= 0 else math.nan for each in scores[0].tolist()])


class Ensemble:
    """Queries a reader with the passages of several retrievers.

    Args:
        scorer: Scorer whose reader answers, greedily, and whose judge compares answers.
        encoder: A ``SentenceTransformer`` over BERT, for BERTScore; ``None`` loads the embedded one.
    """

    def __init__(self, scorer: SePerScorer, encoder: Any = None) -> None:
        self._judge, self._reader = scorer.judge, scorer.with_sampling(**GREEDY).reader
        self._encoder = encoder or load_encoder("minilm")

    def expect(self, question: str, shown: Sequence[Sequence[Passage]]) -> None:
        """Start querying for a later call of ``candidates``, if the sampler can."""
        self._reader.expect([Asked(question, (), tuple(map(tuple, shown)))])

    def candidates(self, question: str, shown: Sequence[Sequence[Passage]]) -> Candidates:
        """Return the candidates for a question with the passages of each of R retrievers, which may be empty.

        Raises:
            UnscorableError: The question is longer than the reader's window.
        """
        asked = [Asked(question, (), tuple(map(tuple, shown)))]
        texts = tuple(row.texts[0] for row in unwrap(self._reader.responses(asked)[0]))
        silent = np.array(list(map(_is_silent, texts)))
        return Candidates(texts, silent, answer_similarities(self._judge, self._encoder, question, texts))


def _is_silent(text: str) -> bool:
    return not text.strip() or abstains(text)


def verdicts(query: Query, texts: Sequence[str], judge: Judge | None = None) -> dict[str, bool]:
    """Return whether each text is right.

    By a judge, a text is right if it entails the answer by .8 or more; ``None`` uses exact match.
    """
    if judge is None:
        return {text: exact_match(text, query.answers) == 1 for text in texts}
    pairs = {text: [Pair(query.question, text, alias) for alias in query.answers] for text in texts}
    judged = judge.probs([pair for own in pairs.values() for pair in own])
    return {text: not _is_silent(text) and max(judged[pair] for pair in own) >= _RIGHT for text, own in pairs.items()}


def answer_similarities(judge: Judge, encoder: Any, question: str, texts: Sequence[str]) -> Any:
    """Return ``(K, R, R)`` all K of ``SIMILARITIES`` of R answers, symmetric and in [0, 1].

    ``exact_match`` is 1 for answers that are equal after normalisation, ``containment`` also if one contains the other
    as words; ``bertscore`` is ``bertscore_f1``; ``entailment`` is the mean of both directions for the texts alone, and
    ``entailment_with_question`` for the texts as answers to the question. Equal texts have similarity 1 in all of
    these. A blank text has similarity 0 with all texts; in the official code it is contained in all of them.
    """

    def mutual(question: str) -> list[float]:
        both = [(Pair(question, one, other), Pair(question, other, one)) for one, other in pairs]
        judged = judge.probs([pair for each in both for pair in each])
        return [(judged[there] + judged[back]) / 2 for there, back in both]

    said = [" ".join(text.split()) for text in texts]
    distinct = sorted({text for text in said if text})
    pairs = list(itertools.combinations(distinct, 2))
    # without the tokens that begin and end each text
    rows = encoder.encode(distinct, output_value="token_embeddings", show_progress_bar=False)
    vectors = {text: row[1:-1].float().cpu() for text, row in zip(distinct, rows, strict=True)}
    found: dict[Similarity, list[float]] = {
        "exact_match": [float(normalize_answer(one) == normalize_answer(other)) for one, other in pairs],
        "containment": [float(holds_answer(one, (other,)) or holds_answer(other, (one,))) for one, other in pairs],
        "bertscore": [bertscore_f1(vectors[one], vectors[other]) for one, other in pairs],
        "entailment": mutual(""),
        "entailment_with_question": mutual(question),
    }
    number = {text: at for at, text in enumerate([*distinct, ""])}
    table = np.zeros((len(SIMILARITIES), len(number), len(number)))
    table[:, range(len(distinct)), range(len(distinct))] = 1.0
    for at, (one, other) in enumerate(pairs):
        values = [found[name][at] for name in SIMILARITIES]
        table[:, number[one], number[other]] = table[:, number[other], number[one]] = values
    places = [number[text] for text in said]
    return table[:, places][:, :, places]
