"""Names of settings: flat keys, places in groups, and suggestions for unknown names."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import Field, fields
from typing import Any, NamedTuple, get_origin, get_type_hints

from seper_reward.runtime.settings import COMMON, PLACE

SET = "--set "
_MAIN = ("name", "preset", "urls", "path", "kind")  # keys of a group that its bare value sets: `reader: embedded`


class Place(NamedTuple):
    """Place of a setting in a YAML file, and whether it is a flag."""

    group: str
    key: str
    common: bool

    def __str__(self) -> str:
        return f"{self.group}.{self.key}"


class SettingNames:
    """The names of all settings of some dataclasses: the type and place of each, and the fields of each group.

    Settings that are flat or common are ``flags``; ``about`` has a sentence about each group.
    """

    def __init__(self, kinds: tuple[type, ...]) -> None:
        self.hints = {name: hint for kind in kinds for name, hint in get_type_hints(kind).items()}
        self.places = {each.name: place for kind in kinds for each in fields(kind) if (place := _placed(kind, each))}
        every = {each.name for kind in kinds for each in fields(kind) if each.init}
        self._flat = every - self.places.keys()
        bases = [base for kind in kinds for base in kind.__mro__]
        self.about = {group: text for base in bases for group, text in vars(base).get("group_help", {}).items()}
        self.groups: dict[str, dict[str, str]] = {group: {} for group in self.about}
        # a group's main key first, then its flags
        ordered = sorted(self.places.items(), key=lambda item: (item[1].key not in _MAIN, not item[1].common))
        for name, place in ordered:
            self.groups.setdefault(place.group, {})[place.key] = name
        self.groups = {group: keys for group, keys in self.groups.items() if keys}
        if clash := self._flat & self.groups.keys():
            raise TypeError(f"{sorted(clash)} are names of groups and of settings without a place")
        self.flags = self._flat | {name for name, place in self.places.items() if place.common}

    def flat(self, settings: Mapping[str, Any], begin: str, *, others: bool = False) -> dict[str, Any]:
        """Return the settings of a YAML file or of ``--set`` by the names of their fields.

        Messages begin with ``begin``: the file, or ``SET``. With ``others``, unknown flat keys are ignored. Raises
        ``ValueError`` if a key is unknown or belongs in another place, or a group without a main key has a bare value.
        """
        found: dict[str, Any] = {}
        unknown = []
        for name, value in settings.items():
            if name in self.groups:
                named = value if isinstance(value, dict) else self._main(name, value, begin)
                keys = self.groups[name]
                found |= {keys[key]: each for key, each in named.items() if key in keys}
                unknown += [f"{name}.{key}" for key in named if key not in keys]
            elif name in self._flat:
                found[name] = value
            elif name in self.places or not others:
                unknown.append(str(name))
        _refuse([(name, self._hint(name, begin)) for name in unknown], begin)
        return found

    def refuse_words(self, unknown: Sequence[str]) -> None:
        """Raise for unknown words of a command line, with a hint for each."""
        _refuse([(word, self._flag_hint(word)) for word in unknown])

    def _main(self, group: str, value: Any, begin: str) -> dict[str, Any]:
        """Return the setting of a group's bare value."""
        keys = self.groups[group]
        main = next((key for key in _MAIN if key in keys), None)
        if main is None:
            raise ValueError(f"{begin}{group} must be a mapping of {', '.join(keys)}, got {value!r}")
        takes_list = get_origin(self.hints[keys[main]]) is list
        return {main: [value] if takes_list and not isinstance(value, list) else value}

    def _hint(self, name: str, begin: str) -> str:
        """Return a hint on an unknown name in a file or after ``--set``."""
        key = name.rpartition(".")[2]
        if name in self.places:
            place = self.places[name]
            return f" is now {place}" if begin == SET else f" is now {place.group}: {{{place.key}: ...}}"
        places = [str(place) for field, place in self.places.items() if key in (field, place.key)]
        nearest = places or difflib.get_close_matches(
            name, [*self._flat, *self.groups, *map(str, self.places.values())], n=1
        )
        return f", did you mean {nearest[0]!r}?" if nearest else ""

    def _flag_hint(self, word: str) -> str:
        """Return a hint on an unknown word of the command line."""
        name = word.strip("-").replace("-", "_")
        if name in self.places:
            return f" is now --set {self.places[name]}=..."
        known = {field: f"{SET}{place}=..." for field, place in self.places.items()}
        known |= {flag: f"--{flag}" for flag in self.flags}
        nearest = difflib.get_close_matches(name, known, n=1)
        return f", did you mean {known[nearest[0]]!r}?" if nearest else ""


def _refuse(unknown: Sequence[tuple[str, str]], begin: str = "") -> None:
    """Raise for unknown names, with a hint for each."""
    if unknown:
        kind = "" if all(hint.startswith(" is now") for _, hint in unknown) else "unknown setting "
        said = "; ".join(f"{name!r}{hint}" for name, hint in unknown)
        raise ValueError(f"{begin}{kind}{said} (--help explains all settings)")


def _placed(kind: type, field: Field[Any]) -> Place | None:
    """Return the place of a field of a class; ``None`` if it is flat."""
    place = getattr(kind, "places", {}).get(field.name) or field.metadata.get(PLACE)
    if place is None:
        return None
    group, _, key = place.partition(".")
    return Place(group, key, field.metadata[COMMON])
