"""Searches of all rollouts in one batch, where TRL runs them one rollout after another."""

from collections.abc import Iterator, Sequence
from typing import Any

from trl import GRPOTrainer
from trl.chat_template_utils import parse_response

from seper_reward.data.rows import is_unicode
from seper_reward.retrieval import CachedRetriever


def prefetch_searches(trainer: GRPOTrainer, retriever: CachedRetriever) -> None:
    """Let a retriever know the queries of all rollouts before TRL runs the first of their searches.

    TRL generates a turn of all rollouts together, and then calls their tools one rollout after another. From now on
    the queries of a turn are announced to the retriever as soon as it is generated, so that its first search asks for
    all of them. Rollouts and rewards stay the same.

    Args:
        trainer: The trainer, ``TurnCreditGRPOTrainer`` among them, before it trains.
        retriever: The retriever of its search tool, as it was given to ``environment_factory``.

    Raises:
        ValueError: The trainer has no tools.
        RuntimeError: This release of TRL generates turns otherwise.
    """
    if not trainer.tools:
        raise ValueError("prefetch_searches needs a trainer with a search tool; give it an environment_factory")
    for name in ("_generate_single_turn", "_tokenizer"):
        if not hasattr(trainer, name):
            raise RuntimeError(f"this release of TRL has no GRPOTrainer.{name}; prefetch_searches needs trl 1.16")
    generate = trainer._generate_single_turn

    def announcing(prompt_ids: Sequence[list[int]], *args: Any, **options: Any) -> Any:
        completion_ids, log_probs = generate(prompt_ids, *args, **options)
        for prompt, ids in zip(prompt_ids, completion_ids, strict=True):
            message = parse_response(trainer._tokenizer, ids, prefix=prompt, tools=trainer.tools) if ids else {}
            retriever.expect(_queries(message))
        return completion_ids, log_probs

    trainer._generate_single_turn = announcing


def _queries(message: dict[str, Any]) -> Iterator[str]:
    """Return the queries of a message's calls of the search tool; what is no text is left to the tool to refuse."""
    for call in message.get("tool_calls") or ():
        match call:
            case {"function": {"name": "search", "arguments": {"query": str(query)}}} if is_unicode(query):
                yield query
