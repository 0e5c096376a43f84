"""Conversion of text and tokens: prompts, given responses, and the end of a response."""

import copy
import itertools
import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from seper_reward.options import SamplingOptions
from seper_reward.runtime.token_ids import token_ids
from seper_reward.types import Leaf, UnscorableError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def encode_prompt(tokenizer: "PreTrainedTokenizerBase", prompt: str, room: int, encoding: Any = None) -> list[int]:
    """Return the prompt's token ids, at most ``room``; without a chat template, special tokens are prepended.

    A special token that the tokenizer appends would end the prompt. An empty or longer prompt raises
    ``UnscorableError``. ``encoding`` is the prompt's without special tokens, if there is one already.
    """
    if not prompt:
        raise UnscorableError("prompts must not be empty, got ''")
    if tokenizer.chat_template:
        ids: list[int] = (encoding or tokenizer(prompt, add_special_tokens=False))["input_ids"]
    else:
        encoded = tokenizer(prompt, return_special_tokens_mask=True)
        ids = encoded.input_ids
        while ids and encoded["special_tokens_mask"][len(ids) - 1]:
            ids = ids[:-1]
    if len(ids) > room:
        raise UnscorableError(
            f"prompts must leave room for the response: got {len(ids)} tokens, at most {room} fit; cut the passages, "
            "for example with PromptBuilder"
        )
    return ids


def find_tokens(tokenizer: "PreTrainedTokenizerBase", prompt: str, text: str, encoding: Any = None) -> range:
    """Return the positions of the tokens of a text's last occurrence in a prompt, except a first token.

    Tokens at its borders may have other characters. Empty if the prompt does not contain the text, or a slow tokenizer
    knows no positions. ``encoding`` is that of ``encode_prompt``, with positions.
    """
    start = prompt.rfind(text)
    if not text or start < 0 or not tokenizer.is_fast:
        return range(0)
    if encoding is None or not tokenizer.chat_template:
        encoding = tokenizer(prompt, add_special_tokens=not tokenizer.chat_template, return_offsets_mapping=True)
    inside = [
        place
        for place, (first, end) in enumerate(encoding["offset_mapping"])
        if place and first < start + len(text) and start < end
    ]
    return range(inside[0], inside[-1] + 1) if inside else range(0)


def encode_response(tokenizer: "PreTrainedTokenizerBase", text: str, longest: int) -> list[int]:
    """Return the first token ids of a text that continues a prompt; raise ``UnscorableError`` if it has none."""
    ids = token_ids(tokenizer, text)[:longest]
    if not ids:
        raise UnscorableError(f"texts must have at least one token, got {text!r}")
    return ids


def cut_at_stop(text: str, stop: Sequence[str]) -> str | None:
    """Return the text before the first stop string; ``None`` if no stop string ends the text.

    Stop strings before the first visible character are ignored: many readers begin a response with a line break.
    """
    text = text.lstrip()
    places = [match.start() for string in stop for match in re.finditer(re.escape(string), text)]
    cut = min((place for place in places if text[:place].strip()), default=None)
    return None if cut is None else text[:cut]


def may_end_stop(
    tokenizer: "PreTrainedTokenizerBase", stop: Sequence[str], size: int
) -> tuple[list[bool], list[int] | None]:
    """Return for each of ``size`` tokens whether it can complete a stop string; other tokens need no decoding.

    Also returns the tokens that complete one and add nothing visible before it; ``None`` if this depends on the text
    before.
    """
    if not stop:
        return [False] * size, []
    head = token_ids(tokenizer, "a")  # some tokens lose their space at the start of a text
    sequences = [head, *([*head, token] for token in range(len(tokenizer)))]
    if tokenizer.is_fast:  # same texts, several times faster for a whole vocabulary
        start, *texts = tokenizer.backend_tokenizer.decode_batch(sequences, skip_special_tokens=False)
    else:
        start, *texts = tokenizer.batch_decode(sequences)
    texts = [text.removeprefix(start) for text in texts]
    last = {string[-1] for string in stop}
    if not all(map(str.isascii, last)):
        last.add("\N{REPLACEMENT CHARACTER}")  # part of a character: it may complete any that is not ASCII
    marks = [any(character in text for character in last) for text in texts]
    blank = None
    if all(len(string) == 1 and string.isascii() for string in stop):
        special = set(tokenizer.all_special_ids)  # texts of responses do not contain them
        blank = [
            token
            for token in itertools.compress(range(len(marks)), marks)
            if token not in special and cut_at_stop(f"a{texts[token]}", stop).rstrip() == "a"  # type: ignore[union-attr]
        ]
    return marks + [False] * (size - len(marks)), blank


@dataclass(frozen=True)
class GivenResponse:
    """A given text as a response; ``token_ids`` have no end, and one more than the maximum if too long.

    The reader scores the tokens ``read``. ``ends`` are tokens that would end the response right after them: empty at
    the maximum length, where no end is needed, and ``None`` if the text cannot be a response.
    """

    text: str
    token_ids: tuple[int, ...]
    read: tuple[int, ...]
    ends: tuple[int, ...] | None


def leaf_before(answer: GivenResponse, log_probs: Sequence[float], following: Mapping[int, float]) -> Leaf:
    """Return a given response's leaf from log-probabilities of its tokens and of the likeliest next ones."""
    ending = sum(math.exp(following[token]) for token in answer.ends or () if token in following)
    total = -math.inf
    if answer.ends == () or ending > 0:
        total = sum(log_probs) + (math.log(ending) if answer.ends else 0.0)
    return Leaf(answer.text, answer.token_ids, total, total, sum(log_probs) / len(log_probs))


class ResponseEnds:
    """The tokens that end a response, and the end of its text, for a reader with ``size`` token ids."""

    def __init__(
        self, tokenizer: "PreTrainedTokenizerBase", options: SamplingOptions, end_tokens: Collection[int], size: int
    ) -> None:
        self._tokenizer, self._options, self._end_tokens = tokenizer, options, frozenset(end_tokens)
        self._learn_stops(size)

    def with_options(self, options: SamplingOptions) -> "ResponseEnds":
        """Return the ends for other options."""
        other = copy.copy(self)
        other._options = options
        if options.stop != self._options.stop:
            other._learn_stops(len(self.may_end_stop))
        return other

    def _learn_stops(self, size: int) -> None:
        self.may_end_stop, blank = may_end_stop(self._tokenizer, self._options.stop, size)
        self._usual_ends = None if blank is None else tuple(sorted(self._end_tokens.union(blank)))

    def decode(self, token_ids: Sequence[int]) -> str:
        """Return the text of token ids."""
        text: str = self._tokenizer.decode(token_ids, skip_special_tokens=True)
        return text

    def cut(self, text: str) -> str | None:
        """Return the text before the first stop string; see ``cut_at_stop``."""
        return cut_at_stop(text, self._options.stop)

    def given(self, text: str) -> GivenResponse:
        """Return a given text as a response, with its possible end tokens; errors are those of ``encode_response``."""
        longest = self._options.max_new_tokens
        token_ids = tuple(encode_response(self._tokenizer, text, longest + 1))  # one more if it is too long
        text = self.decode(token_ids)
        ends: tuple[int, ...] | None = None
        if len(token_ids) <= longest and not self._end_tokens & set(token_ids) and self.cut(text) is None:
            ends = () if len(token_ids) == longest else self._ends(token_ids, text)
        return GivenResponse(text.strip(), token_ids, token_ids[:longest], ends)

    def _ends(self, token_ids: Sequence[int], text: str) -> tuple[int, ...]:
        """Return the end tokens, and tokens that complete a stop string after given ones without changing the text."""
        if self._usual_ends is not None and text.strip():
            return self._usual_ends
        may = list(itertools.compress(range(len(self.may_end_stop)), self.may_end_stop))
        longer = self._tokenizer.batch_decode([[*token_ids, token] for token in may], skip_special_tokens=True)
        cut = map(self.cut, longer)
        same = [before is not None and before.strip() == text.strip() for before in cut]
        return tuple(sorted(self._end_tokens.union(itertools.compress(may, same))))
