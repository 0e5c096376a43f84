"""MkDocs hook: puts the help of every command into commands.md."""

import contextlib
import io
import os
from typing import Any

from seper_reward.cli import find_commands, main
from seper_reward.shipped import RECIPES

_MARKER = "<!-- commands -->"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Return the page with the help in place of the marker."""
    if _MARKER not in markdown:
        return markdown
    os.environ["COLUMNS"] = "100"  # argparse breaks lines at this width
    about = {name: command.about for name, command in find_commands().items()}
    about |= {f"train {name}": f"{text[0].upper()}{text[1:]}." for name, text in RECIPES.items()}
    rows = [
        "| command | |\n|---|---|",
        *(f"| [{name}](#{name.replace(' ', '-')}) | {text} |" for name, text in about.items()),
    ]
    helps = [f"## {name}\n\n```text\n{help_of(name.split())}```" for name in about]
    return markdown.replace(_MARKER, "\n".join(rows) + "\n\n" + "\n\n".join(helps))


def help_of(words: list[str]) -> str:
    """Return the output of ``seper-reward WORDS --help``."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
        main([*words, "--help"])
    return printed.getvalue().strip() + "\n"
