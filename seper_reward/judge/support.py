"""Mutual support of a policy's text and the gold answer: strict, since a policy finds texts that fool a model."""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from seper_reward.judge.equality import plain
from seper_reward.judge.judge import Judge, PairModel, decide
from seper_reward.judge.values import values_in
from seper_reward.types import Answers, Pair


class Stated(NamedTuple):
    """A text that states an answer to a question, and the gold answer."""

    question: str
    text: str
    answers: Answers


def mutual_supports(judge: Judge, stated: Sequence[Stated]) -> list[float]:
    """Return how strongly each text and the gold answer entail each other, in [0, 1]; all share batches.

    A text is read as it is and without the question's words. Entailment is required in both directions, since an
    answer does not entail a text with further claims, and only probabilities above .75 count: max_a max(0, 4 ·
    min(E(text → a), E(a → text)) − 3). The better reading counts if the text holds the answer word for word, else the
    worse one: a repeated question scores high for any answer. A text that a rule equates with the answer has 1, any
    other copy of words of the question has 0, and so has a text that does not state each value of the answer.
    """
    claims = [[_claim(each, alias, judge.model) for alias in each.answers] for each in stated]
    judged = judge.probs([pair for own in claims for claim in own for both in claim.readings for pair in both])

    def pay(claim: _Claim) -> float:
        agreed = (min((judged[pair] for pair in both), default=1.0) for both in claim.readings)
        return max(0.0, 4 * claim.choose(agreed, default=0.0) - 3)

    return [max(map(pay, own)) for own in claims]


class _Claim(NamedTuple):
    """The readings of a text that may state an alias, each in both directions; none if a rule refuses it."""

    readings: list[tuple[Pair, ...]]
    choose: Callable[..., float]


def _claim(stated: Stated, alias: str, model: PairModel) -> _Claim:
    question, text, wanted = stated.question, plain(stated.text), plain(alias)
    if decide(Pair(question, text, alias), model) is True:
        return _Claim([()], max)  # a rule equates them, so no pair is left to judge
    vague = any(not any(one.entails(two) for one in values_in(text)) for two in values_in(wanted))
    said, asked = (re.sub(r"\W+", " ", f" {each.casefold()} ") for each in (text, question))
    echoed = _words(question) - _words(wanted)
    left = re.sub(r"\w+", lambda word: "" if word[0].casefold() in echoed else word[0], text)
    if vague or said in asked or not re.search(r"\w", left):
        return _Claim([], max)
    readings = [text, re.sub(r"\s+(?=[.,;:!?])", "", " ".join(left.split()))]
    holds = re.search(rf"(?<!\w){re.escape(wanted)}(?!\w)", text, re.IGNORECASE) is not None
    return _Claim(
        [(Pair(question, each, alias), Pair(question, alias, each)) for each in readings], max if holds else min
    )


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.casefold()))
