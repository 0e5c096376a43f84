"""Statements that answer a question in its own words: "The Berlin Wall fell in 1989"."""

import re

_PAST = {
    "fall": "fell", "begin": "began", "win": "won", "become": "became", "come": "came", "take": "took",
    "leave": "left", "get": "got", "go": "went", "sink": "sank", "break": "broke", "meet": "met", "run": "ran",
    "fight": "fought", "open": "opened", "close": "closed", "end": "ended", "start": "started", "die": "died",
    "arrive": "arrived", "return": "returned", "happen": "happened", "join": "joined", "move": "moved",
    "retire": "retired", "live": "lived", "debut": "debuted", "land": "landed", "air": "aired",
    "premiere": "premiered", "occur": "occurred", "grow": "grew",
}  # fmt: skip
_PARTICIPLE = r"\w+(?:ed|wn|ten|ken|ung|built|held|made|born|found|cast|set|fought|won|written|sunk|shot)"
_ASKS_IN = r"(?:when|where|in (?:which|what) \w+|(?:which|what) year)"
_ON = re.compile(  # dates that stand behind "on"
    r"\d (january|february|march|april|may|june|july|august|september|october|november|december)|\b\w+day$"
)


def statement(question: str, answer: str) -> str | None:
    """Return a statement that answers a question; ``None`` for questions of other shapes.

    >>> statement("When did the Berlin Wall fall?", "1989"), statement("who wrote hamlet", "Shakespeare")
    ('The Berlin Wall fell in 1989', 'Shakespeare wrote hamlet')
    """
    asked = question.strip().rstrip("?. ")
    before = "" if re.match(r"(in|on|at|from|during|the \d|after|before)\b", answer.lower()) else "in "
    if _ON.search(answer.lower()):
        before = before and "on "
    if match := re.fullmatch(
        rf"{_ASKS_IN} did (.+) ({'|'.join(_PAST)})( (?:in|to|on|for|from|out|down)\b.*)?", asked, re.I
    ):
        past = _PAST[match[2].lower()]
        return _capital(f"{match[1]} {past}{match[3] or ''} {before}{answer}")
    if match := re.fullmatch(rf"{_ASKS_IN} (was|were|is|are) (.+?) ({_PARTICIPLE})( .+)?", asked, re.I):
        return _capital(f"{match[2]} {match[1]} {match[3]}{match[4] or ''} {before}{answer}")
    if match := re.fullmatch(r"where (is|are|was|were) (.+)", asked, re.I):
        return _capital(f"{match[2]} {match[1]} {before}{answer}")
    if match := re.fullmatch(r"(?:who|what|which \w+) (is|was|are|were) (the .+|.+'s \w+)", asked, re.I):
        return _capital(f"{match[2]} {match[1]} {answer}")
    if match := re.fullmatch(r"how many (.+?) (are|were) (?:there )?(.+)", asked, re.I):
        return f"There {match[2]} {answer} {match[1]} {match[3]}"
    if match := re.fullmatch(r"how many (.+?) (does|did) (.+?) have", asked, re.I):
        return _capital(f"{match[3]} {'has' if match[2] == 'does' else 'had'} {answer} {match[1]}")
    if match := re.fullmatch(r"who (?!is|was|are|were|did|does|do|will|has\b)(.+)", asked, re.I):
        return _capital(f"{answer} {match[1]}")
    return None


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
