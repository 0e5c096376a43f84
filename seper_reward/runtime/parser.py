"""Command lines: settings from flags and a YAML file, help by group, and errors that name the nearest setting."""

import argparse
import copy
import difflib
import inspect
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, NoReturn, get_args, get_type_hints

import yaml

_OWN = "settings of this command"
_TRAINER = "the trainer"
_LIBRARIES = ("transformers", "trl", "sentence_transformers")  # what they define is shown by --help all
# arguments of theirs that most trainings set: brief help shows them, too
_COMMON = {
    "output_dir", "seed", "learning_rate", "num_train_epochs", "max_steps", "per_device_train_batch_size",
    "gradient_accumulation_steps", "bf16", "logging_steps", "save_steps", "report_to", "run_name", "num_generations",
    "max_completion_length", "beta", "loss_type",
}  # fmt: skip
_ALL = "all"  # word behind --help
_METAVARS = {int: "N", float: "X", bool: "true|false"}  # what is typed behind a flag; TEXT for all others


def parse_settings(
    kinds: tuple[type, ...], arguments: Sequence[str] | None, program: str, about: str | None = None
) -> tuple[Any, ...]:
    """Read settings from flags, and from the YAML file that ``--config`` names; flags win.

    ``--help`` prints them by group: a class says in ``help_group`` which group its fields belong to, in ``unused``
    which inherited fields do nothing, which are not shown, and in ``former`` the replacements of removed settings.
    Fields of other libraries' classes are shown by ``--help all``. The file may hold ``env``, environment variables to
    set.

    Args:
        kinds: Dataclasses of settings, those of the command first.
        arguments: Words of the command line, without the program; ``None`` takes those of this process.
        program: Name of the command, as one types it.
        about: Description for the help; one of several lines is shown as it is.

    Returns:
        One object of each class.

    Raises:
        OSError: The file cannot be read.
        ValueError: A setting is unknown or its value unfit, or the file is not YAML; the message says what to do.
        SystemExit: With status 0, after help was printed.
    """
    from trl import TrlParser

    parser = TrlParser(kinds, prog=program, description=about, formatter_class=_Formatter, add_help=False)
    parser.usage = f"{program} [--config FILE.yaml] [--setting value ...]"
    parser.error = _refuse  # one line, as for all other errors, instead of argparse's page of usage
    parser.add_argument("-h", f"--{_Help.name}", action=_Help, kinds=kinds)
    words, path = _split_config(sys.argv[1:] if arguments is None else arguments)
    settings = _read_yaml(path) if path is not None else {}
    for name, value in settings.pop("env", {}).items():
        os.environ[name] = str(value)
    known = {action.dest for action in parser._actions}
    former = {name: text for kind in kinds for name, text in getattr(kind, "former", {}).items()}
    _check_names([name for name in settings if name not in known], known, former, f"{path}: unknown setting ")
    parser.set_defaults_with_config(**settings)
    # before the objects are made: a misspelt flag would be reported as a required one that is missing
    unknown = parser.parse_known_args(words)[1]
    flags = [word.partition("=")[0] for word in unknown if word.startswith("-")]
    _check_names(flags or unknown, known, former, "unknown setting ", "--")
    return tuple(parser.parse_args_into_dataclasses(words, look_for_args_file=False))


def _split_config(arguments: Sequence[str]) -> tuple[list[str], str | None]:
    """Return the words without ``--config FILE`` or ``--config=FILE``, and the file."""
    words = [part for word in arguments for part in (word.split("=", 1) if word.startswith("--config=") else [word])]
    if "--config" not in words:
        return words, None
    place = words.index("--config")
    if place + 1 == len(words):
        raise ValueError("--config needs the path of a YAML file")
    return words[:place] + words[place + 2 :], words[place + 1]


def _read_yaml(path: str) -> dict[str, Any]:
    """Return the mapping in a YAML file, whose ``env`` is one, too, if there."""
    try:
        settings = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        hint = "`seper-reward init` writes those that ship into configs/"
        raise OSError(f"{path}: no such file; {hint}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or getattr(error, "reason", error)
        where = f"{path}, line {mark.line + 1}" if mark is not None else path
        raise ValueError(f"{where}: expected YAML in UTF-8, got {problem}; repair the file") from error
    if not isinstance(settings, dict) or not isinstance(settings.get("env", {}), dict):
        raise ValueError(
            f"{path} must contain a YAML mapping of settings, and env in it one, too, got {settings!r:.80}"
        )
    return settings


def _check_names(
    unknown: Sequence[str], known: set[str], former: Mapping[str, str], begin: str, dashes: str = ""
) -> None:
    """Refuse unknown names, each with the replacement of a removed setting, or with the nearest known one."""
    said = []
    for word in unknown:
        name = word.strip("-").replace("-", "_")
        nearest = difflib.get_close_matches(name, known, n=1)
        hint = f", did you mean '{dashes}{nearest[0]}'?" if nearest else ""
        said.append(repr(word) + (f", which was removed; {former[name]}" if name in former else hint))
    if said:
        raise ValueError(f"{begin}{'; '.join(said)} (--help explains all settings)")


def _refuse(message: str) -> NoReturn:
    raise ValueError(message)


class _Help(argparse.Action):
    """``--help`` by group, and ``--help all`` with what other libraries define."""

    name = "help"

    def __init__(self, option_strings: Sequence[str], dest: str, kinds: tuple[type, ...]) -> None:
        super().__init__(option_strings, dest=argparse.SUPPRESS, default=argparse.SUPPRESS, nargs="?")
        self.metavar, self.help = _ALL, "Show this; 'all' shows the arguments of other libraries, too."
        self._kinds = kinds

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> NoReturn:
        """Print the help and exit."""
        if values not in (None, _ALL):
            parser.error(f"--help {values}: expected nothing or {_ALL!r} behind it")
        hidden = _group(parser, self._kinds, everything=values == _ALL)
        if hidden:
            parser.epilog = f"{sum(hidden.values())} more arguments ({', '.join(hidden)}): {parser.prog} --help all"
        parser.print_help()
        parser.exit()


def _group(parser: argparse.ArgumentParser, kinds: tuple[type, ...], *, everything: bool) -> dict[str, int]:
    """Sort a parser's actions into groups; return the number of hidden ones by the library that defines them."""
    places = {field.name: _place(kind, field.name) for kind in kinds for field in fields(kind)}
    types = {name: hint for kind in kinds for name, hint in get_type_hints(kind).items()}
    groups: dict[str, list[argparse.Action]] = {title: [] for kind in kinds for title in _titles(kind)}
    hidden: dict[str, int] = {}
    unused = {name for kind in kinds for name in getattr(kind, "unused", ())}
    for action in parser._actions:
        if action.dest in unused:
            continue
        title, library = places.get(action.dest, (_OWN, None))
        if isinstance(action, argparse._StoreTrueAction | argparse._StoreFalseAction):
            continue  # --no_NAME says the same as --NAME false
        if library is not None and action.dest in _COMMON:
            title, library = _TRAINER, None
        if library is not None and not everything:
            hidden[library] = hidden.get(library, 0) + 1
            continue
        if action.choices is None and action.metavar is None:
            hint = types[action.dest]
            action.metavar = next((_METAVARS[each] for each in (hint, *get_args(hint)) if each in _METAVARS), "TEXT")
        groups.setdefault(title, []).append(action)
    parser._action_groups = []
    for title, actions in groups.items():
        if actions:
            parser.add_argument_group(title)._group_actions.extend(actions)
    return hidden


def _place(kind: type, name: str) -> tuple[str, str | None]:
    """Return the group of a field by the last class that defines it, and its library if that is another one."""
    owner = next(base for base in kind.__mro__ if name in inspect.get_annotations(base))
    library = owner.__module__.partition(".")[0]
    if library in _LIBRARIES:
        return f"{owner.__name__} of {library}", library
    return vars(owner).get("help_group", _OWN), None


def _titles(kind: type) -> list[str]:
    """Return the groups of a class and of those it is made of, its own first."""
    return [_place(base, name)[0] for base in kind.__mro__ for name in inspect.get_annotations(base)]


class _Formatter(argparse.ArgumentDefaultsHelpFormatter):
    """Keeps the lines of a description that has several, and shows one spelling of each setting."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if "\n" in text else super()._fill_text(text, width, indent)

    def _get_help_string(self, action: argparse.Action) -> str | None:
        """Name the default, unless it is nothing: the text then says what that means."""
        return action.help if action.default in (None, []) else super()._get_help_string(action)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        shown = copy.copy(action)
        shown.option_strings = [each for each in action.option_strings if "-" not in each[2:]]
        return super()._format_action_invocation(shown)
