"""Questions whose answer is a class: BoolQ (arXiv:1905.10044), FEVER (arXiv:1803.05355), MMLU (arXiv:2009.03300).

Answers become words that a reader can generate: yes or no, true or false, or the text of the right choice.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from seper_reward.data.formats.layout import Row, marked_passage

_FEVER_LABELS = {"SUPPORTS": ["true"], "REFUTES": ["false"], "NOT ENOUGH INFO": []}


@dataclass(frozen=True)
class Classes:
    """A layout of questions with a class as answer.

    Attributes:
        name: Name of the layout.
        columns: Its columns, each with a check of its value.
        read: Source columns of our fields, for messages.
        turned: Function that returns the ``question``, ``answers`` and ``passages`` that a row contains.
    """

    name: str
    columns: Mapping[str, Callable[[Any], bool]]
    read: str
    turned: Callable[[Row], dict[str, Any]]

    def fits(self, row: Row, needed: Collection[str]) -> bool:
        """Return whether a row has the layout's columns, and passages if they are needed."""
        own = all(name in row and test(row[name]) for name, test in self.columns.items())
        return own and ("passages" not in needed or "passages" in row or "passage" in self.columns)

    def read_from(self, row: Row) -> str:
        """Return the source columns of the fields, for messages."""
        return self.read

    def convert(self, row: Row) -> dict[str, Any]:
        """Return the row with our fields; other columns stay."""
        return {**{name: value for name, value in row.items() if name not in self.columns}, **self.turned(row)}


def _boolq(row: Row) -> dict[str, Any]:
    question = str(row["question"]).rstrip("?") + "?"
    passages = [marked_passage(row["passage"], True)]
    return {"question": question, "answers": ["yes" if row["answer"] else "no"], "passages": passages}


def _fever(row: Row) -> dict[str, Any]:
    return {"question": f"True or false: {row['claim']}", "answers": _FEVER_LABELS[row["label"]]}


def _mmlu(row: Row) -> dict[str, Any]:
    choices = [str(choice) for choice in row["choices"]]
    return {"question": f"{row['question']} Choose one: {'; '.join(choices)}", "answers": [choices[row["answer"]]]}


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


BOOLQ = Classes(
    "BoolQ",
    {"question": _is_text, "answer": _is_bool, "passage": _is_text},
    "question from 'question', answers (yes, no) from 'answer', passages from 'passage'",
    _boolq,
)
FEVER = Classes(
    "FEVER",
    {"claim": _is_text, "label": lambda value: _is_text(value) and value in _FEVER_LABELS},
    "question from 'claim', answers (true, false) from 'label'",
    _fever,
)
MMLU = Classes(
    "MMLU",
    {
        "question": _is_text,
        "choices": lambda value: isinstance(value, list) and len(value) > 1,
        "answer": lambda value: isinstance(value, int) and not _is_bool(value),
    },
    "question from 'question' and 'choices', answers from 'choices' and 'answer'",
    _mmlu,
)
