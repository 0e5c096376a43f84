"""Frozen records that pass between modules.

Axis letters used everywhere: Q questions, P passages, S samples, A answers, C clusters, T tokens, V vocabulary.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import torch
from torch import Tensor


class UnscorableError(ValueError):
    """One input cannot be scored, others can: labelled rows report it, rewards answer ``None``."""


@dataclass(frozen=True)
class Passage:
    """A candidate text that may help to answer a question; ``metadata`` is carried to the labels unread."""

    text: str
    title: str = ""
    id: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def full_text(self) -> str:
        """The passage as readers, retrievers and trainers see it: the title in front, where there is one."""
        return f"{self.title}: {self.text}" if self.title else self.text


@dataclass(frozen=True)
class Query:
    """A question, the aliases of its one gold answer, and candidate passages; ``metadata`` as in a passage."""

    id: str
    question: str
    answers: tuple[str, ...]
    passages: tuple[Passage, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def contexts(self) -> list[tuple[Passage, ...]]:
        """What the reader sees, one after another: nothing (the baseline), then each passage by itself."""
        return [(), *((passage,) for passage in self.passages)]


@dataclass(frozen=True)
class Responses:
    """S sampled responses to one prompt.

    Attributes:
        texts: the S responses, cut before a stop string, stripped.
        token_log_probs: S tensors ``(T_s,)``: natural-log probabilities of the sampled tokens under the model
            itself (temperature 1, whatever they were drawn with), the end-of-sequence token included.
        token_ids: the S sequences of token ids those belong to.
        finished: whether each ended by itself, by end-of-sequence or stop string, rather than by length.
    """

    texts: tuple[str, ...]
    token_log_probs: tuple[Tensor, ...]
    token_ids: tuple[tuple[int, ...], ...] = ()
    finished: tuple[bool, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return what ``json.dumps`` takes."""
        return {**asdict(self), "token_log_probs": [row.tolist() for row in self.token_log_probs]}

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> "Responses":
        """Undo ``to_json``."""
        return cls(
            texts=tuple(row["texts"]),
            token_log_probs=tuple(map(torch.tensor, row["token_log_probs"])),
            token_ids=tuple(map(tuple, row["token_ids"])),
            finished=tuple(row["finished"]),
        )


@dataclass(frozen=True)
class Belief:
    """How strongly the reader believes in the gold answer in one context.

    Attributes:
        seper: soft SePer, in [0, 1].
        seper_hard: hard SePer, in [0, 1].
        std_error: standard error of ``seper`` over the sampled responses.
        entropy: predictive entropy of the responses, in nats, >= 0; one only at sampling temperature 1.
        semantic_entropy: entropy of the clusters, in nats, in [0, log S].
        responses: the S responses.
        weights: the S response probabilities, sum to 1.
        cluster_ids: the semantic cluster of each response, numbered from 0 in order of appearance.
        support: ``S`` rows of ``A`` numbers in [0, 1]: how far each response entails each gold answer.
    """

    seper: float
    seper_hard: float
    std_error: float
    entropy: float = 0.0
    semantic_entropy: float = 0.0
    responses: tuple[str, ...] = ()
    weights: tuple[float, ...] = ()
    cluster_ids: tuple[int, ...] = ()
    support: tuple[tuple[float, ...], ...] = field(default=(), repr=False)


@dataclass(frozen=True)
class Utility:
    """What one passage (or one set of passages) did to the reader's belief in the gold answer.

    Attributes:
        delta_seper: SePer with the passage minus SePer without (eq. 11), in [-1, 1]; below 0 it misled.
        delta_seper_hard: the same with hard SePer.
        std_error: standard error of ``delta_seper``.
        belief: with the passage.
        baseline: without any passage.
        passage_id: of the judged passage.
    """

    delta_seper: float
    delta_seper_hard: float
    std_error: float
    belief: Belief
    baseline: Belief
    passage_id: str = ""

    @property
    def seper(self) -> float:
        """Soft SePer with the passage."""
        return self.belief.seper

    @property
    def baseline_seper(self) -> float:
        """Soft SePer without any passage."""
        return self.baseline.seper


@dataclass(frozen=True)
class LabeledQuery:
    """A query whose candidate passages were judged, by ΔSePer or another labeler.

    Attributes:
        query: The query, with the P judged passages.
        labels: P numbers; higher = the passage helps more, 0 = as good as no passage, below 0 it harms.
        std_errors: P standard errors of the labels; 0 where the labeler knows none.
        baseline: What the labeler tells of the question without a passage, as the label row shows it.
        details: What it tells of each passage beside the label, likewise; P mappings, or none.
    """

    query: Query
    labels: tuple[float, ...]
    std_errors: tuple[float, ...]
    baseline: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    details: tuple[Mapping[str, Any], ...] = field(default=(), compare=False, repr=False)

    def __post_init__(self) -> None:
        if not len(self.query.passages) == len(self.labels) == len(self.std_errors):
            raise ValueError(
                f"expected one label and one standard error per passage of question id={self.query.id!r}, got "
                f"{len(self.query.passages)} passages, {len(self.labels)} labels, {len(self.std_errors)} errors"
            )

    def keep(self, places: Sequence[int]) -> "LabeledQuery":
        """Return it with the passages at ``places`` only, in that order."""
        return replace(
            self,
            query=replace(self.query, passages=tuple(self.query.passages[at] for at in places)),
            labels=tuple(self.labels[at] for at in places),
            std_errors=tuple(self.std_errors[at] for at in places),
            details=tuple(self.details[at] for at in places) if self.details else (),
        )
