"""Is the judge right? Rates at which wrong texts support or are paid, and right ones do not, by kind of text.

The judge is measured as labels and rewards use it: labels take the forward entailment of the gold answer by a
response, and rewards pay the mutual support of the answer that a completion states last.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tqdm.auto import tqdm

from seper_reward.data.demo import EQUIVALENCE, WORDINGS
from seper_reward.data.rows import read_valid_rows
from seper_reward.data.stated import stated_answer
from seper_reward.estimators.judge import BeliefJudge
from seper_reward.statistics import mean
from seper_reward.evaluate.near_values import near_values

GOLDS = 60  # gold answers per kind of value
SUPPORTED, PAID, HALF_PAID = 0.5, 0.05, 0.5
_CHUNK = 256  # texts per step of the progress bar
_TRAPS = ("gibberish", "echo", "shotgun", "not_gold")
_SHIFTS = ("politeness", "question_mark")

# texts with the gold answer {0} and one, two or three other answers of its kind
GUESSES = (
    "{0}, {1}", "{1}, {0}", "{0} ({1})", "{1} ({0})", "{0} {1}", "{1} {0}", "{0} and {1}", "{0} or {1}", "{0} / {1}",
    "{1}; {0}", "{0}, {1}, {2}", "{2}, {1} or {0}", "{1}, {0}, {2}, {3}", "{0} ({1}, {2}, {3})",
)  # fmt: skip
_EVERY = ("person", "organisation", "place", "number", "date", "title", "thing")
_NUMERIC, _ENTITIES = ("number", "date"), ("organisation", "place", "title", "thing")
# texts that hold the gold answer and state another one, and the kinds of answers that they suit
QUALIFIERS: Mapping[str, Sequence[str]] = {
    **dict.fromkeys(
        ("after {}", "before {}", "almost {}", "not {}", "hardly {}", "unlike {}", "no {}", "{} is wrong",
         "it isn't {}", "anything but {}"),
        _EVERY,
    ),
    "near {}": ("person", "organisation", "place", "date", "title", "thing"),  # a number may be rounded
    **dict.fromkeys(
        ("{} junior", "{} II", "anyone but {}", "a fan of {}", "a pupil of {}", "the father of {}"), ("person",)
    ),
    **dict.fromkeys(("more than {}", "less than {}", "well under {}"), _NUMERIC),
    **dict.fromkeys(("outside {}", "south of {}"), ("place",)),
    **dict.fromkeys(("a sequel to {}", "a parody of {}"), ("title",)),
    **dict.fromkeys(("similar to {}", "formerly {}"), _ENTITIES),
}  # fmt: skip
# completions that state an answer as instruct models and search agents write it
WRAPPERS: Mapping[str, Sequence[str]] = {
    "markdown and marks": (
        "**{}**", "`{}`", "* {}", "1. {}", "### Answer\n{}", "**Answer:** {}", "**Final answer**: {}",
        "The answer is **{}**.", "\\boxed{{{}}}", "\\[\\boxed{{\\text{{{}}}}}\\]", "\\(\\boxed{{\\mathrm{{{}}}}}\\)",
        "```\n{}\n```", "<answer> {} </answer>", "{}<|im_end|>", "Answer: {}",
    ),
    "citations and politeness": (
        "{} [2]", "{} (doc 3)", "{}\n\nSource: document 2", "{}\n\nHope this helps!", "{} [1][3].",
        "Going by the second document, the answer is {}.", "The passages say: {}",
        "Sure! The answer is {}.", "According to document 1, the answer is {}.", "So the final answer is: {}",
        "{}\n\nPlease tell me if you want to know more about it.", "Short answer: {}",
        "After reading the results I am confident that the answer is {}.",
    ),
}  # fmt: skip
_WRAPPERS_PER_FACT = 4  # of each kind


@dataclass(frozen=True)
class Case:
    """A text to judge.

    Attributes:
        group: Names under which its result counts.
        question: The question.
        text: The response or completion.
        answers: Aliases of the gold answer.
        right: Whether the text states the gold answer.
    """

    group: tuple[str, ...]
    question: str
    text: str
    answers: tuple[str, ...]
    right: bool


@dataclass(frozen=True)
class Judged:
    """A judged text: its forward entailment (labels) and its mutual support (rewards), both in [0, 1]."""

    case: Case
    support: float
    reward: float


def measure_judge(judge: BeliefJudge, *, seed: int = 0, golds: int = GOLDS) -> dict[str, Any]:
    """Measure a judge on the project's own rows, near values, guesses, qualifiers and right wordings.

    Args:
        judge: The judge.
        seed: Seed of the near values.
        golds: Number of gold answers per kind of near value.

    Returns:
        ``kinds``, ``guesses``, ``qualifiers`` and ``wordings``: what ``rates`` returns, by kind and of ``all``.
        ``near``: the same by kind of value and distance. ``traps``: what ``traps`` returns. ``support``: by section
        the mean support by ``wrong`` and ``right`` texts, the floor and the ceiling of a label.
    """
    found = judged(judge, itertools.chain(own_cases(), near_cases(seed, golds), fact_cases()))
    sections = _parts(found, 0)
    del sections["plain"]  # for the shifts only
    by_kind = {section: _parts(rows, 1) for section, rows in sections.items()}
    near = {kind: _rates_by_name(_parts(rows, 2)) for kind, rows in by_kind.pop("near").items()}
    return {
        **{section: _rates_by_name(parts) | {"all": rates(sections[section])} for section, parts in by_kind.items()},
        "near": near,
        "traps": _trap_means([row.case for row in found], [row.support for row in found]),
        "support": {section: _mean_support(rows) for section, rows in sections.items()},
    }


def traps(judge: BeliefJudge) -> dict[str, Any]:
    """Measure a judge on the trap kinds of ``seper_reward/data/demo/equivalence.jsonl``.

    Returns:
        ``unrelated``: mean support of the gold answer by prose that has nothing to do with the question, by its
        length in tokens. ``gibberish``, ``echo`` (words of the question given back), ``shotgun`` (the gold answer
        among many others) and ``not_gold`` (its denial): mean support. ``politeness_shift`` and
        ``question_mark_shift``: mean absolute change of SePer when the same response is judged by the same question
        with politeness around it, or with and without its question mark. All of them should be 0. ``stated``: mean
        support of the gold answer by responses that state it, which should be 1. All lie in [0, 1].
    """
    kinds = {"unrelated", *_TRAPS, *_SHIFTS}
    cases = [case for case in own_cases() if case.group[1] in kinds]
    return _trap_means(cases, supports(judge, cases))


def judged(judge: BeliefJudge, cases: Iterable[Case]) -> list[Judged]:
    """Judge texts as responses (their best alias by forward entailment) and as completions (``stated_answer``)."""
    cases = list(cases)
    found = []
    with tqdm(total=len(cases), desc="judging", unit="text") as bar:
        for start in range(0, len(cases), _CHUNK):
            chunk = cases[start : start + _CHUNK]
            rewards = judge.mutual_supports(
                [(case.question, stated_answer(case.text), case.answers) for case in chunk]
            )
            for case, support, reward in zip(chunk, supports(judge, chunk), rewards, strict=True):
                found.append(Judged(case, support, reward))
            bar.update(len(chunk))
    return found


def supports(judge: BeliefJudge, cases: Sequence[Case]) -> list[float]:
    """Return the forward entailment of the alias that each text entails most, as labels take it, in [0, 1]."""
    entailment: dict[tuple[str, str, str], float] = {}
    for question in dict.fromkeys(case.question for case in cases):
        asked = [case for case in cases if case.question == question]
        pairs = {(case.text, alias) for case in asked for alias in case.answers}
        entailment |= {(question, *pair): prob for pair, prob in judge.entailment(question, pairs).items()}
    return [max(entailment[case.question, case.text, alias] for alias in case.answers) for case in cases]


def rates(rows: Sequence[Judged]) -> dict[str, Any]:
    """Return how often a judge errs on texts.

    Returns:
        If there are wrong texts: their number ``wrong``, the shares ``false_support`` (support above 0.5) and
        ``false_pay`` (reward above 0.05), and ``mean_pay``. If there are right ones: their number ``right``, and the
        shares ``false_refusal`` (support below 0.5) and ``unpaid`` (reward below 0.5).
    """
    wrong, right = [row for row in rows if not row.case.right], [row for row in rows if row.case.right]
    found: dict[str, Any] = {}
    if wrong:
        found |= {
            "wrong": len(wrong),
            "false_support": mean([row.support > SUPPORTED for row in wrong]),
            "false_pay": mean([row.reward > PAID for row in wrong]),
            "mean_pay": mean([row.reward for row in wrong]),
        }
    if right:
        found |= {
            "right": len(right),
            "false_refusal": mean([row.support < SUPPORTED for row in right]),
            "unpaid": mean([row.reward < HALF_PAID for row in right]),
        }
    return found


def own_cases() -> Iterator[Case]:
    """Yield the rows of ``equivalence.jsonl``; those of shifts once more with the plain question, in ``plain``."""
    for _, row in read_valid_rows(EQUIVALENCE):
        text, answers, right = row["response"], tuple(row["answers"]), row["equivalent"]
        length = (str(row["tokens"]),) if "tokens" in row else ()
        yield Case(("kinds", row["kind"], *length), row["question"], text, answers, right)
        if row["kind"] in _SHIFTS:
            yield Case(("plain", row["kind"]), row["plain_question"], text, answers, right)


def near_cases(seed: int, golds: int) -> Iterator[Case]:
    """Yield near values and other spellings, drawn with a seed."""
    for value in near_values(seed, golds):
        group = ("near", value.kind, value.distance)
        yield Case(group, value.question, value.text, (value.gold,), value.distance == "0")


def fact_cases() -> Iterator[Case]:
    """Yield guesses, qualifiers and right wordings of the facts in ``wordings.jsonl``."""
    used = dict.fromkeys(WRAPPERS, 0)
    for _, fact in read_valid_rows(WORDINGS):
        kind, question, answers = fact["kind"], fact["question"], tuple(fact["answers"])
        gold, others = answers[0], fact["others"]
        for form in GUESSES:
            if f"{{{len(others) + 1}}}" not in form and ("{2}" not in form or len(others) > 1):
                yield Case(("guesses", form.format(*"XYZW")), question, form.format(gold, *others), answers, False)
        for form, kinds in QUALIFIERS.items():
            if kind in kinds:
                yield Case(("qualifiers", form.format("X")), question, form.format(gold), answers, False)
        for name, texts in fact["right"].items():
            for text in texts:
                yield Case(("wordings", name), question, text, answers, True)
        for name, forms in WRAPPERS.items():
            for _ in range(_WRAPPERS_PER_FACT):  # in turn, so that each comes with several facts
                text = forms[used[name] % len(forms)].format(gold)
                used[name] += 1
                yield Case(("wordings", name), question, text, answers, True)


def _parts(rows: Iterable[Judged], place: int) -> dict[str, list[Judged]]:
    """Return judged texts by the name at a place of their groups, in order of appearance."""
    parts: dict[str, list[Judged]] = {}
    for row in rows:
        parts.setdefault(row.case.group[place], []).append(row)
    return parts


def _rates_by_name(parts: Mapping[str, Sequence[Judged]]) -> dict[str, Any]:
    return {name: rates(rows) for name, rows in parts.items()}


def _trap_means(cases: Sequence[Case], support: Sequence[float]) -> dict[str, Any]:
    by_group: dict[tuple[str, ...], list[float]] = {}
    for case, value in zip(cases, support, strict=True):
        by_group.setdefault(case.group, []).append(value)
    lengths = sorted((group[2] for group in by_group if group[:2] == ("kinds", "unrelated")), key=int)
    means: dict[str, Any] = {"unrelated": {length: mean(by_group["kinds", "unrelated", length]) for length in lengths}}
    means |= {kind: mean(by_group["kinds", kind]) for kind in _TRAPS}
    for kind in _SHIFTS:
        pairs = zip(by_group["kinds", kind], by_group["plain", kind], strict=True)
        means[f"{kind}_shift"] = mean([abs(changed - plain) for changed, plain in pairs])
    stated = [value for case, value in zip(cases, support, strict=True) if case.group[0] == "plain" and case.right]
    return means | {"stated": mean(stated)}


def _mean_support(rows: Sequence[Judged]) -> dict[str, float]:
    return {
        name: mean([row.support for row in rows if row.case.right == right])
        for name, right in (("wrong", False), ("right", True))
        if any(row.case.right == right for row in rows)
    }
