"""MkDocs hook: puts the help of every command into commands.md, and every public module into api.md."""

import ast
import contextlib
import io
import os
from pathlib import Path
from typing import Any

from seper_reward.cli import find_commands, main
from seper_reward.shipped import RECIPES

_COMMANDS, _MODULES = "<!-- commands -->", "<!-- modules -->"
PACKAGE = Path(__file__).parents[1] / "seper_reward"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Return the page with the help or the modules in place of the marker."""
    if _COMMANDS in markdown:
        markdown = markdown.replace(_COMMANDS, commands())
    return markdown.replace(_MODULES, modules()) if _MODULES in markdown else markdown


def commands() -> str:
    """Return a table of the commands, and the help of each."""
    os.environ["COLUMNS"] = "100"  # argparse breaks lines at this width
    about = {name: command.about for name, command in find_commands().items()}
    about |= {f"train {name}": f"{text[0].upper()}{text[1:]}." for name, text in RECIPES.items()}
    rows = [
        "| command | |\n|---|---|",
        *(f"| [{name}](#{name.replace(' ', '-')}) | {text} |" for name, text in about.items()),
    ]
    helps = [f"## {name}\n\n```text\n{help_of(name.split())}```" for name in about]
    return "\n".join(rows) + "\n\n" + "\n\n".join(helps)


def modules() -> str:
    """Return all modules with public functions or classes, by folder, with the first sentence about the folder."""
    lines: list[str] = []
    folder = None
    for path in sorted(PACKAGE.rglob("*.py"), key=lambda path: (path.parent != PACKAGE, path)):
        body = ast.parse(path.read_text(encoding="utf-8")).body
        if not any(isinstance(each, ast.FunctionDef | ast.ClassDef) and each.name[0] != "_" for each in body):
            continue
        inside = path.relative_to(PACKAGE).parts
        name = inside[0] if len(inside) > 1 else "seper_reward"
        if name != folder:
            folder = name
            first = PACKAGE / inside[0] / "__init__.py" if len(inside) > 1 else PACKAGE / "__init__.py"
            about = ast.get_docstring(ast.parse(first.read_text(encoding="utf-8"))) or ""
            lines.append(f"## {folder}\n\n{about.partition(chr(10))[0]}")
        file = path.parent if path.name == "__init__.py" else path.with_suffix("")
        lines.append(f"::: {'.'.join(file.relative_to(PACKAGE.parent).parts)}")
    return "\n\n".join(lines)


def help_of(words: list[str]) -> str:
    """Return the output of ``seper-reward WORDS --help``."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
        main([*words, "--help"])
    return printed.getvalue().strip() + "\n"
