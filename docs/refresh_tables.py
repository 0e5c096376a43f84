"""Put the tables of `make marks` into pages: python docs/refresh_tables.py results readme.

Between `<!-- NAME -->` and `<!-- end of NAME -->` stands NAME.md of the page's folder, or its paragraphs that `SHOWN`
names.
The sentences around a table are written by hand: read them again when its numbers change. Figures are copied, too.
"""

import re
import shutil
import sys
from pathlib import Path

DOCS = Path(__file__).parent
RUNS = DOCS.parent / "runs"
PAGES = {
    "results": (DOCS / "results.md", RUNS / "marks"),
    "readme": (DOCS.parent / "README.md", RUNS / "marks"),
}
# Paragraphs of a long file that the page shows, counted from 0; a table is one paragraph.
SHOWN = {"correlation": (0,)}


def refreshed(page: str, folder: Path) -> str:
    """Return the page with the tables of a folder.

    Raises:
        OSError: A table that the page names is not there.
    """

    def block(match: re.Match[str]) -> str:
        name = match[1]
        text = shown(name, squeezed((folder / f"{name}.md").read_text(encoding="utf-8").strip()))
        return f"<!-- {name} -->\n\n{text}\n\n<!-- end of {name} -->"

    return re.sub(r"<!-- (\w+) -->.*?<!-- end of \1 -->", block, page, flags=re.DOTALL)


def squeezed(text: str) -> str:
    """Return Markdown whose tables are not padded."""
    return re.sub(
        r"^\|.*", lambda row: re.sub(r"-{4,}", "---", re.sub(r" {2,}\|", " |", row[0])), text, flags=re.MULTILINE
    )


def shown(name: str, text: str) -> str:
    """Return the paragraphs of a table's text that the page shows: those in `SHOWN`, or all.

    Raises:
        IndexError: The text has fewer paragraphs than `SHOWN` names.
    """
    paragraphs = text.split("\n\n")
    return "\n\n".join(paragraphs[place] for place in SHOWN.get(name, range(len(paragraphs))))


def main(names: list[str]) -> int:
    """Refresh the pages of these names and their figures; return 0."""
    for page, folder in (PAGES[name] for name in names or PAGES):
        text = refreshed(page.read_text(encoding="utf-8"), folder)
        for name in re.findall(r"figures/table-(\w+)\.svg", text):
            shutil.copy(folder / f"{name}.svg", DOCS / "figures" / f"table-{name}.svg")
        page.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
