"""Mutual support of a policy's text and the gold answer: strict, since a policy finds texts that fool a model."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from seper_reward.judge.equality import plain
from seper_reward.judge.judge import Judge, PairModel, decide
from seper_reward.types import Answers, Pair


class Stated(NamedTuple):
    """A text that states an answer to a question, and the gold answer."""

    question: str
    text: str
    answers: Answers


def mutual_supports(judge: Judge, stated: Sequence[Stated]) -> list[float]:
    """Return how strongly each text and the gold answer entail each other, in [0, 1]; all share batches.

    Entailment is required in both directions, since an answer does not entail a text with further claims, and only
    probabilities above 15/16 count: max_a max(0, 16 · min(E(text → a), E(a → text)) − 15). A text that a rule equates
    with the answer has 1, and any other copy of words of the question has 0. Nothing is deleted from the text, so a
    reward above .5 implies a support above .5 in labels.
    """
    claims = [[_directions(text, alias, judge.model) for alias in text.answers] for text in stated]
    judged = judge.probs([pair for aliases in claims for pairs in aliases for pair in pairs or ()])

    def pay(pairs: tuple[Pair, ...] | None) -> float:
        return 0.0 if pairs is None else max(0.0, 16 * min((judged[pair] for pair in pairs), default=1.0) - 15)

    return [max(map(pay, aliases)) for aliases in claims]


def _directions(stated: Stated, alias: str, model: PairModel) -> tuple[Pair, ...] | None:
    """Return the pairs of a text and an alias that a model judges; none if they are equal, ``None`` if refused."""
    question, text = stated.question, plain(stated.text)
    if decide(Pair(question, text, alias), model) is True:
        return ()
    bare_text, bare_question = (re.sub(r"\W+", " ", f" {words.casefold()} ") for words in (text, question))
    if bare_text in bare_question or _words(text) <= _words(question) - _words(plain(alias)):
        return None
    return Pair(question, text, alias), Pair(question, alias, text)


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.casefold()))
