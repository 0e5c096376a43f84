"""Inputs of an entailment model: the asking sentence of a question, and texts in parts short enough to be judged."""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from seper_reward.runtime.control_tokens import ControlTokens

LONGEST_QUESTION = 40  # tokens; of 3,619 natural questions three are longer
LONGEST_ANSWER = 96  # tokens of a premise or hypothesis that the embedded model was trained to read
_LONGEST_PAIR = 512  # tokens, the window of BERT-like models; tokenizers may claim a longer one
_SPECIAL_TOKENS = 4  # at most, per pair

_SENTENCE_END = re.compile(r"(?<=[.!?])[\"'”’)]*\s+|\s*\n\s*")
_ABBREVIATION = re.compile(
    r"(?:\b(?:[A-Za-z]|Dr|Mr|Mrs|Ms|St|Mt|Ft|No|Jr|Sr|Prof|Gen|Col|Capt|Lt|Sgt|Rev|vs|etc|Inc|Co|Ltd|Corp)|\.[A-Za-z])\.$"
)
_ASKS = re.compile(
    r"\b(?:who|whom|whose|what|when|where|which|why|how)\b|^(?:name|list|give|state|tell|find|identify|define|explain)\b",
    re.IGNORECASE,
)
_FEWEST_WORDS = 3  # of a question: in "... in 1871. Why?" the last sentence alone has too little context


class Statement(NamedTuple):
    """A question (blank for texts without one) and two answers to it: does the premise entail the hypothesis?"""

    premise: str
    hypothesis: str
    question: str


class StatementEncoder:
    """Encodes statements for an entailment model.

    The question is prepended to the premise and to the hypothesis, as in the paper (arXiv:2503.01478, section 3). If
    the model's config sets ``question_once``, as the embedded model's does, it is prepended to the premise only.
    ``trained_answer_tokens`` of the config is the length of a premise or hypothesis that the model was trained to read
    (default: the length of its window).
    """

    def __init__(self, tokenizer: Any, config: Any) -> None:
        self._tokenizer, self._control_tokens = tokenizer, ControlTokens(tokenizer)
        window = getattr(config, "max_position_embeddings", tokenizer.model_max_length)
        self._max_length = int(min(window, tokenizer.model_max_length, _LONGEST_PAIR))
        self._question_once = bool(getattr(config, "question_once", False))
        self._question_tokens = min(LONGEST_QUESTION, self._max_length // 4)
        room = (self._max_length - _SPECIAL_TOKENS - (1 if self._question_once else 2) * self._question_tokens) // 2
        self._answer_tokens = min(getattr(config, "trained_answer_tokens", room), room)

    def asked(self, question: str) -> str:
        """Return the asking sentence of a question; of a sentence longer than 40 tokens only its end."""
        return in_windows(asking_sentence(question), lambda text: self._tokens(text) <= self._question_tokens)[-1]

    def parts(self, statements: Iterable[Statement]) -> dict[Statement, list[list[Statement]]]:
        """Return for each statement, per part of its hypothesis, the pairs of this part with the parts of its premise.

        Short texts have one part. Each distinct text is cut once.
        """
        statements = dict.fromkeys(statements)
        texts = {text for row in statements for text in (row.premise, row.hypothesis)}
        windows = {text: in_windows(text, lambda part: self._tokens(part) <= self._answer_tokens) for text in texts}
        return {
            row: [
                [Statement(premise, hypothesis, row.question) for premise in windows[row.premise]]
                for hypothesis in windows[row.hypothesis]
            ]
            for row in statements
        }

    def lengths(self, statements: Sequence[Statement]) -> dict[Statement, int]:
        """Return the number of tokens of the model's input, by statement."""
        encoded = self.encode(statements)["input_ids"] if statements else []
        return {statement: len(ids) for statement, ids in zip(statements, encoded, strict=True)}

    def encode(self, statements: Sequence[Statement], **options: Any) -> Any:
        """Return the tokenizer's encoding of statements whose texts come from ``asked`` and ``parts``."""
        return self._tokenizer(
            [self._joined(row.question, row.premise) for row in statements],
            [self._joined("" if self._question_once else row.question, row.hypothesis) for row in statements],
            truncation="longest_first",
            max_length=self._max_length,
            **options,
        )

    def _tokens(self, text: str) -> int:
        return len(self._tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])

    def _joined(self, question: str, answer: str) -> str:
        return self._control_tokens.break_up(f"{question} {answer}" if question else answer)


def asking_sentence(question: str) -> str:
    """Return the asking sentence of a question, ending in one question mark; empty for a blank question.

    This drops text that does not bear on the answer (a greeting, thanks, a story). The asking sentence is the last one
    that ends in a question mark, else the last one with a question word, else the whole text.

    >>> asking_sentence("Good morning! I hope that you are well. who runs the mill, and since when")
    'who runs the mill, and since when?'
    >>> asking_sentence("Who founded St. Louis? Thank you.")
    'Who founded St. Louis?'
    """
    sentences = _sentences(question)
    asks = [at for at, sentence in enumerate(sentences) if sentence.endswith("?")]
    asks = asks or [at for at, sentence in enumerate(sentences) if _ASKS.search(sentence)]
    start, end = (asks[-1], asks[-1] + 1) if asks else (0, len(sentences))
    while start and len(" ".join(sentences[start:end]).split()) < _FEWEST_WORDS:
        start -= 1
    asked = " ".join(sentences[start:end]).rstrip("?!.,;: ")
    return f"{asked}?" if asked else ""


def _sentences(text: str) -> list[str]:
    sentences: list[str] = []
    for part in filter(None, _SENTENCE_END.split(text.strip())):
        if sentences and _ABBREVIATION.search(sentences[-1]):
            sentences[-1] += f" {part}"
        else:
            sentences.append(part)
    return sentences


def in_windows(text: str, fits: Callable[[str], bool]) -> list[str]:
    """Cut a text into parts that fit: in halves, at the sentence end or else the space nearest the middle.

    Parts have no space around them; a text that fits is unchanged, and a single character always fits.

    >>> in_windows("It rained. We stayed in. Nobody came.", lambda text: len(text) <= 24)
    ['It rained. We stayed in.', 'Nobody came.']
    """
    if len(text) <= 1 or fits(text):
        return [text]
    text = text.strip()
    middle = len(text) // 2
    for boundary in (r"(?<=[.!?])\s+", r"\s+"):
        cuts = [match.start() for match in re.finditer(boundary, text)]
        cut = min(cuts, key=lambda at: abs(at - middle), default=0)
        if cut > 0:
            break
    else:
        cut = middle
    return [part for half in (text[:cut], text[cut:].strip()) for part in in_windows(half, fits)]
