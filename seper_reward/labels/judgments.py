"""Judgments of utility without a gold answer: what a reader is asked, and what follows from its replies. Pure.

The methods are those of ITEM (arXiv:2406.11290), in which a pseudo-answer and the judgment of the passages improve
each other, and those it is compared with: judgments in one round, votes over several orders of the passages
(arXiv:2403.19216), and ranking by relevance (RankGPT, arXiv:2304.09542).

A method is a generator. It yields what to ask next, all of which may be asked side by side, is sent the replies, and
returns the judgment. Passages are known by their places among the question's.
"""

import operator
import random
from collections import Counter
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from seper_reward.types import UnscorableError

Method = Literal["vanilla", "exp_a", "imp_a", "k_sampling", "rank_gpt", "a_s", "a_r", "ar_s", "ar_r"]
METHODS: tuple[Method, ...] = get_args(Method)
Form = Literal["listwise", "pointwise"]
PseudoAnswer = Literal["explicit", "implicit"]
JudgmentPreset = Literal["default", "paper", "official"]
Task = Literal["answer", "information", "set", "point", "rank", "relevance"]
Similarity = Callable[[str, str], float]
Places = tuple[int, ...]


@dataclass(frozen=True)
class Ask:
    """What the reader is asked.

    Attributes:
        task: ``"answer"``: answer the question from the passages; ``"information"``: say what one must know to answer
            it; ``"set"``: which passages are useful; ``"point"``: whether the one passage is; ``"rank"``: their order
            by utility; ``"relevance"``: their order by relevance.
        shown: Places of the passages, in the order shown.
        pseudo_answer: What was replied to ``"answer"`` or ``"information"``, for the reader to judge by; blank for
            nothing.

    A reply is a text to the first two; the places of the chosen passages; whether the one is useful; or all places in
    order. It is ``None`` where the reader's text could not be understood.
    """

    task: Task
    shown: Places
    pseudo_answer: str = ""


@dataclass(frozen=True)
class Judgment:
    """What the reader judged.

    Attributes:
        chosen: Places of the useful passages, the best first where they were ranked.
        order: Places of all passages, the best first; after chosen ones the others in the order shown.
        pseudo_answers: The pseudo-answer of each round that was judged.
        stopped_by: ``"rounds"`` after the last one, ``"same_selection"``, or ``"same_answer"``.
    """

    chosen: Places
    order: Places
    pseudo_answers: tuple[str, ...] = ()
    stopped_by: Literal["rounds", "same_selection", "same_answer"] = "rounds"


#: Sent per ``Ask``: a text, places or a bool, as the task wants it; ``None`` where the text was not understood.
Reply = Any
Plan = Generator[list[Ask], list[Reply], Judgment]
_NOT_UNDERSTOOD = (
    "the reader's judgment could not be understood, however often it was asked; take a reader that follows "
    "instructions, or other item_prompts"
)


@dataclass(frozen=True)
class JudgmentOptions:
    """How passages are judged.

    Attributes:
        method: ``"a_s"``, ``"a_r"``, ``"ar_s"``, ``"ar_r"``: ITEM. Each round answers from the passages chosen in the
            one before (at first, and where none was, from all), with ``ar`` then orders all passages by relevance, and
            judges all by the answer: ``s`` chooses a set, ``r`` orders them by utility and chooses the first ones.
            ``"exp_a"`` and ``"imp_a"``: one round of ``a_s``, with an explicit or implicit answer; ``"vanilla"``: a
            set without any answer; ``"k_sampling"``: votes of several such sets, the passages in other orders;
            ``"rank_gpt"``: the first ones by relevance, without any answer.
        form: ``"listwise"``: the reader sees all passages at once; ``"pointwise"``: each by itself, which only methods
            without an order of passages can (``vanilla``, ``exp_a``, ``imp_a``, ``a_s``).
        pseudo_answer: Of ITEM, ``"explicit"``, the reader's answer, or ``"implicit"``, what one must know to answer.
        rounds: Most rounds of ITEM, >= 1; it ends before if the same passages are chosen again.
        top_k: How many passages of an order are chosen, >= 1.
        samples: Orders that ``k_sampling`` votes over, >= 1: the given one, and random ones.
        same_answer: ROUGE-L of two successive pseudo-answers, in (0, 1], from which on ITEM ends without judging once
            more; ``None`` does not compare them.

    Raises:
        ValueError: One of them is unknown or out of range, or the form does not go with the method.
    """

    method: Method = "a_s"
    form: Form = "listwise"
    pseudo_answer: PseudoAnswer = "explicit"
    rounds: int = 3
    top_k: int = 5
    samples: int = 5
    same_answer: float | None = None

    def __post_init__(self) -> None:
        for name, allowed in (
            ("method", METHODS),
            ("form", get_args(Form)),
            ("pseudo_answer", get_args(PseudoAnswer)),
        ):
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name} must be one of {', '.join(allowed)}, got {getattr(self, name)!r}")
        for name in ("rounds", "top_k", "samples"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.same_answer is not None and not 0 < self.same_answer <= 1:
            raise ValueError(f"same_answer must be in (0, 1], got {self.same_answer}")
        if self.form == "pointwise" and self.method not in ("vanilla", "exp_a", "imp_a", "a_s"):
            raise ValueError(
                f"form=pointwise judges passages one by one, but method={self.method} puts them in order; take one of "
                "vanilla, exp_a, imp_a and a_s, or form=listwise"
            )

    @property
    def kind(self) -> PseudoAnswer:
        """Kind of pseudo-answer that the method has."""
        fixed: dict[str, PseudoAnswer] = {"exp_a": "explicit", "imp_a": "implicit"}
        return fixed.get(self.method, self.pseudo_answer)

    @classmethod
    def preset(cls, name: JudgmentPreset, method: Method, **changes: Any) -> "JudgmentOptions":
        """Return published options by name, with changes: ``None`` keeps the preset's.

        ``"paper"`` has 3 rounds and the 5 first passages. ``"official"`` is what the published code has active: 5
        rounds (6 of ``ar``), the 10 first passages, and votes over 6 orders. ``"default"`` is the paper's.

        Raises:
            ValueError: There is no such preset, or an option is not allowed.
        """
        if name not in get_args(JudgmentPreset):
            raise ValueError(f"item_preset must be one of {', '.join(get_args(JudgmentPreset))}, got {name!r}")
        options = cls(method)
        if name == "official":
            options = replace(options, rounds=6 if method.startswith("ar_") else 5, top_k=10, samples=6)
        return replace(options, **{each: value for each, value in changes.items() if value is not None})


def judge(options: JudgmentOptions, passages: int, *, seed: str, similarity: Similarity = operator.eq) -> Plan:
    """Return the method's plan for a question.

    Args:
        options: How passages are judged.
        passages: Number P of passages, >= 1.
        seed: Text that decides the random orders of ``k_sampling``, such as the question's id.
        similarity: How alike two pseudo-answers are, in [0, 1], for ``same_answer``.

    Raises:
        UnscorableError: By the plan, where a reply that it cannot do without is ``None``.
    """
    if options.method == "k_sampling":
        return _k_sampling(passages, options.samples, seed)
    if options.method == "rank_gpt":
        return _rank_gpt(passages, options.top_k)
    return _rounds(options, passages, similarity)


def _rounds(options: JudgmentOptions, passages: int, similarity: Similarity) -> Plan:
    everything = tuple(range(passages))
    chosen = order = everything
    answers: list[str] = []
    rounds = 1 if options.method in ("vanilla", "exp_a", "imp_a") else options.rounds
    for _ in range(rounds):
        answer = ""
        if options.method != "vanilla":
            task: Task = "answer" if options.kind == "explicit" else "information"
            (answer,) = yield [Ask(task, chosen or everything)]
            if not answer.strip():
                raise UnscorableError("the reader's pseudo-answer is blank; take another reader, or method=vanilla")
            if answers and options.same_answer is not None and similarity(answer, answers[-1]) >= options.same_answer:
                return Judgment(chosen, order, tuple(answers), "same_answer")
            answers.append(answer)
        shown = everything
        if options.method.startswith("ar_"):
            (ranked,) = yield [Ask("relevance", everything, answer)]
            shown = _understood(ranked)
        before = chosen
        if options.method.endswith("_r"):
            (ranked,) = yield [Ask("rank", shown, answer)]
            order = _understood(ranked)
            chosen = order[: options.top_k]
        else:
            chosen = yield from _useful(options.form, shown, answer)
            order = _first(chosen, shown)
        if set(chosen) == set(before) and rounds > 1:
            return Judgment(chosen, order, tuple(answers), "same_selection")
    return Judgment(chosen, order, tuple(answers))


def _useful(form: Form, shown: Places, answer: str) -> Generator[list[Ask], list[Reply], Places]:
    if form == "listwise":
        (found,) = yield [Ask("set", shown, answer)]
        found = _understood(found)
        return tuple(place for place in shown if place in found)
    replies = yield [Ask("point", (place,), answer) for place in shown]
    return tuple(place for place, useful in zip(shown, replies, strict=True) if _understood(useful))


def _k_sampling(passages: int, samples: int, seed: str) -> Plan:
    everything = tuple(range(passages))
    found = yield [Ask("set", order) for order in _orders(passages, samples, seed)]
    selections = [each for each in found if each is not None]
    if not selections:
        raise UnscorableError(_NOT_UNDERSTOOD)
    sizes = Counter(map(len, selections))
    size = min(sizes, key=lambda length: (-sizes[length], length))  # the commonest, of several the smallest
    votes = Counter(place for selection in selections for place in selection)
    order = tuple(sorted(everything, key=lambda place: (-votes[place], place)))
    return Judgment(order[:size], order)


def _rank_gpt(passages: int, top_k: int) -> Plan:
    (ranked,) = yield [Ask("relevance", tuple(range(passages)))]
    order = _understood(ranked)
    return Judgment(order[:top_k], order)


def _orders(passages: int, count: int, seed: str) -> list[Places]:
    """Return the given order and distinct random ones, always the same; fewer where there are no more."""
    draw, most = random.Random(seed), 1
    for place in range(2, passages + 1):
        most *= place
    orders = {tuple(range(passages)): None}
    while len(orders) < min(count, most):
        orders[tuple(draw.sample(range(passages), passages))] = None
    return list(orders)


def _first(chosen: Places, shown: Places) -> Places:
    return (*chosen, *(place for place in shown if place not in chosen))


def _understood(reply: Reply) -> Reply:
    if reply is None:
        raise UnscorableError(_NOT_UNDERSTOOD)
    return reply
