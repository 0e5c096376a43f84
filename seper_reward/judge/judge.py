"""Judge: decides how far one answer entails another, by equality and values, else by a model.

A rule never calls two texts equal after deleting something that distinguishes answers, and refuses only if a value
parser has read both texts, or if the text lacks a digit or sign of the answer. All else is the model's.
"""

import functools
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from seper_reward.judge.equality import differ_in_signs, equal, signs
from seper_reward.judge.values import Value, in_digits, values_in, whole_value
from seper_reward.runtime.cache import Cache, answers_through
from seper_reward.runtime.messages import say_once
from seper_reward.runtime.profiling import timed
from seper_reward.types import Pair

RULES = 12  # version of equality and values in fingerprints: raise it with every change of a decision
_DIGITS = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?(?:(?:st|nd|rd|th)\b)?")

_WARNED: set[str] = set()  # models with texts that they cannot read
_NUMBERED = re.compile(r"\b([A-Z]\w*) (?:the )?(I|\d+)(?:st|nd|rd|th)?\b")
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

    def reads(self, text: str) -> bool:
        """Return whether the model can read a text, or has no words of its script."""

    def probs(self, pairs: Sequence[Pair], *, verbatim: bool = False) -> Tensor:
        """Return class probabilities ``(n, K)`` of distinct pairs, entailment first."""


class Judge:
    """Judges pairs of answers, once per batch; ``cache`` keeps the scores of its model between runs."""

    def __init__(self, model: PairModel, cache: Cache | None = None) -> None:
        self.model, self.cache = model, cache

    @property
    def fingerprint(self) -> dict[str, Any]:
        """All parts of the judge that decide a score; JSON-able."""
        return {
            "entailment": self.model.name,
            "entailment_weights": self.model.weights_hash,
            "entailment_rules": RULES,
        }

    def probs(self, pairs: Sequence[Pair], *, verbatim: bool = False) -> "Judged":
        """Judge pairs, each distinct one once; ``verbatim`` pairs know no rule, as in the official code of SePer."""
        distinct = list(dict.fromkeys(pairs))
        with timed("rules"):
            ruled = [pair if verbatim else decide(pair, self.model) for pair in distinct]
        asked = list(dict.fromkeys(claim for claim in ruled if isinstance(claim, Pair)))

        def compute(missing: list[int]) -> list[list[float]]:
            found: list[list[float]] = self.model.probs([asked[at] for at in missing], verbatim=verbatim).tolist()
            return found

        kind = "entailment_verbatim" if verbatim else "entailment"
        found = dict(zip(asked, answers_through(self.cache, kind, self.model, asked, compute), strict=True))
        certain = torch.eye(self.model.classes)[[0, -1]].tolist()  # entailment, contradiction
        rows = [found[claim] if isinstance(claim, Pair) else certain[0 if claim else 1] for claim in ruled]
        return Judged({pair: at for at, pair in enumerate(distinct)}, torch.tensor(rows).view(-1, self.model.classes))


class Judged:
    """Class probabilities ``(n, K)`` of pairs, entailment first."""

    def __init__(self, places: dict[Pair, int], probs: Tensor) -> None:
        self._places, self._probs = places, probs

    def __getitem__(self, pair: Pair) -> float:
        """Return the probability that the premise of a pair entails its hypothesis."""
        return float(self._probs[self._places[pair], 0])

    def rows(self, pairs: Sequence[Pair]) -> Tensor:
        """Return the class probabilities of pairs, ``(n, K)``."""
        return self._probs[[self._places[pair] for pair in pairs]]

    def table(self, question: str, premises: Sequence[str], hypotheses: Sequence[str]) -> Tensor:
        """Return the class probabilities of all premises and hypotheses, ``(premises, hypotheses, K)``."""
        places = [[self._places[Pair(question, one, two)] for two in hypotheses] for one in premises]
        return self._probs[torch.tensor(places)]


def decide(pair: Pair, model: PairModel) -> bool | Pair:
    """Return whether a premise entails a hypothesis if a rule decides it, else the pair for the model.

    In the pair for the model, equal values have the spelling of the hypothesis.
    """
    question, premise, hypothesis = pair
    if equal(premise, hypothesis):
        if not _UNIT.search(premise):
            return True
        value, whole = whole_value(hypothesis), whole_value(premise)
        return not (value and whole and whole.excludes(value))  # 5 MW is not 5 mW
    if not premise.strip() or not hypothesis.strip() or _is_another(premise, hypothesis):
        return False
    by_values = bool(signs(premise)) or not _is_words(hypothesis)
    claim = _by_values(question, premise, hypothesis) if by_values else in_digits(premise)
    if isinstance(claim, bool):
        return claim
    if unread := [text for text in (premise, hypothesis) if not model.reads(text)]:
        if model.name not in _WARNED:
            _WARNED.add(model.name)
            say_once(
                f"the entailment model {model.name} has no words of the script of {unread[0][:40]!r}, so such answers "
                "count only if they are equal; use judge='reader' for a language that the reader reads, or a "
                "multilingual model"
            )
        return False
    return Pair(question, claim, in_digits(hypothesis))


def _is_another(premise: str, hypothesis: str) -> bool:
    """Return whether two texts number a word differently, of which one is the first: World War I, and World War II."""
    one, other = _numbered(premise), _numbered(hypothesis)
    common = one.keys() & other.keys()
    return any("I" in one[word] | other[word] and one[word].isdisjoint(other[word]) for word in common)


@functools.lru_cache(maxsize=65536)
def _numbered(text: str) -> dict[str, set[str]]:
    numbers: dict[str, set[str]] = {}
    for word, number in _NUMBERED.findall(in_digits(text)):
        numbers.setdefault(word, set()).update({number, number.replace("I", "1")})
    return numbers


@functools.lru_cache(maxsize=65536)
def _is_words(text: str) -> bool:
    """Return whether a text has neither digits nor signs, which a premise could lack or contradict."""
    return not (re.search(r"\d", in_digits(text)) or signs(text) or signs(in_digits(text)))


def _by_values(question: str, premise: str, hypothesis: str) -> bool | str:
    """Return what values and signs decide, or the premise in which equal values have the hypothesis's spelling."""
    wanted, stated, asked = values_in(hypothesis), values_in(premise), values_in(question)
    value, whole = whole_value(hypothesis), whole_value(premise)
    if not (value and whole):
        if differ_in_signs(premise, hypothesis):
            return False
    elif whole.entails(value):
        if whole.has_unit == value.has_unit:  # 2 % may not be 2
            return True
    elif whole.excludes(value) and not whole.agrees(value):
        return False
    missing = [each for each in wanted if not any(said.entails(each) for said in stated)]

    def for_model(each: Value) -> bool:
        """Return whether a value is a less precise date, next to other words, or a repeated one of the question."""
        if any(said.agrees(each) for said in stated):
            return True
        if not (value or stated or in_digits(hypothesis)[: each.start].endswith("-")):  # B-52
            return True
        if value or not any(other.entails(each) for other in asked):
            return False
        further = (said for said in stated if not any(said.entails(other) for other in wanted))
        return not any(said.comparable(each) for said in further)

    lacking = [each for each in missing if not for_model(each)]
    if lacking and (value or any(said.excludes(each) for each in lacking for said in stated)):
        return False
    claim, needed = _spelled(premise, stated, hypothesis, wanted), in_digits(hypothesis)
    for each in reversed(missing):
        if each not in lacking:
            needed = f"{needed[: each.start]} {needed[each.end :]}"
    pairs = [(needed, claim)]
    if not value:  # Henry VIII is Henry the Eighth, but two is not the second, nor are 16 presidents the 16th
        pairs.append((needed if claim[:1].isdigit() else _ORDINAL.sub("", needed), _ORDINAL.sub("", claim)))
    if all(_digits(one) - _digits(other) for one, other in pairs) or (signs(needed) and signs(needed) - signs(claim)):
        return False
    return claim


@functools.lru_cache(maxsize=65536)
def _digits(text: str) -> Counter[str]:
    return Counter(_DIGITS.findall(text))


def _spelled(premise: str, stated: Sequence[Value], hypothesis: str, wanted: Sequence[Value]) -> str:
    """Return a premise in which values that entail one of the hypothesis have its spelling."""
    text, spelled = in_digits(premise), in_digits(hypothesis)
    for each in reversed(stated):
        same = next((value for value in wanted if each.entails(value) and each.has_unit <= value.has_unit), None)
        if same is not None:
            text = text[: each.start] + spelled[same.start : same.end] + text[each.end :]
    return text
