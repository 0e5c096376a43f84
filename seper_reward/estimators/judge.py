"""BeliefJudge: computes beliefs in the gold answer from sampled responses, by entailment and the estimator."""

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from seper_reward.data.answers import stated_parts
from seper_reward.estimators.belief import Pair, belief, first_pairs, second_pairs
from seper_reward.estimators.entailment import RULES, entailed_in_parts
from seper_reward.estimators.rules import decide, holds, reading_without_echo, settle, states_another
from seper_reward.estimators.seper import Estimator, no_contradiction
from seper_reward.runtime.cache import Cache, answers_through, open_cache
from seper_reward.runtime.profiling import timed
from seper_reward.types import Answers, Belief, Responses, answer_aliases, answer_items

_TITLE = re.compile(r"^(?:Sir|Dame|Lord|Lady|Dr|Mr|Mrs|Ms|Prof)\b\.?\s+(?=[A-Z])")
_MAX_PARTS = 3  # judged parts of a text, per item of the answer


class EntailmentModel(Protocol):
    """A model that scores how far one text entails another: ``EntailmentScorer``, or a text similarity in its place.

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
    """A question with its gold answer, and the responses to it in several contexts.

    ``known`` are the class probabilities of the pairs judged so far; ``BeliefJudge`` adds to them.
    """

    question: str
    answers: Answers
    responses: Sequence[Responses]
    known: dict[Pair, Tensor] = field(default_factory=dict)


class BeliefJudge:
    """Judges responses by entailment and returns beliefs.

    If the answer is a list, responses are judged in parts (``stated_parts``), since an entailment model for short
    answers misjudges lists. A response supports an item that one of its parts entails. Two responses mean the same if
    each part of either is entailed by a part of the other. Verbatim texts are not cut.

    Args:
        entailment: The entailment model.
        estimator: The options of SePer.
        cache: Cache of entailment scores between runs, or the path of its file, made if absent.

    Raises:
        ValueError: ``match="no_contradiction"`` with an entailment model of two classes.
    """

    def __init__(self, entailment: EntailmentModel, estimator: Estimator, cache: Cache | str | Path | None) -> None:
        self._entailment, self._options, self._cache = entailment, estimator, open_cache(cache)
        if estimator.match == "no_contradiction":  # fail early: it raises for two classes
            no_pair = entailment.class_probs([])
            no_contradiction(no_pair, no_pair)

    @property
    def fingerprint(self) -> dict[str, Any]:
        """The entailment model and the options of SePer, which decide a belief of given responses; JSON-able."""
        return {
            "entailment": self._entailment.name,
            "entailment_weights": self._entailment.weights_hash,
            "entailment_rules": RULES,
            "estimator": asdict(self._options),
        }

    def beliefs(self, questions: Sequence[SampledQuestion]) -> list[list[Belief]]:
        """Return the belief in each context of each question; the questions share batches."""
        options = self._options
        first = [_union(first_pairs(options, row, each.answers) for row in each.responses) for each in questions]
        self._learn(questions, first)
        second = [_union(second_pairs(options, row, each.known) for row in each.responses) for each in questions]
        self._learn(questions, second)
        with timed("clustering"):
            return [
                [belief(options, row, question.answers, question.known) for row in question.responses]
                for question in questions
            ]

    def entailment(self, question: str, pairs: set[Pair]) -> dict[Pair, float]:
        """Return for each pair of answers to a question, or of plain texts, the probability that one entails two."""
        asked = SampledQuestion(question, (), ())
        self._learn([asked], [pairs])
        return {pair: float(probs[0]) for pair, probs in asked.known.items()}

    def mutual_support(self, question: str, text: str, answers: Answers) -> float:
        """Return how strongly a text and the gold answer entail each other; a strict score for texts of a policy.

        A policy trained on a reward finds texts that seem to entail anything. So rules reject a text that names
        another answer of the same kind, denies or changes the answer, or rambles (``rules.states_another``).
        Entailment is required in both directions, since an answer does not entail a text with further claims, and only
        probabilities above .75 count: max_a max(0, 4 · min(E(text → a), E(a → text)) − 3). The text is also read
        without the question's words. The higher of the two readings counts if the text contains the answer, else the
        lower one: a repeated question scores high for any answer.

        If the answer is a list, each part of the text (``stated_parts``) is scored against each item. Parts and items
        are paired one to one to maximise the sum, which is divided by the number of items or of parts, whichever is
        greater. So a list with missing items earns its share of the items, and a list with too many guesses the share
        of right guesses.

        Args:
            question: The question.
            text: The text, as short as an answer.
            answers: The gold answer.

        Returns:
            A number in [0, 1]; 0 for a blank text.
        """
        return self.mutual_supports([(question, text, answers)])[0]

    def mutual_supports(self, stated: Sequence[tuple[str, str, Answers]]) -> list[float]:
        """Return ``mutual_support`` of several questions, texts and gold answers, which share batches."""
        texts = [_StatedText(*each) for each in stated]
        sampled = [SampledQuestion(each.question, each.answers, ()) for each in texts]
        self._learn(sampled, [each.pairs for each in texts])
        return [each.support(asked.known) for each, asked in zip(texts, sampled, strict=True)]

    def _learn(self, questions: Sequence[SampledQuestion], pair_sets: Sequence[set[Pair]]) -> None:
        """Judge the pairs of each question that are missing in its ``known``, and add them."""
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
        """Return for each pair, per part of its hypothesis, (question, part of the premise, this part) triples."""
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
    """A text that states an answer, in parts, each with two readings per alias (see ``mutual_support``)."""

    def __init__(self, question: str, text: str, answers: Answers) -> None:
        self.question, self.answers = question, answers
        self._parts, self._items = stated_parts(text, answers), answer_items(answers)
        aliases = answer_aliases(answers)
        judged = self._parts[: _MAX_PARTS * len(self._items)]  # further parts only lower the score
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
        """Return the mutual support of text and answer, in [0, 1]."""
        from scipy.optimize import linear_sum_assignment

        agreement = {claim: reading.agreement(known) for claim, reading in self._claims.items()}
        support = [
            [max(0.0, 4 * max(agreement.get((part, alias), 0.0) for alias in item) - 3) for item in self._items]
            for part in self._parts
        ]
        rows, columns = linear_sum_assignment(support, maximize=True)
        total = sum((support[row][column] for row, column in zip(rows, columns, strict=True)), 0.0)
        return total / max(len(self._parts), len(self._items))


@dataclass(frozen=True)
class _Reading:
    """The readings of a text that may state an alias: the text, and the text without the question's words.

    If the text contains (``holds``) the alias, the higher score of both counts, else the lower.
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
    """Return the readings of a text; ``None`` for a text that a rule rejects."""
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


def _union(sets: Iterable[set[Pair]]) -> set[Pair]:
    return set[Pair]().union(*sets)
