"""ΔSePer and other measures of how much a passage helps a reader."""

import math
import re
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from seper_reward.data.answers import bleu, exact_match, expected_metric, holds_answer, rouge_l
from seper_reward.estimators.utility import utility
from seper_reward.evaluate.similarity import Encoder, bert_score
from seper_reward.judge.judge import Judge
from seper_reward.retrieval.bm25 import WORD
from seper_reward.scorer import SePerScorer
from seper_reward.types import Answers, Asked, Belief, Pair, UnscorableError, attempt, unwrap

_RIGHT = 0.5  # least probability of a response that is right


def question_words(question: str, text: str) -> float:
    """Return the share of a question's distinct words that a text contains, in [0, 1], whatever their case.

    Words are those of BM25: each sign of Chinese and Japanese is one.

    >>> question_words("Who built the mill?", "Ida Voss built a mill.")
    0.5
    """
    words, text_words = (set(re.findall(WORD, string.casefold())) for string in (question, text))
    return len(words & text_words) / len(words) if words else 0.0


class Gains(NamedTuple):
    """A question's beliefs, one per context, and the change of each measure in all contexts except the first."""

    beliefs: Sequence[Belief]
    changes: list[dict[str, float]]


class Measures:
    """Measures a reader in several contexts of a question; ``judge`` is a language model, for ``llm_judge``.

    Higher is better for all measures, so perplexities and entropies are negated:

    - ``delta_seper_soft``, ``delta_seper_hard``, ``delta_belief``: the belief in the answer;
    - ``exact_match``, ``bleu``, ``rouge_l``, ``bert_score``: similarity of the responses and the answer;
    - ``contains``, ``question_words``: string matches of the passages with the answer and with the question;
    - ``question_gain``: likelihood of the question;
    - ``llm_judge``: share of responses that are right by a language model;
    - ``answer_log_prob``: mean log-probability of a token of the answer, of its likeliest alias;
      ``answer_perplexity``: -exp(-``answer_log_prob``);
    - ``response_perplexity``: the same for the responses (geometric mean), ``predictive_entropy`` (meaningful only at
      sampling temperature 1) and ``semantic_entropy``; these three do not use the answer.
    """

    def __init__(self, scorer: SePerScorer, judge: Judge | None = None) -> None:
        self._scorer, self._judge = scorer, judge
        self._overlap = {"exact_match": exact_match, "bleu": bleu(), "rouge_l": rouge_l()}
        self._encoder = Encoder(scorer.entailment.device)

    def gains(self, requests: Sequence[Asked]) -> list[Gains | UnscorableError]:
        """Return per question its beliefs, and each measure's change from the first context, ``()``, to each other."""
        measured = self._scorer.measure(requests, len(requests))
        return [
            result if isinstance(result, UnscorableError) else attempt(partial(self._gains, request, result.beliefs))
            for request, result in zip(requests, measured, strict=True)
        ]

    def _gains(self, request: Asked, beliefs: Sequence[Belief]) -> Gains:
        without, *with_passages = self._values(request, beliefs)
        baseline, *others = beliefs
        changes = []
        for passages, belief, values in zip(request.contexts[1:], others, with_passages, strict=True):
            moved, text = utility(belief, baseline), " ".join(passage.full_text for passage in passages)
            changes.append(
                {
                    "delta_belief": math.nan if moved.delta_belief is None else moved.delta_belief.value,
                    "contains": float(holds_answer(text, request.answers)),
                    "question_words": question_words(request.question, text),
                    "question_gain": math.nan if moved.question_gain is None else moved.question_gain,
                    **{name: values[name] - without[name] for name in values},
                }
            )
        return Gains(beliefs, changes)

    def _values(self, request: Asked, beliefs: Sequence[Belief]) -> list[dict[str, float]]:
        answers = request.answers
        likelihoods = [belief.answer_log_prob for belief in beliefs if belief.answer_log_prob is not None]
        if len(likelihoods) < len(beliefs):
            (read,) = map(unwrap, self._scorer.reader.answer_log_probs([request], [request.answers]))
            likelihoods = list(map(max, read))
        responses = sorted({text for belief in beliefs for text in belief.responses})
        metrics = {**self._overlap, "bert_score": bert_score(self._encoder, responses, answers)}
        if self._judge is not None:
            right = right_by_judge(self._judge, request.question, request.answers, responses, _RIGHT)
            metrics["llm_judge"] = lambda text, _: float(right[text])
        return [
            {
                "delta_seper_soft": belief.seper,
                "delta_seper_hard": belief.seper_hard,
                **{name: expected_metric(belief, answers, metric) for name, metric in metrics.items()},
                "answer_log_prob": log_prob,
                "answer_perplexity": -math.exp(-log_prob),
                "response_perplexity": -response_perplexity(belief),
                "predictive_entropy": -belief.entropy,
                "semantic_entropy": -belief.semantic_entropy,
            }
            for belief, log_prob in zip(beliefs, likelihoods, strict=True)
        ]


def right_by_judge(
    judge: Judge, question: str, answers: Answers, texts: Sequence[str], least: float
) -> dict[str, bool]:
    """Return whether each text entails an answer with at least the ``least`` probability."""
    pairs = {text: [Pair(question, text, alias) for alias in answers] for text in texts}
    judged = judge.probs([pair for text_pairs in pairs.values() for pair in text_pairs])
    return {text: max(judged[pair] for pair in text_pairs) >= least for text, text_pairs in pairs.items()}


def response_perplexity(belief: Belief) -> float:
    """Return the perplexity per token of the sampled responses, their weighted geometric mean, >= 1."""
    drawn = [
        (weight, -float(log_probs.double().mean()) if log_probs.numel() else 0.0)
        for weight, count, log_probs in zip(belief.weights, belief.counts, belief.sampled.token_log_probs, strict=True)
        if count
    ]
    return math.exp(sum(weight * surprise for weight, surprise in drawn) / sum(weight for weight, _ in drawn))
