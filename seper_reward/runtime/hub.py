"""Errors of the model hub."""


def unreached_hub(error: BaseException | None) -> str:
    """Return the reason why the hub could not be reached, from a loader's error; "" for another error."""
    from huggingface_hub.errors import LocalEntryNotFoundError

    unreached = False
    while error is not None and error.__cause__ is not None:
        unreached = unreached or isinstance(error, LocalEntryNotFoundError)
        error = error.__cause__
    return f"the hub cannot be reached ({error})" if unreached else ""
