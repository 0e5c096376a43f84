"""Answers in twelve languages: XQuAD's translations of one answer (right), and of another of its paragraph (wrong).

XQuAD (Artetxe et al., arXiv:1910.11856, CC BY-SA 4.0). Paragraphs are split by their names, as questions are
elsewhere.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import yaml

from seper_reward.data.splits import split_of
from tests.benchmarks.adapters.answer_forms import Form

_FRAMES = yaml.safe_load(Path(__file__).with_name("languages.yaml").read_text(encoding="utf-8"))
LANGUAGES = tuple(_FRAMES)


def paragraphs_of(rows: Sequence[dict[str, Any]], split: str) -> list[list[dict[str, Any]]]:
    """Return XQuAD's rows by paragraph, of paragraphs in a split."""
    by_name: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        by_name.setdefault(row["paragraph"], []).append(row)
    return [group for name, group in by_name.items() if split_of(name) == split]


def language_forms(
    rows: Sequence[dict[str, Any]], count: int, rng: Random, right_share: float = 0.48
) -> Iterator[Form]:
    """Yield answers in one language for gold answers in another, right and wrong."""
    paragraphs = [group for group in paragraphs_of(rows, "train") if len(group) > 1]
    everything = [row for group in paragraphs for row in group]
    for _ in range(count):
        row = rng.choice(rng.choice(paragraphs))
        said, gold = _languages(rng)
        asked = rng.choice(["en", gold, said])
        right = rng.random() < right_share
        other = row if right else _other(row, paragraphs, everything, rng)
        if not right and _words(other["answer"]["en"]) & _words(row["answer"]["en"]):
            continue
        text = other["answer"][said]
        chance = rng.random()
        if chance < 0.12 and not right:  # the words of the question
            text = row["question"][said]
        elif chance < 0.3:
            text = rng.choice(_FRAMES[said]).format(text)
        pair = (text, row["answer"][gold]) if rng.random() < 0.7 else (row["answer"][gold], text)
        yield Form(row["question"][asked], *pair, right)


def _languages(rng: Random) -> tuple[str, str]:
    one, two = rng.sample(LANGUAGES, 2)
    return (one, "en") if one != "en" and rng.random() < 0.55 else (one, two if rng.random() < 0.85 else one)


def _other(
    row: dict[str, Any], paragraphs: Sequence[list[dict[str, Any]]], everything: Sequence[dict[str, Any]], rng: Random
) -> dict[str, Any]:
    own = next(group for group in paragraphs if row in group)
    others = [each for each in (own if rng.random() < 0.8 else everything) if each is not row]
    digits = bool(re.search(r"\d", row["answer"]["en"]))
    alike = [each for each in others if bool(re.search(r"\d", each["answer"]["en"])) == digits]
    return rng.choice(alike or others)


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower())) - {"the", "a", "of", "and", "in"}
