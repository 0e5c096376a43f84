"""Methods that judge the utility of passages without a gold answer, as plans of requests to a reader. Pure.

The methods are ITEM (arXiv:2406.11290), in which a pseudo-answer and the judgment of the passages improve each other,
and its baselines: judgments without an answer, judgments whose reply contains the answer, votes of such replies over
several orders of the passages (arXiv:2403.19216), and ranking by relevance (RankGPT, arXiv:2304.09542).

A method is a generator. It yields the next requests, which can be sent in one batch, receives the replies, and
returns the judgment. Passages are identified by their positions in the question's list.
"""

import math
import operator
import random
from collections import Counter
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, get_args

from seper_reward.options import check_choice, check_least
from seper_reward.types import UnscorableError

Method = Literal["vanilla", "exp_a", "imp_a", "k_sampling", "rank_gpt", "a_s", "a_r", "ar_s", "ar_r"]
METHODS: tuple[Method, ...] = get_args(Method)
Form = Literal["listwise", "pointwise"]
PseudoAnswer = Literal["explicit", "implicit"]
JudgmentPreset = Literal["default", "paper", "official"]
Task = Literal[
    "answer", "information", "set", "point", "answer_set", "information_set", "answer_point", "information_point",
    "rank", "relevance",
]  # fmt: skip
Similarity = Callable[[str, str], float]
Places = tuple[int, ...]


@dataclass(frozen=True)
class Ask:
    """A request to the reader: a task, the positions of the passages shown, in order, and a pseudo-answer to judge by.

    ``"answer"``: answer the question from the passages; ``"information"``: list the information that is needed to
    answer it; ``"set"``: choose the useful passages; ``"point"``: judge whether the one passage is useful;
    ``"answer_set"``, ``"information_set"``, ``"answer_point"``, ``"information_point"``: two of these in one reply;
    ``"rank"``: order passages by utility; ``"relevance"``: order them by relevance. A reply has the form of its task:
    a text, positions, or a bool, or a text with either of these; ``None`` if the text cannot be parsed.
    """

    task: Task
    shown: Places
    pseudo_answer: str = ""


class Round(NamedTuple):
    """One round of ITEM, or one reply that contains an answer: the pseudo-answer and the chosen positions."""

    pseudo_answer: str
    chosen: Places


@dataclass(frozen=True)
class Judgment:
    """The reader's judgment."""

    chosen: Places  # positions of the useful passages, best first if they were ranked
    # positions of all passages, best first: by utility if the method ranks by utility, else by relevance if it ranks
    # by relevance, else the chosen passages and then all other passages, both in the order shown
    order: Places
    # all judged rounds, or all votes that could be parsed; empty for `vanilla` and `rank_gpt`
    rounds: tuple[Round, ...] = ()
    stopped_by: Literal["rounds", "same_selection", "same_answer"] = "rounds"
    relevance: Places = ()  # all passages in the last order by relevance, for `ar_r`, which has two orders


#: Sent per ``Ask``: a text, positions or a bool, depending on the task; ``None`` if the text cannot be parsed.
Reply = Any
Plan = Generator[list[Ask], list[Reply], Judgment]
_UNPARSABLE = (
    "the reader's judgment could not be parsed after repeated requests; use a reader that follows "
    "instructions, or other prompts"
)
_BOTH: dict[PseudoAnswer, Task] = {"explicit": "answer_set", "implicit": "information_set"}
_BOTH_OF_ONE: dict[PseudoAnswer, Task] = {"explicit": "answer_point", "implicit": "information_point"}


@dataclass(frozen=True)
class JudgmentOptions:
    """How passages are judged; ``ValueError`` if an option is out of range, or the method does not support the form.

    The methods ``"a_s"``, ``"a_r"``, ``"ar_s"`` and ``"ar_r"`` are ITEM. Each round answers from the passages chosen
    in the previous round (in the first round, or if none was chosen, from all passages). With ``ar`` it then orders
    all passages by relevance, starting from the previous round's order. Finally it judges all passages by the answer:
    ``s`` chooses a set, ``r`` orders them by utility and chooses the first ones. ``"exp_a"`` and ``"imp_a"`` (UJ-ExpA,
    UJ-ImpA): one reply with an explicit or implicit answer and a set; ``"vanilla"``: a set without an answer;
    ``"k_sampling"``: votes of several replies with an answer and a set, for several orders of the passages;
    ``"rank_gpt"``: the first passages by relevance, without an answer.
    """

    method: Method = "a_s"
    form: Form = "listwise"  # "pointwise": the reader sees one passage at a time; for methods that do not compare them
    pseudo_answer: PseudoAnswer = "explicit"  # the reader's answer; "implicit": the information that is needed
    rounds: int = 3  # at most, of ITEM; it stops early if the same passages are chosen again
    top_k: int = 5  # passages of an order that are chosen
    samples: int = 6  # orders that `k_sampling` votes over: the given order and random ones
    same_answer: float | None = None  # ROUGE-L of two successive pseudo-answers, in (0, 1], at which ITEM stops

    def __post_init__(self) -> None:
        check_choice("method", self.method, METHODS)
        check_choice("form", self.form, get_args(Form))
        check_choice("pseudo_answer", self.pseudo_answer, get_args(PseudoAnswer))
        check_least(self, rounds=1, top_k=1, samples=1)
        if self.same_answer is not None and not 0 < self.same_answer <= 1:
            raise ValueError(f"same_answer must be in (0, 1], got {self.same_answer}")
        if self.form == "pointwise" and self.method not in ("vanilla", "a_s", "exp_a", "imp_a"):
            raise ValueError(
                f"form=pointwise judges passages one by one, but method={self.method} compares them in one reply; use "
                "vanilla, a_s, exp_a or imp_a, or form=listwise"
            )

    @property
    def kind(self) -> PseudoAnswer:
        """Kind of the method's pseudo-answer."""
        fixed: dict[str, PseudoAnswer] = {"exp_a": "explicit", "imp_a": "implicit"}
        return fixed.get(self.method, self.pseudo_answer)

    @property
    def writes_both(self) -> bool:
        """Whether a reply contains a pseudo-answer and the judgment."""
        return self.method in ("exp_a", "imp_a", "k_sampling")

    @classmethod
    def preset(cls, name: JudgmentPreset, method: Method, **changes: Any) -> "JudgmentOptions":
        """Return published options by name, with changes; ``"official"`` has the values of the published code."""
        check_choice("preset", name, get_args(JudgmentPreset))
        options = cls(method)
        if name == "official":
            options = replace(options, rounds=6 if method.startswith("ar_") else 5, top_k=10)
        return replace(options, **changes)


def judge(options: JudgmentOptions, passages: int, *, seed: str, similarity: Similarity = operator.eq) -> Plan:
    """Return the plan of a method for a question with P >= 1 passages; ``seed`` seeds the orders of ``k_sampling``."""
    everything = tuple(range(passages))
    if options.method == "rank_gpt":
        (ranked,) = yield [Ask("relevance", everything)]
        order = _require(ranked)
        return Judgment(order[: options.top_k], order)
    if options.method == "vanilla":
        chosen = yield from _useful(options.form, everything, "")
        return Judgment(chosen, _first(chosen, everything))
    if options.writes_both and options.form == "pointwise":
        replies = yield [Ask(_BOTH_OF_ONE[options.kind], (place,)) for place in everything]
        votes = [
            Round(answer, (place,) if useful else ())
            for place, (answer, useful) in zip(everything, map(_require, replies), strict=True)
        ]
        chosen = tuple(place for vote in votes for place in vote.chosen)
        return Judgment(chosen, _first(chosen, everything), tuple(votes))
    if options.writes_both:
        return (yield from _votes(options, everything, seed))
    return (yield from _rounds(options, everything, similarity))


def _rounds(options: JudgmentOptions, everything: Places, similarity: Similarity) -> Plan:
    task: Task = "answer" if options.kind == "explicit" else "information"
    chosen = ranked = order = everything
    rounds: list[Round] = []

    def ended(by: Literal["rounds", "same_selection", "same_answer"]) -> Judgment:
        return Judgment(chosen, order, tuple(rounds), by, ranked if options.method == "ar_r" else ())

    for _ in range(options.rounds):
        (answer,) = yield [Ask(task, chosen or everything)]
        if not answer.strip():
            raise UnscorableError("the reader's pseudo-answer is blank; use another reader, or method=vanilla")
        before, same = chosen, options.same_answer
        if rounds and same is not None and similarity(answer, rounds[-1].pseudo_answer) >= same:
            return ended("same_answer")
        if options.method.startswith("ar_"):
            (reply,) = yield [Ask("relevance", ranked, answer)]
            order = ranked = _require(reply)
        if options.method.endswith("_r"):
            (reply,) = yield [Ask("rank", ranked, answer)]
            order = _require(reply)
            chosen = order[: options.top_k]
        else:
            chosen = yield from _useful(options.form, ranked, answer)
            order = ranked if options.method == "ar_s" else _first(chosen, ranked)
        rounds.append(Round(answer, chosen))
        if set(chosen) == set(before) and options.rounds > 1:
            return ended("same_selection")
    return ended("rounds")


def _useful(form: Form, shown: Places, answer: str) -> Generator[list[Ask], list[Reply], Places]:
    if form == "listwise":
        (reply,) = yield [Ask("set", shown, answer)]
        chosen = _require(reply)
        return tuple(place for place in shown if place in chosen)
    replies = yield [Ask("point", (place,), answer) for place in shown]
    return tuple(place for place, useful in zip(shown, replies, strict=True) if _require(useful))


def _votes(options: JudgmentOptions, everything: Places, seed: str) -> Plan:
    draw, orders = random.Random(seed), {everything: None}  # the given order, and distinct random ones
    samples = options.samples if options.method == "k_sampling" else 1
    while len(orders) < min(samples, math.factorial(len(everything))):
        orders[tuple(draw.sample(everything, len(everything)))] = None
    asks = [Ask(_BOTH[options.kind], order) for order in orders]
    replies = yield asks
    rounds = [
        Round(reply[0], tuple(place for place in ask.shown if place in reply[1]))
        for ask, reply in zip(asks, replies, strict=True)
        if reply is not None
    ]
    if not rounds:
        raise UnscorableError(_UNPARSABLE)
    sizes = Counter(len(vote.chosen) for vote in rounds)
    size = min(sizes, key=lambda length: (-sizes[length], length))  # the most common size; the smallest in a tie
    votes = Counter(place for vote in rounds for place in vote.chosen)
    order = tuple(sorted(everything, key=lambda place: (-votes[place], place)))
    return Judgment(order[:size], order, tuple(rounds))


def _first(chosen: Places, shown: Places) -> Places:
    return (*chosen, *(place for place in shown if place not in chosen))


def _require(reply: Reply) -> Reply:
    if reply is None:
        raise UnscorableError(_UNPARSABLE)
    return reply
