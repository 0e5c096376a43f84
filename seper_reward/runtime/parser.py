"""Command lines: settings from flags, ``--set`` and a YAML file with groups, and help by group."""

import argparse
import copy
import os
import sys
from collections.abc import Sequence
from dataclasses import Field
from datetime import date
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn, get_origin

import yaml

from seper_reward.runtime.setting_help import HelpAction, SettingFormatter
from seper_reward.runtime.setting_names import SET, SettingNames
from seper_reward.runtime.settings import COMMON, PLACE, fits


def parse_settings(
    kinds: tuple[type, ...],
    arguments: Sequence[str] | None,
    program: str,
    about: str | None = None,
    *,
    others: bool = False,
) -> tuple[Any, ...]:
    """Read settings from flags, ``--set group.key=value``, and the YAML file of ``--config``.

    Flags take precedence over ``--set``, and both over the file. A setting with a place (``setting``) is in a group, a
    mapping of the file; a bare value of a group sets its name, preset, urls, path or kind. Other settings are flat
    keys and flags. The file may contain ``env``, environment variables to set.

    ``--help`` explains the flags and lists the groups; ``--help GROUP`` explains a group, and ``--help all`` also the
    fields of other libraries' classes. A class may have these attributes: ``group_help``, a sentence about each of its
    groups; ``places``, other places of inherited settings; ``help_group``, the title of its flat settings; and
    ``unused``, inherited settings without effect, which are hidden.

    Args:
        kinds: Dataclasses of settings, the command's own first.
        arguments: Words of the command line, without the program (default: the arguments of this process).
        program: Name of the command as typed.
        about: Description for the help; line breaks are kept.
        others: Whether the file may also have settings of other classes, which are ignored.

    Returns:
        One object of each class.

    Raises:
        OSError: The file cannot be read.
        ValueError: A setting is unknown, a value is invalid, or the file is not YAML; the message names the fix.
        SystemExit: With status 0, after help was printed.
    """
    names = SettingNames(kinds)
    parser = _parser(kinds, names, program, about)
    words, paths = _split(sys.argv[1:] if arguments is None else arguments, "--config")
    words, given = _split(words, "--set")
    if len(paths) > 1:
        raise ValueError(f"--config takes one file, got {' and '.join(paths)}")
    settings: dict[str, Any] = {}
    for path in paths:
        read, as_words = _read_yaml(path)
        read.pop("env", None)
        for name, word in as_words.pop("env", {}).items():
            if not isinstance(word, str):
                raise ValueError(f"{path}: expected a text as env.{name}, got {word!r:.80}")
            os.environ[name] = word
        found, in_words = (names.flat(each, f"{path}: ", others=others) for each in (read, as_words))
        settings |= {name: _as_written(value, in_words[name], names.hints.get(name)) for name, value in found.items()}
    for text in given:
        assigned = names.flat(_assigned(text), SET)
        settings |= {name: _from_text(value, names.hints[name]) for name, value in assigned.items()}
    parser.set_defaults_with_config(**settings)
    # before the objects are made: otherwise a misspelt flag is reported as a missing required one
    unknown = parser.parse_known_args(words)[1]
    flags = [word.partition("=")[0] for word in unknown if word.startswith("-")]
    names.refuse_words(flags or unknown)
    return tuple(parser.parse_args_into_dataclasses(words, look_for_args_file=False))


def _parser(kinds: tuple[type, ...], names: SettingNames, program: str, about: str | None) -> Any:
    """Return TRL's parser of the classes, with flat and common settings as flags."""
    from trl import TrlParser

    class Parser(TrlParser):  # type: ignore[misc]
        @staticmethod
        def _parse_dataclass_field(parser: argparse.ArgumentParser, field: Field[Any]) -> None:
            plain = copy.copy(field)  # TRL passes all of a field's metadata to argparse
            kept = {key: value for key, value in field.metadata.items() if key not in (PLACE, COMMON)}
            plain.metadata = MappingProxyType(kept)
            TrlParser._parse_dataclass_field(parser, plain)

    # no abbreviations: `--label` would be parsed as --labeler
    parser = Parser(
        kinds, prog=program, description=about, formatter_class=SettingFormatter, add_help=False, allow_abbrev=False
    )
    parser.usage = f"{program} [--config FILE.yaml] [--setting value ...] [--set group.key=value ...]"
    if not names.groups:
        parser.usage = parser.usage.rpartition(" [")[0]
    parser.error = _refuse  # one line, like all other errors, instead of argparse's usage page
    for option, action in list(parser._option_string_actions.items()):
        if action.dest not in names.flags:
            del parser._option_string_actions[option]  # the action itself stays, with default and type
            action.option_strings = [f"{SET}{names.places[action.dest]}"]  # for messages
    parser.add_argument("-h", f"--{HelpAction.name}", action=HelpAction, kinds=kinds, names=names)
    return parser


def _split(arguments: Sequence[str], flag: str) -> tuple[list[str], list[str]]:
    """Return the words without ``FLAG VALUE`` and ``FLAG=VALUE``, and the values."""
    words, values, left = [], [], iter(arguments)
    for word in left:
        if word != flag and not word.startswith(f"{flag}="):
            words.append(word)
            continue
        value = word.partition("=")[2] if word != flag else next(left, "")
        if not value:
            needed = (
                "the path of a YAML file" if flag == "--config" else "group.key=value, such as reader.dtype=float32"
            )
            raise ValueError(f"{flag} needs {needed}")
        values.append(value)
    return words, values


def _assigned(text: str) -> dict[str, Any]:
    """Return ``group.key=value`` as the equivalent YAML mapping, with the value as a text."""
    name, equals, value = text.partition("=")
    group, _, key = name.strip().partition(".")
    if not equals or not group:
        raise ValueError(f"--set {text}: expected group.key=value, such as --set reader.dtype=float32")
    return {group: {key: value} if key else value}


def _from_text(text: Any, hint: Any) -> Any:
    """Return a text parsed as YAML if the result fits the setting's type, else the text, such as a date or `off`."""
    if isinstance(text, list):  # the bare value of a group
        (text,) = text
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        return text
    if get_origin(hint) is list:
        value = value if isinstance(value, list) else [value]
        return value if fits(value, hint) else [text]
    # a text that is empty, or one of YAML's signs alone, such as |
    blank = (value is None and text.strip() not in ("null", "~")) or (value == "" and text.strip() not in ("''", '""'))
    return value if fits(value, hint) and not blank else text


def _as_written(value: Any, word: Any, hint: Any) -> Any:
    """Return the word in the file, such as off, that YAML reads as a date or as true or false, if only it fits."""
    read_otherwise = isinstance(value, date) or (
        isinstance(value, bool) and str(word).lower() not in ("true", "false")
    )
    return word if read_otherwise and fits(word, hint) and not fits(value, hint) else value


class _WordsLoader(yaml.SafeLoader):
    """Reads all scalars as texts; merge keys (<<) work."""

    yaml_implicit_resolvers = {"<": yaml.SafeLoader.yaml_implicit_resolvers["<"]}  # noqa: RUF012


def _read_yaml(path: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the mapping in a YAML file, whose ``env``, if present, is also a mapping; and the same as words."""
    try:
        text = Path(path).read_text(encoding="utf-8")
        settings, words = yaml.safe_load(text), yaml.load(text, Loader=_WordsLoader)
    except FileNotFoundError as error:
        hint = "`seper-reward init` writes the bundled files into configs/"
        raise OSError(f"{path}: no such file; {hint}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or getattr(error, "reason", error)
        where = f"{path}, line {mark.line + 1}" if mark is not None else path
        raise ValueError(f"{where}: expected YAML in UTF-8, got {problem}; repair the file") from error
    if not isinstance(settings, dict) or not isinstance(settings.get("env", {}), dict):
        raise ValueError(
            f"{path} must contain a YAML mapping of settings, with a mapping as env if present, got {settings!r:.80}"
        )
    return settings, words


def _refuse(message: str) -> NoReturn:
    raise ValueError(message)
