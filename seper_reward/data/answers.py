"""Answers as strings: how they are normalised, and the metrics of question answering that compare them."""

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence

from seper_reward.runtime.imports import need
from seper_reward.types import Belief

_FUNCTION_WORDS = {
    "a",
    "an",
    "the",
    "it",
    "its",
    "is",
    "was",
    "are",
    "were",
    "that",
    "this",
    "of",
    "in",
    "on",
    "at",
    "by",
}
AnswerMetric = Callable[[str, Sequence[str]], float]  # (response, aliases of the answer) -> [0, 1]


def normalize_answer(text: str) -> str:
    """Lower-case, drop punctuation, a leading article and extra space (after SQuAD's rule, for all scripts).

    A text that holds nothing else keeps its characters, so that it equals itself only.

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


def stated_answer(text: str | None) -> str:
    r"""Return the answer that a text states last: what a reader of it would take for the answer, and no more.

    It is what stands behind the last ``Answer:`` or between the last ``<answer>`` and ``</answer>``, or in the last
    ``\boxed{}``; without such a mark, the last line. Thoughts (``<think>``) are not part of it, and a text that ends
    within them states nothing.

    >>> stated_answer("Two villages have a mill.\nAnswer: Ida Voss"), stated_answer("<think>Who may that be")
    ('Ida Voss', '')
    """
    said = re.sub(r"^.*</think>|<think>.*$", "", text or "", flags=re.DOTALL)
    marked = re.findall(
        r"<answer>(.*?)(?:</answer>|$)|\\boxed\{([^{}]*)\}|\banswer:([^\n]*)", said, re.DOTALL | re.IGNORECASE
    )
    lines = "".join(marked[-1]).strip().splitlines() if marked else said.strip().splitlines()
    return lines[-1].strip() if lines else ""


def only_echoes(text: str, question: str, answer: str) -> bool:
    """Return whether a text has no word beyond the question's and function words, while the answer has one.

    Such a text cannot state the answer. Yes and no are not answers of this kind: a question repeated may mean them.

    >>> only_echoes("It is Hamlet", "Who wrote Hamlet?", "Shakespeare"), only_echoes("red", "Red or blue?", "red")
    (True, False)
    """
    known = {*re.findall(r"\w+", question.casefold()), *_FUNCTION_WORDS}
    said, wanted = (set(re.findall(r"\w+", each.casefold())) for each in (text, answer))
    return bool(said) and said <= known and not wanted <= known and not wanted & {"yes", "no", "true", "false"}


def without_echo(text: str, question: str, answer: str) -> str:
    """Return a text without the question's words, but for those of the answer.

    >>> without_echo("Oslo is the capital of Norway.", "What is the capital of Norway?", "Oslo")
    'Oslo.'
    """
    echoed = {*re.findall(r"\w+", question.casefold())} - {*re.findall(r"\w+", answer.casefold())}
    left = re.sub(r"\w+", lambda word: "" if word.group().casefold() in echoed else word.group(), text)
    return re.sub(r"\s+([.,;:!?])", r"\1", " ".join(left.split()))


def exact_match(response: str, answers: Sequence[str]) -> float:
    """Return 1 if the normalised response equals one of the answers, else 0 (SQuAD, arXiv:1606.05250)."""
    normalized = normalize_answer(response)
    return float(any(normalized == normalize_answer(answer) for answer in answers))


def contains_answer(response: str, answers: Sequence[str]) -> float:
    """Return 1 if the normalised response holds one of the answers, else 0 (lexical match)."""
    normalized = normalize_answer(response)
    return float(any(normalize_answer(answer) in normalized for answer in answers))


def token_f1(response: str, answers: Sequence[str]) -> float:
    """Return the best F1 of the normalised tokens, in [0, 1] (SQuAD, arXiv:1606.05250).

    >>> token_f1("The old bridge", ["the bridge of Tern"])
    0.4
    """
    tokens = normalize_answer(response).split()
    return max(_f1(tokens, normalize_answer(answer).split()) for answer in answers)


def rouge_l() -> AnswerMetric:
    """Return the metric ROUGE-L, best F-measure over the answers, in [0, 1] (Lin, 2004).

    Raises:
        OSError: The library ``rouge-score`` is not installed.
    """
    scorer = need("rouge_score.rouge_scorer", "evaluation").RougeScorer(["rougeL"])
    return lambda response, answers: float(scorer.score_multi(list(answers), response)["rougeL"].fmeasure)


def answer_metric(name: str) -> AnswerMetric:
    """Return a metric by name: ``exact_match``, ``contains_answer``, ``token_f1`` or ``rouge_l``.

    Raises:
        ValueError: There is no such metric.
        OSError: The metric needs a library that is not installed.
    """
    known = {"exact_match": exact_match, "contains_answer": contains_answer, "token_f1": token_f1}
    if name == "rouge_l":
        return rouge_l()
    if name not in known:
        raise ValueError(f"metric must be one of {', '.join([*known, 'rouge_l'])}, got {name!r}")
    return known[name]


def _f1(response: Sequence[str], answer: Sequence[str]) -> float:
    common = (Counter(response) & Counter(answer)).total()
    return 2 * common / (len(response) + len(answer)) if common else 0.0


def expected_metric(belief: Belief, answers: Sequence[str], metric: AnswerMetric) -> float:
    """Return the weighted mean of a metric over the responses of a belief, in the metric's own range."""
    return sum(weight * metric(text, answers) for text, weight in zip(belief.responses, belief.weights, strict=True))


def _is_punctuation(character: str) -> bool:
    if character in "+-%$#&<>=^*/":  # these change an answer: -5, C++, 50 %, <5
        return False
    return character in string.punctuation or unicodedata.category(character).startswith("P")
