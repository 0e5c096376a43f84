"""Writer: returns the reader's greedy continuation of a conversation, without the length limit of short answers."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from seper_reward.reader.prompted import PromptedReader
from seper_reward.reader.sampler import GREEDY, Request
from seper_reward.types import Passage, Responses, UnscorableError

Turn = Mapping[str, str]  # role ("user" or "assistant") and content
_NEXT_TURN = "\nUser:"


class Writer:
    """A reader that continues conversations at temperature 0, with the cache of its short answers.

    Prompts are cut to leave room for a text of ``max_new_tokens`` >= 1. Without a chat template, each turn begins with
    the name of its role, and the name of the next role ends a text.
    """

    def __init__(self, reader: PromptedReader, max_new_tokens: int) -> None:
        stop = () if reader.prompts.chat.exists else (_NEXT_TURN,)
        self._reader = reader.with_sampling(**GREEDY, max_new_tokens=max_new_tokens, stop=stop)

    @property
    def sampling(self) -> dict[str, Any]:
        """Sampling options that decide a text for a given reader and prompt, JSON-able."""
        return self._reader.sampling

    def as_data(self, text: str) -> str:
        """Return a text, such as a question, without control tokens."""
        return self._reader.prompts.as_data(text)

    def prompt(self, passages: Sequence[Passage], turns: Callable[[Sequence[str]], Sequence[Turn]]) -> str:
        """Return the prompt of a conversation, with its passages cut until it fits the reader's window.

        ``turns`` returns the conversation with given texts of the passages; the last turn is the user's. Raises the
        error of ``PromptBuilder.fit``.
        """
        most = self._reader.sampler.max_prompt_tokens
        return self._reader.prompts.fit(passages, lambda texts: self._render(turns(texts)), most).text

    def write(self, prompts: Sequence[str]) -> list[str | UnscorableError]:
        """Return the text after each prompt, or its error: the reader fails, or its thoughts cannot be switched off.

        Equal prompts are sampled once.
        """
        return list(map(first_text, self._reader.sample(list(map(Request, prompts)))))

    def _render(self, turns: Sequence[Turn]) -> str:
        chat = self._reader.prompts.chat
        if chat.exists:
            return chat.render(turns)
        said = [f"{turn['role'].capitalize()}: {turn['content']}" for turn in turns]
        return "\n\n".join([*said, "Assistant:"])


def first_text(sampled: Responses | UnscorableError) -> str | UnscorableError:
    """Return the first response to a prompt, or its error."""
    return sampled if isinstance(sampled, UnscorableError) else sampled.texts[0]
