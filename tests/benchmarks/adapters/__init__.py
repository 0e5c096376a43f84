"""Training data and scores of the two adapters that ship."""

from pathlib import Path
from types import SimpleNamespace

import yaml


def vocabulary(section: str) -> SimpleNamespace:
    """Return the lists of a section of ``words.yaml`` as attributes."""
    return SimpleNamespace(
        **yaml.safe_load(Path(__file__).with_name("words.yaml").read_text(encoding="utf-8"))[section]
    )
