"""MkDocs hook: the help of every command in commands.md, every public module in api.md, and notebooks as pages."""

import ast
import contextlib
import io
import json
import os
import re
from pathlib import Path
from typing import Any

from seper_reward.cli import find_commands, main
from seper_reward.shipped import RECIPES

_COMMANDS, _MODULES = "<!-- commands -->", "<!-- modules -->"
PACKAGE = Path(__file__).parents[1] / "seper_reward"


#: Ends of the theme's media queries, from 1,220 px and below them, and ours, of 1,100 px.
_SIDEBAR_FROM = {"76.25em": "68.75em", "76.234375em": "68.734375em"}


def on_files(files: Any, config: Any) -> Any:
    """Add each notebook as a page."""
    from mkdocs.structure.files import File

    for file in [each for each in files if each.src_uri.endswith(".ipynb")]:
        content = notebook_page(Path(file.abs_src_path).read_text(encoding="utf-8"), file.src_uri)
        files.append(File.generated(config, page_of(file.src_uri), content=content))
    return files


def page_of(notebook: str) -> str:
    """Return the name of a notebook's page; quickstart.html may be the first page of the site."""
    return notebook.replace("quickstart.ipynb", "quickstart_notebook.ipynb").replace(".ipynb", ".md")


def notebook_page(notebook: str, name: str) -> str:
    """Return the Markdown of a notebook, whose code has no outputs in the repository."""
    parts = []
    for cell in json.loads(notebook)["cells"]:
        source = "".join(cell["source"])
        shell = source.startswith(("!", "%"))
        code = f"```{'bash' if shell else 'python'}\n{source}\n```"
        parts.append(source if cell["cell_type"] == "markdown" else code)
    return "\n\n".join([*parts, f"[Download this notebook]({name})"])


def on_post_build(config: Any) -> None:
    """Show the navigation on windows of 1,100 px as well; the theme has it from 1,220 px on."""
    for path in Path(config.site_dir, "assets", "stylesheets").glob("*.css"):
        css = path.read_text(encoding="utf-8")
        for theirs, ours in _SIDEBAR_FROM.items():
            css = css.replace(theirs, ours)
        path.write_text(css, encoding="utf-8")


def on_page_markdown(markdown: str, page: Any = None, **_: Any) -> str:
    """Return the page with the help or the modules in place of the marker, and links to the pages of notebooks."""
    if "Download this notebook" not in markdown:
        markdown = re.sub(r"\]\((\w+\.ipynb)\)", lambda link: f"]({page_of(link[1])})", markdown)
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
