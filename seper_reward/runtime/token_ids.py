"""Token ids of whole texts, by the fastest way that a tokenizer has."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerBase

PAIR_COLUMNS = {"input_ids", "token_type_ids", "attention_mask"}  # of ``joined_pairs``


def token_ids(tokenizer: "PreTrainedTokenizerBase", text: str) -> list[int]:
    """Return the token ids of a text, all of them and without special tokens."""
    if not tokenizer.is_fast:
        return list(tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])
    return list(whole_texts(tokenizer).encode(text, add_special_tokens=False).ids)  # a third faster


def whole_texts(tokenizer: "PreTrainedTokenizerBase") -> "Tokenizer":
    """Return the library tokenizers' part of a fast tokenizer, which then neither cuts nor pads texts."""
    backend: Tokenizer = tokenizer.backend_tokenizer
    # older tokenizers refuse a change, even to the same, while another thread encodes
    if backend.truncation is not None:
        backend.no_truncation()
    if backend.padding is not None:
        backend.no_padding()
    return backend


def joined_pairs(
    tokenizer: "PreTrainedTokenizerBase", pairs: Sequence[tuple[list[int], list[int]]]
) -> dict[str, list[list[int]]]:
    """Return the columns of pairs of texts, given by their token ids, as a fast tokenizer has them.

    They are those of ``post_process``, which takes ten times as long.
    """
    backend = whole_texts(tokenizer)
    letter = backend.encode("a", add_special_tokens=False)
    both = backend.post_process(letter, letter)
    places = [place for place, special in enumerate(both.special_tokens_mask) if not special]
    first, second = places[: len(letter)], places[len(letter) :]
    edges = slice(0, first[0]), slice(first[-1] + 1, second[0]), slice(second[-1] + 1, None)
    before, between, behind = (both.ids[edge] for edge in edges)
    ids = [[*before, *one, *between, *two, *behind] for one, two in pairs]
    before, between, behind = (both.type_ids[edge] for edge in edges)
    kinds = [both.type_ids[first[0]]], [both.type_ids[second[0]]]
    types = [[*before, *kinds[0] * len(one), *between, *kinds[1] * len(two), *behind] for one, two in pairs]
    return {"input_ids": ids, "token_type_ids": types, "attention_mask": [[1] * len(pair_ids) for pair_ids in ids]}
