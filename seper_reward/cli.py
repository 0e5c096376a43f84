"""Command line: ``seper-reward label``, ``evaluate``, ``train``, ``export``, ``report`` and more.

A command is a module of `commands/`, `evaluate/` or `baselines/` with a function ``command``. The file name is the
name of the command, and the first line of the docstring its help. The function gets the command's options, of the
class in its signature (or the remaining arguments), and returns the next command for the user. Options are parsed
before the module is imported: help and errors need no torch.
"""

import difflib
import errno
import io
import os
import re
import sys
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import seper_reward.baselines.options as baseline_options
import seper_reward.options as options
from seper_reward.runtime.parser import parse_options, refuse_missing_files
from seper_reward.shipped import RECIPES, is_ours, run_recipe

_FOLDERS = {"commands": "", "evaluate": "evaluate ", "baselines": "baseline "}  # with the first word of their commands
_TRAIN = "train "
_FIRST = "label"  # in the list of commands; the rest is sorted
_RESUMING = {_FIRST, *(f"{_TRAIN}{name}" for name in RECIPES if name != "sft")}
_USAGE = """\
usage: seper-reward COMMAND [--config FILE.yaml] [--setting value ...] | --version

Measures how much retrieved passages change a reader model's belief in the right answer (ΔSePer).

commands:
{commands}

`seper-reward COMMAND --help` explains the settings. A YAML file given with --config has the same names; flags override
it. Several processes: torchrun --nproc_per_node 2 -m seper_reward label ...
"""


class Command(NamedTuple):
    """Module of a command, its help in one line, and the class of its options, if it does not parse its arguments."""

    module: str
    about: str
    options: type | None


def find_commands() -> dict[str, Command]:
    """Return the commands by name. Modules are not imported, since some load torch."""
    commands = {}
    for folder, first in _FOLDERS.items():
        for path in sorted((Path(__file__).parent / folder).glob("*.py")):
            code = path.read_text(encoding="utf-8")
            if "\ndef command(" in code:
                about = code.partition("\n")[0].strip('"')
                kind = re.search(r"\ndef command\(\w+: (\w+Options)\)", code)
                home = baseline_options if folder == "baselines" else options
                commands[first + path.stem.replace("_", "-")] = Command(
                    f"seper_reward.{folder}.{path.stem}", about, getattr(home, kind[1]) if kind else None
                )
    return {_FIRST: commands.pop(_FIRST)} | commands


def usage(commands: dict[str, Command]) -> str:
    """Return the list of commands, for ``--help``."""
    lines = {name: command.about.rstrip(".") for name, command in commands.items()}
    lines |= {_TRAIN + name: about for name, about in RECIPES.items()}
    return _USAGE.format(
        commands="\n".join(f"  {name:<24} {about[0].lower() + about[1:]}" for name, about in lines.items())
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return 0, or 2 after a message on invalid input or settings, or 130 after Ctrl-C."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # tables contain Δ and –, which some terminals cannot show
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments == ["--version"]:
        print(f"seper-reward {version('seper-reward')}")
        return 0
    commands = find_commands()
    names = [*commands, *(_TRAIN + name for name in RECIPES)]
    for words in (1, 2):
        name = " ".join(arguments[:words])
        if name in names:
            if name in commands:
                command = partial(run_command, name, commands[name])
            else:
                command = partial(run_recipe, name.removeprefix(_TRAIN))
            return run(name, command, arguments[words:])
    if {"-h", "--help"} & set(arguments):
        print(usage(commands))
        return 0
    if not arguments:
        print(usage(commands), file=sys.stderr)
        return 2
    groups = {name.partition(" ")[0] for name in names if " " in name}
    name = " ".join(arguments[: 2 if arguments[0] in groups else 1])
    nearest = [] if name.startswith("-") else difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f"did you mean {nearest[0]!r}?" if nearest else f"expected one of {', '.join(names)}"
    print(f"seper-reward: unknown command {name!r}; {hint} (seper-reward --help)", file=sys.stderr)
    return 2


def run_command(name: str, command: Command, arguments: list[str]) -> str:
    """Parse the options of a command, import its module and run it; return the next command for the user."""
    config: object = arguments
    if command.options is not None:
        (config,) = parse_options((command.options,), arguments, f"seper-reward {name}")
        refuse_missing_files(config)
    following: str = import_module(command.module).command(config)
    return following


def run(name: str, command: Callable[[list[str]], str], arguments: list[str]) -> int:
    """Run a command, print what to run next, and return its exit status; errors that a user can fix are one line."""
    try:
        following = command(arguments)
    except (OSError, ValueError) as error:
        # a message of ours helps; errors of other libraries need their traceback
        ours = is_ours(traceback.extract_tb(error.__traceback__)[-1].filename)
        if name.startswith(_TRAIN) and isinstance(error, ValueError) and not ours:
            raise
        full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
        hint = "; finished work is kept: free some space and run the same command again" if full else ""
        print(f"seper-reward {name}: {error}{hint}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        hint = "; finished work stays on disk, and the same command resumes" if name in _RESUMING else ""
        print(f"\nseper-reward {name}: interrupted{hint}", file=sys.stderr)
        return 130
    if following and os.environ.get("RANK", "0") == "0":
        print(f"next: {following}", file=sys.stderr)  # stderr: stdout may be parsed as JSON
    return 0
