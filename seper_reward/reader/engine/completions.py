"""Requests to a completions server, and checks of its answers."""

import contextlib
import math
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from seper_reward.types import Responses, UnscorableError

NEXT_TOKENS = 20  # vLLM's default maximum; ends that are not among them are rare
_TOKEN_ID = "token_id:"


@dataclass(frozen=True)
class Completion:
    """An engine's response: T token ids (or texts) with natural-log probabilities, and its text.

    ``ended`` is false at the maximum length; ``stop_string`` is true if a stop string ended the response.
    """

    tokens: list[Any]
    log_probs: list[float]
    text: str
    ended: bool
    stop_string: bool

    def and_then(self, more: "Completion") -> "Completion":
        """Return the response with its continuation."""
        tokens, log_probs = self.tokens + more.tokens, self.log_probs + more.log_probs
        return Completion(tokens, log_probs, self.text + more.text, more.ended, more.stop_string)


def responses_of(completions: Sequence[Completion], *, as_drawn: bool) -> Responses:
    """Return completions as responses; ``as_drawn`` is whether they were drawn with their own probabilities."""
    named = all(isinstance(token, int) for completion in completions for token in completion.tokens)
    return Responses(
        texts=tuple(completion.text.strip() for completion in completions),
        token_log_probs=tuple(torch.tensor(completion.log_probs, dtype=torch.float32) for completion in completions),
        token_ids=tuple(tuple(completion.tokens) for completion in completions) if named else (),
        finished=tuple(completion.ended for completion in completions),
        draw_log_probs=tuple(sum(completion.log_probs) for completion in completions) if as_drawn else (),
    )


#: Settings of a request; without them, a server uses the model's ``generation_config.json``.
_PLAIN = {
    "temperature": 1.0, "top_p": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0, "logprobs": 1,
    # parameters that only vLLM and similar servers support
    "top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0, "return_tokens_as_token_ids": True,
}  # fmt: skip


def completion_request(model: str, prompt: str | list[int] | list[list[int]], **settings: object) -> dict[str, Any]:
    """Return a request with settings such as ``n``, responses per prompt, and ``max_tokens``; others are plain."""
    return {"model": model, "prompt": prompt, **_PLAIN, **settings}


@contextlib.contextmanager
def whole() -> Iterator[None]:
    """Raise ``UnscorableError`` if an answer lacks something that the block reads."""
    try:
        yield
    except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
        if isinstance(error, UnscorableError):
            raise
        raise UnscorableError(f"engine gave half an answer: {type(error).__name__} {error}") from error


def read_completions(answer: Mapping[str, object], count: int) -> list[Completion]:
    """Return the ``count`` completions of an answer; ``UnscorableError`` if anything is missing."""
    with whole():
        completions = list(map(_completion, _choices(answer)))
    if len(completions) != count:
        raise UnscorableError(f"engine gave half an answer: expected {count} responses, got {len(completions)}")
    return completions


async def forced(
    complete: Callable[[dict[str, object]], Awaitable[dict[str, object]]],
    model: str,
    prompt: list[int],
    targets: Sequence[Sequence[int]],
) -> list[tuple[list[float], dict[int, float]]]:
    """Return the log-probabilities of given responses' tokens after a prompt, and of the likeliest ones after them."""
    if not targets:
        return []
    prompts = [[*prompt, *tokens] for tokens in targets]
    request = completion_request(model, prompts, n=1, max_tokens=1, logprobs=NEXT_TOKENS, prompt_logprobs=0)
    answer = await complete(request)
    with whole():
        return [_forced(choice, len(prompt), tokens) for choice, tokens in zip(_choices(answer), targets, strict=True)]


def _choices(answer: Mapping[str, Any]) -> list[Mapping[str, object]]:
    return sorted(answer["choices"], key=lambda choice: choice["index"])  # servers send them in any order


def _forced(choice: Mapping[str, Any], length: int, tokens: Sequence[int]) -> tuple[list[float], dict[int, float]]:
    if not choice.get("prompt_logprobs"):
        raise UnscorableError("engine gives no log-probabilities of prompts (prompt_logprobs)")
    scored = zip(choice["prompt_logprobs"][length:], tokens, strict=True)
    following = choice["logprobs"]["top_logprobs"][-1].items()
    return (
        _numbers([candidates[str(token)]["logprob"] for candidates, token in scored], len(tokens)),
        {int(token.removeprefix(_TOKEN_ID)): float(value) for token, value in following},
    )


def _completion(choice: Mapping[str, Any]) -> Completion:
    reason, tokens, text = choice["finish_reason"], choice["logprobs"]["tokens"], choice["text"]
    if reason not in ("stop", "length"):
        raise UnscorableError(f"engine gave half an answer: a response ended with finish_reason={reason!r}")
    log_probs = _numbers(choice["logprobs"]["token_logprobs"], len(tokens))
    if all(token.startswith(_TOKEN_ID) for token in tokens):
        tokens = [int(token.removeprefix(_TOKEN_ID)) for token in tokens]
    return Completion(tokens, log_probs, text, reason == "stop", isinstance(choice.get("stop_reason"), str))


def _numbers(log_probs: Sequence[Any], count: int) -> list[float]:
    """Return log-probabilities; raise unless there are ``count`` of them, at least one, and none is missing."""
    if len(log_probs) != count or not count:
        raise UnscorableError(f"engine gave half an answer: {count} tokens, {len(log_probs)} log-probabilities")
    if not all(isinstance(value, int | float) and math.isfinite(value) for value in log_probs):
        raise UnscorableError("engine gave half an answer: a log-probability is missing")
    return [float(value) for value in log_probs]
