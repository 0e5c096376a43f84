"""Text to tokens and back: what a reader is given, where a response ends."""

import re
from collections.abc import Sequence
from typing import Any

from seper_reward.types import UnscorableError


def encode_prompt(tokenizer: Any, prompt: str, room: int) -> list[int]:
    """Return the prompt's tokens, with those a tokenizer puts in front unless a chat template has done so.

    Args:
        tokenizer: of the reader.
        prompt: text.
        room: most tokens.

    Raises:
        UnscorableError: it is empty, or longer than ``room``.
    """
    if not prompt:
        raise UnscorableError("prompts must not be empty, got ''")
    bos = tokenizer.bos_token
    templated = bool(bos) and prompt.startswith(bos)
    ids: list[int] = tokenizer(prompt, add_special_tokens=not templated).input_ids
    if len(ids) > room:
        raise UnscorableError(
            f"prompts must leave room for the response: got {len(ids)} tokens, at most {room} fit; cut the passages "
            "(PromptBuilder does)"
        )
    return ids


def encode_response(tokenizer: Any, text: str, longest: int) -> list[int]:
    """Return the first tokens of a text as a response.

    Args:
        tokenizer: of the reader.
        text: as it continues a prompt.
        longest: most tokens.

    Raises:
        UnscorableError: it has no token.
    """
    ids: list[int] = tokenizer(text, add_special_tokens=False).input_ids[:longest]
    if not ids:
        raise UnscorableError(f"texts must have at least one token, got {text!r}")
    return ids


def cut_at_stop(text: str, stop: Sequence[str]) -> str | None:
    """Return what stands before the first stop string, ``None`` if none ends the text.

    One before the first visible character does not: many readers begin a response with a line break.
    """
    text = text.lstrip()
    cuts = [found.start() for string in stop for found in re.finditer(re.escape(string), text)]
    cut = min((place for place in cuts if text[:place].strip()), default=None)
    return None if cut is None else text[:cut]


def may_end_stop(tokenizer: Any, stop: Sequence[str], size: int) -> list[bool]:
    """Mark, of ``size`` tokens, those after which a stop string can be complete: only then is a response decoded."""
    if not stop:
        return [False] * size
    known = tokenizer.batch_decode([[token] for token in range(len(tokenizer))])
    last = {string[-1] for string in stop}
    last.add("\N{REPLACEMENT CHARACTER}")  # a token that ends inside a character may end any
    marks = [any(character in text for character in last) for text in known]
    return marks + [False] * (size - len(marks))


def end_tokens(model: Any, tokenizer: Any) -> frozenset[int]:
    """Return the tokens that end a response, by the model's generation settings and its tokenizer."""
    named = model.generation_config.eos_token_id if model.generation_config is not None else None
    ids = named if isinstance(named, list) else [named]
    return frozenset(token for token in [*ids, tokenizer.eos_token_id] if token is not None)
