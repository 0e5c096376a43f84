"""Prompts for a reader that judges passages, as conversations."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import yaml

from seper_reward.labels.judgments import Ask, PseudoAnswer
from seper_reward.reader.prompts import check_template, fill_template
from seper_reward.reader.writer import Turn

_DEFAULT_PROMPTS = Path(__file__).with_name("judgment_prompts.yaml")
_FIELDS = {
    "opening": "count", "ready": "", "passage": "number passage", "read": "number",
    "information": "question", "given_answer": "answer", "given_information": "answer",
    "set": "given question", "rank": "count given question", "relevance": "count given question",
    "point": "given passage question", "answer_set": "question", "information_set": "question",
    "again_set": "count", "again_order": "count", "again_point": "", "again_both": "count first",
}  # fmt: skip


@dataclass(frozen=True)
class JudgmentPrompts:
    """Templates of the prompts; ``judgment_prompts.yaml`` has the defaults, and explains each of them.

    Raises:
        ValueError: A template lacks a field or has an unknown field.
    """

    opening: str
    ready: str
    passage: str
    read: str
    information: str
    given_answer: str
    given_information: str
    set: str
    rank: str
    relevance: str
    point: str
    answer_set: str
    information_set: str
    again_set: str
    again_order: str
    again_point: str
    again_both: str

    def __post_init__(self) -> None:
        for each in fields(self):
            check_template(each.name, getattr(self, each.name), _FIELDS[each.name].split())

    @classmethod
    def load(cls, path: str | Path | None = None) -> "JudgmentPrompts":
        """Return the default prompts, overridden by the prompts of a YAML file.

        Raises:
            OSError: The file cannot be read.
            ValueError: It is not a mapping of names to texts, or a name is unknown.
        """
        known = yaml.safe_load(_DEFAULT_PROMPTS.read_text(encoding="utf-8"))
        if path is None:
            return cls(**known)
        try:
            given = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
        except yaml.YAMLError as error:
            raise ValueError(f"item_prompts={str(path)!r} must be YAML, got {error}; repair the file") from error
        if not isinstance(given, dict) or not all(isinstance(text, str) for text in given.values()):
            raise ValueError(f"item_prompts={str(path)!r} must map names to texts, got {given!r}")
        if unknown := sorted(set(map(str, given)) - set(known)):
            raise ValueError(
                f"item_prompts={str(path)!r} has {', '.join(unknown)}, expected some of {', '.join(known)}"
            )
        return cls(**{**known, **given})

    def turns(self, ask: Ask, question: str, kind: PseudoAnswer, passages: Sequence[str]) -> list[Turn]:
        """Return the conversation for a request except ``"answer"``; its last turn is the user's.

        ``kind`` is the kind of the request's pseudo-answer, and ``passages`` are the texts shown, in order.
        """
        given = ""
        if ask.pseudo_answer:
            template = self.given_answer if kind == "explicit" else self.given_information
            given = fill_template(template, answer=ask.pseudo_answer)
        values = {"question": question, "given": given, "count": str(len(passages))}
        if ask.task == "point":
            (passage,) = passages
            return [_user(_fill(self.point, {**values, "passage": passage}))]
        return [*self._passage_turns(passages), _user(_fill(getattr(self, ask.task), values))]

    def again(self, ask: Ask) -> Turn:
        """Return the user's turn after a reply of the wrong form."""
        both = dict.fromkeys(("answer_set", "information_set"), self.again_both)
        template = {"set": self.again_set, "point": self.again_point, **both}.get(ask.task, self.again_order)
        first = "Answer" if ask.task == "answer_set" else "Needed"
        return _user(_fill(template, {"count": str(len(ask.shown)), "first": first}))

    def _passage_turns(self, passages: Sequence[str]) -> list[Turn]:
        turns = [_user(fill_template(self.opening, count=str(len(passages)))), _reader(self.ready)]
        for number, passage in enumerate(passages, 1):
            turns += [
                _user(fill_template(self.passage, number=str(number), passage=passage)),
                _reader(fill_template(self.read, number=str(number))),
            ]
        return turns


def _fill(template: str, values: dict[str, str]) -> str:
    return fill_template(template, **values)


def _user(text: str) -> Turn:
    return {"role": "user", "content": text}


def _reader(text: str) -> Turn:
    return {"role": "assistant", "content": text}
