"""`torch.compile` of a model, beside the model itself, which stays as it is."""

import warnings
from collections.abc import Callable
from typing import Any

import torch

_KINDS = 64  # of inputs that may each be compiled; torch's own limit, 8, is below what sampling has


class CompiledModel:
    """A model whose calls are compiled for inputs of any shape; all else is the model's own."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._compiled: Any = torch.compile(model.forward, dynamic=True)

    def __call__(self, **inputs: Any) -> Any:
        """Call the model."""
        dynamo: Any = torch._dynamo.config
        with dynamo.patch(recompile_limit=_KINDS):
            return self._compiled(**inputs)

    def __getattr__(self, name: str) -> Any:
        """Return the model's attribute."""
        return getattr(self._model, name)


def compiled_if_it_works(model: Any, use: Callable[[Any], Any]) -> Any:
    """Return the model compiled or, with a warning that tells why, the model itself.

    Args:
        model: a module in eval mode.
        use: uses the compiled model as it will be used, which takes the minutes of compiling; raises if that fails.
    """
    compiled = CompiledModel(model)
    try:
        use(compiled)
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # of tracing, of a compiler that is absent or fails: the model works in any case
        reason = "".join(str(error).strip().splitlines()[:1])
        warnings.warn(f"the reader is not compiled: {type(error).__name__}: {reason}", stacklevel=2)
        return model
    return compiled
