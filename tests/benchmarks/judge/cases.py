"""Texts to measure a judge on: near values, guesses, qualifiers, wordings, and the project's own rows."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from seper_reward.data.rows import read_valid_rows
from tests.benchmarks.judge import EQUIVALENCE, WORDINGS
from tests.benchmarks.judge.near_values import near_values

#: Kinds of own rows whose texts are judged again with the plain question.
SHIFTS = ("politeness", "question_mark")

# texts with the gold answer {0} and one, two or three other answers of its kind
GUESSES = (
    "{0}, {1}", "{1}, {0}", "{0} ({1})", "{1} ({0})", "{0} {1}", "{1} {0}", "{0} and {1}", "{0} or {1}", "{0} / {1}",
    "{1}; {0}", "{0}, {1}, {2}", "{2}, {1} or {0}", "{1}, {0}, {2}, {3}", "{0} ({1}, {2}, {3})",
)  # fmt: skip
_ALL_KINDS = ("person", "organisation", "place", "number", "date", "title", "thing")
_NUMERIC, _ENTITIES = ("number", "date"), ("organisation", "place", "title", "thing")
# texts that contain the gold answer but state another one, and the kinds of answers they apply to
QUALIFIERS: Mapping[str, Sequence[str]] = {
    **dict.fromkeys(
        ("after {}", "before {}", "almost {}", "not {}", "hardly {}", "unlike {}", "no {}", "{} is wrong",
         "it isn't {}", "anything but {}"),
        _ALL_KINDS,
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
# completions that state an answer in the style of instruct models and search agents
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
    """A text to be judged."""

    group: tuple[str, ...]  # names of the groups that its result counts in
    question: str
    text: str  # the response or completion
    answers: tuple[str, ...]  # aliases of the gold answer
    right: bool  # whether the text states the gold answer


def own_cases() -> Iterator[Case]:
    """Yield the rows of ``equivalence.jsonl``; rows of shifts again with the plain question, in ``plain``."""
    for _, row in read_valid_rows(EQUIVALENCE):
        text, answers, right = row["response"], tuple(row["answers"]), row["equivalent"]
        length = (str(row["tokens"]),) if "tokens" in row else ()
        yield Case(("kinds", row["kind"], *length), row["question"], text, answers, right)
        if row["kind"] in SHIFTS:
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
            for _ in range(_WRAPPERS_PER_FACT):  # in turn: each wrapper gets several facts
                text = forms[used[name] % len(forms)].format(gold)
                used[name] += 1
                yield Case(("wordings", name), question, text, answers, True)
