"""Equality of answers: a normal form that deletes no sign, digit or word that distinguishes two answers."""

import functools
import re
import unicodedata
from collections import Counter
from itertools import filterfalse

_SUPERSCRIPTS = re.compile("[⁰¹²³⁴-⁹⁺⁻]+")
_FRACTIONS = re.compile(r"(?<=\d)(?=[¼-¾⅐-⅞])")
_TYPOGRAPHY = str.maketrans(
    {"“": '"', "”": '"', "„": '"', "«": '"', "»": '"', "‘": "'", "’": "'", "´": "'", "–": "-", "—": "-", "‐": "-"}
    | {"‑": "-", "−": "-", "⁄": "/", "×": "x", "♯": "#", "＃": "#", "≤": "<=", "≥": ">="}
)
_MEANINGFUL = frozenset("°♭♮♂♀\u200c")
_SELECTORS = frozenset("\ufe0e\ufe0f")  # variation selectors of emoji
_BULLET = re.compile(r"^[*•]\s+(?=\S)")
_COMMANDS = {
    r"\le": "<=", r"\leq": "<=", r"\ge": ">=", r"\geq": ">=",
    r"\times": "x", r"\cdot": "·", r"\pm": "±", r"\infty": "∞",
}  # fmt: skip
_LATEX = (
    (re.compile(r"\\[dt]?frac ?\{?(-?\w+)\}? ?\{?(\w+)\}?"), r"\1/\2"),
    (re.compile(r"\\(?:text\w{0,8}|math\w{1,8}|boxed|fbox|emph|operatorname|underline) ?\{([^{}]*)\}"), r"\1"),
    (re.compile(r"\{,\}"), ","),
    (re.compile(r"\\[()\[\]]|\\[,;! ]"), " "),
    # As in Pandoc, $ next to a space or before a digit is not a delimiter: $45 and $60.
    (re.compile(r"(?<!\\)\${1,2}(?=\S)((?:[^$\\]|\\.)+)(?<=\S)\${1,2}(?![\w$])", re.DOTALL), r"\1"),
    (re.compile(r"\\(?:le|leq|ge|geq|times|cdot|pm|infty)\b"), lambda match: _COMMANDS[match[0]]),
    (re.compile(r"\^\{?\\circ\}?"), "°"),
    (re.compile(r"\^\{(\w{1,20})\}"), r"^\1"),
    (re.compile(r"\\(pi|theta|alpha)\b"), lambda match: unicodedata.lookup(f"GREEK SMALL LETTER {match[1]}")),
    (re.compile(r"\\([%$&#_{}])"), r"\1"),
)
_EMPHASIS = re.compile(
    r"(?<![\w*])\*{1,3}(?=[^\s*])([^*\n]+)(?<=\S)\*{1,3}(?![\w*])"
    r"|(?<!\w)_{1,3}(?=[^\s_])([^_\n]+)(?<=\S)_{1,3}(?!\w)|`{1,3}([^`\n]+)`{1,3}"
)
_AROUND_PUNCTUATION = re.compile(r"\s+(?=[^\w\s])|(?<=[^\w\s])\s+")
_ARTICLES = re.compile(r"^(?:an?|the)\s+(?=[\w\"'])")
_SIGNS = re.compile(
    r"[<>]=|[+#<>=≠±√^*%°∞|\\]|(?<!\w)-(?=[\w.])|(?<=\w)-(?![\w\s])|(?<=\w)-$|(?<=\d)/(?=\d)"
    r"|[(\[](?=\s*[-+]?\d[^()\[\]]*[)\]])|(?<=\d)\s*[)\]]"
)


@functools.lru_cache(maxsize=65536)
def plain(text: str) -> str:
    r"""Return a text without LaTeX, emphasis, emoji and typographic variants of signs, in Unicode's form NFKC.

    >>> plain("**2½** x²"), plain(r"$\frac{1}{2}$"), plain("✅ Ida"), plain("B♭")
    ('2 1/2 x^2', '1/2', 'Ida', 'B♭')
    """
    if not text.isascii():
        text = _SUPERSCRIPTS.sub(lambda match: "^" + unicodedata.normalize("NFKC", match[0]), text)
        text = unicodedata.normalize("NFKC", _FRACTIONS.sub(" ", text).translate(_TYPOGRAPHY)).translate(_TYPOGRAPHY)
        text = "".join(filterfalse(_is_ornament, text)) if any(map(str.isalnum, text)) else text
    for _ in range(2 if "\\" in text or "$" in text or "{" in text else 0):  # commands within commands
        for pattern, replacement in _LATEX:
            text = pattern.sub(replacement, text)
    for _ in range(2 if re.search("[*_`]", text) else 0):  # bold and italic: **_X_**
        text = _EMPHASIS.sub(lambda match: match[match.lastindex or 0], text)
    return " ".join(_BULLET.sub("", text).split()) if text[:1] in "*•" else " ".join(text.split())


def _is_ornament(character: str) -> bool:
    """Return whether a character of a text in form NFKC is a symbol or mark without a meaning, such as ✓."""
    if character.isascii() or character in _MEANINGFUL:
        return False
    return unicodedata.category(character) in ("So", "Sk", "Cf") or character in _SELECTORS


@functools.lru_cache(maxsize=65536)
def normal_form(text: str) -> str:
    """Return the form in which equal answers are equal: without case, articles, outer quotes and final punctuation.

    >>> normal_form(' The "Tern Bridge". '), normal_form("F#"), normal_form("[2,8)")
    ('tern bridge', 'f#', '[2,8)')
    """
    folded = plain(text).casefold()
    bare = _ARTICLES.sub("", folded).strip("\"' ").rstrip(".,;:!?").strip("\"' ")
    bare = _AROUND_PUNCTUATION.sub("", bare)
    return bare or folded


def equal(one: str, other: str) -> bool:
    """Return whether two texts are the same answer in normal form.

    >>> equal("**The Tern.**", "tern"), equal("F#", "F"), equal("1, 12", "11, 2")
    (True, False, False)
    """
    return normal_form(one) == normal_form(other)


@functools.lru_cache(maxsize=65536)
def signs(text: str) -> Counter[str]:
    """Return the signs of a text that distinguish answers, such as + # < and the brackets of an interval."""
    return Counter(sign.strip() for sign in _SIGNS.findall(plain(text)))


def differ_in_signs(one: str, other: str) -> bool:
    """Return whether two texts have the same letters and digits and other signs.

    >>> differ_in_signs("F#", "F"), differ_in_signs("[2, 8)", "(2, 8]"), differ_in_signs("New-York", "New York")
    (True, True, False)
    """
    letters = (re.sub(r"[\W_]+", "", plain(text).casefold()) for text in (one, other))
    # as dicts: comparing Counters is slow
    return {**signs(one)} != {**signs(other)} and next(letters) == next(letters)
