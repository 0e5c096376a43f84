"""Retrieval utility from beliefs (ΔSePer, arXiv:2503.01478, eq. 11): pure."""

import math
from collections.abc import Sequence

import torch

from seper_reward.estimators.draws import difference
from seper_reward.types import Belief, Estimate, Utility

#: Weight of the question's gain, in nats per token, in ``seper_gain``: a gain of 2 nats counts as much as a belief and
#: a likelihood that rise from 0 to 1. It was chosen on dev splits (docs/results.md).
QUESTION_WEIGHT = 0.5
# of evidence, chosen on dev splits (docs/results.md); the last one is for questions without answers
_ODDS_PER_BELIEF, _NATS_PER_GAIN, _NATS_PER_BARE_GAIN = 10.0, 1.5, 2.0
#: Support from which a response states an answer.
SUPPORTS = 0.5


def utility(belief: Belief, baseline: Belief, passage_id: str = "") -> Utility:
    """Return the change of the reader's belief by the passage: U = SePer(q, A | D) - SePer(q, A).

    The two beliefs come from independent samples (``difference``). A belief compared with itself gives exactly 0, with
    standard error 0.
    """
    unmoved = Estimate(0.0, 0.0, 0.0, 0.0)
    same = belief is baseline
    soft = unmoved if same else difference(belief.soft, baseline.soft)
    both = delta_belief(soft, stated_log_prob(belief), stated_log_prob(baseline))
    return Utility(
        soft=soft,
        hard=unmoved if same else difference(belief.hard, baseline.hard),
        delta_belief=both,
        seper_gain=with_question_gain(both, belief.question_log_prob, baseline.question_log_prob),
        belief=belief,
        baseline=baseline,
        passage_id=passage_id,
    )


def answer_evidence(beliefs: Sequence[float], question_gains: Sequence[float]) -> tuple[float, ...]:
    """Return the evidence of a question's contexts that they hold the answer, in [-1, 1].

    ``beliefs`` are changes of belief in [-1, 1], ``question_gains`` those of the question's log-probability per token.
    By the chain rule, a context that holds the answer makes question and answer likelier than other contexts do: by
    (1 + 10 · belief) · exp(1.5 · gain). The evidence is the belief times this likelihood, relative to the best
    context's; a belief below 0, times exp(1.5 · gain) relative to the greatest gain.

    >>> [round(one, 9) for one in answer_evidence([0.9, 0.1, -0.4], [1.0, 1.0, 1.0])]
    [0.9, 0.02, -0.4]
    """
    of_questions = [_NATS_PER_GAIN * gain for gain in question_gains]
    contexts = zip(beliefs, of_questions, strict=True)
    together = [question + math.log1p(_ODDS_PER_BELIEF * max(belief, 0.0)) for belief, question in contexts]
    best, likeliest = max(together, default=0.0), max(of_questions, default=0.0)
    contexts = zip(beliefs, together, strict=True)
    return tuple(belief * math.exp(one - (best if belief > 0 else likeliest)) for belief, one in contexts)


def question_evidence(question_gains: Sequence[float]) -> tuple[float, ...]:
    """Return the evidence of contexts without a gold answer: the softmax of 2 · gain, a posterior over them."""
    return tuple((torch.tensor(question_gains, dtype=torch.float64) * _NATS_PER_BARE_GAIN).softmax(0).tolist())


def stated_log_prob(belief: Belief) -> float | None:
    """Return the mean log-probability per token of the likeliest text that states an answer; ``None`` if unknown.

    It is an alias, or a drawn response that supports one: of a reader that says "15 April 1912", the gold answer 1912
    is unlikely as a text. End-of-sequence tokens and responses without an end are left out, as for aliases.
    """
    if belief.answer_log_prob is None:
        return None
    drawn = zip(
        belief.best_support, belief.counts, belief.sampled.finished, belief.sampled.token_log_probs, strict=False
    )
    stated = [
        log_probs[:-1] for support, count, finished, log_probs in drawn if support >= SUPPORTS and count and finished
    ]
    return max([belief.answer_log_prob, *(float(log_probs.double().mean()) for log_probs in stated if len(log_probs))])


def delta_belief(soft: Estimate, answer_log_prob: float | None, baseline_log_prob: float | None) -> Estimate | None:
    """Return the mean of ΔSePer and the relative change of the gold answer's likelihood, (p - q) / (p + q).

    p and q are the geometric means of the answer's token probabilities, with and without the passage; they are given
    as mean log-probabilities (``stated_log_prob``), <= 0, and ``None`` if unknown, as is then the result. ΔSePer
    counts every response that means the answer, whatever its words. The likelihood still moves if none of a few
    samples is right, or if the reference is a whole clause. It is computed exactly, so only ΔSePer contributes an
    error. The result is in [-1, 1].

    >>> import math
    >>> delta_belief(Estimate(0.5, 0.1, 0.3, 0.7), math.log(0.6), math.log(0.2)).value
    0.5
    """
    if answer_log_prob is None or baseline_log_prob is None:
        return None
    change = math.tanh((answer_log_prob - baseline_log_prob) / 2)
    return Estimate(
        (soft.value + change) / 2,
        std_error=soft.std_error / 2,
        low=(soft.low + change) / 2,
        high=(soft.high + change) / 2,
    )


def with_question_gain(
    answer: Estimate | None, question_log_prob: float | None, baseline_log_prob: float | None
) -> Estimate | None:
    """Return ``delta_belief`` plus ``QUESTION_WEIGHT`` times the change of the question's log-probability per token.

    By the chain rule, a passage can make the answer likely given the question, which ``delta_belief`` measures, and
    the question itself, which likelihoods of questions measure (UPR, arXiv:2204.07496). A reader also believes an
    answer of the right kind from a passage about another entity; the question is then not likelier. The arguments are
    ``None`` if unknown, as is then the result. Log-probabilities are exact, so they contribute no error.

    >>> with_question_gain(Estimate(0.5, 0.1, 0.3, 0.7), -1.0, -3.0)
    Estimate(value=1.5, std_error=0.1, low=1.3, high=1.7)
    """
    if answer is None or question_log_prob is None or baseline_log_prob is None:
        return None
    change = QUESTION_WEIGHT * (question_log_prob - baseline_log_prob)
    return Estimate(answer.value + change, answer.std_error, answer.low + change, answer.high + change)
