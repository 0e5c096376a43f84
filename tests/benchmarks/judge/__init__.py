"""The project's own texts to measure a judge on: traps, near values, guesses, qualifiers and wordings."""

import json
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

EQUIVALENCE = Path(__file__).with_name("equivalence.jsonl")
WORDINGS = Path(__file__).with_name("wordings.jsonl")


def print_texts(description: str | None, texts: Iterable[Mapping[str, object]], argv: Sequence[str] | None) -> None:
    """Print texts as JSON lines for ``evaluate judge``: the command of a module with this description."""
    ArgumentParser(description=description, formatter_class=RawDescriptionHelpFormatter).parse_args(argv)
    for row in texts:
        print(json.dumps(row, ensure_ascii=False))
