"""ΔSePer as a label (SePer, arXiv:2503.01478, eq. 11)."""

from collections.abc import Sequence
from functools import partial

from seper_reward.estimators.utility import QUESTION_WEIGHT, utility
from seper_reward.labels.labelers.base import ReaderLabeler
from seper_reward.labels.rows import (
    DELTA_SEPER,
    QUESTION_GAIN,
    SUFFIXES,
    baseline_error,
    belief_fields,
    utility_fields,
)
from seper_reward.options import check_choice
from seper_reward.runtime.messages import say_once
from seper_reward.scorer import SePerScorer
from seper_reward.types import (
    UTILITY_BELIEF,
    Asked,
    Belief,
    Estimate,
    LabeledQuery,
    Query,
    Responses,
    UnscorableError,
    attempt,
    unwrap,
)

_OF_QUESTION = ("seper_gain", QUESTION_GAIN)  # labels that need the likelihood of the question
_NO_LIKELIHOOD = (
    "needs the likelihood of the question, but the prompt asks it before the passages, or the reader's tokenizer is "
    "slow"
)


class DeltaSePerLabeler(ReaderLabeler[Belief]):
    """Labels a passage by the change of the reader's belief in the gold answer, by the number of ``SUFFIXES`` named.

    A question without a gold answer has only ``question_gain``, the change of the question's likelihood. Raises
    ``ValueError`` if there is no such label, or the scorer cannot compute the likelihood that it needs.
    """

    samples = True

    def __init__(self, scorer: SePerScorer, label: str = DELTA_SEPER) -> None:
        check_choice("label", label, tuple(SUFFIXES))
        if label in ("delta_belief", "seper_gain") and not scorer.knows_answers:
            raise ValueError(
                f"{label} needs the probabilities of the answers: use a reader that does not think, in this "
                "process or on vLLM, temperature 1 and top_p 1, and weighting=mass; or take delta_seper"
            )
        if label in _OF_QUESTION and scorer.sampler.backend == "engine":
            raise ValueError(f"{label} needs the probability of the question: use a reader or vLLM in this process")
        self.name, self.scorer = label, scorer
        self.needs_answers = scorer.sampler.backend == "engine"
        self._told = False  # that there are questions without answers

    @property
    def fingerprint(self) -> dict[str, object]:
        """Everything that affects a label; equal for soft and hard labels, since the same rows have both."""
        labeler = {"labeler": self.name} if self.name in ("delta_belief", *_OF_QUESTION) else {}
        return {**self.scorer.fingerprint, "question_weight": QUESTION_WEIGHT, **labeler}

    def label_batch(self, queries: Sequence[Query]) -> list[LabeledQuery | UnscorableError]:
        """Label several queries in one batch; those without a gold answer are another one, by ``question_gain``."""
        answered = iter(super().label_batch([query for query in queries if query.answers]))
        others = iter(self._without_answers([query for query in queries if not query.answers]))
        return [next(answered if query.answers else others) for query in queries]

    def _without_answers(self, queries: Sequence[Query]) -> list[LabeledQuery | UnscorableError]:
        if not queries:
            return []
        if not self._told:
            self._told = True
            columns = f" with the other columns {', '.join(queries[0].metadata)}" if queries[0].metadata else ""
            say_once(
                f"questions without gold answers, such as id={queries[0].id!r}{columns}, have {QUESTION_GAIN} as "
                "their only label: it orders passages by how likely they make the question, whether or not they hold "
                "the answer"
            )
        # the likelihood of the question is read with the prompt, whatever the response
        sampled = self.scorer.with_sampling(num_samples=1, max_new_tokens=1).responses(queries)
        return [attempt(partial(_by_question, *pair)) for pair in zip(queries, sampled, strict=True)]

    def read(self, requests: Sequence[Asked], batch_size: int) -> list[list[Belief] | UnscorableError]:
        """Measure the beliefs of several questions; a batch is sampled together and judged in one call."""
        measured = self.scorer.measure(requests, batch_size)
        return [result if isinstance(result, UnscorableError) else list(result.beliefs) for result in measured]

    def gain(self, reading: Belief, baseline: Belief) -> Estimate:
        """Return the change of the belief."""
        moved = utility(reading, baseline)
        likelier = moved.question_gain
        gain = {
            DELTA_SEPER: moved.soft,
            "delta_seper_hard": moved.hard,
            "delta_belief": moved.delta_belief,
            "seper_gain": moved.seper_gain,
            "question_gain": None if likelier is None else Estimate(likelier, 0.0, likelier, likelier),
        }[self.name]
        if gain is None:
            no_answer = "needs the likelihood of the answer, which the reader did not return"
            raise UnscorableError(
                f"{self.name} {_NO_LIKELIHOOD if self.name in _OF_QUESTION else no_answer}; use delta_seper"
            )
        return gain

    def error(self, reading: Belief) -> float:
        """Return the standard error of the belief; half of it for labels whose other parts have no error."""
        return baseline_error(self.baseline_fields(reading), self.name)

    def baseline_fields(self, reading: Belief) -> dict[str, object]:
        """Return the belief and the responses."""
        return belief_fields(reading)

    def passage_fields(self, reading: Belief, baseline: Belief) -> dict[str, object]:
        """Return all labels of ΔSePer with their errors, the belief and the responses."""
        return utility_fields(utility(reading, baseline))

    def set_fields(self, reading: Belief, baseline: Belief) -> dict[str, object]:
        """Return the belief, for ``seper_gain`` its change as evidence, and the responses without their tokens."""
        columns = (reading.responses, reading.counts, reading.weights, reading.best_support)
        names = ("text", "count", "weight", "support")
        responses = [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]
        beliefs: dict[str, object] = {"seper": reading.seper, "seper_hard": reading.seper_hard}
        if self.name == "seper_gain" and (moved := utility(reading, baseline).delta_belief):
            beliefs[UTILITY_BELIEF] = moved.value
        return {**beliefs, "responses": responses}


def best_label(scorer: SePerScorer) -> str:
    """Return the best label of sets that a scorer can compute (docs/results.md)."""
    if not scorer.knows_answers:
        return DELTA_SEPER
    return "delta_belief" if scorer.sampler.backend == "engine" else "seper_gain"


def _by_question(query: Query, sampled: Sequence[Responses] | UnscorableError) -> LabeledQuery:
    """Return the labels of a question without a gold answer."""
    baseline, *others = (responses.question_log_prob for responses in unwrap(sampled))
    if baseline is None or None in others:
        raise UnscorableError(f"a question without gold answers {_NO_LIKELIHOOD}; give answers")
    gains = tuple(log_prob - baseline for log_prob in others if log_prob is not None)
    return LabeledQuery(
        query,
        labels=gains,
        std_errors=(0.0,) * len(gains),
        baseline={"question_log_prob": baseline},
        details=tuple(
            {"question_log_prob": log_prob, QUESTION_GAIN: gain} for log_prob, gain in zip(others, gains, strict=True)
        ),
    )
