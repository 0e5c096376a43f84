"""Messages to whoever runs a command."""

import sys

from tqdm.auto import tqdm


def say(text: str) -> None:
    """Write a line to standard error, above the progress bars; standard output may hold results."""
    tqdm.write(text, file=sys.stderr)
