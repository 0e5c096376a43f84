"""Is a server the reader we think it is? It is asked before it is used, because a wrong one gives wrong labels."""

import statistics
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from seper_reward.reader.engine.completions import Completion, completion_request, read_completions, read_forced
from seper_reward.reader.sampler import SamplingOptions

_PROBE = "Question: Who wrote „Hamlet“ – and when, 1599?\nAnswer:"
TOLERANCE = 0.25  # nats, mean; bf16 differs by some hundredths, those of a draw at temperature 2 by several


class Completes(Protocol):
    """A server, or several as one."""

    def complete(self, request: dict[str, Any]) -> Awaitable[dict[str, Any]]:
        """Send a completion request and return the answer's JSON."""


@dataclass(frozen=True)
class Verifier:
    """Compares what a server says with what it should say.

    Attributes:
        model: Name of the model on the server.
        options: How responses will be sampled.
        encode: Text of a prompt to token ids, as the reader's tokenizer does.
        decode: Tokens of a response to text.
    """

    model: str
    options: SamplingOptions
    encode: Callable[[str], list[int]]
    decode: Callable[[Sequence[Any]], str]

    async def names_token_ids(self, server: Completes, url: str) -> bool:
        """Ask a server one question; return whether its responses carry token ids.

        The log-probabilities are compared at a high temperature: whether a server shows those of the tempered
        distribution is a setting of the server, and plainest there, however sure the model is.

        Raises:
            ValueError: It has another tokenizer, or its log-probabilities are not the model's own, or cannot be
                verified although temperature or nucleus need that.
        """
        try:
            return await self._names_token_ids(server)
        except ValueError as error:
            options = self.options
            raise ValueError(
                f"engine={url!r} cannot be used with temperature={options.temperature}, top_p={options.top_p}: {error}"
            ) from error

    async def difference(self, server: Completes, prompt: list[int], completions: Sequence[Completion]) -> float:
        """Return how far log-probabilities differ, as sampled and as read, in nats: the mean absolute difference."""
        forced = [await self.forced(server, prompt, completion.tokens) for completion in completions]
        return statistics.fmean(
            abs(sampled - read)
            for completion, reading in zip(completions, forced, strict=True)
            for sampled, read in zip(completion.log_probs, reading, strict=True)
        )

    async def forced(self, server: Completes, prompt: list[int], tokens: Sequence[int]) -> list[float]:
        """Return the log-probabilities of tokens as the end of a prompt (teacher forcing).

        Raises:
            UnscorableError: The server gives no log-probabilities of prompts.
        """
        request = completion_request(self.model, [*prompt, *tokens], n=1, max_tokens=0)
        return read_forced(await server.complete({**request, "echo": True}), len(prompt), len(tokens))

    async def _names_token_ids(self, server: Completes) -> bool:
        options, prompt = self.options, self.encode(_PROBE)
        count = 1 if options.temperature == 0 else min(options.num_samples, 2)
        request = completion_request(self.model, _PROBE, n=count, max_tokens=options.max_new_tokens, temperature=2.0)
        request["extra_body"]["return_token_ids"] = True
        answer = await server.complete(request)
        completions = read_completions(answer, count, self.decode)
        read = answer["choices"][0].get("prompt_token_ids")
        count_read = (answer.get("usage") or {}).get("prompt_tokens", len(prompt))
        if (read is not None and read != prompt) or count_read != len(prompt):
            raise ValueError("it reads a prompt as other tokens; set reader to the model that is served")
        named = all(isinstance(token, int) for completion in completions for token in completion.tokens)
        if options.temperature == options.top_p == 1:  # the log-probabilities of sampling are the model's own
            return named
        if not named:
            raise ValueError("it names no token ids, so its log-probabilities cannot be verified")
        apart = await self.difference(server, prompt, completions)
        if apart > TOLERANCE:
            raise ValueError(
                f"its log-probabilities are not the model's own at temperature 1 (off by {apart:.2f} nats); start "
                "vLLM with --logprobs-mode raw_logprobs"
            )
        return True
