"""A search tool for policies: TRL's environment over a retriever, and a chat template."""

import re
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from seper_reward.data.rows import is_unicode, shown
from seper_reward.reward.turns import NO_MORE, Turn, tool_message
from seper_reward.runtime.control_tokens import ControlTokens
from seper_reward.runtime.token_ids import token_ids
from seper_reward.types import Passage

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from seper_reward.retrieval import Retriever

_LINE_BREAKS = re.compile(r"\s*[\n\r]\s*")


class RetrievalEnvironment:
    """The search tool of one rollout, with a record of its searches; ``search_environment`` makes it for TRL.

    Attributes:
        turns: The searches so far.
        failure: Error of the retriever. TRL passes errors of tools to the policy and goes on. Rewards raise this
            error; otherwise an outage of the search service would train the policy to avoid searches.
    """

    def __init__(
        self,
        retriever: "Retriever",
        top_k: int,
        max_turns: int,
        cut: Callable[[str], str],
    ) -> None:
        self._retriever, self._top_k, self._max_turns, self._cut = retriever, top_k, max_turns, cut
        self.turns: list[Turn] = []
        self.failure: Exception | None = None

    def reset(self, **columns: Any) -> str | None:
        """Remove the searches of the previous rollout; TRL calls this with the row of the data set.

        The question is returned as the prompt if the data set has no column ``prompt``.
        """
        self.turns, self.failure = [], None
        return columns.get("question") if columns.get("prompt") is None else None

    def search(self, query: str) -> str:
        """Search for passages.

        Args:
            query: What to look for.

        Returns:
            The passages found.
        """
        # arguments from the policy are unchecked; TRL returns the error to it as the tool's result
        if not isinstance(query, str) or not is_unicode(query):
            raise ValueError(f"query must be a text, got {shown(query)}; write the words to look for")
        if len(self.turns) >= self._max_turns:
            return NO_MORE
        start = time.perf_counter()
        try:
            results = self._retriever.retrieve([query], self._top_k)
            if len(results) != 1:
                raise RuntimeError(f"expected the passages of one query from the retriever, got {len(results)} lists")
        except Exception as error:
            if type(error) is not ValueError:  # a plain ValueError refuses the query; a JSONDecodeError is a fault
                self.failure = error
            raise
        passages = tuple(Passage(self._cut(passage.full_text), id=passage.id) for passage in results[0])
        self.turns.append(Turn(query, passages, time.perf_counter() - start))
        return tool_message(passages)


def search_environment(
    retriever: "Retriever",
    *,
    top_k: int = 1,
    max_turns: int = 1,
    max_passage_tokens: int = 64,
    tokenizer: "PreTrainedTokenizerBase | None" = None,
) -> Callable[[], RetrievalEnvironment]:
    """Return the function that TRL calls to make one environment per rollout; all share the retriever.

    It can be pickled if the retriever can, which ``AsyncGRPOTrainer`` needs. The retrievers of this package can.

    Args:
        retriever: Retriever that finds the passages: BM25, dense, or any object with ``retrieve(questions, top_k)``.
        top_k: Number of passages per search, >= 1.
        max_turns: Maximum number of searches per rollout, >= 1; set TRL's ``max_tool_calling_iterations`` to the same
            number.
        max_passage_tokens: Maximum length of a passage in the tokenizer's tokens, >= 1; they count towards TRL's
            ``max_completion_length``.
        tokenizer: The policy's tokenizer. Its control tokens are broken up in passages, which could otherwise end the
            tool's turn. With ``None`` passages are not cut, and texts that look like control tokens are broken up.

    Raises:
        ValueError: A number is below 1.
    """
    for name, value in {"top_k": top_k, "max_turns": max_turns, "max_passage_tokens": max_passage_tokens}.items():
        if value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}")

    cut = partial(_cut, tokenizer=tokenizer, most=max_passage_tokens, control_tokens=ControlTokens(tokenizer))
    return partial(RetrievalEnvironment, retriever, top_k, max_turns, cut)


def _cut(text: str, tokenizer: "PreTrainedTokenizerBase | None", most: int, control_tokens: ControlTokens) -> str:
    """Return a passage as one line of at most ``most`` tokens without control tokens."""
    text = _LINE_BREAKS.sub(" ", text)
    if tokenizer is not None:
        ids = token_ids(tokenizer, text)
        text = text if len(ids) <= most else str(tokenizer.decode(ids[:most]))
    return control_tokens.break_up(text)


def with_tool_template(tokenizer: "PreTrainedTokenizerBase") -> Any:
    """Prepare a tokenizer for tool calls in TRL: keep a template that supports them, else set a ChatML template.

    The tokenizer is changed in place, and returned. Raises ``ValueError`` if its template cannot render tool calls,
    and its vocabulary has no ChatML tokens.
    """
    from trl.chat_template_utils import add_response_schema, qwen2_5_chat_template, supports_tool_calling

    from seper_reward.reader.chat import TOOL_TEMPLATE

    if tokenizer.chat_template is not None and supports_tool_calling(tokenizer):
        return tokenizer
    missing = {"<|im_start|>", "<|im_end|>"} - set(tokenizer.get_vocab())
    if missing:
        raise ValueError(
            f"the tokenizer's chat template cannot render tool calls, and the ChatML template needs the tokens "
            f"{', '.join(sorted(missing))}; set tokenizer.chat_template to one of trl/chat_templates"
        )
    tokenizer.chat_template = qwen2_5_chat_template
    add_response_schema(tokenizer)  # TRL recognises only its own template, and then parses <tool_call>
    tokenizer.chat_template = TOOL_TEMPLATE
    return tokenizer
