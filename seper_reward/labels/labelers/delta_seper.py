"""ΔSePer as a label (SePer, arXiv:2503.01478, eq. 11)."""

from collections.abc import Sequence

from seper_reward.estimators.utility import utility
from seper_reward.labels.labelers.base import ReaderLabeler
from seper_reward.labels.rows import (
    DELTA_SEPER,
    SUFFIXES,
    baseline_error,
    belief_fields,
    utility_fields,
)
from seper_reward.options import check_choice
from seper_reward.scorer import SePerScorer
from seper_reward.types import Asked, Belief, Estimate, UnscorableError

_OF_QUESTION = ("seper_gain", "question_gain")  # labels that need the likelihood of the question


class DeltaSePerLabeler(ReaderLabeler[Belief]):
    """Labels a passage by the change of the reader's belief in the gold answer, by the number of ``SUFFIXES`` named.

    Raises ``ValueError`` if there is no such label, or the scorer cannot compute the likelihood that it needs.
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

    @property
    def fingerprint(self) -> dict[str, object]:
        """Everything that affects a label; equal for soft and hard labels, since the same rows have both."""
        own = {"labeler": self.name} if self.name in ("delta_belief", *_OF_QUESTION) else {}
        return {**self.scorer.fingerprint, **own}

    def read(self, asked: Sequence[Asked], batch_size: int) -> list[list[Belief] | UnscorableError]:
        """Measure the beliefs of several questions; a batch is sampled together and judged in one call."""
        measured = self.scorer.measure(asked, batch_size)
        return [each if isinstance(each, UnscorableError) else list(each.beliefs) for each in measured]

    def gain(self, reading: Belief, given: Belief) -> Estimate:
        """Return the change of the belief."""
        moved = utility(reading, given)
        likelier = moved.question_gain
        gain = {
            DELTA_SEPER: moved.soft,
            "delta_seper_hard": moved.hard,
            "delta_belief": moved.combined,
            "seper_gain": moved.seper_gain,
            "question_gain": None if likelier is None else Estimate(likelier, 0.0, likelier, likelier),
        }[self.name]
        if gain is None and self.name in _OF_QUESTION:
            raise UnscorableError(
                f"{self.name} needs the likelihood of the question, but the prompt asks it before the passages, or "
                "the reader's tokenizer is slow; use delta_seper"
            )
        if gain is None:
            raise UnscorableError(
                f"{self.name} needs the likelihood of the answer, which the reader did not return; use delta_seper"
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

    def set_fields(self, reading: Belief) -> dict[str, object]:
        """Return the belief and the responses without their tokens."""
        columns = (reading.responses, reading.counts, reading.weights, reading.best_support)
        names = ("text", "count", "weight", "support")
        responses = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
        return {"seper": reading.seper, "seper_hard": reading.seper_hard, "responses": responses}
