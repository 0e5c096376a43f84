"""Put the tables of `make marks` into pages: python docs/refresh_tables.py results readme.

Between `<!-- NAME -->` and `<!-- end of NAME -->` stands NAME.md of runs/marks. The sentences around a table are
written by hand: read them again when its numbers change.
"""

import re
import sys
from pathlib import Path

DOCS = Path(__file__).parent
MARKS = DOCS.parent / "runs" / "marks"
PAGES = {"results": DOCS / "results.md", "readme": DOCS.parent / "README.md"}


def refreshed(page: str, folder: Path) -> str:
    """Return the page with the tables of a folder.

    Raises:
        OSError: A table that the page names is not there.
    """

    def block(match: re.Match[str]) -> str:
        name = match[1]
        text = squeezed((folder / f"{name}.md").read_text(encoding="utf-8").strip())
        return f"<!-- {name} -->\n\n{text}\n\n<!-- end of {name} -->"

    return re.sub(r"<!-- (\w+) -->.*?<!-- end of \1 -->", block, page, flags=re.DOTALL)


def squeezed(text: str) -> str:
    """Return Markdown whose tables are not padded."""
    return re.sub(
        r"^\|.*", lambda row: re.sub(r"-{4,}", "---", re.sub(r" {2,}\|", " |", row[0])), text, flags=re.MULTILINE
    )


def main(names: list[str]) -> int:
    """Refresh the pages of these names, all by default; return 0."""
    for page in (PAGES[name] for name in names or PAGES):
        page.write_text(refreshed(page.read_text(encoding="utf-8"), MARKS), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
