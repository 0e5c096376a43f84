"""Frozen records that pass between modules.

Axis letters used everywhere: Q questions, P passages, S samples, A answers, C clusters, T tokens, V vocabulary.
"""

from __future__ import annotations

import html
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar

T = TypeVar("T")


class _InJson:
    """Conversion of a field from JSON and to it, for pydantic (``runtime.codec``), which is not loaded here."""

    def __init__(self, read: Callable[[Any], Any], write: Callable[[Any], Any]) -> None:
        self.read, self.write = read, write

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], Any]) -> Any:
        from pydantic_core import core_schema

        written = core_schema.plain_serializer_function_ser_schema(self.write)
        return core_schema.no_info_before_validator_function(self.read, handler(source), serialization=written)


def _as_tensors(values: Iterable[Any]) -> tuple[Any, ...]:
    import torch

    return tuple(map(torch.as_tensor, values))


if TYPE_CHECKING:
    from torch import Tensor  # thin clients have no torch

    TokenLogProbs = tuple[Tensor, ...]
else:
    TokenLogProbs = Annotated[
        tuple[Any, ...], _InJson(_as_tensors, lambda tensors: [tensor.tolist() for tensor in tensors])
    ]
#: A natural-log probability; -inf, which JSON does not support, is null there.
LogProb = Annotated[
    float,
    _InJson(
        lambda value: -math.inf if value is None else value,
        lambda value: None if value == -math.inf else value,
    ),
]


class UnscorableError(ValueError):
    """One input cannot be scored, but others can: labelling reports the row, and its reward is ``None``."""


def unwrap(value: T | UnscorableError) -> T:
    """Return a value; raise the error if it is one."""
    if isinstance(value, UnscorableError):
        raise value
    return value


def all_or_error(pieces: Iterable[T | UnscorableError]) -> list[T] | UnscorableError:
    """Return the pieces of one input, or the first error among them."""
    return attempt(lambda: [unwrap(piece) for piece in pieces])


def attempt(act: Callable[[], T]) -> T | UnscorableError:
    """Return the result of a call, or its ``UnscorableError``."""
    try:
        return act()
    except UnscorableError as error:
        return error.with_traceback(None)  # the traceback's frames would keep tensors alive


#: SePer without a passage from which a reader counts as knowing the answer.
KNOWN = 0.5

#: The aliases of a gold answer. Records have tuples.
Answers = Sequence[str]


def excerpt(text: str, most: int = 60) -> str:
    """Return a text of at most ``most`` characters, cut with an ellipsis."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


@dataclass(frozen=True)
class Passage:
    """A candidate text that may help to answer a question; ``metadata`` is copied to the labels unchanged."""

    text: str
    title: str = ""
    id: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def full_text(self) -> str:
        """The text for readers, retrievers and trainers, after the title if there is one."""
        return f"{self.title}: {self.text}" if self.title else self.text


@dataclass(frozen=True)
class Query:
    """A question, its gold answer, and candidate passages.

    ``answers`` are the aliases of the answer; a text is one alias. ``metadata`` is copied to the labels unchanged.
    ``judged`` has human grades by document id, also of documents that are none of the passages.
    """

    id: str
    question: str
    answers: Answers
    passages: tuple[Passage, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    judged: Mapping[str, int] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        if isinstance(self.answers, str):  # not its letters
            object.__setattr__(self, "answers", (self.answers,))

    @property
    def contexts(self) -> list[tuple[Passage, ...]]:
        """The sets of passages for the reader's prompts: no passage (the baseline), then each single passage."""
        return [(), *((passage,) for passage in self.passages)]


class Pair(NamedTuple):
    """Two answers to a question, which is blank for texts without one: does the premise entail the hypothesis?"""

    question: str
    premise: str
    hypothesis: str


@dataclass(frozen=True)
class Leaf:
    """Probability that a reader draws exactly a given response: its tokens, and an end right after them.

    Attributes:
        text: The response in the form of a sampled one.
        token_ids: Ids of its T tokens, without the end.
        log_prob: Natural-log probability, at temperature 1, of the tokens and any end that does not change the text;
            -inf for a text that cannot be a response, because it continues after an end or exceeds the maximum length.
            A text of maximum length needs no end.
        draw_log_prob: The same in the distribution from which responses are drawn, at the sampling temperature and
            within the nucleus.
        mean_log_prob: Mean natural-log probability per token at temperature 1, without the end; of a text that exceeds
            the maximum length, only over tokens up to this length.
    """

    text: str
    token_ids: tuple[int, ...]
    log_prob: LogProb
    draw_log_prob: LogProb
    mean_log_prob: LogProb

    def among(self, responses: Responses) -> list[int]:
        """Return the positions of sampled responses equal to this one, whatever token ended them."""
        length, columns = len(self.token_ids), (responses.texts, responses.token_ids, responses.finished)
        return [
            place
            for place, (text, token_ids, finished) in enumerate(zip(*columns, strict=True))
            # another tokenization of the same text is another response
            if (text, token_ids[:length], len(token_ids)) == (self.text, self.token_ids, length + finished)
        ]


@dataclass(frozen=True)
class Responses:
    """S sampled responses to one prompt.

    Attributes:
        texts: The S responses, cut before a stop string and stripped.
        token_log_probs: S tensors ``(T_s,)`` of natural-log probabilities of the drawn tokens, including the
            end-of-sequence token, at temperature 1, whatever the sampling temperature.
        token_ids: S sequences of token ids; empty if a server returns no ids.
        finished: Whether each response ended with end-of-sequence or a stop string, rather than at the maximum length.
        draw_log_probs: S natural-log probabilities of the responses, as sequences of tokens, in the distribution from
            which they were drawn: at the sampling temperature, within the nucleus. Empty if unknown: for a reader that
            thinks, or a server that returns no token ids or samples at another temperature or
            top_p than 1.
        known_leaves: Given responses with their probabilities, drawn or not.
        question_log_prob: Mean natural-log probability per token of the prompt's question, given the prompt before it,
            at temperature 1; ``None`` if unknown.
    """

    texts: tuple[str, ...]
    token_log_probs: TokenLogProbs = field(compare=False)
    token_ids: tuple[tuple[int, ...], ...] = ()
    finished: tuple[bool, ...] = ()
    draw_log_probs: tuple[float, ...] = ()
    known_leaves: tuple[Leaf, ...] = ()
    question_log_prob: float | None = None

    @property
    def log_probs(self) -> tuple[float, ...]:
        """The S natural-log probabilities of the responses at temperature 1."""
        return tuple(float(log_probs.double().sum()) for log_probs in self.token_log_probs)

    def at(self, places: Sequence[int]) -> Responses:
        """Return only the responses at the given positions, in the given order."""
        of_prompt = {"known_leaves", "question_log_prob"}
        columns = {column.name: getattr(self, column.name) for column in fields(self) if column.name not in of_prompt}
        chosen: dict[str, Any] = {
            name: tuple(column[place] for place in places) for name, column in columns.items() if column
        }
        return replace(self, **chosen)

    def and_leaves(self, leaves: Sequence[Leaf]) -> Responses:
        """Return the responses with known leaves appended, each with its whole log-probability as a single token's."""
        if not leaves:
            return self
        import torch

        return replace(
            self,
            texts=(*self.texts, *(leaf.text for leaf in leaves)),
            token_log_probs=(*self.token_log_probs, *(torch.tensor([leaf.log_prob]) for leaf in leaves)),
            token_ids=(*self.token_ids, *(leaf.token_ids for leaf in leaves)),
            finished=(*self.finished, *[True] * len(leaves)),
            draw_log_probs=(*self.draw_log_probs, *(leaf.draw_log_prob for leaf in leaves)),
        )


@dataclass(frozen=True)
class Estimate:
    """A number measured on sampled responses, its standard error, and the ends of its 95 % interval."""

    value: float
    std_error: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"


@dataclass(frozen=True, repr=False)
class Belief:
    """The reader's belief in the gold answer in one context.

    Attributes:
        soft: Soft SePer, in [0, 1].
        hard: Hard SePer, in [0, 1].
        answer_log_prob: Mean natural-log probability per token of the gold answer's likeliest alias; ``None`` if
            unknown: if a server does not return it, or if the estimator does not weigh by mass.
        question_log_prob: Mean natural-log probability per token of the question, given the context; ``None`` if
            unknown: on an engine, without a fast tokenizer, or if the prompt asks before the passages.
        entropy: Predictive entropy of the responses, in nats, >= 0; meaningful only at sampling temperature 1.
        semantic_entropy: Entropy of the clusters, in nats, in [0, log L].
        unseen_mass: Probability of all responses that were neither drawn nor are known leaves, in [0, 1]; ``None`` if
            unknown.
        sampled: The L distinct responses: those among S draws, in order of their first draw, then known leaves that
            were not drawn (count 0).
        counts: Number of draws of each response, with sum S.
        weights: Probability mass that each response represents; the L weights sum to 1.
        cluster_ids: Semantic cluster of each response, numbered from 0 in order of appearance.
        support: ``L`` rows of ``A`` numbers in [0, 1]: entailment of each gold answer by each response.
        best_support: L numbers in [0, 1]: entailment of the best alias by each response.
    """

    soft: Estimate
    hard: Estimate
    answer_log_prob: float | None = None
    question_log_prob: float | None = None
    entropy: float = 0.0
    semantic_entropy: float = 0.0
    unseen_mass: float | None = None
    sampled: Responses = Responses((), ())
    counts: tuple[int, ...] = ()
    weights: tuple[float, ...] = ()
    cluster_ids: tuple[int, ...] = ()
    support: tuple[tuple[float, ...], ...] = field(default=(), repr=False)
    best_support: tuple[float, ...] = field(default=(), repr=False)

    @property
    def seper(self) -> float:
        """Soft SePer."""
        return self.soft.value

    @property
    def seper_hard(self) -> float:
        """Hard SePer."""
        return self.hard.value

    @property
    def std_error(self) -> float:
        """Standard error of soft SePer."""
        return self.soft.std_error

    @property
    def responses(self) -> tuple[str, ...]:
        """The texts of the L distinct responses."""
        return self.sampled.texts

    def __repr__(self) -> str:
        """Return SePer with its interval, and the heaviest responses with their weights."""
        return f"Belief(seper={self.soft}, {len(self.responses)} responses{self._heaviest(': ')})"

    def _repr_html_(self) -> str:
        columns = (self.responses, self.counts, self.weights, self.cluster_ids, self.best_support)
        rows = sorted(itertools.zip_longest(*columns, fillvalue=0), key=lambda cells: -cells[2])
        return html_table(
            f"SePer {self.soft}, hard {self.hard}",
            ("response", "drawn", "weight", "cluster", "support"),
            [(text, drawn, f"{weight:.3f}", cluster, f"{best:.3f}") for text, drawn, weight, cluster, best in rows],
        )

    def _heaviest(self, before: str) -> str:
        pairs = sorted(zip(self.responses, self.weights, strict=False), key=lambda pair: -pair[1])
        texts = [f"{excerpt(text)!r} {weight:.2f}" for text, weight in pairs[:3]]
        return before * bool(texts) + ", ".join(texts) + ", …" * (len(pairs) > 3)


@dataclass(frozen=True, repr=False)
class Utility:
    """The effect of a passage (or a set of passages) on the reader's belief in the gold answer.

    Attributes:
        soft: Soft SePer with the passage minus soft SePer without: ΔSePer (arXiv:2503.01478, eq. 11), in [-1, 1];
            below 0 the passage misled the reader.
        hard: The same for hard SePer.
        delta_belief: Mean of ΔSePer and the relative change of the gold answer's likelihood, word for word, in [-1, 1]
            (``utility.delta_belief``); ``None`` if the likelihood is unknown.
        seper_gain: ``delta_belief`` plus the weighted ``question_gain``, unbounded (``utility.with_question_gain``);
            ``None`` if one of them is unknown.
        belief: Belief with the passage.
        baseline: Belief without any passage.
        passage_id: Id of the passage.
    """

    soft: Estimate
    hard: Estimate
    delta_belief: Estimate | None
    seper_gain: Estimate | None
    belief: Belief
    baseline: Belief
    passage_id: str = ""

    @property
    def delta_seper(self) -> float:
        """ΔSePer, soft."""
        return self.soft.value

    @property
    def delta_seper_hard(self) -> float:
        """ΔSePer, hard."""
        return self.hard.value

    @property
    def std_error(self) -> float:
        """Standard error of ΔSePer, soft."""
        return self.soft.std_error

    @property
    def question_gain(self) -> float | None:
        """Change of the question's mean log-probability per token, in nats; ``None`` if unknown.

        It needs no answer: a passage on the question's topic makes the question likelier (UPR, arXiv:2204.07496).
        """
        with_passage, without = self.belief.question_log_prob, self.baseline.question_log_prob
        return None if with_passage is None or without is None else with_passage - without

    @property
    def seper(self) -> float:
        """Soft SePer with the passage."""
        return self.belief.seper

    @property
    def baseline_seper(self) -> float:
        """Soft SePer without any passage."""
        return self.baseline.seper

    def __repr__(self) -> str:
        """Return ΔSePer with its interval, and SePer without and with the passage."""
        named = f", passage_id={self.passage_id!r}" if self.passage_id else ""
        return f"Utility(delta_seper={self.soft}, seper {self.baseline_seper:.3f} → {self.seper:.3f}{named})"

    def _repr_html_(self) -> str:
        contexts = (("no passage", self.baseline), (f"passage {self.passage_id}".strip(), self.belief))
        return html_table(
            f"ΔSePer {self.soft}, hard {self.hard}",
            ("context", "SePer", "hard", "responses"),
            [(name, belief.soft, belief.hard, belief._heaviest("")) for name, belief in contexts],
        )


UTILITY_BELIEF = "utility_belief"  # in the details of a set by seper_gain: its delta_belief over no passage


@dataclass(frozen=True)
class SetLabel:
    """The label of a passage in addition to other passages in the reader's prompt, by ΔSePer or another labeler.

    Attributes:
        shown: Positions in the query of the passages in the prompt, in the prompt's order.
        passage: Position of the labelled passage, one of ``shown``; the remaining passages are given.
        gain: The label: the labeler's measure of the reader with all of ``shown``, minus that with the given passages.
        utility: The same measure with all of ``shown``, minus that without any passage.
        interaction: ``gain`` minus the label of the passage alone: v(ab) - v(a) - v(b) + v(∅).
        details: Further fields of the set in the label row.
    """

    shown: tuple[int, ...]
    passage: int
    gain: Estimate
    utility: Estimate
    interaction: Estimate
    details: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def given(self) -> tuple[int, ...]:
        """Positions of the given passages, in the prompt's order."""
        return tuple(place for place in self.shown if place != self.passage)


@dataclass(frozen=True)
class LabeledQuery:
    """A query and the labels of its candidate passages, by ΔSePer or another labeler.

    Attributes:
        query: The query, with the P labelled passages.
        labels: P numbers, higher for a better passage. By ΔSePer, 0 is as good as no passage, and below 0 it harms.
        std_errors: P standard errors of the labels; 0 if the labeler estimates none.
        baseline_error: Standard error of the measure without a passage. The measure is subtracted from all P labels,
            so its error is part of all ``std_errors``, and cancels in differences of labels.
        graded: Whether the labels are people's grades, whole numbers from 0.
        evidence: P numbers in [-1, 1], the evidence that a passage holds the answer; empty if the labels are it.
            Labels order passages; positives, negatives and grades are chosen by evidence.
        sets: Labels of passages in addition to given ones; empty if only single passages were measured.
        fields: Further fields of the label row about the question.
        baseline: Fields of the label row that describe the question without a passage.
        details: Fields of the label row for each passage, other than its texts and metadata; P mappings, or none.
    """

    query: Query
    labels: tuple[float, ...]
    std_errors: tuple[float, ...]
    baseline_error: float = 0.0
    graded: bool = False
    evidence: tuple[float, ...] = ()
    sets: tuple[SetLabel, ...] = ()
    fields: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    baseline: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    details: tuple[Mapping[str, Any], ...] = field(default=(), compare=False, repr=False)

    def __post_init__(self) -> None:
        if not len(self.query.passages) == len(self.labels) == len(self.std_errors):
            raise ValueError(
                f"expected one label and one standard error per passage of question id={self.query.id!r}, got "
                f"{len(self.query.passages)} passages, {len(self.labels)} labels, {len(self.std_errors)} errors"
            )

    @property
    def passage_errors(self) -> tuple[float, ...]:
        """P standard errors of the labels without the baseline's error, for differences of labels."""
        return tuple(math.sqrt(max(error**2 - self.baseline_error**2, 0.0)) for error in self.std_errors)

    @property
    def baseline_seper(self) -> float | None:
        """SePer without a passage, in [0, 1]; ``None`` for labelers that do not measure it."""
        return self.baseline.get("seper")

    def keep(self, places: Sequence[int]) -> LabeledQuery:
        """Return the query with only the passages at the given positions, in the given order, and sets within them."""
        moved = {old: new for new, old in enumerate(places)}
        return replace(
            self,
            query=replace(self.query, passages=tuple(self.query.passages[at] for at in places)),
            sets=tuple(
                replace(set_label, shown=tuple(moved[at] for at in set_label.shown), passage=moved[set_label.passage])
                for set_label in self.sets
                if moved.keys() >= set(set_label.shown)
            ),
            labels=tuple(self.labels[at] for at in places),
            std_errors=tuple(self.std_errors[at] for at in places),
            evidence=tuple(self.evidence[at] for at in places) if self.evidence else (),
            details=tuple(self.details[at] for at in places) if self.details else (),
        )


@dataclass(frozen=True)
class Asked:
    """A request to measure one question, for scorers, clients and servers.

    Attributes:
        question: The question.
        answers: Aliases of its gold answer; a text is one alias.
        contexts: Sets of passages for the reader's prompts; an empty set is the baseline.
        texts: Texts of a policy to be scored for stating a gold answer.
    """

    question: str
    answers: Answers
    contexts: tuple[tuple[Passage, ...], ...] = ()
    texts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        answers = (self.answers,) if isinstance(self.answers, str) else tuple(self.answers)  # not its letters
        object.__setattr__(self, "answers", answers)


@dataclass(frozen=True)
class Measured:
    """The beliefs of a question, one per context, and the mutual support of each text and the gold answer."""

    beliefs: tuple[Belief, ...] = ()
    supports: tuple[float, ...] = ()


#: A function that measures questions, such as ``SePerScorer.measure``.
Measure = Callable[[Sequence[Asked]], Sequence[Measured | UnscorableError]]


def html_table(caption: str, header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Return a table for notebooks; texts are escaped."""
    from tabulate import tabulate  # only notebooks need it

    texts = [[str(cell) for cell in cells] for cells in rows]
    return f"<p>{html.escape(caption)}</p>{tabulate(texts, header, tablefmt='html', disable_numparse=True)}"
