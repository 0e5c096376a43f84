"""Control tokens: the text of a passage, question or answer must not contain any, or it could end its turn."""

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

# forms used in chat templates: <|im_end|>, <｜User｜>, <|channel>, <turn|>, <end_of_turn>, </s>, [/INST], ...
_LOOKS_LIKE_ONE = re.compile(
    r"<[|｜][^<>\s]+>|<[^<>\s]+[|｜]>"
    r"|</?(?:s|bos|eos|pad|unk|think|tool_call|tool_response|(?:start|end)_of_\w+)>"
    r"|\[/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|THINK)\]"
)
_VOCABULARY = re.compile(r"[\w\s▁]*")  # added words and runs of spaces control nothing
_ROUNDS = 8


class ControlTokens:
    """The control tokens of a tokenizer (``None``: unknown): all added tokens, except plain words and spaces."""

    def __init__(self, tokenizer: "PreTrainedTokenizerBase | None" = None) -> None:
        self._tokenizer = tokenizer
        self._ids: set[int] = set()
        self._pattern = _LOOKS_LIKE_ONE
        self._normalized = False
        if tokenizer is not None:
            added = {
                token.content: (place, token.normalized)
                for place, token in tokenizer.added_tokens_decoder.items()
                if token.content and (token.special or not _VOCABULARY.fullmatch(token.content))
            }
            self._ids = {place for place, _ in added.values()} - {tokenizer.unk_token_id}  # any text may contain it
            # a control token may have other spellings, for example in capitals
            self._normalized = tokenizer.is_fast and any(normalized for _, normalized in added.values())
            texts = sorted({*added, *tokenizer.all_special_tokens}, key=len, reverse=True)
            self._pattern = re.compile("|".join(map(re.escape, texts)) or r"(?!)")

    def break_up(self, text: str) -> str:
        """Return the text with a space inserted into each control token; other text is unchanged."""
        for _ in range(_ROUNDS):
            broken = self._pattern.sub(lambda match: _split(match[0]), text)
            if self._normalized:
                broken = self._break_up_tokens(broken)
            if broken == text:
                break
            text = broken
        return text

    def _break_up_tokens(self, text: str) -> str:
        assert self._tokenizer is not None
        encoded = self._tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        spans = [
            span
            for token, span in zip(encoded.input_ids, encoded["offset_mapping"], strict=True)
            if token in self._ids
        ]
        for start, end in reversed(spans):
            token = text[start:end]
            marker = token.strip()
            text = text[:start] + token.replace(marker, _split(marker)) + text[end:]
        return text


def _split(token: str) -> str:
    """Return the token with a space after its first character; a space for a single character."""
    return f"{token[:1]} {token[1:]}" if len(token) > 1 else " "


def end_tokens(model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase") -> frozenset[int]:
    """Return the tokens that end a response, from the model's generation settings and its tokenizer."""
    generation = getattr(model, "generation_config", None)  # a classifier has none
    eos = generation.eos_token_id if generation is not None else None
    ids = eos if isinstance(eos, list) else [eos]
    return frozenset(token for token in [*ids, tokenizer.eos_token_id] if token is not None)
