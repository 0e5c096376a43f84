r"""Extraction of the answer from a completion: the text behind the last mark such as ``\boxed{}``, else the last line.

Words are dropped only if they cannot be part of an answer, and only if an answer is left; hedges, denials and lists
keep their words. All patterns are anchored or bounded in length: the time is linear in the length of the text.
"""

import json
import re
from collections.abc import Sequence

from seper_reward.judge.equality import plain

#: Tokens that end a turn, and the like, which some decoders leave in the text.
CONTROL_TOKENS = re.compile(r"<\|[^|<>\n]{1,40}\|>|</s>|<eos>|<end_of_turn>")

_THOUGHT = r"(?:think(?:ing)?|thoughts?|reasoning|scratchpad)"
_THOUGHTS = re.compile(
    rf"^.*[<\[]/{_THOUGHT}[>\]]|[<\[]{_THOUGHT}[>\]].*$|^.*assistantfinal(?=\S)", re.DOTALL | re.IGNORECASE
)
_NEXT_QUESTION = re.compile(r"\n\s*(?:#+\s*)?(?:question|q)\s?\d{0,3}\s?[:.]\s", re.IGNORECASE)
_MARK = re.compile(
    r"<(?:answer|solution)>|(?P<box>\\(?:boxed|fbox) ?\{)|\bfinish\[(?=[^\]\n]+\])|\banswers?[*_]{0,3} ?[:：][*_]{0,3}"
    r"|^[ \t]{0,3}(?:#{1,6}|[*_]{2,3})[ \t]{0,3}"
    r"(?:(?:the|my|final|correct|short) ){0,3}answers?[*_:#]{0,6}[ \t]*$(?=\s*\S)",
    re.IGNORECASE | re.MULTILINE,
)
_END_OF_TAG = re.compile(r"</(?:answer|solution)>", re.IGNORECASE)
# "It is not \boxed{X}" and "\boxed{X} is wrong" state no X
_DENIED_BEFORE = re.compile(
    r"(?:\b(?:not|never|no|neither|nor|cannot|wrong|incorrect|false)|n['’]t)\b(?: \w+){0,3}[ $\\(\[*_:\"“]*\Z",
    re.IGNORECASE,
)
_DENIED_BEHIND = re.compile(
    r"[ $)\]\\*]{0,6}(?:(?:is|was|would be|seems) )?(?:not|wrong|incorrect|false|\w{2,6}n['’]t)\b", re.IGNORECASE
)
_FENCE = re.compile(r"```[\w+-]{0,20}")
_BRACES = re.compile(r"\\.|[{}]", re.DOTALL)
_BULLET = re.compile(r"(?:[-*•–]|\d{1,2}[.)])\s+(?=\S)")
_FIRST_BULLET = re.compile(r"(?:[-*•–]|1[.)]|\(?[A-H]\))\s+(?=\S)")  # for a single line: 14. March is a date
_SOURCES = r"(?:sources?|references?|citations?)"
_SOURCE_LINE = re.compile(rf"\W{{0,5}}(?:{_SOURCES}\W{{0,3}}?:|https?://\S+$)|\[\^\d{{1,3}}\]:", re.IGNORECASE)
_SOURCE_HEADING = re.compile(rf"\W{{0,5}}{_SOURCES}\W{{0,5}}", re.IGNORECASE)
# politeness after the answer: at most four sentences, in the last _CLOSING_LENGTH characters
_CLOSING_LENGTH = 500
_CLOSING = re.compile(
    r"(?:(?:^|(?<=[\s.!?*]))(?:"
    r"(?:I )?hope (?:this|that|it) (?:helps?|is (?:correct|right|helpful|clear)|answers|was helpful)\b[^.!?\n]{0,60}"
    r"|(?:please )?(?:let me know|tell me if|feel free to ask|do not hesitate|don['’]t hesitate)\b[^.!?\n]{0,100}"
    r"|if you (?:have|need) [^.!?\n]{0,40}\b(?:questions|help|information|details)\b[^.!?\n]{0,60}"
    r"|is there anything else[^.!?\n]{0,60})(?:[.!?]{1,3}[^\w\n]{0,4}|$)){1,4}$",
    re.IGNORECASE,
)
# [1], 【1†source】, (Doc 1, Doc 2), (Source: Doc 1); not [1, 5], which may be an interval
_CITATION = re.compile(
    r"\[\^?\d{1,3}\]|【[^】\n]{1,40}】"
    rf"|[(\[](?:(?:docs?|documents?|passages?)[ .#]{{0,3}}\d|{_SOURCES} ?:)[^()\[\]\n]{{0,100}}[)\]]",
    re.IGNORECASE,
)
_MATERIAL = (
    r"(?:passages?|documents?|docs?|texts?|contexts?|sources?|results?|information|articles?|evidence|snippets?)"
)
_ANSWER_IS = (
    r"(?:the|my) (?:(?:final|correct|right) ){0,2}answer(?: to (?:the|this|your) question)? (?:is|was|would be)"
)
# words before the answer; "based on the passage it is not clear, X" hedges, and "according to legend, X" too
_NO_DENIAL = r"(?![^,\n]{0,140}(?:\b(?:not|no|never|cannot|without|limited|unclear)\b|n['’]t\b))"
_FRAME = re.compile(
    rf"(?:(?:so|therefore|thus|hence)(?:, | (?={_ANSWER_IS}\b))"
    rf"|(?:based on|according to) {_NO_DENIAL}(?:[\w-]+ ){{0,4}}?{_MATERIAL}\b(?-i:(?: [a-z\d()\[\]]+){{0,6}}), "
    rf"|{_ANSWER_IS}(?:: ?| ))+",
    re.IGNORECASE,
)


def extract_answer(text: str | None, pattern: re.Pattern[str] | None = None) -> str:
    r"""Return the answer that a completion states last, and no more.

    The answer is the text after the last ``Answer:``, in the last ``<answer>``, ``<solution>``, ``Finish[]`` or
    ``\boxed{}``, or under the last heading ``Answer``; the field ``answer`` of a last line of JSON; else the last
    line, or a list that ends the text. A text that goes on with another question is read up to it. Thoughts
    (``<think>``) are skipped, and a text that ends within a thought states no answer. Markdown, LaTeX, citations,
    footnotes, control tokens, closing politeness and frames such as "The answer is" are dropped. With a ``pattern``
    (``compile_answer_pattern``), its last match is the answer in place of these marks, and a text without a match
    states none.

    >>> extract_answer("Two villages have a mill.\nAnswer: Ida Voss"), extract_answer("<think>Who may that be")
    ('Ida Voss', '')
    >>> extract_answer(r"Hence $\boxed{\text{Ida Voss}}$. I hope it helps."), extract_answer("The answer is not Ida")
    ('Ida Voss', 'not Ida')
    """
    said = _THOUGHTS.sub("", text or "")
    if pattern is None:
        said = CONTROL_TOKENS.sub("\n", said).strip()
        return _cleaned(_statement(_NEXT_QUESTION.split(said, maxsplit=1)[0]))
    *_, found = (None, *pattern.finditer(said))
    group = found[min(pattern.groups, 1)] if found else None
    return _cleaned(_end(_lines(CONTROL_TOKENS.sub("\n", group or ""))))


def _statement(text: str) -> str:
    lines = _lines(text)
    value = _json_answer(lines)
    *_, mark = (None, *_MARK.finditer(text))
    if value is not None or mark is None or _is_denied(text, mark):
        return _end(lines) if value is None else value
    rest = _END_OF_TAG.split(text[mark.end() :], maxsplit=1)[0]
    if mark["box"]:
        return _end(_lines(_braced(rest)))
    if mark[0].lower() == "finish[":
        return rest.partition("]")[0]
    lines = _lines(rest)
    value = _json_answer(lines)
    if value is not None:
        return value
    return _end(lines) if mark[0].startswith("<") else _start(lines)


def _lines(text: str) -> list[str]:
    """Return the non-blank lines of a text, without code fences, closing politeness, footnotes and sources."""
    lines = [line for line in map(str.strip, text.splitlines()) if line and not _FENCE.fullmatch(line)]
    end = next((at for at in range(len(lines) - 1, 0, -1) if _SOURCE_HEADING.fullmatch(lines[at])), len(lines))
    while end > 1 and (_CLOSING.match(lines[end - 1]) or _SOURCE_LINE.match(lines[end - 1])):
        end -= 1
    return lines[:end]


def _start(lines: Sequence[str]) -> str:
    """Return the first line, or the list at the beginning."""
    size = next((at for at, line in enumerate(lines) if not _BULLET.match(line)), len(lines))
    return _joined(lines[:size]) if size > 1 else "".join(lines[:1])


def _end(lines: Sequence[str]) -> str:
    """Return the last line, or the whole list at the end, since a list states no single item."""
    size = next((at for at, line in enumerate(reversed(lines)) if not _BULLET.match(line)), len(lines))
    return _joined(lines[-size:]) if size > 1 else "".join(lines[-1:])


def _joined(items: Sequence[str]) -> str:
    return ", ".join(_BULLET.sub("", item, count=1).rstrip(",;") for item in items)


def _json_answer(lines: Sequence[str]) -> str | None:
    """Return the field ``answer`` of an object in JSON that is the last line, or all lines; ``None`` without one."""
    for text in (lines[-1], "\n".join(lines)) if lines else ():
        if text.startswith("{") and text.endswith("}"):
            try:
                row = json.loads(text)
            except (ValueError, RecursionError):
                continue
            value = next((row[name] for name in row if name.lower() in ("answer", "final_answer")), None)
            values = value if isinstance(value, list) else [value]
            if all(isinstance(each, str | int | float) for each in values):
                return ", ".join(map(str, values))
    return None


def _is_denied(text: str, mark: re.Match[str]) -> bool:
    """Return whether the words next to a mark deny its answer; words before a tag never deny it."""
    if mark[0].startswith("<"):
        return False
    if _DENIED_BEFORE.search(text[max(0, mark.start() - 80) : mark.start()]):
        return True
    end = mark.end() + len(_braced(text[mark.end() :])) + 1
    return bool(mark["box"] and _DENIED_BEHIND.match(text[end : end + 40]))


def _braced(text: str) -> str:
    """Return the text up to the first unmatched closing brace; the whole text if there is none."""
    depth = 1
    for found in _BRACES.finditer(text):
        depth += {"{": 1, "}": -1}.get(found[0], 0)
        if depth == 0:
            return text[: found.start()]
    return text


def _cleaned(text: str) -> str:
    """Return a statement without the markup around its answer; steps that would leave nothing are skipped."""
    text = plain(text)
    if text.count("**") % 2:  # of **Answer: X**, the rest of the line
        text = text.removesuffix("**")
    text = re.sub(r" (?=[.,;:](?: |$))", "", " ".join(_CITATION.sub("", text).split())) or text
    closing = _CLOSING.search(text, max(0, len(text) - _CLOSING_LENGTH))
    text = (text[: closing.start()].strip() if closing else "") or text
    for pattern in (_FIRST_BULLET, _FRAME):
        found = pattern.match(text)
        text = (found and text[found.end() :]) or text
    return text
