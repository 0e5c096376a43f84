"""Searches of all rollouts in one batch; TRL alone runs them one rollout after another."""

from collections.abc import Sequence
from typing import Any

from trl import GRPOTrainer
from trl.chat_template_utils import parse_response

from seper_reward.data.rows import is_unicode
from seper_reward.retrieval import CachedRetriever


def prefetch_searches(trainer: GRPOTrainer, retriever: CachedRetriever) -> None:
    """Announce the queries of all rollouts to a retriever before TRL runs the first search.

    TRL generates a turn of all rollouts together, and then calls their tools one rollout after another. This function
    wraps the generation of a trainer before training, also a ``TurnCreditGRPOTrainer``: after each turn all its
    queries are announced, and the first search retrieves them in one batch. Rollouts and rewards stay the same.

    Raises:
        ValueError: The trainer has no tools.
        RuntimeError: This release of TRL has other internals.
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
            for call in message.get("tool_calls") or ():
                match call:  # the tool itself refuses other arguments
                    case {"function": {"name": "search", "arguments": {"query": str(query)}}} if is_unicode(query):
                        retriever.expect([query])
        return completion_ids, log_probs

    trainer._generate_single_turn = announcing
