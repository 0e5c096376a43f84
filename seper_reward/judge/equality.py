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
_COMMANDS = {
    "le": "<=", "leq": "<=", "ge": ">=", "geq": ">=", "times": "x", "cdot": "·", "pm": "±", "infty": "∞",
    "pi": "π", "theta": "θ", "alpha": "α",
}  # fmt: skip
_LATEX = (
    (re.compile(r"\\[dt]?frac ?\{?(-?\w+)\}? ?\{?(\w+)\}?"), r"\1/\2"),
    (re.compile(r"\\(?:text\w{0,8}|math\w{1,8}|boxed|fbox|emph|operatorname|underline) ?\{([^{}]*)\}"), r"\1"),
    (re.compile(r"\{,\}"), ","),
    (re.compile(r"\\[()\[\]]|\\[,;! ]"), " "),
    # As in Pandoc, $ next to a space or before a digit is not a delimiter: $45 and $60.
    (re.compile(r"(?<!\\)\${1,2}(?=\S)((?:[^$\\]|\\.)+)(?<=\S)\${1,2}(?![\w$])", re.DOTALL), r"\1"),
    (re.compile(rf"\\({'|'.join(_COMMANDS)})\b"), lambda match: _COMMANDS[match[1]]),
    (re.compile(r"\^\{?\\circ\}?"), "°"),
    (re.compile(r"\^\{(\w{1,20})\}"), r"^\1"),
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
    return " ".join(re.sub(r"^[*•]\s+(?=\S)", "", text).split())


def _is_ornament(character: str) -> bool:
    """Return whether a character of a text in form NFKC is a symbol or mark without a meaning, such as ✓."""
    # \ufe0e and \ufe0f are variation selectors of emoji
    is_symbol = unicodedata.category(character) in ("So", "Sk", "Cf") or character in "\ufe0e\ufe0f"
    return is_symbol and not character.isascii() and character not in _MEANINGFUL


@functools.lru_cache(maxsize=65536)
def normal_form(text: str) -> str:
    """Return the form in which equal answers are equal: without case, articles, outer quotes and final punctuation.

    >>> normal_form(' The "Tern Bridge". '), normal_form("F#"), normal_form("[2,8)")
    ('tern bridge', 'f#', '[2,8)')
    """
    folded = plain(text).casefold()
    bare = _ARTICLES.sub("", folded).strip("\"' ").rstrip(".,;:!?").strip("\"' ")
    return _AROUND_PUNCTUATION.sub("", bare) or folded


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
