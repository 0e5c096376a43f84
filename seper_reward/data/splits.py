"""Splits of questions by hash of the id, clusters of questions that share passages or names, and even samples."""

import hashlib
import re
from collections.abc import Hashable, Iterable, Sequence
from typing import Literal, TypeVar

from seper_reward.data.marks import is_marked, is_relevant
from seper_reward.options import SplitBy
from seper_reward.types import Query

T = TypeVar("T")
Split = Literal["train", "dev", "test"]
_CAPITAL = "[" + "".join(letter for letter in map(chr, range(0x530)) if letter.isupper()) + "]"  # Latin to Cyrillic
_WORD = rf"(?:(?:{_CAPITAL}\.)+|(?:St|Dr|Mrs?|Ms|Mt)\.|{_CAPITAL}[\w'’-]*)"
# capitalised words in a row, not at the start of a sentence: "Bell Tax", "Isle of the Dead", "J. K. Rowling"
_NAME = re.compile(rf"(?<!^)(?<![.!?:] )\b{_WORD}(?: (?:of (?:the )?)?{_WORD})*")
_POSSESSIVE = re.compile(r"['’]s?$")


def split_of(identity: str, *, test_share: float = 0.125, dev_share: float = 0.125) -> Split:
    """Return the split of an id, by its SHA-1 alone: the greatest are in ``test``, the next below in ``dev``.

    The shares are of all ids, in [0, 1].

    >>> [split_of(name) for name in ("q3", "q26", "q1")]
    ['train', 'dev', 'test']
    """
    place = _place(identity)
    first_test = 1 - test_share
    return "test" if place >= first_test else "dev" if place >= first_test - dev_share else "train"


def split_by_rank(identities: Sequence[str], *, test_share: float = 0.125, dev_share: float = 0.125) -> list[Split]:
    """Return the split of each id by its rank among all, so few ids, too, fill each split that has a share.

    The shares are those of ``split_of``, rounded to at least one id.

    >>> split_by_rank(["q3", "q4", "q7", "q9"])
    ['dev', 'test', 'train', 'train']
    """
    ranked = sorted(range(len(identities)), key=lambda at: (_place(identities[at]), identities[at]))
    test = max(1, round(test_share * len(ranked)))
    dev = max(1, round(dev_share * len(ranked))) if dev_share else 0
    splits: list[Split] = ["train"] * len(ranked)
    for rank, at in enumerate(reversed(ranked)):
        splits[at] = "test" if rank < test else "dev" if rank < test + dev else "train"
    return splits


def fold_of(identity: str, folds: int) -> int:
    """Return the fold of an id, in [0, folds), which does not depend on other ids.

    >>> [fold_of(name, 5) for name in ("q3", "q26", "q1")]
    [2, 4, 4]
    """
    return int(_place(identity) * folds)


def _place(identity: str) -> float:
    """Return a number in [0, 1) from the SHA-1 of an id."""
    return int(hashlib.sha1(identity.encode()).hexdigest()[:8], 16) / 16**8


def clusters(keys: Sequence[Iterable[Hashable]]) -> list[list[int]]:
    """Group items that share a key, directly or through further items (connected components).

    An item without keys is a separate cluster. Returns the positions of each cluster's items in ascending order;
    clusters are ordered by their first item.

    >>> clusters([{"mill"}, {"ferry"}, {"mill", "lane"}, set(), {"lane"}])
    [[0, 2, 4], [1], [3]]
    """
    parents = list(range(len(keys)))
    first_with: dict[Hashable, int] = {}

    def root(place: int) -> int:
        while parents[place] != place:
            parents[place] = parents[parents[place]]
            place = parents[place]
        return place

    for place, item_keys in enumerate(keys):
        for key in item_keys:
            parents[root(place)] = root(first_with.setdefault(key, place))
    groups: dict[int, list[int]] = {}
    for place in range(len(keys)):
        groups.setdefault(root(place), []).append(place)
    return list(groups.values())


def shared_keys(query: Query, split_by: SplitBy) -> set[str]:
    """Return the keys that a question must not share with questions of another split.

    These are texts of passages (``"passage"``), titles (``"title"``), texts and the names in the question
    (``"name"``), or names and the texts of all passages (``"entity"``). In all others only relevant passages count if
    some are marked.
    """
    if split_by == "question":
        return set()
    names = names_in(query.question) if split_by in ("name", "entity") else []
    all_count = split_by == "entity" or not any(map(is_marked, query.passages))
    counted = [passage for passage in query.passages if all_count or is_relevant(passage)]
    texts = {passage.title or passage.text if split_by == "title" else passage.full_text for passage in counted}
    return {*names, *texts}


def names_in(text: str) -> list[str]:
    """Return the names in an English text, in order, each once: capitalised words that do not begin a sentence.

    >>> names_in("Who rang Old Mab on the Isle of Noss, and was Old Mab's bell new?")
    ['Old Mab', 'Isle of Noss']
    >>> names_in("did J. K. Rowling meet Émile Zola in St. Louis?")
    ['J. K. Rowling', 'Émile Zola', 'St. Louis']
    """
    return list(dict.fromkeys(_POSSESSIVE.sub("", match.group()) for match in _NAME.finditer(text)))


def spread(items: Sequence[T], count: int | None) -> list[T]:
    """Return ``count`` items evenly spread over the sequence (default: all); files are often sorted by kind.

    >>> spread("abcdefgh", 3)
    ['a', 'c', 'f']
    """
    if count is None or count >= len(items):
        return list(items)
    return [items[position * len(items) // count] for position in range(count)]
