"""The language of docstrings, comments, help, errors and pages: limits on the phrases that make prose hard to read.

    python -m tests.test_language                # rates by folder and page, per 10,000 words
    python -m tests.test_language PATH...        # every place in these files or folders

The limits are the highest rates among trl, sentence-transformers, prime-rl and verifiers. Prompts decide labels and
are exempt; so is the frozen log of experiments.
"""

import ast
import io
import re
import statistics
import sys
import tokenize
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.measures import FILES_AND_TABLES, PACKAGES, VAGUE, bound_names, python_files, vague_names

ROOT = Path(__file__).resolve().parent.parent
CODE = ("seper_reward", "trainers")
PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs")
PROMPTS = {"prompts.py", "documents.py", "texts.py"}
MEDIAN_SENTENCE = 18


class Rule(NamedTuple):
    """A phrase to avoid.

    Attributes:
        pattern: Regular expression, without regard to case.
        limit: Most matches per 10,000 words.
        instead: What to write.
    """

    pattern: str
    limit: float
    instead: str


RULES = {
    "clause as a noun": Rule(r"\b(?:what|who) (?:is|was|it|they)\b", 2, "a noun: 'rollouts that cannot be scored'"),
    "so that": Rule(r"\bso that\b", 3, "a new sentence, or 'so'"),
    "beside": Rule(r"\bbesides?\b", 1, "next to, in addition to"),
    "tell": Rule(r"\b(?:tells?|told)\b", 1, "return, log, raise, show"),
    "of its own": Rule(r"\bof (?:its|their) own\b", 1, "its own X, separate"),
    "say": Rule(r"\bsa(?:ys?|id)\b", 2, "state, name, log; 'if given' for 'if you say so'"),
    "rare words": Rule(
        r"\b(?:anew|dearest|shall|thereof|whoever|but for|of none|by (?:itself|themselves)|so many|so much)\b",
        2,
        "plain words",
    ),
    "take for": Rule(r"\btak(?:es?|en) for\b|\blearns? of\b", 0.5, "assume, treat as"),
}  # fmt: skip


class Text(NamedTuple):
    """A piece of prose: its file, relative to the repository, its line, and its words."""

    file: str
    line: int
    words: str


def _prose_of_code(path: Path) -> Iterator[tuple[int, str]]:
    source = path.read_text()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and not re.match(r"#\s*(?:type:|noqa|fmt:|pragma|!)", token.string):
            yield token.start[0], token.string.lstrip("#: ")
    nodes = list(ast.walk(ast.parse(source)))
    parts = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in nodes:
        if id(node) in parts:
            continue
        if isinstance(node, ast.JoinedStr):
            text = "".join(part.value if isinstance(part, ast.Constant) else "X" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
        else:
            continue
        if len(re.findall(r"[a-z]+", text)) >= 3 and " " in text.strip() and not re.search(r"\\|\(\?", text):
            yield node.lineno, text


def _prose_of_page(path: Path) -> Iterator[tuple[int, str]]:
    fenced = False
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced and not line.startswith(("    ", "<!--")):
            yield number, re.sub(r"`[^`]*`|\]\([^)]*\)", "X", line)


def files(paths: Sequence[str]) -> list[Path]:
    """Return the Python files and pages in files and folders, given relative to the repository."""
    places = [ROOT / path for path in paths]
    found = [each for place in places for each in ([place] if place.is_file() else sorted(place.rglob("*")))]
    return [path for path in found if path.suffix in {".py", ".md"} and path.name not in PROMPTS]


@cache
def texts(paths: tuple[str, ...]) -> list[Text]:
    """Return all prose of files and folders."""
    return [
        Text(str(path.relative_to(ROOT)), line, words)
        for path in files(paths)
        for line, words in (_prose_of_code(path) if path.suffix == ".py" else _prose_of_page(path))
    ]


def word_count(found: Sequence[Text]) -> int:
    """Return the number of words."""
    return sum(len(text.words.split()) for text in found)


def matches(found: Sequence[Text], rule: Rule) -> list[Text]:
    """Return the texts that match a rule, once for each match."""
    return [text for text in found for _ in re.findall(rule.pattern, text.words, re.IGNORECASE)]


def rates(found: Sequence[Text]) -> dict[str, float]:
    """Return matches per 10,000 words by rule."""
    words = max(word_count(found), 1)
    return {name: 10_000 * len(matches(found, rule)) / words for name, rule in RULES.items()}


def median_sentence(pages: Sequence[str]) -> float:
    """Return the median number of words of a sentence on pages, without tables, lists and headings."""
    lengths = []
    for path in files(pages):
        lines = [line for _, line in _prose_of_page(path)]
        text = "\n".join("" if line.startswith(("|", "#", "-", "!", "*")) else line for line in lines)
        sentences = re.split(r"(?<=[.!?])\s+|\n\n+", text)
        lengths += [count for sentence in sentences if (count := len(sentence.split())) > 2]
    return statistics.median(lengths)


def test_locals_have_no_vague_names(tmp_path):
    example = tmp_path / "example.py"
    example.write_text("class Row:\n    found: int\n\ndef f(given):\n    own = [each for each in given]\n")
    assert list(vague_names(example)) == [(4, "given"), (5, "own"), (5, "each")]
    places = [
        f"{path.relative_to(ROOT)}:{line} {name}"
        for package in PACKAGES
        for path in python_files(package)
        for line, name in vague_names(path)
    ]
    refused = ", ".join(sorted({*VAGUE, "row"}))
    assert places == [], f"name what it is: label, verdict, passage, belief; not {refused}"


def test_locals_are_rows_only_in_modules_of_files_and_tables(tmp_path):
    example = tmp_path / "seper_reward" / "evaluate" / "example.py"
    example.parent.mkdir(parents=True)
    example.write_text("def f(row, rows):\n    for row in rows:\n        sorted(row.row, key=lambda row: row)\n")
    assert list(vague_names(example)) == [(1, "row"), (2, "row"), (3, "row")]
    listed = example.parent.parent / "data" / "example.py"
    listed.parent.mkdir()
    listed.write_text("for row, found in []:\n    pass\n")
    assert list(vague_names(listed)) == [(1, "found")]


@pytest.mark.parametrize("pattern", FILES_AND_TABLES)
def test_modules_of_files_and_tables_have_rows(pattern):
    assert "row" in {name for path in ROOT.glob(pattern) for _, name in bound_names(path)}, "it need not be listed"


def test_phrases_are_found_where_they_stand_and_only_there(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("We tell what is so.\n\n    tell code\n\n```\nso that\n```\nSo that `tell` it.\n")
    found = [Text("page.md", *each) for each in _prose_of_page(page)]
    places = {name: [text.line for text in matches(found, rule)] for name, rule in RULES.items()}
    expected = {"clause as a noun": [1], "so that": [8], "tell": [1]}
    assert places == {name: [] for name in RULES} | expected
    code = tmp_path / "code.py"
    code.write_text('"""Return what it was."""\nx = 1  # beside the point\nraise ValueError(f"tell {x} of a row")\n')
    assert sorted(_prose_of_code(code)) == [
        (1, "Return what it was."),
        (2, "beside the point"),
        (3, "tell X of a row"),
    ]


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("part", [CODE, PAGES], ids=["code", "pages"])
def test_phrases_are_as_rare_as_in_projects_that_are_easy_to_read(part, name):
    found, rule = texts(part), RULES[name]
    matching = matches(found, rule)
    places = "\n".join(f"{text.file}:{text.line}: {' '.join(text.words.split())[:120]}" for text in matching)
    assert 10_000 * len(matching) / word_count(found) <= rule.limit, f"write {rule.instead}:\n{places}"


def test_sentences_are_short():
    assert median_sentence(PAGES) <= MEDIAN_SENTENCE


def main(paths: Sequence[str]) -> None:
    """Print the places of phrases in given paths, or the rates by folder and page."""
    if paths:
        for text in sorted(set(texts(tuple(paths)))):
            for name, rule in RULES.items():
                for match in re.finditer(rule.pattern, text.words, re.IGNORECASE):
                    near = " ".join(text.words[max(match.start() - 50, 0) : match.end() + 50].split())
                    print(f"{text.file}:{text.line}: [{name}] {near}")
        return
    for part in [*CODE, *PAGES]:
        found = texts((part,))
        print(
            f"{part:20} {word_count(found):6} words ", *(f"{name} {rate:.1f} " for name, rate in rates(found).items())
        )
    print(f"median sentence of pages: {median_sentence(PAGES):g} words")


if __name__ == "__main__":
    main(sys.argv[1:])
