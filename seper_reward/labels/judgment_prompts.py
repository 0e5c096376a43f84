"""Prompts for a reader that judges passages, as conversations."""

import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from seper_reward.labels.judgments import Ask, PseudoAnswer
from seper_reward.options import check_template
from seper_reward.reader.prompts import fill_template
from seper_reward.reader.writer import Turn

_DEFAULT_PROMPTS = Path(__file__).with_name("judgment_prompts.yaml")


@dataclass(frozen=True)
class JudgmentPrompts:
    """Templates of the prompts by name; ``judgment_prompts.yaml`` has the defaults, and explains each of them."""

    templates: Mapping[str, str]

    @classmethod
    def load(cls, path: str | Path | None = None) -> "JudgmentPrompts":
        """Return the default prompts, overridden by those of a YAML file; ``ValueError`` for unknown names."""
        known = yaml.safe_load(_DEFAULT_PROMPTS.read_text(encoding="utf-8"))
        if path is None:
            return cls(known)
        try:
            templates = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
        except yaml.YAMLError as error:
            raise ValueError(f"prompts={str(path)!r} of item must be YAML, got {error}; repair the file") from error
        if not isinstance(templates, dict) or not all(isinstance(text, str) for text in templates.values()):
            raise ValueError(f"prompts={str(path)!r} of item must map names to texts, got {templates!r}")
        if unknown := sorted(set(map(str, templates)) - set(known)):
            raise ValueError(
                f"prompts={str(path)!r} of item has {', '.join(unknown)}, expected some of {', '.join(known)}"
            )
        for name, template in templates.items():
            check_template(
                name, template, sorted({field for _, field, *_ in string.Formatter().parse(known[name]) if field})
            )
        return cls({**known, **templates})

    def turns(self, ask: Ask, question: str, kind: PseudoAnswer, passages: Sequence[str]) -> list[Turn]:
        """Return the conversation for a request except ``"answer"``; its last turn is the user's."""
        pseudo_answer = ""
        if ask.pseudo_answer:
            name = "given_answer" if kind == "explicit" else "given_information"
            pseudo_answer = self._fill(name, answer=ask.pseudo_answer)
        values = {"question": question, "given": pseudo_answer, "count": str(len(passages))}
        if ask.task.endswith("point"):
            (passage,) = passages
            return [_turn("user", self._fill(ask.task, passage=passage, **values))]
        turns = [_turn("user", self._fill("opening", **values)), _turn("assistant", self._fill("ready"))]
        for number, passage in enumerate(passages, 1):
            shown = {"number": str(number), "passage": passage}
            turns += [_turn("user", self._fill("passage", **shown)), _turn("assistant", self._fill("read", **shown))]
        return [*turns, _turn("user", self._fill(ask.task, **values))]

    def again(self, ask: Ask) -> Turn:
        """Return the user's turn after a reply of the wrong form."""
        kinds = {"_set": "again_both", "_point": "again_both_point", "set": "again_set", "point": "again_point"}
        name = next((again for end, again in kinds.items() if ask.task.endswith(end)), "again_order")
        first = "Answer" if ask.task.startswith("answer_") else "Needed"
        return _turn("user", self._fill(name, count=str(len(ask.shown)), first=first))

    def _fill(self, name: str, **values: str) -> str:
        return fill_template(self.templates[name], **values)


def _turn(role: str, text: str) -> Turn:
    return {"role": role, "content": text}
