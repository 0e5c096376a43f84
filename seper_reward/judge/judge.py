"""Judge: decides how far one answer entails another, by equality and values, else by a model.

A rule never calls two texts equal after deleting something that distinguishes answers. It refuses if a value parser
has read both texts, if the text lacks a digit or sign of the answer or has its numbers in another order, or for the
letter of another option. All else is the model's.
"""

import functools
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from seper_reward.judge.equality import equal, plain, signs
from seper_reward.judge.values import Value, in_digits, values_in, whole_value
from seper_reward.runtime.cache import Cache, answers_through
from seper_reward.runtime.messages import say_once
from seper_reward.runtime.profiling import timed
from seper_reward.types import Pair

RULES = 16  # version of equality and values in fingerprints: raise it with every change of a decision
_DIGITS = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?(?:(?:st|nd|rd|th)\b)?")

_MOST_UNREAD = 0.2  # share of words that only one of two texts has and that the model cannot read
_LETTER = re.compile(r"[(\[]?([A-J])[)\]]?\.?")
# the letter of an option, alone or with its text: B, (B), Option B, B) argon
_OPTION = re.compile(
    r"(?:(?:the )?(?:correct )?(?:answer|option|choice|it)(?: is|'s)?:? )?[(\[]?([A-J])(?:[)\]]?\.?|[)\].:]+ \S.*)",
    re.IGNORECASE,
)
_LETTERS = re.compile(r"(?<![\w+#-])(?:[B-HJ]|[AI](?! [a-z]))(?![\w+#-])")  # no article, no pronoun
_LETTERED = re.compile(r"[(\[]?[A-J][)\]]\s+(?=\S)")
_UNIT = re.compile(r"\d\s?[^\W\d_]{2}")  # of two letters: 3D is 3d
_ORDINAL = re.compile(r"(?<=\d)(?:st|nd|rd|th)\b")


class PairModel(Protocol):
    """A model that judges pairs into K ``classes``; its ``name`` is for provenance files."""

    name: str
    classes: int
    max_batch_tokens: int

    @property
    def device(self) -> torch.device:
        """Device of the model."""

    @property
    def weights_hash(self) -> str:
        """Hash over all parts of the model that decide a score."""

    def unread(self, text: str) -> frozenset[str]:
        """Return the words of a text that the model cannot read, by its tokenizer."""

    def probs(self, pairs: Sequence[Pair], *, verbatim: bool = False) -> Tensor:
        """Return class probabilities ``(n, K)`` of distinct pairs, entailment first."""


class Judge:
    """Judges pairs of answers, once per batch; ``cache`` keeps the scores of its model between runs."""

    def __init__(self, model: PairModel, cache: Cache | None = None) -> None:
        self.model, self.cache, self._says_unread = model, cache, True

    @property
    def fingerprint(self) -> dict[str, Any]:
        """All parts of the judge that decide a score; JSON-able."""
        weights = self.model.weights_hash
        return {"entailment": self.model.name, "entailment_weights": weights, "entailment_rules": RULES}

    def probs(self, pairs: Sequence[Pair], *, verbatim: bool = False) -> "Judged":
        """Judge pairs, each distinct one once; ``verbatim`` pairs know no rule, as in the official code of SePer."""
        distinct = list(dict.fromkeys(pairs))
        with timed("rules"):
            ruled = [pair if verbatim else decide(pair, self.model) for pair in distinct]
        if None in ruled and self._says_unread:
            self._says_unread = False
            word = min(_unread(distinct[ruled.index(None)], self.model))
            say_once(
                f"the entailment model {self.model.name} cannot read {word[:40]!r}, so answers with such words count "
                "only if they are equal; use a multilingual model, or judge='reader' if the reader reads them"
            )
        claims = list(dict.fromkeys(claim for claim in ruled if isinstance(claim, Pair)))

        def compute(missing: list[int]) -> list[list[float]]:
            probs: list[list[float]] = self.model.probs([claims[at] for at in missing], verbatim=verbatim).tolist()
            return probs

        kind = "entailment_verbatim" if verbatim else "entailment"
        scores = dict(zip(claims, answers_through(self.cache, kind, self.model, claims, compute), strict=True))
        certain = torch.eye(self.model.classes)[[0, -1]].tolist()  # entailment, contradiction
        probs = (scores[claim] if isinstance(claim, Pair) else certain[0 if claim else 1] for claim in ruled)
        return Judged(dict(zip(distinct, probs, strict=True)), self.model.classes)


class Judged:
    """Probabilities of the K classes by pair, entailment first."""

    def __init__(self, probs: dict[Pair, list[float]], classes: int) -> None:
        self._probs, self._classes = probs, classes

    def __or__(self, other: "Judged") -> "Judged":
        """Return the pairs of both."""
        return Judged(self._probs | other._probs, self._classes)

    def __getitem__(self, pair: Pair) -> float:
        """Return the probability that the premise of a pair entails its hypothesis."""
        return self._probs[pair][0]

    def rows(self, pairs: Sequence[Pair]) -> Tensor:
        """Return the class probabilities of pairs, ``(n, K)``."""
        return torch.tensor([self._probs[pair] for pair in pairs]).view(-1, self._classes)

    def table(self, question: str, premises: Sequence[str], hypotheses: Sequence[str]) -> Tensor:
        """Return the class probabilities of all premises and hypotheses, ``(premises, hypotheses, K)``."""
        return torch.tensor([[self._probs[Pair(question, one, two)] for two in hypotheses] for one in premises])


def decide(pair: Pair, model: PairModel) -> bool | Pair | None:
    """Return whether a premise entails a hypothesis if a rule decides it, else the pair for the model.

    In the pair for the model, equal values have the spelling of the hypothesis. ``None``: it cannot read the texts.
    """
    question, premise, hypothesis = pair
    if letter := _LETTER.fullmatch(plain(hypothesis)):
        if option := _OPTION.fullmatch(plain(premise)):
            return option[1].upper() == letter[1]
        if set(_LETTERS.findall(premise)) != {letter[1]}:  # B or D
            return False
    if (lettered := _LETTERED.match(premise)) and not _LETTERED.match(hypothesis):
        premise = premise[lettered.end() :]
    if equal(premise, hypothesis):
        whole = whole_value(premise) if _UNIT.search(premise) else None
        return not (whole and (value := whole_value(hypothesis)) and whole.excludes(value))  # 5 MW is not 5 mW
    if not premise.strip() or not hypothesis.strip():
        return False
    claim = _by_values(question, premise, hypothesis)
    if isinstance(claim, bool):
        return claim
    if len(_unread(pair, model)) > _MOST_UNREAD * len(f"{premise} {hypothesis}".split()):
        return None
    return Pair(question, claim, in_digits(hypothesis))


def _unread(pair: Pair, model: PairModel) -> frozenset[str]:
    """Return the words that only one of two texts has and that a model cannot read."""
    return model.unread(plain(pair.premise)) ^ model.unread(plain(pair.hypothesis))


def _by_values(question: str, premise: str, hypothesis: str) -> bool | str:
    """Return what values and signs decide, or the premise in which equal values have the hypothesis's spelling."""
    wanted, stated = values_in(hypothesis), values_in(premise)
    answer, response = whole_value(hypothesis), whole_value(premise)
    if not (answer and response):
        if _exchanged(premise, hypothesis):
            return False
    elif response.entails(answer):
        if response.has_unit == answer.has_unit:  # 2 % may not be 2
            return True
    elif response.excludes(answer) and not response.agrees(answer):
        return False

    claim, needed = _spelled(premise, stated, hypothesis, wanted), in_digits(hypothesis)
    for missing in reversed([value for value in wanted if not any(other.entails(value) for other in stated)]):
        # the model decides on a less precise date, on numbers in words, and on a value of the question
        is_open = any(value.agrees(missing) for value in stated) or not _digits(in_digits(premise))
        if is_open or (not answer and any(value.entails(missing) for value in values_in(question))):
            needed = f"{needed[: missing.start]} {needed[missing.end :].lstrip('-')}"
        elif missing.readings[0].kind != "number" and any(value.excludes(missing) for value in stated):
            return False
    pairs = [(needed, claim)]
    if not answer:  # Henry VIII is Henry the Eighth, but two is not the second
        pairs.append((needed if claim[:1].isdigit() else _ORDINAL.sub("", needed), _ORDINAL.sub("", claim)))
    if all(_digits(one) - _digits(other) for one, other in pairs) or (signs(needed) and signs(needed) - signs(claim)):
        return False
    return claim


def _exchanged(premise: str, hypothesis: str) -> bool:
    """Return whether a premise has the words of a hypothesis around its numbers in another order: 3 wins, 5 losses."""
    (text, stated), (words, wanted) = map(_around_digits, (premise, hypothesis))
    start = text.find(words)
    if start < 0 or not re.search(r"[^\W\d_]|[(\[]", re.sub(r"\band\b", "", words)):  # 3 and 5 are a list
        return False
    before = text[:start].count("#")
    numbers = stated[before : before + len(wanted)]
    return numbers != wanted and sorted(numbers) == sorted(wanted)


@functools.lru_cache(maxsize=65536)
def _around_digits(text: str) -> tuple[str, tuple[str, ...]]:
    """Return a text with # for each number, and the numbers in order."""
    digits = in_digits(text).casefold().rstrip(". ")
    return _DIGITS.sub("#", digits.replace("#", "")), tuple(_DIGITS.findall(digits))


def _digits(text: str) -> Counter[str]:
    return Counter(_DIGITS.findall(text))


def _spelled(premise: str, stated: Sequence[Value], hypothesis: str, wanted: Sequence[Value]) -> str:
    """Return a premise in which values that entail one of the hypothesis have its spelling."""
    text, spelled = in_digits(premise), in_digits(hypothesis)
    for value in reversed(stated):
        same = next((other for other in wanted if value.entails(other) and value.has_unit <= other.has_unit), None)
        if same is not None:
            text = text[: value.start] + spelled[same.start : same.end] + text[value.end :]
    return text
