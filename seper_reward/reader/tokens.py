"""Text to tokens and back: the tokens of prompts and given responses, and where a response ends."""

import re
from collections.abc import Sequence
from typing import Any

from seper_reward.types import UnscorableError


def encode_prompt(tokenizer: Any, prompt: str, room: int) -> list[int]:
    """Return the prompt's token ids; where there is no chat template, with the tokenizer's special tokens in front.

    A chat template writes all special tokens itself; those that a tokenizer puts behind a text would end the prompt.

    Args:
        tokenizer: The reader's tokenizer.
        prompt: Text of the prompt.
        room: Most tokens that the prompt may have.

    Raises:
        UnscorableError: The prompt is empty, or longer than ``room``.
    """
    if not prompt:
        raise UnscorableError("prompts must not be empty, got ''")
    encoded = tokenizer(prompt, add_special_tokens=not tokenizer.chat_template, return_special_tokens_mask=True)
    ids: list[int] = encoded.input_ids
    if not tokenizer.chat_template:
        while ids and encoded["special_tokens_mask"][len(ids) - 1]:
            ids = ids[:-1]
    if len(ids) > room:
        raise UnscorableError(
            f"prompts must leave room for the response: got {len(ids)} tokens, at most {room} fit; cut the passages "
            "(PromptBuilder does)"
        )
    return ids


def encode_response(tokenizer: Any, text: str, longest: int) -> list[int]:
    """Return the first token ids of a text as a response.

    Args:
        tokenizer: The reader's tokenizer.
        text: The text that continues a prompt, with its leading space if it needs one.
        longest: How many tokens are kept at most.

    Raises:
        UnscorableError: The text has no token.
    """
    ids: list[int] = tokenizer(text, add_special_tokens=False).input_ids[:longest]
    if not ids:
        raise UnscorableError(f"texts must have at least one token, got {text!r}")
    return ids


def cut_at_stop(text: str, stop: Sequence[str], *, thought: bool = False) -> str | None:
    """Return the text before the first stop string; ``None`` if no stop string ends the text.

    Stop strings before the first visible character are ignored: many readers begin a response with a line break. A
    ``thought`` may be empty, so that it can end there.
    """
    text = text if thought else text.lstrip()
    places = [match.start() for string in stop for match in re.finditer(re.escape(string), text)]
    cut = min((place for place in places if thought or text[:place].strip()), default=None)
    return None if cut is None else text[:cut]


def may_end_stop(tokenizer: Any, stop: Sequence[str], size: int) -> list[bool]:
    """Return for each of ``size`` tokens whether it can complete a stop string; only then is a response decoded."""
    if not stop:
        return [False] * size
    head = tokenizer("a", add_special_tokens=False).input_ids  # some tokens lose their space at the start of a text
    rows = [head, *([*head, token] for token in range(len(tokenizer)))]
    if tokenizer.is_fast:  # the same texts, several times as fast for a whole vocabulary
        start, *texts = tokenizer.backend_tokenizer.decode_batch(rows, skip_special_tokens=False)
    else:
        start, *texts = tokenizer.batch_decode(rows)
    texts = [text.removeprefix(start) for text in texts]
    last = {string[-1] for string in stop}
    last.add("\N{REPLACEMENT CHARACTER}")  # part of a character: it may complete any
    marks = [any(character in text for character in last) for text in texts]
    return marks + [False] * (size - len(marks))


def padding_id(tokenizer: Any) -> int:
    """Return the token that fills up rows: the tokenizer's own, or any, because no model looks at padding."""
    ids = (tokenizer.pad_token_id, tokenizer.eos_token_id, 0)
    return next(token for token in ids if token is not None)


def usage(tokenizer: Any, prompts: Sequence[str], response_tokens: Sequence[int]) -> dict[str, int]:
    """Return the calls and tokens of prompts and their responses, for a profile."""
    return {
        "calls": len(prompts),
        "prompt_tokens": sum(map(len, tokenizer(list(prompts)).input_ids)),
        "response_tokens": sum(response_tokens),
    }
