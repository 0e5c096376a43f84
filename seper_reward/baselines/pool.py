"""Pools of retrievers, named as in EoR (arXiv:2405.20680): where passages come from, and what is done to them.

| name | passages |
|---|---|
| `none` | none: the reader answers by itself |
| `bm25@5` | the 5 best of a retriever (`load_retriever`) |
| `background` | one that the reader writes about the question |
| `bm25@5&minilm@5` | those of both, equal ones once |
| `bm25@20@RR@5` | of the 20 best the 5 that are nearest to the question by the embedded encoder |
| `bm25@5@CP` | one: what the reader keeps of the 5 for the question |
| `(bm25@5&minilm@5)@RR@5` | what stands behind brackets is done to all that is in them |
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from seper_reward.baselines.written import PassageWriter
from seper_reward.reader.prompted import PromptedReader
from seper_reward.retrieval.loading import load_retriever
from seper_reward.retrieval.reranking import MINILM, load_reranker
from seper_reward.types import Passage

Passages = list[tuple[Passage, ...]]  # by question
_NONE, _BACKGROUND = "none", "background"
_RERANK, _COMPRESS = "RR", "CP"
_TOKEN = re.compile(r"[()&]|@?[^()&@]+|@")


@dataclass(frozen=True)
class Recipe:
    """How passages come about.

    Attributes:
        source: ``"none"``, ``"background"`` or the name of a retriever; empty where ``parts`` are joined.
        parts: What is joined.
        operations: What is then done, in order: a number of passages that are kept, ``"RR"`` or ``"CP"``.
    """

    source: str = ""
    parts: tuple["Recipe", ...] = ()
    operations: tuple[str, ...] = ()


def parse_recipe(name: str) -> Recipe:
    """Return the recipe that a name stands for.

    Raises:
        ValueError: The name has another form.

    >>> parse_recipe("bm25@9@RR")
    Recipe(source='bm25', parts=(), operations=('9', 'RR'))
    """
    tokens = _TOKEN.findall(name)
    try:
        recipe = _joined(tokens)
    except IndexError:
        recipe, tokens = Recipe(), ["end"]
    if tokens:
        raise ValueError(
            "sources must be none, background or RETRIEVER@NUMBER such as bm25@5, joined by & and followed by "
            f"@NUMBER, @RR (rerank) or @CP (compress), such as (bm25@5&minilm@5)@RR@3, got {name!r}"
        )
    return recipe


def retrieve_sources(
    names: Sequence[str],
    corpus: Mapping[str, Passage],
    questions: Sequence[str],
    reader: PromptedReader | None = None,
) -> dict[str, Passages]:
    """Return what each retriever of a pool finds for each question, best first.

    Each retriever is loaded and asked once, and what several names begin with is done once.

    Args:
        names: Names as in the table above.
        corpus: Passages by id.
        questions: The questions.
        reader: Reader that writes ``background`` and compresses; ``None`` where no name needs it.

    Raises:
        ValueError: A name has another form, or needs a reader.
        OSError: A retriever cannot be loaded.
    """
    recipes = {name: parse_recipe(name) for name in names}
    pool = _Pool(list(recipes.values()), corpus, questions, reader)
    return {name: pool.passages(recipe) for name, recipe in recipes.items()}


class _Pool:
    """The passages of recipes, and of all that they are made from, each made once."""

    def __init__(
        self,
        recipes: Sequence[Recipe],
        corpus: Mapping[str, Passage],
        questions: Sequence[str],
        reader: PromptedReader | None,
    ) -> None:
        self._corpus, self._questions, self._reader = corpus, questions, reader
        self._depths: dict[str, int] = {}
        for each in _from_sources(recipes):
            first = int(each.operations[0]) if each.source not in (_NONE, _BACKGROUND) else 0
            self._depths[each.source] = max(first, self._depths.get(each.source, 0))
        self._made: dict[Recipe, Passages] = {}

    def passages(self, recipe: Recipe) -> Passages:
        if recipe not in self._made:
            self._made[recipe] = self._make(recipe)
        return self._made[recipe]

    def _make(self, recipe: Recipe) -> Passages:
        if recipe.operations:
            *before, last = recipe.operations
            return self._after(last, self.passages(replace(recipe, operations=tuple(before))))
        if recipe.parts:
            rows = zip(*map(self.passages, recipe.parts), strict=True)
            return [tuple(dict.fromkeys(each for part in row for each in part)) for row in rows]
        if recipe.source == _NONE:
            return [()] * len(self._questions)
        if recipe.source == _BACKGROUND:
            return self._writer.background(self._questions)
        retriever = load_retriever(recipe.source, self._corpus)
        return retriever.retrieve(self._questions, self._depths[recipe.source])

    def _after(self, operation: str, rows: Passages) -> Passages:
        if operation == _RERANK:
            reranker = load_reranker(MINILM)
            return [reranker.rerank(*asked) for asked in zip(self._questions, rows, strict=True)]
        if operation == _COMPRESS:
            return self._writer.compress(self._questions, rows)
        return [row[: int(operation)] for row in rows]

    @property
    def _writer(self) -> PassageWriter:
        if self._reader is None:
            raise ValueError(f"{_BACKGROUND} and @{_COMPRESS} are written by a reader, got none")
        return PassageWriter(self._reader)


def _joined(tokens: list[str]) -> Recipe:
    """Return the recipe that tokens begin with, and take its tokens away; ``IndexError`` where they end too soon."""
    parts = [_part(tokens)]
    while tokens and tokens[0] == "&":
        del tokens[0]
        parts.append(_part(tokens))
    return parts[0] if len(parts) == 1 else Recipe(parts=tuple(parts))


def _part(tokens: list[str]) -> Recipe:
    first = tokens.pop(0)
    if first == "(":
        inside = _joined(tokens)
        if tokens.pop(0) != ")":
            raise IndexError
        return Recipe(parts=(inside,), operations=_operations(tokens))
    operations = _operations(tokens)
    numbered = bool(operations) and operations[0].isdecimal()
    if first[0] in "@&)" or not (numbered or first in (_NONE, _BACKGROUND)):
        raise IndexError
    return Recipe(first, operations=operations)


def _operations(tokens: list[str]) -> tuple[str, ...]:
    found = []
    while tokens and tokens[0][0] == "@":
        operation = tokens.pop(0)[1:]
        if operation not in (_RERANK, _COMPRESS) and not (operation.isdecimal() and int(operation) >= 1):
            raise IndexError
        found.append(operation)
    return tuple(found)


def _from_sources(recipes: Sequence[Recipe]) -> Iterator[Recipe]:
    for recipe in recipes:
        if recipe.source:
            yield recipe
        yield from _from_sources(recipe.parts)
