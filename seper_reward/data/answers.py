"""Answers as strings: their normalisation, and metrics of question answering that compare them."""

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from seper_reward.data.rows import BadRowError, as_text, is_missing, shown, stated_list
from seper_reward.runtime.imports import named_callable, need
from seper_reward.types import Answers, Belief

_ABSTENTIONS = {
    "unknown", "i don t know", "i do not know", "don t know", "do not know", "not known", "not mentioned",
    "not stated", "not specified", "no answer", "unanswerable", "n/a",
}  # fmt: skip
AnswerMetric = Callable[[str, Answers], float]  # (response, gold answer) -> [0, 1]


def normalize_answer(text: str) -> str:
    """Lower-case, drop punctuation, a leading article and extra space (after SQuAD's rule, for all scripts).

    A text without other characters is kept whole, so it equals only itself.

    >>> normalize_answer("The  Tern Bridge!"), normalize_answer("¿Málaga?"), normalize_answer("C++")
    ('tern bridge', 'málaga', 'c++')
    """
    folded = unicodedata.normalize("NFKC", text).casefold()
    # punctuation between digits is kept: 1.2 is not 1 2
    words = "".join(
        " "
        if _is_punctuation(character)
        and not (folded[place - 1 : place].isdigit() and folded[place + 1 : place + 2].isdigit())
        else character
        for place, character in enumerate(folded)
    )
    answer = re.sub(r"^(a|an|the) (?=\S)", "", " ".join(words.split()))
    return answer or " ".join(folded.split())


def abstains(text: str) -> bool:
    """Return whether a text consists of a common phrase for an unknown answer.

    >>> abstains("N/A."), abstains("I don't know"), abstains("The Unknown Soldier")
    (True, True, False)
    """
    return normalize_answer(text) in _ABSTENTIONS


def exact_match(response: str, answers: Sequence[str]) -> float:
    """Return 1 if the normalised response equals one of the answers, else 0 (SQuAD, arXiv:1606.05250).

    >>> exact_match("the Mill", ["mill", "water mill"])
    1.0
    """
    normalized = normalize_answer(response)
    return float(any(normalized == normalize_answer(answer) for answer in answers))


def accuracy(response: str, answers: Sequence[str]) -> float:
    """Return 1 if the response is one of the answers, without case and outer space, else 0.

    For answers that are classes, such as FEVER's.

    >>> accuracy(" supports", ["SUPPORTS"]), accuracy("supports.", ["SUPPORTS"])
    (1.0, 0.0)
    """
    return float(response.strip().casefold() in {answer.strip().casefold() for answer in answers})


def contains_answer(response: str, answers: Sequence[str]) -> float:
    """Return 1 if the normalised response contains an answer, else 0 (lexical match)."""
    normalized = normalize_answer(response)
    return float(any(normalize_answer(answer) in normalized for answer in answers))


def token_f1(response: str, answers: Sequence[str]) -> float:
    """Return the best F1 of the normalised tokens, in [0, 1] (SQuAD, arXiv:1606.05250).

    >>> token_f1("The old bridge", ["the bridge of Tern"])
    0.4
    """
    tokens = normalize_answer(response).split()
    golds = [normalize_answer(answer).split() for answer in answers]
    return max(2 * (Counter(tokens) & Counter(gold)).total() / max(1, len(tokens) + len(gold)) for gold in golds)


def rouge_l() -> AnswerMetric:
    """Return ROUGE-L, best F-measure over the answers, in [0, 1] (Lin, 2004); ``OSError`` without ``rouge-score``."""
    scorer = need("rouge_score.rouge_scorer", "evaluation").RougeScorer(["rougeL"])

    return lambda response, aliases: float(scorer.score_multi(list(aliases), response)["rougeL"].fmeasure)


def bleu() -> AnswerMetric:
    """Return sentence BLEU (Papineni et al., 2002) by sacreBLEU, the aliases as references, in [0, 1], without case.

    Its n-grams are as long as the response, since most answers have fewer than four words. ``OSError`` without
    sacrebleu.
    """
    scorer = need("sacrebleu.metrics", "evaluation").BLEU(lowercase=True, effective_order=True)

    return lambda response, aliases: min(float(scorer.sentence_score(response, list(aliases)).score) / 100, 1.0)


def answer_metric(name: str) -> AnswerMetric:
    """Return a metric by name, or the callable of a response and the aliases at ``package.module:name``."""
    known = {metric.__name__: metric for metric in (exact_match, contains_answer, accuracy, token_f1)}
    if name == "rouge_l":
        return rouge_l()
    if ":" in name:
        return named_callable("metric", name)
    if name not in known:
        raise ValueError(
            f"metric must be one of {', '.join([*known, 'rouge_l'])} or package.module:name, got {name!r}"
        )
    return known[name]


def holds_answer(text: str, answers: Answers) -> bool:
    """Return whether a text contains an answer, as normalised words.

    >>> holds_answer("The mill was run by Ida Voss.", ["Voss"]), holds_answer("Vossberg mill", ["Voss"])
    (True, False)
    """
    words = f" {normalize_answer(text)} "
    return any(f" {normalize_answer(alias)} " in words for alias in answers)


def expected_metric(belief: Belief, answers: Answers, metric: AnswerMetric) -> float:
    """Return the weighted mean of a metric over the responses of a belief, in the metric's own range."""
    return sum(weight * metric(text, answers) for text, weight in zip(belief.responses, belief.weights, strict=True))


def as_answers(value: Any, *, needed: bool = True, distinct: bool = True) -> Answers:
    """Return the clean value of ``answers`` as a tuple of texts; if ``distinct``, equal ones only once.

    >>> as_answers([1912.0, None, "in 1912"]), as_answers('["Ida", "Ida Voss"]'), as_answers(True)
    (('1912', 'in 1912'), ('Ida', 'Ida Voss'), ('yes',))

    Raises ``BadRowError`` if there is no answer, although it is ``needed``; or an answer is no text.
    """
    answers = read_answers(stated_aliases(value), _alias)
    if not answers:
        if not needed:
            return ()
        raise BadRowError(
            f"answers must be a text or a list with at least one text, got {shown(stated_list(value))}; drop "
            "unanswerable questions, or use a labeler that needs no answers"
        )
    if not distinct:
        return answers
    spellings: dict[str, str] = {}  # the first of equal aliases
    for alias in answers:
        spellings.setdefault(normalize_answer(alias), alias)
    return tuple(spellings.values())


def stated_aliases(value: Any) -> list[object]:
    """Return the items of a value of ``answers``: of a list, a list in a list of one, or a text of a list."""
    value = stated_list(value)
    values = list(value) if is_list(value) else [value]
    return list(values[0]) if len(values) == 1 and is_list(values[0]) else values


def read_answers(aliases: Iterable[object], text: Callable[[object, str], str]) -> Answers:
    """Return the aliases of an answer in a row as a tuple, without missing ones (``is_missing``).

    ``text`` returns a value, given with its name for errors, as a text. Raises ``BadRowError`` if an alias is a list.
    """
    values = list(aliases)
    for at, value in enumerate(values):
        if is_list(value):
            raise BadRowError(
                f"answers[{at}] must be a text, got the list {shown(value)}: answers are aliases of one answer, since "
                "a judge of short answers misjudges lists; ask one question per item, or write the items as one text"
            )
    return tuple(text(value, f"answers[{at}]") for at, value in enumerate(values) if not is_missing(value))


def _alias(value: object, name: str) -> str:
    """Return an alias as text; BoolQ's ``true`` and ``false`` are yes and no."""
    return as_text({True: "yes", False: "no"}[value] if isinstance(value, bool) else value, name)


def is_list(value: object) -> bool:
    """Return whether a value of a row is a list, an array or the like, not a text or an object."""
    return isinstance(value, Iterable) and not isinstance(value, (str, bytes, Mapping))


def _is_punctuation(character: str) -> bool:
    if character in "+-%$#&<>=^*/":  # these change an answer: -5, C++, 50 %, <5
        return False
    return character in string.punctuation or unicodedata.category(character).startswith("P")
