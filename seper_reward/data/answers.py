"""Answers as strings: their normalisation, and metrics of question answering that compare them."""

import functools
import itertools
import re
import string
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from seper_reward.data.rows import BadRowError, as_text, is_missing, plain, shown, stated_list
from seper_reward.runtime.imports import named_callable, need
from seper_reward.types import Answers, Belief, answer_aliases, answer_items

_BETWEEN_ITEMS = r"\s*(?:[;\n]|,(?!\d)|(?<=\s)&(?=\s)|\b(?:and|or)\b)\s*"
_ABSTENTIONS = {
    "unknown",
    "i don t know",
    "i do not know",
    "don t know",
    "do not know",
    "not known",
    "not mentioned",
    "not stated",
    "not specified",
    "no answer",
    "unanswerable",
    "n/a",
}
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
    kept = re.sub(r"^(a|an|the) (?=\S)", "", " ".join(words.split()))
    return kept or " ".join(folded.split())


def stated_parts(text: str, answers: Answers) -> list[str]:
    """Return the items that a text lists if the answer is a list, else the text alone.

    Parts end at a comma, a semicolon, a line break, ``&``, ``and`` or ``or``, but not within an alias. If no part
    remains, the whole text is the only part.

    >>> stated_parts("Trinidad and Tobago, Cuba or Haiti", [["Cuba"], ["Trinidad and Tobago"]])
    ['Trinidad and Tobago', 'Cuba', 'Haiti']
    """
    if len(answer_items(answers)) == 1:
        return [text]
    aliases = "|".join(re.escape(alias) for alias in sorted(answer_aliases(answers), key=len, reverse=True))
    cut = re.compile(rf"(?<!\w)({aliases})(?!\w)|{_BETWEEN_ITEMS}", re.IGNORECASE)
    parts = cut.sub(lambda found: found[1] or "\n", text).split("\n")
    return [part.strip() for part in parts if re.search(r"\w", part)] or [text]


def abstains(text: str) -> bool:
    """Return whether a text consists of a common phrase for an unknown answer.

    >>> abstains("N/A."), abstains("I don't know"), abstains("The Unknown Soldier")
    (True, True, False)
    """
    return normalize_answer(text) in _ABSTENTIONS


def recall_of_items(metric: Callable[[str, Sequence[str]], float]) -> AnswerMetric:
    """Return a metric of aliases as a metric of answers; for lists, the mean over items of the best part's value."""

    @functools.wraps(metric)
    def over_items(response: str, answers: Answers) -> float:
        parts, items = stated_parts(response, answers), answer_items(answers)
        return sum(max(metric(part, aliases) for part in parts) for aliases in items) / len(items)

    return over_items


@recall_of_items
def exact_match(response: str, answers: Sequence[str]) -> float:
    """Return 1 if the normalised response equals one of the answers, else 0 (SQuAD, arXiv:1606.05250).

    If the answer is a list, return the share of items that equal one of the response's parts (``stated_parts``).

    >>> exact_match("Bob, Ann", [["Bob"], ["Ida", "Ida Voss"]])
    0.5
    """
    normalized = normalize_answer(response)
    return float(any(normalized == normalize_answer(answer) for answer in answers))


@recall_of_items
def accuracy(response: str, answers: Sequence[str]) -> float:
    """Return 1 if the response is one of the answers, without case and outer space, else 0; of a list, the share.

    For answers that are classes, such as FEVER's.

    >>> accuracy(" supports", ["SUPPORTS"]), accuracy("supports.", ["SUPPORTS"])
    (1.0, 0.0)
    """
    return float(response.strip().casefold() in {answer.strip().casefold() for answer in answers})


@recall_of_items
def contains_answer(response: str, answers: Sequence[str]) -> float:
    """Return 1 if the normalised response contains an answer, else 0 (lexical match); of a list, the share."""
    normalized = normalize_answer(response)
    return float(any(normalize_answer(answer) in normalized for answer in answers))


@recall_of_items
def token_f1(response: str, answers: Sequence[str]) -> float:
    """Return the best F1 of the normalised tokens, in [0, 1] (SQuAD, arXiv:1606.05250); of a list, the items' mean.

    >>> token_f1("The old bridge", ["the bridge of Tern"])
    0.4
    """
    tokens = normalize_answer(response).split()
    return max(_f1(tokens, normalize_answer(answer).split()) for answer in answers)


def rouge_l() -> AnswerMetric:
    """Return the metric ROUGE-L, best F-measure over the answers, in [0, 1] (Lin, 2004); of a list, the items' mean.

    Raises:
        OSError: The library ``rouge-score`` is not installed.
    """
    scorer = need("rouge_score.rouge_scorer", "evaluation").RougeScorer(["rougeL"])

    def best_f_measure(response: str, aliases: Sequence[str]) -> float:
        return float(scorer.score_multi(list(aliases), response)["rougeL"].fmeasure)

    return recall_of_items(best_f_measure)


def bleu() -> AnswerMetric:
    """Return the metric BLEU of a response with the aliases as its references, in [0, 1]; of a list, the items' mean.

    This is sentence BLEU (Papineni et al., 2002) as computed by sacreBLEU (Post, 2018): without case, with n-grams up
    to the length of the response, since most answers have fewer than four words.

    Raises:
        OSError: The library ``sacrebleu`` is not installed.
    """
    scorer = need("sacrebleu.metrics", "evaluation").BLEU(lowercase=True, effective_order=True)

    def score(response: str, aliases: Sequence[str]) -> float:
        return min(float(scorer.sentence_score(response, list(aliases)).score) / 100, 1.0)

    return recall_of_items(score)


def answer_metric(name: str) -> AnswerMetric:
    """Return a metric by name.

    Args:
        name: ``exact_match``, ``contains_answer``, ``accuracy``, ``token_f1``, ``rouge_l``, or ``package.module:name``
            of a callable. Its arguments are a response and the gold answer (a list of aliases or, if the answer is a
            list, the aliases of each item); it returns a number in [0, 1].

    Raises:
        ValueError: There is no such metric.
        OSError: The metric needs a library that is not installed.
    """
    known = {
        "exact_match": exact_match,
        "contains_answer": contains_answer,
        "accuracy": accuracy,
        "token_f1": token_f1,
    }
    if name == "rouge_l":
        return rouge_l()
    if ":" in name:
        return named_callable("metric", name)
    if name not in known:
        raise ValueError(
            f"metric must be one of {', '.join([*known, 'rouge_l'])} or package.module:name, got {name!r}"
        )
    return known[name]


def share_held(text: str, answers: Answers) -> float:
    """Return the share of an answer's items that a text contains, as normalised words; 0 or 1 if it is not a list.

    >>> share_held("The mill was run by Ida Voss.", ["Voss"]), share_held("Vossberg mill", ["Voss"])
    (1.0, 0.0)
    """
    words, items = f" {normalize_answer(text)} ", answer_items(answers)
    return sum(any(f" {normalize_answer(alias)} " in words for alias in aliases) for aliases in items) / len(items)


def _f1(response: Sequence[str], answer: Sequence[str]) -> float:
    common = (Counter(response) & Counter(answer)).total()
    return 2 * common / (len(response) + len(answer)) if common else 0.0


def expected_metric(belief: Belief, answers: Answers, metric: AnswerMetric) -> float:
    """Return the weighted mean of a metric over the responses of a belief, in the metric's own range."""
    return sum(weight * metric(text, answers) for text, weight in zip(belief.responses, belief.weights, strict=True))


def best_alias_mean(values: Sequence[float], answers: Answers) -> float:
    """Return the greatest value of an alias; if the answer is a list, the mean over items of their greatest value.

    There is one value per alias, in the order of ``answer_aliases``.

    >>> best_alias_mean([-1.0, -2.0, -4.0], [["Ida", "Ida Voss"], ["Bob"]])
    -2.5
    """
    left, items = iter(values), answer_items(answers)
    return sum(max(itertools.islice(left, len(aliases))) for aliases in items) / len(items)


def as_answers(
    value: Any, *, needed: bool = True, distinct: bool = True, left_out: Counter[str] | None = None
) -> Answers:
    """Return the value of ``answers`` as tuples, in the forms of ``as_query``; if ``distinct``, equal ones only once.

    >>> as_answers([1912.0, None, "in 1912"]), as_answers('["Ida", "Ida Voss"]')
    (('1912', 'in 1912'), ('Ida', 'Ida Voss'))

    Raises:
        BadRowError: There is no answer, although it is ``needed``; or an answer is no text.
    """
    value = stated_list(plain(value))
    values = value if is_list(value) else [value]
    answers = read_answers(values, as_text)
    if not answers:
        if not needed:
            return ()
        raise BadRowError(
            f"answers must be a text or a list with at least one text, got {shown(value)}; drop unanswerable "
            "questions, or use a labeler that needs no answers"
        )
    aliases = sum(len(each) if is_list(each) else 1 for each in values)
    if left_out is not None and (missing := aliases - sum(map(len, answer_items(answers)))):
        left_out["aliases"] += missing
    return _distinct(answers) if distinct else answers


def read_answers(row: Iterable[Any], text: Callable[[Any, str], str]) -> Answers:
    """Return the answers of a row, texts or lists of texts, as tuples, without missing aliases (``is_missing``).

    ``text`` returns a value, given with its name for errors, as a text.

    Raises:
        BadRowError: Lists and texts are mixed, or a list has no text.
    """
    values = list(row)
    if not any(map(is_list, values)):
        return tuple(text(value, f"answers[{at}]") for at, value in enumerate(values) if not is_missing(value))
    items = []
    for at, value in enumerate(values):
        given = list(enumerate(value)) if is_list(value) else []
        items.append(tuple(text(each, f"answers[{at}][{place}]") for place, each in given if not is_missing(each)))
        if not items[-1]:
            raise BadRowError(
                f"answers[{at}] must be a list with at least one text, as answers contains lists, got {shown(value)}; "
                "answers are texts (aliases of one answer) or lists (aliases of each item of the answer), not both"
            )
    return tuple(items)


def _distinct(answers: Answers) -> Answers:
    """Return answers without duplicates: equal aliases, and items with the same aliases."""
    items: dict[frozenset[str], tuple[str, ...]] = {}
    for aliases in answer_items(answers):
        distinct: dict[str, str] = {}
        for alias in aliases:
            distinct.setdefault(normalize_answer(alias), alias)
        items.setdefault(frozenset(distinct), tuple(distinct.values()))
    first, *others = items.values()
    return first if isinstance(answers[0], str) else (first, *others)


def is_list(value: Any) -> bool:
    """Return whether a value of a row is a list, an array or the like, not a text or an object."""
    return isinstance(value, Iterable) and not isinstance(value, (str, bytes, Mapping))


def _is_punctuation(character: str) -> bool:
    if character in "+-%$#&<>=^*/":  # these change an answer: -5, C++, 50 %, <5
        return False
    return character in string.punctuation or unicodedata.category(character).startswith("P")
