"""Clusters of questions that share passages or names, which splits keep together."""

import re
from collections.abc import Hashable, Iterable, Sequence

from seper_reward.data.marks import is_marked, is_relevant
from seper_reward.types import Query

from ..options import SplitBy

_CAPITAL = "[" + "".join(letter for letter in map(chr, range(0x530)) if letter.isupper()) + "]"  # Latin to Cyrillic
_WORD = rf"(?:(?:{_CAPITAL}\.)+|(?:St|Dr|Mrs?|Ms|Mt)\.|{_CAPITAL}[\w'’-]*)"
# capitalised words in a row, not at the start of a sentence: "Bell Tax", "Isle of the Dead", "J. K. Rowling"
_NAME = re.compile(rf"(?<!^)(?<![.!?:] )\b{_WORD}(?: (?:of (?:the )?)?{_WORD})*")
_POSSESSIVE = re.compile(r"['’]s?$")


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
