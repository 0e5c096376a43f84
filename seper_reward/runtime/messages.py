"""Messages to the user of a command."""

import sys

from tqdm.auto import tqdm


def plural(number: int, noun: str) -> str:
    """Return a number with its noun.

    >>> plural(1, "row"), plural(0, "row"), plural(2, "search")
    ('1 row', '0 rows', '2 searches')
    """
    return f"{number} {noun}{'' if number == 1 else 'es' if noun.endswith('ch') else 's'}"


def say(text: str) -> None:
    """Write a line to standard error, above the progress bars; standard output is reserved for results."""
    tqdm.write(text, file=sys.stderr)


def say_once(text: str) -> None:
    """Write a line to standard error, on the main process only."""
    from seper_reward.runtime.distributed import process_state  # loads torch

    if process_state().is_main_process:
        say(text)


def tell_left_out(identity: str, reason: Exception) -> None:
    """Log on the main process that a question is left out of a measurement; all processes have the same reason."""
    say_once(f"question id={identity!r} is left out: {reason}")
