"""Mutual support of a policy's text and the gold answer: strict, since a policy finds texts that fool a model."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from seper_reward.judge.equality import plain
from seper_reward.judge.judge import Judge, Judged, PairModel, decide
from seper_reward.judge.values import values_in
from seper_reward.types import Answers, Pair


class Stated(NamedTuple):
    """A text that states an answer to a question, and the gold answer."""

    question: str
    text: str
    answers: Answers


def mutual_supports(judge: Judge, stated: Sequence[Stated]) -> list[float]:
    """Return how strongly each text and the gold answer entail each other; all share batches.

    A text is read as it is and without the question's words. Entailment is required in both directions, since an
    answer does not entail a text with further claims, and only probabilities above .75 count: max_a max(0, 4 ·
    min(E(text → a), E(a → text)) − 3). The better reading counts if the text holds the answer word for word, else the
    worse one: a repeated question scores high for any answer. A text that a rule equates with the answer has 1, any
    other copy of words of the question has 0, and so has a text that does not state each value of the answer.

    Returns:
        Per text a number in [0, 1]; 0 for a blank text.
    """
    claims = [[_Claim.of(each, alias, judge.model) for alias in each.answers] for each in stated]
    judged = judge.probs([pair for own in claims for claim in own for pair in claim.pairs])
    return [max(max(0.0, 4 * claim.agreement(judged) - 3) for claim in own) for own in claims]


class _Claim(NamedTuple):
    """The readings of a text that may state an alias."""

    question: str
    readings: tuple[str, ...]
    alias: str
    holds: bool  # whether the text holds the alias word for word
    refused: bool  # whether the text lacks a value of the alias, or is a part of the question
    equated: bool  # whether a rule equates the text with the alias; a model may also give 1

    @classmethod
    def of(cls, stated: Stated, alias: str, model: PairModel) -> "_Claim":
        text, wanted = plain(stated.text), plain(alias)
        echoed = _words(stated.question) - _words(wanted)
        left = re.sub(r"\w+", lambda word: "" if word[0].casefold() in echoed else word[0], text)
        readings = (text, re.sub(r"\s+(?=[.,;:!?])", "", " ".join(left.split())))
        holds = re.search(rf"(?<!\w){re.escape(wanted)}(?!\w)", text, re.IGNORECASE) is not None
        equated = decide(Pair(stated.question, text, alias), model) is True
        vague = any(not any(one.entails(two) for one in values_in(text)) for two in values_in(wanted))
        said, asked = (re.sub(r"\W+", " ", f" {each.casefold()} ") for each in (text, stated.question))
        return cls(stated.question, readings, alias, holds, vague or said in asked, equated)

    @property
    def pairs(self) -> list[Pair]:
        both = [(reading, self.alias) for reading in self.readings]
        return [Pair(self.question, *pair) for one, two in both for pair in ((one, two), (two, one))]

    def agreement(self, judged: Judged) -> float:
        if self.equated:  # a rule needs no second direction
            return 1.0
        if self.refused:
            return 0.0
        by_reading = [self._agreement(judged, reading) for reading in self.readings]
        return max(by_reading) if self.holds else min(by_reading)

    def _agreement(self, judged: Judged, reading: str) -> float:
        if not re.search(r"\w", reading):
            return 0.0
        return min(judged[Pair(self.question, reading, self.alias)], judged[Pair(self.question, self.alias, reading)])


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.casefold()))
