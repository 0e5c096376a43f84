"""BeliefJudge: sampled responses in, beliefs in the gold answer out, by entailment and the estimator."""

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from seper_reward.data.answers import stated_parts
from seper_reward.estimators.belief import (
    Pair,
    belief,
    first_pairs,
    response_clusters,
    second_pairs,
    soft_estimate,
    support_pairs,
)
from seper_reward.estimators.entailment import RULES, entailed_in_parts
from seper_reward.estimators.rules import decide, holds, reading_without_echo, settle, states_another
from seper_reward.estimators.seper import Estimator, no_contradiction
from seper_reward.runtime.cache import Cache, answers_through, open_cache
from seper_reward.runtime.profiling import timed
from seper_reward.types import Answers, Belief, Estimate, Responses, answer_aliases, answer_items

_TITLE = re.compile(r"^(?:Sir|Dame|Lord|Lady|Dr|Mr|Mrs|Ms|Prof)\b\.?\s+(?=[A-Z])")
_MOST_PARTS = 3  # of a list that are judged, per item of the answer


class EntailmentModel(Protocol):
    """What tells how far one text entails another: ``EntailmentScorer``, or a similarity of texts in its place.

    Attributes:
        name: Name of the model in provenance files.
    """

    name: str

    @property
    def weights_hash(self) -> str:
        """Hash over all parts of the model that decide a score."""

    def class_probs(
        self, pairs: Sequence[tuple[str, str]], questions: Sequence[str] | None = None, *, verbatim: bool = False
    ) -> Tensor:
        """Return class probabilities ``(n, K)`` of pairs, entailment first; see ``EntailmentScorer.class_probs``."""


@dataclass(frozen=True)
class SampledQuestion:
    """A question and the responses to it in several contexts.

    Attributes:
        question: The question.
        answers: Its gold answer.
        responses: The sampled responses, per context.
        known: Class probabilities of the pairs judged so far; ``BeliefJudge`` adds those that it judges.
    """

    question: str
    answers: Answers
    responses: Sequence[Responses]
    known: dict[Pair, Tensor] = field(default_factory=dict)


class BeliefJudge:
    """Judges what responses say, by entailment, and returns beliefs.

    Where the answer is a list, responses are judged in parts (``stated_parts``): one supports an item that one of its
    parts entails, and two mean the same if each part of either is entailed by a part of the other. An entailment model
    for short answers takes a list for an answer that is none. Verbatim texts are not cut.

    Args:
        entailment: The model that judges.
        estimator: The options of SePer.
        cache: Cache of entailment scores between runs, or the path of its file, made if absent.

    Raises:
        ValueError: ``match="no_contradiction"`` with an entailment model of two classes.
    """

    def __init__(self, entailment: EntailmentModel, estimator: Estimator, cache: Cache | str | Path | None) -> None:
        self._entailment, self._options, self._cache = entailment, estimator, open_cache(cache)
        if estimator.match == "no_contradiction":  # it refuses two classes: here, before anything is sampled
            no_pair = entailment.class_probs([])
            no_contradiction(no_pair, no_pair)

    @property
    def fingerprint(self) -> dict[str, Any]:
        """What decides a belief beside the responses: the entailment model and the options of SePer; JSON-able."""
        return {
            "entailment": self._entailment.name,
            "entailment_weights": self._entailment.weights_hash,
            "estimator": asdict(self._options),
        }

    def beliefs(self, questions: Sequence[SampledQuestion]) -> list[list[Belief]]:
        """Return the belief in each context of each question; all questions are judged in the same batches."""
        options = self._options
        self._learn(
            questions,
            [
                _union(first_pairs(options, row, question.answers) for row in question.responses)
                for question in questions
            ],
        )
        self._learn(
            questions,
            [
                _union(second_pairs(options, row, question.known) for row in question.responses)
                for question in questions
            ],
        )
        with timed("clustering"):
            return [
                [belief(options, row, question.answers, question.known) for row in question.responses]
                for question in questions
            ]

    def soft_estimates(self, question: SampledQuestion) -> list[Estimate]:
        """Return soft SePer alone in each context, which needs no clusters and so far fewer judgements."""
        options, answers, known = self._options, question.answers, question.known
        pairs = _union(support_pairs(options, row, answers) for row in question.responses)
        self._learn([question], [pairs])
        return [soft_estimate(options, row, answers, known) for row in question.responses]

    def entailment(self, question: str, pairs: set[Pair]) -> dict[Pair, float]:
        """Return of each pair of answers to a question how surely the first entails the second, in [0, 1].

        Args:
            question: The question; ``""`` for texts by themselves.
            pairs: The pairs.
        """
        asked = SampledQuestion(question, (), ())
        self._learn([asked], [pairs])
        return {pair: float(probs[0]) for pair, probs in asked.known.items()}

    def clusters(self, question: str, texts: Sequence[str]) -> list[int]:
        """Return the semantic cluster of each answer to a question, numbered from 0 in order of appearance."""
        if not texts:
            return []
        asked, said = SampledQuestion(question, (), ()), Responses(tuple(texts), ())
        self._learn([asked], [first_pairs(self._options, said, ())])
        self._learn([asked], [second_pairs(self._options, said, asked.known)])
        ids: list[int] = response_clusters(self._options, texts, asked.known).tolist()
        return ids

    def mutual_support(self, question: str, text: str, answers: Answers) -> float:
        """Return how surely a text and the gold answer it fits best say the same; for text that wants to be right.

        A policy that trains on a reward finds texts that seem to entail anything. So rules refuse a text that names
        another answer of the kind, denies or changes the answer, or rambles (``rules.states_another``), both
        directions have to hold (a text that says more than the answer is not entailed by it), and only probabilities
        above .75 count: max_a max(0, 4 · min(E(text → a), E(a → text)) − 3). The text is also read without the
        question's words. The better of both readings counts if the text holds the answer, else the lesser: a question
        given back in parts comes near to any answer.

        Where the answer is a list, this is the support of one item by one part of the text (``stated_parts``). Parts
        and items are paired one to one, so that the sum is greatest, and it is divided by the number of items or of
        parts, whichever is greater: a list that leaves items out earns the share of them that it has, and one of more
        guesses than there are items the share of guesses that is right.

        Args:
            question: The question.
            text: The text, as short as an answer.
            answers: The gold answer.

        Returns:
            A number in [0, 1]; 0 for a blank text.
        """
        return self.mutual_supports([(question, text, answers)])[0]

    def mutual_supports(self, stated: Sequence[tuple[str, str, Answers]]) -> list[float]:
        """Return ``mutual_support`` of several questions, texts and gold answers, judged in the same batches."""
        texts = [_StatedText(*each) for each in stated]
        sampled = [SampledQuestion(each.question, each.answers, ()) for each in texts]
        self._learn(sampled, [each.pairs for each in texts])
        return [each.support(asked.known) for each, asked in zip(texts, sampled, strict=True)]

    def _learn(self, questions: Sequence[SampledQuestion], pair_sets: Sequence[set[Pair]]) -> None:
        """Judge those pairs of each question that are not in its ``known``, and add them there."""
        verbatim = self._options.judged_texts == "verbatim"
        rows = [
            (question, pair, grid)
            for question, pairs in zip(questions, pair_sets, strict=True)
            for pair, grid in self._in_parts(question, pairs - question.known.keys()).items()
        ]
        keys = list(dict.fromkeys(key for _, _, grid in rows for claim in grid for key in claim))

        def compute(missing: list[int]) -> list[list[float]]:
            batch = [keys[at] for at in missing]
            with timed("entailment"):
                probs: list[list[float]] = self._entailment.class_probs(
                    [(one, two) for _, one, two in batch], [asked for asked, _, _ in batch], verbatim=verbatim
                ).tolist()
            return probs

        kind = f"{'entailment_verbatim' if verbatim else 'entailment'}-{RULES}"
        class_probs = torch.tensor(answers_through(self._cache, kind, self._entailment, keys, compute))
        by_key = dict(zip(keys, class_probs, strict=True))
        for question, pair, grid in rows:
            question.known[pair] = entailed_in_parts([[by_key[key] for key in claim] for claim in grid])

    def _in_parts(self, question: SampledQuestion, pairs: set[Pair]) -> dict[Pair, list[list[tuple[str, str, str]]]]:
        """Return for each pair, per part of its hypothesis, the question and that part with each of the premise's."""
        whole = self._options.judged_texts == "verbatim"
        parts = {
            text: [text] if whole else stated_parts(text, question.answers)
            for text in itertools.chain.from_iterable(pairs)
        }
        return {
            (premise, hypothesis): [
                [(question.question, one, other) for one in parts[premise]] for other in parts[hypothesis]
            ]
            for premise, hypothesis in sorted(pairs)
        }


class _StatedText:
    """A text that states an answer: its parts, each in both readings of every alias (``mutual_support``)."""

    def __init__(self, question: str, text: str, answers: Answers) -> None:
        self.question, self.answers = question, answers
        self._parts, self._items = stated_parts(text, answers), answer_items(answers)
        aliases = answer_aliases(answers)
        judged = self._parts[: _MOST_PARTS * len(self._items)]  # more parts than items lower the reward anyway
        self._claims = {
            (part, alias): reading
            for part in judged
            for alias in aliases
            if (reading := _reading(question, part, alias, aliases)) is not None
        }

    @property
    def pairs(self) -> set[Pair]:
        """The pairs that have to be judged."""
        return _union(reading.pairs for reading in self._claims.values())

    def support(self, known: Mapping[Pair, Tensor]) -> float:
        """Return how surely the text and the answer say the same, in [0, 1]."""
        agreement = {claim: reading.agreement(known) for claim, reading in self._claims.items()}
        support = [
            [max(0.0, 4 * max(agreement.get((part, alias), 0.0) for alias in item) - 3) for item in self._items]
            for part in self._parts
        ]
        return _paired(support) / max(len(self._parts), len(self._items))


@dataclass(frozen=True)
class _Reading:
    """How a text is read that may state an alias.

    Attributes:
        alias: The alias, with values spelled as in the texts.
        texts: The text, and the text without the question's words.
        holds: Whether the text holds the alias: then it may say more, and the better of both texts counts.
    """

    alias: str
    texts: tuple[str, ...]
    holds: bool

    @property
    def pairs(self) -> set[Pair]:
        forward = {(text, self.alias) for text in self.texts}
        return forward if self.holds else forward | {(alias, text) for text, alias in forward}

    def agreement(self, known: Mapping[Pair, Tensor]) -> float:
        if self.holds:
            return max(float(known[pair][0]) for pair in self.pairs)
        return min(float(known[pair][0]) for pair in self.pairs)


def _reading(question: str, text: str, alias: str, aliases: Sequence[str]) -> _Reading | None:
    """Return how a text is read; ``None`` for a text that a rule refuses."""
    if decide(text, alias, "") is True:
        return _Reading(alias, (text,), holds=True)
    claim = settle(text, _TITLE.sub("", alias))
    if claim is None or states_another(claim.premise, question, claim.hypothesis, aliases):
        return None
    if decide(claim.premise, claim.hypothesis, question) is True:
        return _Reading(claim.hypothesis, (claim.premise,), holds=True)
    texts = (claim.premise, reading_without_echo(claim.premise, question, claim.hypothesis))
    if not all(re.search(r"\w", each) for each in texts):
        return None
    return _Reading(claim.hypothesis, texts, holds(claim.premise, claim.hypothesis))


def _paired(support: Sequence[Sequence[float]]) -> float:
    """Return the greatest sum of a table's numbers of which no two share a row or a column."""
    from scipy.optimize import linear_sum_assignment

    rows, columns = linear_sum_assignment(support, maximize=True)
    return sum((support[row][column] for row, column in zip(rows, columns, strict=True)), 0.0)


def _union(sets: Iterable[set[Pair]]) -> set[Pair]:
    return set[Pair]().union(*sets)
