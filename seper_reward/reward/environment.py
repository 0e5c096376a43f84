"""A search tool for policies: TRL's environment over a retriever."""

import re
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from seper_reward.data.rows import is_unicode, shown
from seper_reward.reward.turns import NO_MORE, Turn, tool_message
from seper_reward.runtime.control_tokens import ControlTokens
from seper_reward.types import Passage

if TYPE_CHECKING:
    from seper_reward.retrieval import Retriever

_LINE_BREAKS = re.compile(r"\s*[\n\r]\s*")


class ExpectsTurns(Protocol):
    """A reward that can begin to measure a rollout before it ends."""

    def expect(self, question: Any, answers: Any, turns: Sequence[Turn] = ()) -> None:
        """Begin to measure a question with the searches so far."""


class RetrievalEnvironment:
    """The search tool of one rollout and its record; TRL's trainers get it from ``environment_factory``.

    Args:
        retriever: Retriever that finds the passages.
        top_k: Number of passages per search.
        max_turns: Most searches per rollout; a further one returns a message instead of passages.
        cut: Function that turns a passage into what the policy may read.
        reward: Reward that measures beliefs early; ``None`` measures nothing early.

    Attributes:
        turns: The searches so far.
        failure: What the retriever failed with. TRL shows a policy the errors of its tools and goes on; rewards that
            find this raise it, so that nobody is trained to avoid a search service that was down.
    """

    def __init__(
        self,
        retriever: "Retriever",
        top_k: int,
        max_turns: int,
        cut: Callable[[str], str],
        reward: ExpectsTurns | None = None,
    ) -> None:
        self._retriever, self._top_k, self._max_turns, self._cut = retriever, top_k, max_turns, cut
        self._reward = reward
        self._row: dict[str, Any] = {}
        self.turns: list[Turn] = []
        self.failure: Exception | None = None

    def reset(self, **row: Any) -> str | None:
        """Forget the searches of the previous rollout; TRL calls this with the row of the data set.

        Returns:
            The question as the prompt, where the data set has no column ``prompt``; else nothing to add to it.
        """
        self.turns, self.failure, self._row = [], None, row
        self._expect()
        return row.get("question") if row.get("prompt") is None else None

    def search(self, query: str) -> str:
        """Search for passages.

        Args:
            query: What to look for.

        Returns:
            The passages found.
        """
        # the policy may have written anything; TRL shows it the error as the tool's answer
        if not isinstance(query, str) or not is_unicode(query):
            raise ValueError(f"query must be a text, got {shown(query)}; write the words to look for")
        if len(self.turns) >= self._max_turns:
            return NO_MORE
        start = time.perf_counter()
        try:
            (whole,) = self._retriever.retrieve([query], self._top_k)
        except ValueError:  # the query was refused
            raise
        except Exception as error:
            self.failure = error
            raise
        passages = tuple(Passage(self._cut(each.full_text), id=each.id) for each in whole)
        self.turns.append(Turn(query, passages, time.perf_counter() - start))
        self._expect()
        return tool_message(passages)

    def _expect(self) -> None:
        if self._reward is not None:
            self._reward.expect(self._row.get("question"), self._row.get("answers"), self.turns)


def environment_factory(
    retriever: "Retriever",
    *,
    top_k: int = 1,
    max_turns: int = 1,
    max_passage_tokens: int = 64,
    tokenizer: Any = None,
    reward: ExpectsTurns | None = None,
) -> Callable[[], RetrievalEnvironment]:
    """Return the function that TRL calls to make one environment per rollout; all share the retriever.

    It can be pickled if the retriever can, as ours, which ``AsyncGRPOTrainer`` needs.

    Args:
        retriever: Retriever that finds the passages: BM25, dense, or anything with ``retrieve(questions, top_k)``.
        top_k: Number of passages per search, >= 1.
        max_turns: Most searches per rollout, >= 1; give TRL's ``max_tool_calling_iterations`` the same number.
        max_passage_tokens: Longest passage in the tokenizer's tokens, >= 1; the tokens count against TRL's
            ``max_completion_length``.
        tokenizer: The policy's tokenizer, whose control tokens are broken up in passages, so that these cannot end the
            tool's turn; ``None`` leaves passages whole, and breaks up what looks like a control token.
        reward: Reward whose server or engine measures question and passages while the policy writes; ``None``
            measures nothing early.

    Raises:
        ValueError: A number is below 1.
    """
    for name, value in {"top_k": top_k, "max_turns": max_turns, "max_passage_tokens": max_passage_tokens}.items():
        if value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}")

    cut = partial(_cut, tokenizer=tokenizer, most=max_passage_tokens, control_tokens=ControlTokens(tokenizer))
    return partial(RetrievalEnvironment, retriever, top_k, max_turns, cut, reward)


def _cut(text: str, tokenizer: Any, most: int, control_tokens: ControlTokens) -> str:
    """Return a passage as one line of at most ``most`` tokens without control tokens."""
    text = _LINE_BREAKS.sub(" ", text)
    if tokenizer is not None:
        ids: Sequence[int] = tokenizer(text, add_special_tokens=False).input_ids
        text = text if len(ids) <= most else str(tokenizer.decode(ids[:most]))
    return control_tokens.break_up(text)
