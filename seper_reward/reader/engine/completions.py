"""Requests to a completions server, and checks of its answers."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from seper_reward.types import UnscorableError

_TOKEN_ID = "token_id:"


@dataclass(frozen=True)
class Completion:
    """A server's response: T token ids (or texts, if it returns no ids), and their natural-log probabilities.

    ``ended`` is false at the maximum length; ``stop_string`` is true if a stop string ended the response.
    """

    tokens: list[Any]
    log_probs: list[float]
    text: str
    ended: bool
    stop_string: bool


def completion_request(
    model: str, prompt: str | list[int], *, n: int, max_tokens: int, temperature: float = 1.0, top_p: float = 1.0
) -> dict[str, Any]:
    """Return a request for ``n`` responses with their log-probabilities.

    Defaults that a server may read from the model's ``generation_config.json`` are overridden: responses must follow
    the model's own distribution.
    """
    return {
        "model": model,
        "prompt": prompt,
        "n": n,
        "max_tokens": max_tokens,
        "temperature": temperature,
        "top_p": top_p,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "logprobs": 1,
        # parameters that only vLLM and similar servers support
        "extra_body": {"top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0, "return_tokens_as_token_ids": True},
    }


def read_completions(
    answer: Mapping[str, Any], count: int, decode: Callable[[Sequence[Any]], str]
) -> list[Completion]:
    """Return the ``count`` completions of a server's answer, ordered by index; ``decode`` returns the text of ids.

    Raises ``UnscorableError`` if a response, a log-probability or a finish reason is missing.
    """
    try:
        completions = [_read(choice, decode) for choice in sorted(answer["choices"], key=lambda row: row["index"])]
    except (KeyError, TypeError, AttributeError) as error:
        raise UnscorableError(f"engine gave half an answer: {type(error).__name__} {error}") from error
    if len(completions) != count:
        raise UnscorableError(f"engine gave half an answer: expected {count} responses, got {len(completions)}")
    return completions


def read_prompt(answer: Mapping[str, Any], prompt: int, tokens: Sequence[int]) -> list[float]:
    """Return the log-probabilities of tokens after the first ``prompt`` of a prompt, from vLLM's ``prompt_logprobs``.

    Raises ``UnscorableError`` if the server returned none.
    """
    try:
        rows = answer["choices"][0]["prompt_logprobs"][prompt:]
        return _numbers([row[str(token)]["logprob"] for row, token in zip(rows, tokens, strict=True)], len(tokens))
    except (KeyError, IndexError, TypeError, ValueError) as error:
        if isinstance(error, UnscorableError):
            raise
        raise UnscorableError("engine gives no log-probabilities of prompts (prompt_logprobs)") from error


def read_next(answer: Mapping[str, Any]) -> dict[int, float]:
    """Return the log-probabilities of the likeliest tokens after a prompt, by token id.

    Raises ``UnscorableError`` if the server returned no log-probabilities or no token ids.
    """
    try:
        likeliest = answer["choices"][0]["logprobs"]["top_logprobs"][-1]
        return {int(token.removeprefix(_TOKEN_ID)): float(value) for token, value in likeliest.items()}
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise UnscorableError(f"engine gave half an answer: {type(error).__name__} {error}") from error


def read_forced(answer: Mapping[str, Any], prompt: int, response: int) -> list[float]:
    """Return the log-probabilities of ``response`` (>= 1) tokens after the first ``prompt`` of an echoed prompt.

    Raises ``UnscorableError`` if the server returned no log-probabilities of the prompt.
    """
    try:
        log_probs = answer["choices"][0]["logprobs"]["token_logprobs"]
        if len(log_probs) >= prompt + response:
            return _numbers(log_probs[prompt : prompt + response], response)
    except (KeyError, IndexError, TypeError):
        pass
    raise UnscorableError("engine gives no log-probabilities of prompts (echo)")


def _read(choice: Mapping[str, Any], decode: Callable[[Sequence[Any]], str]) -> Completion:
    reason, tokens, text = choice["finish_reason"], choice["logprobs"]["tokens"], choice["text"]
    if reason not in ("stop", "length"):
        raise UnscorableError(f"engine gave half an answer: a response ended with finish_reason={reason!r}")
    log_probs = _numbers(choice["logprobs"]["token_logprobs"], len(tokens))
    if all(token.startswith(_TOKEN_ID) for token in tokens):
        tokens = [int(token.removeprefix(_TOKEN_ID)) for token in tokens]
        text = decode(tokens)
    return Completion(tokens, log_probs, text, reason == "stop", isinstance(choice.get("stop_reason"), str))


def _numbers(log_probs: Sequence[Any], count: int) -> list[float]:
    """Return log-probabilities; raise unless there are ``count`` of them, at least one, and none is missing."""
    if len(log_probs) != count or not count:
        raise UnscorableError(f"engine gave half an answer: {count} tokens, {len(log_probs)} log-probabilities")
    if not all(isinstance(value, int | float) and math.isfinite(value) for value in log_probs):
        raise UnscorableError("engine gave half an answer: a log-probability is missing")
    return [float(value) for value in log_probs]
