"""A search tool for policies: TRL's environment over a retriever."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from seper_reward.retrieval import Retriever
from seper_reward.types import Passage


@dataclass(frozen=True)
class Turn:
    """One search of a rollout: the query, the passages it found, as the policy saw them, and how long it took."""

    query: str
    passages: tuple[Passage, ...]
    seconds: float = 0.0


class RetrievalEnvironment:
    """One rollout's searches, for the ``environment_factory`` of TRL's trainers; make it with ``environment_factory``.

    Args:
        retriever: finds passages.
        top_k: passages per search.
        max_turns: searches per rollout; a further one finds nothing and says so.
        cut: shortens a passage to what the policy may read.
    """

    def __init__(self, retriever: Retriever, top_k: int, max_turns: int, cut: Callable[[str], str]) -> None:
        self._retriever, self._top_k, self._max_turns, self._cut = retriever, top_k, max_turns, cut
        self.turns: list[Turn] = []

    def reset(self, **row: Any) -> None:
        """Forget the searches of the rollout before."""
        self.turns = []

    def search(self, query: str) -> str:
        """Search for passages.

        Args:
            query: what to look for.

        Returns:
            The passages found.
        """
        if len(self.turns) >= self._max_turns:
            return "No more searches. Answer now."
        start = time.perf_counter()
        (found,) = self._retriever.retrieve([query], self._top_k)
        shown = tuple(Passage(self._cut(passage.full_text), id=passage.id) for passage in found)
        self.turns.append(Turn(query, shown, time.perf_counter() - start))
        return "\n".join(passage.text for passage in shown)


def environment_factory(
    retriever: Retriever,
    *,
    top_k: int = 1,
    max_turns: int = 1,
    max_passage_tokens: int = 64,
    tokenizer: Any = None,
) -> Callable[[], RetrievalEnvironment]:
    """Return what TRL calls to make one environment per rollout; all share the retriever.

    Args:
        retriever: any with ``retrieve(questions, top_k)``: BM25, dense, or one just fine-tuned.
        top_k: passages per search, >= 1.
        max_turns: searches per rollout, >= 1; give ``max_tool_calling_iterations`` the same.
        max_passage_tokens: longest passage, in the tokenizer's tokens; they count against ``max_completion_length``.
        tokenizer: the policy's; ``None`` leaves passages whole.

    Raises:
        ValueError: a number is below 1.
    """
    for name, value in {"top_k": top_k, "max_turns": max_turns, "max_passage_tokens": max_passage_tokens}.items():
        if value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}")

    def cut(text: str) -> str:
        if tokenizer is None:
            return text
        ids: Sequence[int] = tokenizer(text, add_special_tokens=False).input_ids
        return text if len(ids) <= max_passage_tokens else str(tokenizer.decode(ids[:max_passage_tokens]))

    return lambda: RetrievalEnvironment(retriever, top_k, max_turns, cut)
