"""Messages to whoever runs a command."""

import sys

from tqdm.auto import tqdm


def say(text: str) -> None:
    """Write a line to standard error, above the progress bars; standard output may hold results."""
    tqdm.write(text, file=sys.stderr)


def say_once(text: str) -> None:
    """Write a line as ``say`` does, on the main process only."""
    from seper_reward.runtime.distributed import process_state  # loads torch

    if process_state().is_main_process:
        say(text)


def tell_left_out(identity: str, reason: Exception) -> None:
    """Write on the main process why the question with this id is left out of a measurement.

    Args:
        identity: The question's id.
        reason: Error of the question, which all processes have: measurements are gathered.
    """
    say_once(f"question id={identity!r} is left out: {reason}")
