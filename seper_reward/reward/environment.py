"""A search tool for policies: TRL's environment over a retriever."""

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from seper_reward.data.rows import is_unicode, shown
from seper_reward.runtime.control_tokens import ControlTokens
from seper_reward.types import Passage

if TYPE_CHECKING:
    from seper_reward.retrieval import Retriever
    from seper_reward.reward.reward import SePerReward

NO_MORE = "No more searches. Answer now."
NOTHING_FOUND = "Nothing was found."
_LINE_BREAKS = re.compile(r"\s*[\n\r]\s*")
_NUMBERED = re.compile(r"\[(\d+)\] (.*)")


def tool_message(passages: Sequence[Passage]) -> str:
    r"""Return what a policy reads of a search: a passage as it is, or several of one line each, numbered.

    >>> tool_message([Passage("Ida runs it."), Passage("Rain fell.")])
    '[1] Ida runs it.\n[2] Rain fell.'
    """
    if not passages:
        return NOTHING_FOUND
    if len(passages) == 1:
        return passages[0].text
    return "\n".join(f"[{number}] {passage.text}" for number, passage in enumerate(passages, 1))


def read_tool_message(text: str) -> tuple[Passage, ...]:
    r"""Return the passages of a tool's message: those of ``tool_message``, without ids, else the text as one passage.

    >>> read_tool_message("[1] Ida runs it.\n[2] Rain fell.")
    (Passage(text='Ida runs it.', title='', id=''), Passage(text='Rain fell.', title='', id=''))
    >>> read_tool_message("[1] Ida runs it.")
    (Passage(text='[1] Ida runs it.', title='', id=''),)
    """
    if not text or text == NOTHING_FOUND:
        return ()
    lines = [_NUMBERED.fullmatch(line) for line in text.split("\n")]
    if len(lines) > 1 and [line and line[1] for line in lines] == [str(place + 1) for place in range(len(lines))]:
        return tuple(Passage(line[2]) for line in lines if line)
    return (Passage(text),)


@dataclass(frozen=True)
class Turn:
    """One search of a rollout: its query, the passages as the policy saw them, and how many seconds it took."""

    query: str
    passages: tuple[Passage, ...]
    seconds: float = 0.0

    @property
    def words(self) -> int:
        """Number of words that it found."""
        return sum(len(passage.text.split()) for passage in self.passages)


class RetrievalEnvironment:
    """The search tool of one rollout and its record; TRL's trainers get it from ``environment_factory``.

    Args:
        retriever: Retriever that finds the passages.
        top_k: Number of passages per search.
        max_turns: Most searches per rollout; a further one returns a message instead of passages.
        cut: Function that turns a passage into what the policy may read.
        reward: Reward that is told what it will be asked; ``None`` tells nobody.

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
        reward: "SePerReward | None" = None,
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
        self._tell_reward()
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
        self._tell_reward()
        return tool_message(passages)

    def _tell_reward(self) -> None:
        if self._reward is not None:
            last = len(self.turns) == self._max_turns
            self._reward.expect(self._row.get("question"), self._row.get("answers"), self.turns, last=last)


def environment_factory(
    retriever: "Retriever",
    *,
    top_k: int = 1,
    max_turns: int = 1,
    max_passage_tokens: int = 64,
    tokenizer: Any = None,
    reward: "SePerReward | None" = None,
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
        reward: Reward that is told question and passages as soon as they are known, so that its server or engine
            measures while the policy writes; ``None`` tells nobody.

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
