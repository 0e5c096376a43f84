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
        """Return the prompt of a conversation, which ``turns`` makes of its passages, cut to fit the window.

        The last turn is the user's. Raises the error of ``PromptBuilder.fit``.
        """
        prompts = self._reader.prompts
        return prompts.fit(
            passages, lambda texts: prompts.chat.render(turns(texts)), self._reader.sampler.max_prompt_tokens
        ).text

    def write(self, prompts: Sequence[str]) -> list[str | UnscorableError]:
        """Return the text after each prompt, or its error; equal prompts are sampled once."""
        return list(map(first_text, self._reader.sample(list(map(Request, prompts)))))


def first_text(sampled: Responses | UnscorableError) -> str | UnscorableError:
    """Return the first response to a prompt, or its error."""
    return sampled if isinstance(sampled, UnscorableError) else sampled.texts[0]
