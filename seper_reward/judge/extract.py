r"""Extraction of the answer from a completion: the text behind the last mark such as ``\boxed{}``, else the last line.

Words are dropped only if they cannot be part of an answer, and only if an answer is left. All patterns are anchored or
bounded in length: the time is linear in the length of the text.
"""

import re

from seper_reward.judge.equality import plain

# tokens that end a turn, and the like, which some decoders leave in the text
_CONTROL_TOKENS = re.compile(r"<\|[^|<>\n]{1,40}\|>|</s>|<eos>|<end_of_turn>")
_THOUGHT = r"(?:think(?:ing)?|thoughts?|reasoning|scratchpad)"
_THOUGHTS = re.compile(
    rf"^.*[<\[]/{_THOUGHT}[>\]]|[<\[]{_THOUGHT}[>\]].*$|^.*assistantfinal(?=\S)", re.DOTALL | re.IGNORECASE
)
_OPENS = re.compile(rf"[<\[]{_THOUGHT}[>\]]", re.IGNORECASE)
_CLOSES = re.compile(rf"[<\[]/{_THOUGHT}[>\]]", re.IGNORECASE)
_NEXT_QUESTION = re.compile(r"\n[^\S\n]*(?:#+[^\S\n]*)?(?:question|q)\s?\d{0,3}\s?[:.]\s", re.IGNORECASE)
_MARK = re.compile(
    r"(?P<tag><answer>)|(?P<box>\\(?:boxed|fbox) ?\{)|\banswers?[*_]{0,3} ?[:：][*_]{0,3}"
    r"|^[ \t]{0,3}(?:#{1,6}|[*_]{2,3})[ \t]{0,3}(?:final |short )?answers?[*_:#]{0,6}[ \t]*$(?=\s*\S)",
    re.IGNORECASE | re.MULTILINE,
)
_BRACES = re.compile(r"\\.|[{}]", re.DOTALL)
_BULLET = re.compile(r"(?:[-*•–]|1[.)])\s+(?=\S)")  # 14. March is a date
# a minus sign next to a mark, where a bullet would start a line
_MINUS = re.compile(r"([ \t$(]*)[-–] (?=\d)")
_SOURCES = r"(?:sources?|references?|citations?)"
_SOURCE_LINE = re.compile(rf"\W{{0,5}}{_SOURCES}\W{{0,5}}(?::|$)|\[\^?\d{{1,3}}\]:? \S", re.IGNORECASE)
# [1], 【1†source】, (Doc 1, Doc 2), (Source: Doc 1); not [1, 5], which may be an interval, nor a[0]
_CITATION = re.compile(
    r"\[\^?[1-9]\d{0,2}\]|【[^】\n]{1,40}】"
    rf"|[(\[](?:(?:docs?|documents?|passages?)[ .#]{{0,3}}\d|{_SOURCES} ?:)[^()\[\]\n]{{0,100}}[)\]]",
    re.IGNORECASE,
)
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
_FRAME = re.compile(
    r"(?:(?:so|therefore|thus|hence|(?:based on|according to)(?: [\w-]+){1,6}),? )?"
    r"(?:the|my) (?:(?:final|correct|right) ){0,2}answer (?:is|was|would be):? ",
    re.IGNORECASE,
)


def extract_answer(text: str | None, pattern: re.Pattern[str] | None = None) -> str:
    r"""Return the answer that a completion states last, and no more.

    The answer is the text after the last ``Answer:``, in the last ``<answer>`` or ``\boxed{}``, or under the last
    heading ``Answer``; else the last line. A text that goes on with another question is read up to it. Thoughts
    (``<think>``) are skipped, and a text that ends within a thought states no answer. Markdown, LaTeX, citations,
    control tokens, closing politeness and "The answer is" are dropped. With a ``pattern``
    (``compile_answer_pattern``), its last match is the answer in place of these marks, and a text without a match
    states none.

    >>> extract_answer("Two villages have a mill.\nAnswer: Ida Voss"), extract_answer("<think>Who may that be")
    ('Ida Voss', '')
    >>> extract_answer(r"Hence $\boxed{\text{Ida Voss}}$. I hope it helps."), extract_answer("The answer is not Ida")
    ('Ida Voss', 'not Ida')
    """
    statement = _THOUGHTS.sub("", text or "")
    if pattern is None:
        statement = _NEXT_QUESTION.split(_CONTROL_TOKENS.sub("\n", statement).strip(), maxsplit=1)[0]
        return _cleaned(_marked(statement))
    *_, match = (None, *pattern.finditer(statement))
    group = match[min(pattern.groups, 1)] if match else None
    return _cleaned("".join(_lines(_CONTROL_TOKENS.sub("\n", group or ""))[-1:]))


def opens_thought(prompt: str) -> bool:
    """Return whether a prompt ends with the opening tag of a thought, as some chat templates do."""
    return re.search(rf"{_OPENS.pattern}\s*$", prompt, re.IGNORECASE) is not None


def closes_thought(completion: str, opened: bool = True) -> bool:
    """Return whether a completion has the closing tag of a thought; with ``opened=False``, of one that it opens not.

    >>> closes_thought("So it is Ida.</think>Ida"), closes_thought("<think>So</think>Ida", opened=False)
    (True, False)
    """
    closed = _CLOSES.search(completion)
    return closed is not None and (opened or not _OPENS.search(completion, 0, closed.start()))


def _marked(text: str) -> str:
    """Return the line behind the last mark, the last line in a tag or box, or else the last line."""
    *_, mark = (None, *_MARK.finditer(text))
    rest = text[mark.end() :] if mark else text
    if mark and (minus := _MINUS.match(rest)):
        rest = f"{minus[1]}-{rest[minus.end() :]}"
    if mark and mark["box"]:
        rest = _braced(rest)
    elif mark and mark["tag"]:
        rest = re.split("</answer>", rest, maxsplit=1, flags=re.IGNORECASE)[0]
    lines = _lines(rest)
    return "".join(lines[:1] if mark and not (mark["box"] or mark["tag"]) else lines[-1:])


def _lines(text: str) -> list[str]:
    """Return the non-blank lines of a text, without code fences, closing politeness and sources."""
    lines = [line for line in map(str.strip, text.splitlines()) if line and not re.fullmatch(r"```[\w+-]{0,20}", line)]
    while len(lines) > 1 and (_CLOSING.match(lines[-1]) or _SOURCE_LINE.match(lines[-1])):
        lines.pop()
    return lines


def _braced(text: str) -> str:
    """Return the text up to the first unmatched closing brace; the whole text if there is none."""
    depth = 1
    for brace in _BRACES.finditer(text):
        depth += {"{": 1, "}": -1}.get(brace[0], 0)
        if depth == 0:
            return text[: brace.start()]
    return text


def _cleaned(text: str) -> str:
    """Return a statement without the markup around its answer; steps that would leave nothing are skipped."""
    text = plain(text)
    if text.count("**") % 2:  # of **Answer: X**, the rest of the line
        text = text.removesuffix("**")
    text = re.sub(r" (?=[.,;:](?: |$))", "", " ".join(_CITATION.sub("", text).split())) or text
    closing = _CLOSING.search(text, max(0, len(text) - _CLOSING_LENGTH))
    text = (text[: closing.start()].strip() if closing else "") or text
    for pattern in (_BULLET, _FRAME):
        match = pattern.match(text)
        text = (match and text[match.end() :]) or text
    return text
