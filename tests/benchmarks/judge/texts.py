"""Guesses, qualifiers and right wordings of the facts in ``wordings.jsonl``, as verdicts to measure a judge on.

python -m tests.benchmarks.judge.texts > runs/texts.jsonl
seper-reward evaluate judge --file runs/texts.jsonl tests/benchmarks/judge/equivalence.jsonl --threshold 0.5
"""

from collections.abc import Iterator, Sequence
from typing import Any

import yaml

from seper_reward.data.rows import read_valid_rows
from tests.benchmarks.judge import WORDINGS, print_texts

_WRAPPERS_PER_FACT = 4  # of each kind


def texts() -> Iterator[dict[str, Any]]:
    """Yield the texts as rows of ``evaluate judge``."""
    forms = yaml.safe_load(WORDINGS.with_name("forms.yaml").read_text(encoding="utf-8"))
    used = dict.fromkeys(forms["wrappers"], 0)
    for _, fact in read_valid_rows(WORDINGS):
        gold, others = fact["answers"][0], fact["others"]
        made: list[tuple[str, str, bool]] = []
        for form in forms["guesses"]:
            if f"{{{len(others) + 1}}}" not in form and ("{2}" not in form or len(others) > 1):
                made.append(("guesses", form.format(gold, *others), False))
        for group in forms["qualifiers"]:
            if fact["kind"] in group["kinds"].split():
                made += [("qualifiers", form.format(gold), False) for form in group["forms"]]
        made += [(name, text, True) for name, own in fact["right"].items() for text in own]
        for name, wrappers in forms["wrappers"].items():
            for _ in range(_WRAPPERS_PER_FACT):  # in turn: each wrapper gets several facts
                made.append((name, wrappers[used[name] % len(wrappers)].format(gold), True))
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
    print_texts(__doc__, texts(), argv)


if __name__ == "__main__":
    main()
