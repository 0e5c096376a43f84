r"""The answer that a text states last, without the phrases that instruct models write around it.

A text is narrowed to its statement (after a mark such as ``\boxed{}``, else the last line), and the statement is
cleaned step by step. Words are dropped only if they cannot be part of an answer, and only if an answer is left.
Hedges, denials and lists keep their words, so they are never read as a plain answer. All patterns are anchored or
bounded in length: the time is linear in the length of the text.
"""

import json
import re
from collections.abc import Sequence

#: Tokens that end a turn, and the like, which some decoders leave in the text.
CONTROL_TOKENS = re.compile(r"<\|[^|<>\n]{1,40}\|>|</s>|<eos>|<end_of_turn>")

#: Help of the setting ``answer_pattern``.
ANSWER_PATTERN_HELP = (
    "Regular expression of the policy's answer: the first group (or the whole match) of the last match; texts without "
    "a match have no answer (default: the usual marks, such as \\boxed{} and Answer:, else the last line)."
)

_THOUGHTS = re.compile(r"^.*</think>|<think>.*$", re.DOTALL)
# A mark of the answer: <answer>, \boxed{, "answer:" (also **Answer**:), or a heading such as ### Final Answer.
_MARK = re.compile(
    r"<answer>|(?P<box>\\(?:boxed|fbox) ?\{)|\banswers?[*_]{0,3} ?[:：][*_]{0,3}"
    r"|^[ \t]{0,3}(?:#{1,6}|[*_]{2,3})[ \t]{0,3}"
    r"(?:(?:the|my|final|correct|short) ){0,3}answers?[*_:#]{0,6}[ \t]*$(?=\s*\S)",
    re.IGNORECASE | re.MULTILINE,
)
_END_OF_TAG = re.compile(r"</answer>", re.IGNORECASE)
# "It is not \boxed{X}" and "\boxed{X} is wrong" state no X.
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
_FIRST_BULLET = re.compile(r"(?:[-*•–]|1[.)])\s+(?=\S)")  # for a single line: 14. March is a date
_SOURCES = r"(?:sources?|references?|citations?)"
_SOURCE_LINE = re.compile(rf"\W{{0,5}}(?:{_SOURCES}\W{{0,3}}?:|https?://\S+$)", re.IGNORECASE)
_SOURCE_HEADING = re.compile(rf"\W{{0,5}}{_SOURCES}\W{{0,5}}", re.IGNORECASE)
# Politeness after the answer: at most four sentences, in the last _CLOSING_LENGTH characters.
_CLOSING_LENGTH = 500
_CLOSING = re.compile(
    r"(?:(?:^|(?<=[\s.!?*]))(?:"
    r"(?:I )?hope (?:this|that|it) (?:helps?|is (?:correct|right|helpful|clear)|answers|was helpful)\b[^.!?\n]{0,60}"
    r"|(?:please )?(?:let me know|tell me if|feel free to ask|do not hesitate|don['’]t hesitate)\b[^.!?\n]{0,100}"
    r"|if you (?:have|need) [^.!?\n]{0,40}\b(?:questions|help|information|details)\b[^.!?\n]{0,60}"
    r"|is there anything else[^.!?\n]{0,60})(?:[.!?]{1,3}[^\w\n]{0,4}|$)){1,4}$",
    re.IGNORECASE,
)
# LaTeX formatting commands and their braces.
_FORMATTING = re.compile(
    r"\\(?:text\w{0,8}|math\w{1,8}|boxed|fbox|emph|operatorname|underline) ?\{|\\.|[{}]", re.DOTALL
)
_DELIMITERS = re.compile(r"\\[()\[\]]")
# As in Pandoc, $ next to a space or before a digit is not a delimiter: $45 and $60.
_DOLLARS = re.compile(r"(?<!\\)\${1,2}(?=\S)((?:[^$\\]|\\.)+)(?<=\S)\${1,2}(?![\w$])", re.DOTALL)
_ESCAPES = re.compile(r"\\([%$&#_{}])")
_EMPHASIS = re.compile(
    r"(?<![\w*])\*{1,3}(?=[^\s*])([^*\n]+)(?<=\S)\*{1,3}(?![\w*])"
    r"|(?<!\w)_{1,3}(?=[^\s_])([^_\n]+)(?<=\S)_{1,3}(?!\w)|`{1,3}([^`\n]+)`{1,3}"
)
# [1], 【1†source】, (Doc 1, Doc 2), (Source: Doc 1); not [1, 5], which may be an interval.
_CITATION = re.compile(
    r"\[\^?\d{1,3}\]|【[^】\n]{1,40}】"
    rf"|[(\[](?:(?:docs?|documents?|passages?)[ .#]{{0,3}}\d|{_SOURCES} ?:)[^()\[\]\n]{{0,100}}[)\]]",
    re.IGNORECASE,
)
_MATERIAL = (
    r"(?:passages?|documents?|docs?|texts?|contexts?|sources?|results?|information|articles?|evidence|snippets?"
    r"|references?|excerpts?|wikipedia)"
)
_ANSWER_IS = (
    r"(?:the|my) (?:(?:final|correct|right) ){0,2}answer(?: to (?:the|this|your) question)? (?:is|was|would be)"
)
# "Based on the passage it is not clear, X" hedges.
_NO_DENIAL = r"(?![^,\n]{0,140}(?:\b(?:not|no|never|cannot|without|limited|unclear)\b|n['’]t\b))"
# Words before the answer. "According to" counts only before a source without names: "According to legend, X" hedges.
_FRAME = re.compile(
    rf"(?:(?:so|therefore|thus|hence)(?:, | (?={_ANSWER_IS}\b))"
    rf"|(?:based on|according to) {_NO_DENIAL}(?:[\w-]+ ){{0,4}}?{_MATERIAL}\b(?-i:(?: [a-z\d()\[\]]+){{0,6}}), "
    rf"|{_ANSWER_IS}(?:: ?| ))+",
    re.IGNORECASE,
)
_QUOTED = re.compile(r"(?:[\"“«]([^\"“”«»]+)[\"”»]|['‘]([^'‘’]+)['’])(\.?)")


def stated_answer(text: str | None, pattern: re.Pattern[str] | None = None) -> str:
    r"""Return the answer that a text states last, and no more.

    The answer is the text after the last ``Answer:``, in the last ``<answer>`` or ``\boxed{}``, or under the last
    heading ``Answer``; the field ``answer`` of a last line of JSON; else the last line, or a list that ends the text.
    Thoughts (``<think>``) are skipped, and a text that ends within a thought states no answer. Markdown, LaTeX,
    citations, control tokens, closing politeness and frames such as "Based on the passage, the answer is" are dropped.

    Args:
        text: Text of a policy or a reader; ``None`` counts as an empty text.
        pattern: Pattern whose last match is the answer (``compile_answer_pattern``), in place of the marks above; a
            text without a match states no answer.

    >>> stated_answer("Two villages have a mill.\nAnswer: Ida Voss"), stated_answer("<think>Who may that be")
    ('Ida Voss', '')
    >>> stated_answer(r"Hence $\boxed{\text{Ida Voss}}$. I hope it helps."), stated_answer("The answer is not Ida")
    ('Ida Voss', 'not Ida')
    """
    said = _THOUGHTS.sub("", text or "")
    if pattern is None:
        return _cleaned(_statement(CONTROL_TOKENS.sub("\n", said)))
    found = None
    for found in pattern.finditer(said):  # noqa: B007 - the last one counts
        pass
    group = found[min(pattern.groups, 1)] if found else None
    return _cleaned(_end(_lines(CONTROL_TOKENS.sub("\n", group or ""))))


def compile_answer_pattern(pattern: str | None) -> re.Pattern[str] | None:
    """Compile the setting ``answer_pattern``, whose first group (or whole match) is the answer; ``None`` for ``None``.

    Raises:
        ValueError: It is not a regular expression; the message has the pattern and the reason.
    """
    if pattern is None:
        return None
    if not isinstance(pattern, str) or not pattern:
        raise ValueError(f"answer_pattern must be a regular expression, a non-empty text, got {pattern!r}")
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ValueError(f"answer_pattern must be a regular expression, got {pattern!r}: {error}") from error


def _statement(text: str) -> str:
    """Return the part of a text that states its answer, unchanged."""
    lines = _lines(text)
    value = _json_answer(lines)
    if value is not None:
        return value
    mark = None
    for mark in _MARK.finditer(text):  # noqa: B007 - the last one counts
        pass
    if mark is None or _is_denied(text, mark):
        return _end(lines)
    rest = _END_OF_TAG.split(text[mark.end() :], maxsplit=1)[0]
    if mark["box"]:
        return _end(_lines(_braced(rest)))
    lines = _lines(rest)
    value = _json_answer(lines)
    if value is not None:
        return value
    return _end(lines) if mark[0].startswith("<") else _start(lines)


def _lines(text: str) -> list[str]:
    """Return the non-blank lines of a text, without code fences, closing politeness and sources."""
    lines = [line for line in map(str.strip, text.splitlines()) if line and not _FENCE.fullmatch(line)]
    heading = next((at for at in range(len(lines) - 1, 0, -1) if _SOURCE_HEADING.fullmatch(lines[at])), len(lines))
    end = heading
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
    if not mark["box"]:
        return False
    end = mark.end() + len(_braced(text[mark.end() :])) + 1
    return bool(_DENIED_BEHIND.match(text[end : end + 40]))


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
    text = " ".join(text.split())
    if "\\" in text or "$" in text:
        text = _without_latex(text)
    for _ in range(2):  # bold and italic: **_X_**
        text = _EMPHASIS.sub(lambda found: found[found.lastindex or 0], text)
    if text.count("**") % 2:  # of **Answer: X**, the rest of the line
        text = text.removesuffix("**")
    text = _without_citations(text)
    closing = _CLOSING.search(text, max(0, len(text) - _CLOSING_LENGTH))
    text = (text[: closing.start()].strip() if closing else "") or text
    for pattern in (_FIRST_BULLET, _FRAME):
        found = pattern.match(text)
        text = (found and text[found.end() :]) or text
    quoted = _QUOTED.fullmatch(text)
    return (quoted[1] or quoted[2]) + quoted[3] if quoted else text


def _without_citations(text: str) -> str:
    left = re.sub(r" (?=[.,;:](?: |$))", "", " ".join(_CITATION.sub("", text).split()))
    return left if left.strip(" .,;:!?") else text


def _without_latex(text: str) -> str:
    """Return a text without formatting commands, delimiters of formulas and escapes."""
    formats: list[bool] = []  # for each open brace, whether it belongs to a formatting command

    def kept(found: re.Match[str]) -> str:
        token = found[0]
        if token == "}":
            return "" if formats and formats.pop() else token
        if token.endswith("{") and token != "\\{":
            formats.append(token != "{")
            return token if token == "{" else ""
        return token

    text = _FORMATTING.sub(kept, text.replace("{,}", ","))  # 45{,}000
    text = _DOLLARS.sub(r"\1", _DELIMITERS.sub(" ", text))
    return " ".join(_ESCAPES.sub(r"\1", text).split())
