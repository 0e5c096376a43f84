"""Help texts: flags by defining class, and settings by group."""

import argparse
import copy
import inspect
import shutil
import textwrap
from collections.abc import Sequence
from dataclasses import fields
from typing import Any, NoReturn, get_args

from seper_reward.runtime.setting_names import SettingNames

_OWN = "settings of this command"
_TRAINER = "the trainer"
_LIBRARIES = ("transformers", "trl", "sentence_transformers")  # their arguments are shown by --help all
# arguments of these libraries that most trainings set; the brief help also shows them
_COMMON = {
    "output_dir", "seed", "learning_rate", "num_train_epochs", "max_steps", "per_device_train_batch_size",
    "gradient_accumulation_steps", "bf16", "logging_steps", "save_steps", "report_to", "run_name", "num_generations",
    "max_completion_length", "beta", "loss_type",
}  # fmt: skip
ALL = "all"  # word after --help
_METAVARS = {int: "N", float: "X", bool: "true|false"}  # placeholder of a flag's value; TEXT for other types


class HelpAction(argparse.Action):
    """``--help``: explains the flags and lists the groups; ``--help GROUP`` or ``all`` explains the rest."""

    name = "help"

    def __init__(self, option_strings: Sequence[str], dest: str, kinds: tuple[type, ...], names: SettingNames) -> None:
        super().__init__(option_strings, dest=argparse.SUPPRESS, default=argparse.SUPPRESS, nargs="?")
        self.metavar = "GROUP" if names.groups else ALL
        self.help = "Help on the flags, on the settings of a GROUP, or on 'all' settings."
        self._kinds, self._names = kinds, names

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> NoReturn:
        """Print the help and exit."""
        if values not in (None, ALL, *self._names.groups):
            known = f"one of {', '.join(self._names.groups)}, {ALL}" if self._names.groups else repr(ALL)
            parser.error(f"--help {values}: expected nothing or {known} after it")
        sections = _Sections(parser, self._kinds, self._names)
        parser._action_groups = []
        if values in self._names.groups:
            parser.description = None
            sections.add_group(values)
        else:
            sections.add_flags(everything=values == ALL)
            for group in self._names.groups if values == ALL else ():
                sections.add_group(group)
            parser.epilog = None if values == ALL else sections.rest()
        parser.print_help()
        parser.exit()


class _Sections:
    """Sections of a help text: the flags by defining class, and the groups."""

    def __init__(self, parser: argparse.ArgumentParser, kinds: tuple[type, ...], names: SettingNames) -> None:
        self._parser, self._kinds, self._names = parser, kinds, names
        unused = {name for kind in kinds for name in getattr(kind, "unused", ())}
        # --no_NAME is the same as --NAME false
        negations = argparse._StoreTrueAction | argparse._StoreFalseAction
        self._actions = {
            each.dest: each for each in parser._actions if each.dest not in unused and not isinstance(each, negations)
        }
        for name, action in self._actions.items():
            if action.choices is None and action.metavar is None:
                hint = names.hints[name]
                action.metavar = next(
                    (_METAVARS[each] for each in (hint, *get_args(hint)) if each in _METAVARS), "TEXT"
                )
        self._hidden: dict[str, int] = {}

    def add_flags(self, *, everything: bool) -> None:
        """Add all flags; flags of libraries only if ``everything``, else they are counted."""
        sections: dict[str, list[argparse.Action]] = {title: [] for kind in self._kinds for title in _titles(kind)}
        owners = {name: _owner(kind, name) for kind in self._kinds for name in _by_class(kind)}
        for name in (*owners, argparse.SUPPRESS):  # the last one is --help's
            if name not in self._actions:
                continue
            action = self._actions[name]
            title, library = owners.get(name, (_OWN, None))
            if library is not None and name in _COMMON:
                title, library = _TRAINER, None
            if library is not None and not everything:
                self._hidden[library] = self._hidden.get(library, 0) + 1
            elif name in self._names.flags or name not in owners:
                sections.setdefault(title, []).append(action)
        for title, actions in sections.items():
            self._add(title, actions)

    def add_group(self, group: str) -> None:
        """Add all settings of a group."""
        actions = []
        for key, name in self._names.groups[group].items():
            if name in self._actions:
                action = copy.copy(self._actions[name])
                flags = [f"--{name}"] if self._names.places[name].common else []
                action.option_strings = [key, *flags]
                actions.append(action)
        self._add(
            f"{group} (YAML: {group}: {{key: value}}; command line: --set {group}.key=value)",
            actions,
            self._names.about.get(group),
        )

    def _add(self, title: str, actions: Sequence[argparse.Action], about: str | None = None) -> None:
        if actions:
            self._parser.add_argument_group(title, about)._group_actions.extend(actions)

    def rest(self) -> str | None:
        """Return the list of groups and the number of hidden arguments."""
        width = shutil.get_terminal_size().columns - 2
        lines = []
        for group, keys in self._names.groups.items():
            if shown := [key for key, name in keys.items() if name in self._actions]:
                lines.append(f"{group}: {', '.join(shown)}")
        text = [textwrap.fill(line, width, initial_indent="  ", subsequent_indent="    ") for line in lines]
        if text:
            text.insert(0, "groups of settings, for the YAML file or --set (--help GROUP explains them):")
        if self._hidden:
            names = ", ".join(self._hidden)
            text.append(f"{sum(self._hidden.values())} more arguments ({names}): {self._parser.prog} --help all")
        return "\n".join(text) or None


def _owner(kind: type, name: str) -> tuple[str, str | None]:
    """Return the section of a field, by the last class that defines it, and the library if it is not ours."""
    owner = next(base for base in kind.__mro__ if name in inspect.get_annotations(base))
    library = owner.__module__.partition(".")[0]
    if library in _LIBRARIES:
        return f"{owner.__name__} of {library}", library
    return vars(owner).get("help_group", _OWN), None


def _by_class(kind: type) -> list[str]:
    """Return the fields of a class: its own first, then inherited ones."""
    known = {each.name: None for each in fields(kind)}
    if any(base.__module__.partition(".")[0] in _LIBRARIES for base in kind.__mro__):
        return list(known)  # in the library's order, which begins with output_dir
    return [name for base in kind.__mro__ for name in inspect.get_annotations(base) if name in known]


def _titles(kind: type) -> list[str]:
    """Return the sections of a class and its bases, its own first."""
    return [_owner(base, name)[0] for base in kind.__mro__ for name in inspect.get_annotations(base)]


class SettingFormatter(argparse.ArgumentDefaultsHelpFormatter):
    """Keeps line breaks of a description, and shows one spelling of each setting."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if "\n" in text else super()._fill_text(text, width, indent)

    def _get_help_string(self, action: argparse.Action) -> str | None:
        """Append the default unless it is ``None`` or empty, whose meaning the help text explains."""
        return action.help if action.default in (None, []) else super()._get_help_string(action)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        """Show the value once, after all spellings."""
        shown = [each for each in action.option_strings if "-" not in each[2:]]
        value = self._format_args(action, self._get_default_metavar_for_optional(action))
        return f"{', '.join(shown)} {value}".rstrip()
