"""What a policy did with a question, read from TRL's completions, environments and columns, and its score."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

from seper_reward.data.answers import is_list, read_answers, stated_answer
from seper_reward.data.rows import is_unicode
from seper_reward.reward.environment import NO_MORE, NOTHING_FOUND, Turn
from seper_reward.types import Answers, Belief, Passage, UnscorableError

_ERRORS = ("{'error': ", '{"error": ')  # how TRL writes the error of a failed tool call, and how JSON would


@dataclass(frozen=True)
class Rollout:
    """What a policy did with one question.

    Attributes:
        question: The question.
        answers: Aliases of its gold answer or, where that is a list, those of each of its items.
        turns: The searches, in order.
        answer: The answer that the policy states last (``stated_answer``); empty if it was cut off before one.
        problem: Why it cannot be scored, of a rollout whose row is unusable; its other fields are empty then.
    """

    question: str
    answers: Answers
    turns: tuple[Turn, ...]
    answer: str
    problem: str = ""

    @property
    def passages(self) -> tuple[Passage, ...]:
        """The passages that all searches found, each once."""
        return self.found_by(len(self.turns))

    @property
    def words(self) -> int:
        """Number of retrieved words; a passage found twice counts twice."""
        return sum(len(passage.text.split()) for turn in self.turns for passage in turn.passages)

    def found_by(self, searches: int) -> tuple[Passage, ...]:
        """Return the passages that the first ``searches`` searches found, each once."""
        return tuple(dict.fromkeys(passage for turn in self.turns[:searches] for passage in turn.passages))


@dataclass(frozen=True)
class Score:
    """A rollout's reward and its parts.

    Attributes:
        reward: The reward, by the formula of the variant (``reward.py``).
        beliefs: The reader's beliefs without passages, then after searches; empty where the variant needs none.
        cost: Price of the searches, in units of belief, >= 0.
        answer: How surely the policy's own answer states a gold answer, in [0, 1]; ``None`` where the variant does
            not need it.
    """

    reward: float
    beliefs: tuple[Belief, ...]
    cost: float
    answer: float | None = None

    @property
    def gains(self) -> tuple[float, ...]:
        """Change of SePer from each belief to the next, in [-1, 1]."""
        return tuple(after.seper - before.seper for before, after in itertools.pairwise(self.beliefs))


def read_rollouts(
    question: Sequence[str],
    answers: Sequence[Answers],
    completions: Sequence[Any] | None,
    passages: Sequence[Sequence[Any] | None] | None,
    environments: Sequence[Any] | None,
) -> list[Rollout]:
    """Return one rollout per row; a row that is unusable becomes a rollout that says so in ``problem``.

    A rollout's searches come from its environment (as many as the completion has results of its tools, since TRL rolls
    back results that are too long), else from the column ``passages`` (one search), else from the completion's tool
    messages. The error of a failed call is no result. Numbers are read as texts.

    Args:
        question: Column of questions.
        answers: Column of gold answers: of each its aliases or, where it is a list, the aliases of each item.
        completions: TRL's completions, texts or lists of messages; ``None`` stands for empty ones.
        passages: Column of the passages that one search found; ``None`` if there is no such column.
        environments: TRL's environments; ``None`` if the trainer has none.

    Raises:
        ValueError: A column has another type than these: ``question`` is one text, or no row of ``answers`` or
            ``passages`` is a list.
    """
    if isinstance(question, str):
        raise ValueError(f"question must be a list of texts, got the text {question[:80]!r}; wrap it in a list")
    for name, column in (("answers", answers), ("passages", passages if passages is not None else [])):
        given = [row for row in column if row is not None]
        if given and not any(map(is_list, given)):
            kind = "text" if isinstance(given[0], str) else type(given[0]).__name__
            raise ValueError(f"{name} must be a list per row, got the {kind} {given[0]!r:.80}; wrap it in a list")
    rows = zip(
        question,
        answers,
        completions if completions is not None else [""] * len(question),
        environments if environments is not None else [None] * len(question),
        passages if passages is not None else [None] * len(question),
        strict=True,
    )
    return list(itertools.starmap(_rollout, rows))


def _rollout(question: Any, answers: Any, completion: Any, environment: Any, passages: Any) -> Rollout:
    if completion is None:
        completion = ""
    try:
        if not is_list(answers):
            raise UnscorableError(f"answers must be a list of texts, got {type(answers).__name__}")
        rollout = Rollout(
            _text(question, "question"),
            read_answers(answers, _text),
            _turns(completion, environment, passages),
            _last_answer(completion),
        )
        texts = (rollout.answer, *(passage.full_text for passage in rollout.passages))
        return rollout if all(map(is_unicode, texts)) else _unusable("the rollout holds half a surrogate pair")
    except UnscorableError as error:
        return _unusable(str(error))


def _unusable(problem: str) -> Rollout:
    return Rollout("", (), (), "", problem)


def _text(value: Any, name: str) -> str:
    """Return a text or a number as a stripped text that is not empty."""
    if isinstance(value, Integral) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, Real) and not isinstance(value, Integral) and math.isfinite(value):
        return f"{float(value):.15g}"  # 1912.0, as a column with gaps holds it, is the answer 1912
    if not isinstance(value, str):
        raise UnscorableError(f"{name} must be a text, got {type(value).__name__}")
    if not value.strip():
        raise UnscorableError(f"{name} must be a text, got an empty one")
    if not is_unicode(value):
        raise UnscorableError(f"{name} holds half a surrogate pair")
    return value.strip()


def _turns(completion: Any, environment: Any, passages: Any) -> tuple[Turn, ...]:
    if environment is not None:
        # of what TRL rolls back, only the end of a rollout, the environment knows nothing
        return tuple(environment.turns[: len(_tool_results(completion, environment))])
    if passages is not None:
        if not is_list(passages):
            raise UnscorableError(f"passages must be a list, got {type(passages).__name__}")
        found = tuple(_passage(passage, f"passages[{place}]") for place, passage in enumerate(passages))
        return (Turn("", found),) if found else ()
    results = [text for text in _tool_results(completion) if text != NO_MORE]
    return tuple(Turn("", (Passage(text),) if text and text != NOTHING_FOUND else ()) for text in results)


def _passage(value: Any, name: str) -> Passage:
    if isinstance(value, Passage):
        return value
    if isinstance(value, Mapping):
        title = value.get("title")
        text = _text(value.get("text"), f"{name}.text")
        return Passage(text, _text(title, f"{name}.title") if title else "", str(value.get("id", "")))
    return Passage(_text(value, name))


def _tool_results(completion: Any, environment: Any = None) -> list[str]:
    """Return what the tools answered, without the errors of failed calls; of an environment, its own tools only."""
    if isinstance(completion, str):
        return []
    messages = [message for message in completion if message.get("role") == "tool"]
    if environment is not None:
        messages = [message for message in messages if hasattr(environment, message.get("name") or "search")]
    results = [str(message.get("content") or "") for message in messages]
    return [text for text in results if not text.startswith(_ERRORS)]


def _last_answer(completion: Any) -> str:
    if isinstance(completion, str):
        return stated_answer(completion)
    last = completion[-1] if len(completion) else {}
    # a completion that was cut off after a search has no answer
    return "" if last.get("role") != "assistant" or last.get("tool_calls") else stated_answer(last.get("content"))
