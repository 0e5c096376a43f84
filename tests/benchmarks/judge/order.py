"""Texts with the words of the answer in another order or role, and texts in other languages, as verdicts on a judge.

python -m tests.benchmarks.judge.order > runs/order.jsonl
seper-reward evaluate judge --file runs/order.jsonl --threshold 0.5
"""

import itertools
import random
from collections.abc import Iterator, Sequence
from typing import Any

import yaml

from seper_reward.data.rows import read_valid_rows
from tests.benchmarks.adapters.answer_languages import LANGUAGES, paragraphs_of
from tests.benchmarks.common import SHARED
from tests.benchmarks.judge import WORDINGS, print_texts

_NUMBERS = ((3, 5), (12, 7), (2, 9), (44, 6), (8, 31))
_PER_FORM = 4  # names drawn for each form


def texts() -> Iterator[dict[str, Any]]:
    """Yield the texts as rows of ``evaluate judge``."""
    forms = yaml.safe_load(WORDINGS.with_name("order.yaml").read_text(encoding="utf-8"))
    rng = random.Random(0)
    for kind, question, gold, text, right in itertools.chain(
        _roles(forms, rng), _values(forms), _wordings(forms, rng), _languages(rng)
    ):
        yield {"kind": kind, "question": question, "answers": [gold], "response": text, "equivalent": right}


Row = tuple[str, str, str, str, bool]  # kind, question, gold answer, text, whether it states the answer


def _roles(forms: dict[str, Any], rng: random.Random) -> Iterator[Row]:
    def drawn() -> dict[str, str]:
        return dict(zip("axz", rng.sample(forms["names"], 3), strict=True))

    for deed, _ in itertools.product(forms["deeds"], range(_PER_FORM)):
        names = drawn()
        for right, group in ((True, deed["right"]), (False, deed["reverse"])):
            for form in group:
                yield "reversed", deed["question"].format(**names), names["a"], form.format(**names), right
    for relation, _ in itertools.product(forms["relations"], range(_PER_FORM)):
        names = drawn() | {"r": relation["relation"]}
        for right, group in ((True, forms["relation_true"]), (False, forms["relation_turned"])):
            for form in group:
                yield "relations", relation["question"].format(**names), names["a"], form.format(**names), right
    made = forms["made"]
    for thing in made["things"]:
        names = drawn() | {"t": thing}
        for right, group in ((True, made["right"]), (False, made["turned"])):
            for form in group:
                yield "relations", made["question"].format(**names), names["a"], form.format(**names), right
    for form, _ in itertools.product(forms["lists"], range(_PER_FORM)):
        names = drawn()
        swapped = names | {"a": names["x"], "x": names["a"]}
        yield "lists", "Who were they?", form.format(**names), form.format(**swapped), True


def _values(forms: dict[str, Any]) -> Iterator[Row]:
    for (question, form), (one, two) in itertools.product(forms["numbers"], _NUMBERS):
        gold = form.format(n=one, m=two)
        yield "numbers exchanged", question, gold, form.format(n=two, m=one), False
        yield "numbers exchanged", question, gold, f"It was {gold}.", True
    for question, gold, group in forms["measures"]:
        yield from (("measures", question, gold, text, True) for text in group)
        yield from (("measures", question, text, gold, True) for text in group)
    for term in forms["terms"]:
        yield "terms in a sentence", "What was it?", term, f"It is {term}.", True
    for question, gold, right, wrong in forms["times"]:
        yield from (("times in words", question, gold, text, True) for text in right)
        yield from (("times in words", question, gold, text, False) for text in wrong)


def _wordings(forms: dict[str, Any], rng: random.Random) -> Iterator[Row]:
    for form, name in itertools.product(forms["symbols"], [*forms["names"][:5], "1912", "12 km"]):
        yield "symbols", "What is asked?", name, form.format(name), True
    for question, (town, land) in itertools.product(forms["where"], forms["places"]):
        question = question.format(x=rng.choice(forms["names"]))
        yield "city, country", question, f"{town}, {land}", land, False
        yield "city, country", question, f"{town}, {land}", town, True
    for gold, text in itertools.permutations(forms["refusals"], 2):
        yield "refusals", "Where does the aunt live?", gold, text, True
    for gold, name in itertools.product(forms["refusals"], forms["names"][:3]):
        yield "refusals", "Who won?", gold, name, False
    for question, letter, text, other, wrong in forms["options"]:
        words = {"l": letter, "t": text, "m": other, "u": wrong}
        for right, group in ((True, forms["option_right"]), (False, forms["option_wrong"])):
            yield from (("option letters", question, letter, form.format(**words), right) for form in group)
        yield "option letters", question, text, f"{letter}) {text}", True
        yield "option letters", question, text, f"{other}) {wrong}", False


def _languages(rng: random.Random) -> Iterator[Row]:
    """Yield answers in other languages for gold answers in English, of paragraphs that no judge was trained on."""
    rows = [dict(row) for _, row in read_valid_rows(SHARED / "xquad.jsonl.gz")]
    for group in [*paragraphs_of(rows, "dev"), *paragraphs_of(rows, "test")]:
        for row in group:
            gold = row["answer"]["en"]
            others = [
                other
                for other in group
                if other["answer"]["en"].lower() not in gold.lower()
                and gold.lower() not in other["answer"]["en"].lower()
            ]
            for language in LANGUAGES[1:]:
                yield "other languages", row["question"]["en"], gold, row["answer"][language], True
                if others:
                    yield "other languages", row["question"]["en"], gold, rng.choice(others)["answer"][language], False


def main(argv: Sequence[str] | None = None) -> None:
    print_texts(__doc__, texts(), argv)


if __name__ == "__main__":
    main()
