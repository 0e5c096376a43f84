"""Names of settings: flat keys and places in groups, and what to write instead of an unknown one."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import Field, fields
from typing import Any, NamedTuple, get_origin, get_type_hints

from seper_reward.runtime.settings import COMMON, PLACE

SET = "--set "
_MAIN = ("name", "preset", "urls", "path", "kind")  # keys of a group that its bare value sets: `reader: embedded`


class Place(NamedTuple):
    """Where a setting is in a YAML file, and whether it is a flag."""

    group: str
    key: str
    common: bool

    def __str__(self) -> str:
        return f"{self.group}.{self.key}"


class SettingNames:
    """The names of all settings of some classes.

    Args:
        kinds: The dataclasses.

    Attributes:
        hints: Type of each field.
        places: Place of each field that has one.
        groups: Field of each key of each group.
        about: A sentence about each group.
        flags: Fields that are flags: the flat and the common ones.
    """

    def __init__(self, kinds: tuple[type, ...]) -> None:
        self.hints = {name: hint for kind in kinds for name, hint in get_type_hints(kind).items()}
        self.places = {each.name: place for kind in kinds for each in fields(kind) if (place := _placed(kind, each))}
        every = {each.name for kind in kinds for each in fields(kind) if each.init}
        self._flat = every - self.places.keys()
        bases = [base for kind in kinds for base in kind.__mro__]
        self.about = {group: text for base in bases for group, text in vars(base).get("groups", {}).items()}
        self.groups: dict[str, dict[str, str]] = {group: {} for group in self.about}
        # a group's main key first, then its flags
        ordered = sorted(self.places.items(), key=lambda item: (item[1].key not in _MAIN, not item[1].common))
        for name, place in ordered:
            self.groups.setdefault(place.group, {})[place.key] = name
        self.groups = {group: keys for group, keys in self.groups.items() if keys}
        if clash := self._flat & self.groups.keys():
            raise TypeError(f"{sorted(clash)} are names of groups and of settings without a place")
        self._former = {name: text for kind in kinds for name, text in getattr(kind, "former", {}).items()}
        self.flags = self._flat | {name for name, place in self.places.items() if place.common}

    def flat(self, settings: Mapping[str, Any], begin: str, *, others: bool = False) -> dict[str, Any]:
        """Return settings of a YAML file or of ``--set`` by the names of their fields."""
        found, unknown = {}, []
        for name, value in settings.items():
            if name in self.groups:
                named = value if isinstance(value, dict) else {self._main(name, value, begin): value}
            else:
                named = {None: value}
            for key, each in named.items():
                field = name if key is None and name in self._flat else self.groups.get(name, {}).get(key)
                if field is not None:
                    found[field] = [each] if self._is_list(field) and isinstance(each, str | int | float) else each
                elif key is not None or not others or name in self.places:
                    word = name if key is None else f"{name}.{key}"
                    unknown.append((word, self._hint(key or name, word, begin)))
        self.refuse(unknown, begin)
        return found

    def _main(self, group: str, value: Any, begin: str) -> str:
        """Return the key of a group that a bare value sets."""
        main = next((key for key in _MAIN if key in self.groups[group]), None)
        if main is None:
            raise ValueError(f"{begin}{group} must be a mapping of {', '.join(self.groups[group])}, got {value!r}")
        return main

    def _is_list(self, field: str) -> bool:
        return get_origin(self.hints[field]) is list

    def _hint(self, name: str, word: str, begin: str) -> str:
        """Say what to write in a file or behind ``--set`` instead of an unknown name."""
        if word in self.places:
            place = self.places[word]
            return f"is now {place}" if begin == SET else f"is now {place.group}: {{{place.key}: ...}}"
        if name in self._former:
            return f"was removed; {self._former[name]}"
        elsewhere = [str(self.places[name])] if name in self.places else []
        elsewhere += [f"{group}.{name}" for group, keys in self.groups.items() if name in keys]
        known = [*self._flat, *map(str, self.places.values()), *self.places, *self.groups]
        nearest = elsewhere[:1] or difflib.get_close_matches(word, known, n=1)
        return f"did you mean {self._written(nearest[0])!r}?" if nearest else ""

    def _written(self, name: str) -> str:
        return str(self.places.get(name, name))

    def hint_for_flag(self, word: str) -> str:
        """Say what to write instead of an unknown word of the command line."""
        name = word.strip("-").replace("-", "_")
        if name in self.places:
            return f"is now --set {self.places[name]}=..."
        if name in self._former:
            return f"was removed; {self._former[name]}"
        flags = {flag: f"--{flag}" for flag in self.flags}
        known = flags | {field: f"--set {place}=..." for field, place in self.places.items() if field not in flags}
        nearest = difflib.get_close_matches(name, known, n=1)
        return f"did you mean {known[nearest[0]]!r}?" if nearest else ""

    def refuse(self, unknown: Sequence[tuple[str, str]], begin: str = "") -> None:
        """Refuse unknown names, each with a hint."""
        said = [f"{word!r} {hint}" if hint[:2] == "is" else f"{word!r}, {hint}".rstrip(", ") for word, hint in unknown]
        if said:
            moved = all(hint[:2] == "is" for _, hint in unknown)
            raise ValueError(f"{begin}{'' if moved else 'unknown setting '}{'; '.join(said)} (--help explains all)")


def _placed(kind: type, field: Field[Any]) -> Place | None:
    """Return the place of a field of a class; ``None`` if it is flat."""
    place = getattr(kind, "places", {}).get(field.name) or field.metadata.get(PLACE)
    if place is None:
        return None
    group, _, key = place.partition(".")
    return Place(group, key, field.metadata[COMMON])
