"""What a policy did with a question, read from TRL's completions, environments and columns, and its score."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from seper_reward.data.answers import stated_answer
from seper_reward.reward.environment import Turn
from seper_reward.types import Belief, Passage


@dataclass(frozen=True)
class Rollout:
    """What a policy did with one question.

    Attributes:
        question: The question.
        answers: Aliases of its gold answer.
        turns: The searches, in order.
        answer: The answer that the policy states last (``stated_answer``); empty if it was cut off before one.
    """

    question: str
    answers: tuple[str, ...]
    turns: tuple[Turn, ...]
    answer: str

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
    answers: Sequence[Sequence[str]],
    completions: Sequence[Any] | None,
    passages: Sequence[Sequence[Any] | None] | None,
    environments: Sequence[Any] | None,
) -> list[Rollout]:
    """Return one rollout per row.

    A rollout's searches come from its environment (as many as the completion has tool results, since TRL rolls back
    results that are too long), else from the column ``passages`` (one search), else from the completion's tool
    messages.

    Args:
        question: Column of questions.
        answers: Column of aliases of the gold answers.
        completions: TRL's completions, texts or lists of messages; ``None`` stands for empty ones.
        passages: Column of the passages that one search found; ``None`` if there is no such column.
        environments: TRL's environments; ``None`` if the trainer has none.

    Raises:
        ValueError: A row of ``answers`` or ``passages`` is a text instead of a list.
    """
    for name, column in (("answers", answers), ("passages", passages or [])):
        wrong = next((row for row in column if isinstance(row, str)), None)
        if wrong is not None:
            raise ValueError(f"{name} must be a list per row, got the text {wrong[:80]!r}; wrap it in a list")
    rows = zip(
        question,
        answers,
        completions if completions is not None else [""] * len(question),
        environments if environments is not None else [None] * len(question),
        passages if passages is not None else [None] * len(question),
        strict=True,
    )
    return [
        Rollout(row_question, tuple(aliases), _turns(completion, environment, row_passages), _last_answer(completion))
        for row_question, aliases, completion, environment, row_passages in rows
    ]


def _turns(completion: Any, environment: Any, passages: Sequence[Any] | None) -> tuple[Turn, ...]:
    results = _tool_results(completion)
    if environment is not None:
        return tuple(environment.turns[: len(results)])
    if passages is not None:
        return (Turn("", tuple(map(_passage, passages))),) if len(passages) else ()
    return tuple(Turn("", (Passage(text),)) for text in results)


def _passage(value: Any) -> Passage:
    if isinstance(value, Passage):
        return value
    if isinstance(value, str):
        return Passage(value)
    return Passage(value["text"], value.get("title") or "", str(value.get("id", "")))


def _tool_results(completion: Any) -> list[str]:
    if isinstance(completion, str):
        return []
    return [str(message.get("content") or "") for message in completion if message.get("role") == "tool"]


def _last_answer(completion: Any) -> str:
    if isinstance(completion, str):
        return stated_answer(completion)
    last = completion[-1] if len(completion) else {}
    # a completion that was cut off after a search has no answer
    return "" if last.get("role") != "assistant" or last.get("tool_calls") else stated_answer(last.get("content"))
