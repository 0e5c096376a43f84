"""Griffe extension: shows the examples of docstrings (``>>>``) as code, where Markdown would see quotations."""

import re
from typing import Any

from griffe import Extension, Object

# a paragraph that starts with a prompt, up to the next empty line
_EXAMPLE = re.compile(r"^>>> .*(?:\n(?!\s*$).*)*", re.MULTILINE)


class Doctests(Extension):
    """Puts each example into a section ``Examples`` of its docstring, which mkdocstrings shows as code."""

    def on_instance(self, *, obj: Object, **_: Any) -> None:
        """Change the docstring of one object before it is parsed."""
        if obj.docstring is not None:
            obj.docstring.value = _EXAMPLE.sub(_as_section, obj.docstring.value)


def _as_section(found: re.Match[str]) -> str:
    return "Examples:\n" + "\n".join(f"    {line}" for line in found[0].splitlines())
