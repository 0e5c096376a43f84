"""Guesses, qualifiers and right wordings of the facts in ``wordings.jsonl``, as verdicts to measure a judge on.

python -m tests.benchmarks.judge.texts > runs/texts.jsonl
seper-reward evaluate judge --file runs/texts.jsonl tests/benchmarks/judge/equivalence.jsonl --threshold 0.5
"""

import json
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from seper_reward.data.rows import read_valid_rows
from tests.benchmarks.judge import WORDINGS

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


def texts() -> Iterator[dict[str, Any]]:
    """Yield the texts as rows of ``evaluate judge``."""
    used = dict.fromkeys(WRAPPERS, 0)
    for _, fact in read_valid_rows(WORDINGS):
        gold, others = fact["answers"][0], fact["others"]
        made: list[tuple[str, str, bool]] = []
        for form in GUESSES:
            if f"{{{len(others) + 1}}}" not in form and ("{2}" not in form or len(others) > 1):
                made.append(("guesses", form.format(gold, *others), False))
        made += [
            ("qualifiers", form.format(gold), False) for form, kinds in QUALIFIERS.items() if fact["kind"] in kinds
        ]
        made += [(name, text, True) for name, own in fact["right"].items() for text in own]
        for name, forms in WRAPPERS.items():
            for _ in range(_WRAPPERS_PER_FACT):  # in turn: each wrapper gets several facts
                made.append((name, forms[used[name] % len(forms)].format(gold), True))
                used[name] += 1
        for kind, text, right in made:
            yield {
                "kind": kind,
                "question": fact["question"],
                "answers": fact["answers"],
                "response": text,
                "equivalent": right,
            }


def main(argv: Sequence[str] | None = None) -> None:
    ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter).parse_args(argv)
    for row in texts():
        print(json.dumps(row, ensure_ascii=False))


if __name__ == "__main__":
    main()
