"""Options from flags and YAML files, by TRL's parser; this module adds one-line errors with the nearest name."""

import argparse
import copy
import difflib
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NoReturn

#: Settings that name files to read, and the ends of such names; other values may be ids on the hub.
_READ = ("input", "file", "files", "corpus", "run", "qrels", "rollouts", "labels")
_FILES = (".jsonl", ".json", ".csv", ".tsv", ".parquet", ".arrow", ".txt", ".trec", ".run")


def parse_options(
    kinds: Sequence[type], arguments: Sequence[str] | None, program: str, *, others: bool = False
) -> tuple[Any, ...]:
    """Read options with ``trl.TrlParser``: flat names, the YAML file of ``--config``, and flags, which override it.

    Args:
        kinds: Dataclasses of options, the command's own first; an object of each is returned.
        arguments: Words of the command line, without the program (default: the arguments of this process).
        program: Name of the command as typed.
        others: Whether options of other classes may be given, too; they are ignored.
    """
    import yaml  # here: the version and the list of commands load no library
    from trl import TrlParser

    class Parser(TrlParser):  # type: ignore[misc]
        def error(self, message: str) -> NoReturn:  # one line instead of argparse's usage page
            raise ValueError(message)

        def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
            return super().parse_known_args(args, _Shared())  # type: ignore[no-any-return]

    about = " ".join(str(kind.__doc__) for kind in kinds)
    about += " --config FILE.yaml reads any of these settings from a file; flags override it."
    # no abbreviations: `--label` would be parsed as --labeler; kinds share settings of one name, such as the seed
    rules = {"allow_abbrev": False, "conflict_handler": "resolve"}
    parser = Parser(kinds, prog=program, description=about, formatter_class=_Formatter, **rules)
    parser.usage = f"{program} [--config FILE.yaml] [--setting value ...]"
    bases = [base for kind in kinds for base in kind.__mro__]
    own_first = [name for base in bases for name in vars(base).get("__annotations__", {})]
    parser._optionals._group_actions.sort(
        key=lambda action: own_first.index(action.dest) if action.dest in own_first else -1
    )
    words = list(sys.argv[1:] if arguments is None else arguments)
    at = words.index("--config") if "--config" in words else len(words)
    path = "".join(words[at + 1 : at + 2])
    if at < len(words) and not path:
        raise ValueError("--config needs the path of a YAML file")
    if path:
        _refuse_twice(path)
    try:
        if path and {"-h", "--help"} & set(words):
            settings = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
            if isinstance(settings, dict):  # help shows the file's values as defaults
                parser.set_defaults_with_config(**settings)
        # before the objects are made: otherwise a misspelt flag is reported as a missing required one
        unknown = parser.parse_known_args(words[:at] + words[at + 2 :])[1]
        if not others:
            _refuse("", unknown, parser)
        *options, more, _ = parser.parse_args_and_config(
            words, return_remaining_strings=True, separate_remaining_strings=True
        )
    except FileNotFoundError as error:
        raise OSError(f"{path}: no such file; `seper-reward init` writes the bundled files into configs/") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: expected YAML in UTF-8, got {' '.join(str(error).split())}") from error
    if not others:
        _refuse(f"{path}: ", more[::2], parser)
    return tuple(options[: len(kinds)])


def refuse_missing_files(options: object) -> None:
    """Raise ``FileNotFoundError`` if a file to read does not exist, before the command loads its libraries."""
    for name in _READ:
        values = getattr(options, name, None)
        for value in values if isinstance(values, (list, tuple)) else [values]:
            file = Path(value) if isinstance(value, str) else Path()
            if name == "labels" and isinstance(value, str) and not file.suffix:
                file /= "labels.jsonl"
                missing = not file.parent.exists()
            else:
                missing = file.name.removesuffix(".gz").endswith(_FILES) and not file.exists()
            if missing:
                raise FileNotFoundError(f"{file}: no such file or folder; correct {name}")


def _refuse_twice(path: str) -> None:
    """Raise for a name that stands twice in a YAML file, of which the parser would use the last."""
    import yaml

    try:
        settings = yaml.compose(Path(path).read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError, UnicodeDecodeError):
        return  # the parser reports it
    if not isinstance(settings, yaml.MappingNode):
        return
    names = [(name.value, name.start_mark.line + 1) for name, _ in settings.value]
    for place, (name, line) in enumerate(names):
        for other, first in names[:place]:
            if name == other:
                raise ValueError(f"{path}: {name} stands twice, in lines {first} and {line}; remove one")


def _refuse(where: str, words: Iterable[str], parser: argparse.ArgumentParser) -> None:
    """Raise for unknown words, with the nearest option of each."""
    words = list(words)
    hints = []
    for word in [word for word in words if word.startswith("--")] or words:
        flag = word.partition("=")[0].replace("-", "_").replace("__", "--", 1)
        nearest = difflib.get_close_matches(flag, parser._option_string_actions, n=1)
        hints.append(f"{word!r}" + (f", did you mean {nearest[0]!r}?" if nearest else ""))
    if hints:
        message = "; ".join(hints)
        message = message.replace("--", "") if where else message
        raise ValueError(f"{where}unknown setting {message} (--help explains all settings)")


class _Shared(argparse.Namespace):
    """Values that stay for the next kind of options; the parser of TRL deletes those that a kind has taken."""

    def __delattr__(self, name: str) -> None:
        pass


class _Formatter(argparse.ArgumentDefaultsHelpFormatter):
    """Adds defaults, except for options whose help explains what ``None`` or an empty list means."""

    def _format_action_invocation(self, action: argparse.Action) -> str:
        shown = copy.copy(action)  # TRL also accepts --num-samples
        shown.option_strings = [option for option in action.option_strings if "-" not in option.lstrip("-")]
        return super()._format_action_invocation(shown)

    def _get_help_string(self, action: argparse.Action) -> str | None:
        return action.help if action.default in (None, [], "", argparse.SUPPRESS) else super()._get_help_string(action)
