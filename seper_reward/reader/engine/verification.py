"""Verification of a server before use: another reader than the expected one would give wrong labels."""

import statistics
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from seper_reward.options import SamplingOptions
from seper_reward.reader.engine.completions import (
    Completion,
    completion_request,
    read_completions,
    read_forced,
    read_next,
    read_prompt,
)

PROBE = "Question: Who wrote „Hamlet“ – and when, 1599?\nAnswer:"
# mean difference in nats; bf16 differs by some hundredths, log-probabilities at temperature 2 by several nats
TOLERANCE = 0.25
NEXT_TOKENS = 20  # vLLM's default maximum; ends that are not among them are rare


class Completes(Protocol):
    """A server or a pool of servers."""

    def complete(self, request: dict[str, Any]) -> Awaitable[dict[str, Any]]:
        """Send a completion request and return the answer's JSON."""


@dataclass(frozen=True)
class Verifier:
    """Compares a server's tokens and log-probabilities with those of the expected reader.

    ``encode`` returns token ids as on servers, with all of the tokenizer's special tokens; ``decode`` the text of a
    response. ``reads_prompts`` is whether servers answer ``prompt_logprobs``; else prompts are echoed.
    """

    model: str
    options: SamplingOptions
    encode: Callable[[str], list[int]]
    decode: Callable[[Sequence[Any]], str]
    reads_prompts: bool = False

    async def abilities(self, server: Completes, url: str, *, read_prompt: bool) -> tuple[bool, bool]:
        """Send a test request to a server; return whether it gives token ids, and log-probabilities of prompts.

        Without ``read_prompt`` the latter, vLLM's ``prompt_logprobs``, are not requested.
        Log-probabilities are compared at temperature 2: there, log-probabilities of the tempered distribution differ
        clearly from the model's own, even if the model is certain. Raises ``ValueError`` if the tokenizer or the
        log-probabilities are not the model's own, or cannot be verified although temperature or nucleus require it.
        """
        try:
            return await self._abilities(server, read_prompt)
        except ValueError as error:
            options = self.options
            raise ValueError(
                f"engine={url!r} cannot be used with temperature={options.temperature}, top_p={options.top_p}: {error}"
            ) from error

    async def difference(self, server: Completes, prompt: list[int], completions: Sequence[Completion]) -> float:
        """Return the mean absolute difference, in nats, of sampled and teacher-forced log-probabilities."""
        forced = [await self.forced(server, prompt, completion.tokens) for completion in completions]
        return statistics.fmean(
            abs(sampled_log_prob - forced_log_prob)
            for completion, log_probs in zip(completions, forced, strict=True)
            for sampled_log_prob, forced_log_prob in zip(completion.log_probs, log_probs, strict=True)
        )

    async def forced(self, server: Completes, prompt: list[int], tokens: Sequence[int]) -> list[float]:
        """Return the log-probabilities of tokens as the end of a prompt; raises the errors of ``read_forced``."""
        if self.reads_prompts:
            return (await self.forced_and_next(server, prompt, tokens))[0]
        request = completion_request(self.model, [*prompt, *tokens], n=1, max_tokens=0)
        return read_forced(await server.complete({**request, "echo": True}), len(prompt), len(tokens))

    async def forced_and_next(
        self, server: Completes, prompt: list[int], tokens: Sequence[int]
    ) -> tuple[list[float], dict[int, float]]:
        """Return the log-probabilities of tokens as the end of a prompt, and of the likeliest tokens after them."""
        request = {**completion_request(self.model, [*prompt, *tokens], n=1, max_tokens=1), "logprobs": NEXT_TOKENS}
        if self.reads_prompts:  # an echo has the likeliest tokens at each position of the prompt, ten times the bytes
            request["extra_body"]["prompt_logprobs"] = 0
            answer = await server.complete(request)
            return read_prompt(answer, len(prompt), tokens), read_next(answer)
        answer = await server.complete({**request, "echo": True})
        return read_forced(answer, len(prompt), len(tokens)), read_next(answer)

    async def _abilities(self, server: Completes, read_prompt: bool) -> tuple[bool, bool]:
        options, prompt = self.options, self.encode(PROBE)
        count = 1 if options.temperature == 0 else min(options.num_samples, 2)
        request = completion_request(self.model, PROBE, n=count, max_tokens=options.max_new_tokens, temperature=2.0)
        request["extra_body"] |= {"return_token_ids": True, **({"prompt_logprobs": 0} if read_prompt else {})}
        answer = await server.complete(request)
        completions = read_completions(answer, count, self.decode)
        prompt_ids = answer["choices"][0].get("prompt_token_ids")
        prompt_length = (answer.get("usage") or {}).get("prompt_tokens", len(prompt))
        if (prompt_ids is not None and prompt_ids != prompt) or prompt_length != len(prompt):
            raise ValueError("its tokenizer differs from the reader's; set reader to the served model")
        names_ids = all(isinstance(token, int) for completion in completions for token in completion.tokens)
        reads = read_prompt and bool(answer["choices"][0].get("prompt_logprobs"))
        if options.temperature == options.top_p == 1:  # tempered log-probabilities are the model's own
            return names_ids, reads
        if not names_ids:
            raise ValueError("it returns no token ids, so its log-probabilities cannot be verified")
        difference = await replace(self, reads_prompts=reads).difference(server, prompt, completions)
        if difference > TOLERANCE:
            raise ValueError(
                f"its log-probabilities are not the model's own at temperature 1 (off by {difference:.2f} nats); "
                "start vLLM with --logprobs-mode raw_logprobs"
            )
        return True, reads
