"""BeliefJudge: sampled responses in, beliefs in the gold answer out, by entailment and the estimator."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor

from seper_reward.data.answers import without_echo
from seper_reward.estimators.belief import Pair, belief, belief_std_error, first_pairs, second_pairs, support_pairs
from seper_reward.estimators.entailment import EntailmentScorer
from seper_reward.estimators.seper import Estimator, no_contradiction
from seper_reward.runtime.cache import Cache, answers_through
from seper_reward.runtime.profiling import timed
from seper_reward.types import Belief, Responses


@dataclass(frozen=True)
class SampledQuestion:
    """A question and the responses to it in several contexts.

    Attributes:
        question: The question.
        answers: Aliases of its one gold answer.
        responses: The sampled responses, per context.
        known: Class probabilities of the pairs judged so far; ``BeliefJudge`` adds those that it judges.
    """

    question: str
    answers: Sequence[str]
    responses: Sequence[Responses]
    known: dict[Pair, Tensor] = field(default_factory=dict)


class BeliefJudge:
    """Judges what responses say, by entailment, and returns beliefs.

    Args:
        entailment: The NLI model that judges.
        estimator: The options of SePer.
        cache: Where entailment scores are kept between runs.

    Raises:
        ValueError: ``match="no_contradiction"`` with an entailment model of two classes.
    """

    def __init__(self, entailment: EntailmentScorer, estimator: Estimator, cache: Cache | None) -> None:
        self._entailment, self._options, self._cache = entailment, estimator, cache
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

    def undecided(self, question: SampledQuestion, limit: float) -> list[bool]:
        """Return for each context whether the standard error of the belief is above ``limit``."""
        options, answers, known = self._options, question.answers, question.known
        pairs = _union(support_pairs(options, row, answers) for row in question.responses)
        self._learn([question], [pairs])
        return [belief_std_error(options, row, answers, known) > limit for row in question.responses]

    def mutual_support(self, question: str, text: str, answers: Sequence[str]) -> float:
        """Return how surely a text and the gold answer it fits best say the same; for text that wants to be right.

        Whoever writes for a reward finds texts that seem to entail anything. So both directions have to hold (a text
        that says more than the answer is not entailed by it), also when the text is read without the question's words
        (a question given back in parts comes near to any answer), and only what is surer than 3 to 1 counts:
        max_a max(0, 4 · min(E(text → a), E(a → text)) − 3), the least of both readings of the text.

        Args:
            question: The question.
            text: The text, as short as an answer.
            answers: Aliases of the gold answer.

        Returns:
            A number in [0, 1]; 0 for a blank text.
        """
        readings = {answer: {text, without_echo(text, question, answer)} for answer in answers}
        stated = {answer: texts for answer, texts in readings.items() if all(re.search(r"\w", each) for each in texts)}
        sampled = SampledQuestion(question, answers, ())
        pairs = {pair for answer in stated for each in stated[answer] for pair in ((each, answer), (answer, each))}
        self._learn([sampled], [pairs])
        known = sampled.known
        agreement = [
            min(min(float(known[each, answer][0]), float(known[answer, each][0])) for each in texts)
            for answer, texts in stated.items()
        ]
        return max(0.0, 4 * max(agreement, default=0.0) - 3)

    def _learn(self, questions: Sequence[SampledQuestion], pair_sets: Sequence[set[Pair]]) -> None:
        """Judge those pairs of each question that are not in its ``known``, and add them there."""
        rows = [
            (question, pair)
            for question, pairs in zip(questions, pair_sets, strict=True)
            for pair in sorted(pairs - question.known.keys())
        ]

        verbatim = self._options.judged_texts == "verbatim"

        def compute(missing: list[int]) -> list[list[float]]:
            batch = [rows[at] for at in missing]
            with timed("entailment"):
                probs: list[list[float]] = self._entailment.class_probs(
                    [pair for _, pair in batch], [question.question for question, _ in batch], verbatim=verbatim
                ).tolist()
            return probs

        keys = [(question.question, *pair) for question, pair in rows]
        kind = "entailment_verbatim" if verbatim else "entailment"
        class_probs = answers_through(self._cache, kind, self._entailment, keys, compute)
        for (question, pair), probs in zip(rows, torch.tensor(class_probs), strict=True):
            question.known[pair] = probs


def _union(sets: Iterable[set[Pair]]) -> set[Pair]:
    return set[Pair]().union(*sets)
