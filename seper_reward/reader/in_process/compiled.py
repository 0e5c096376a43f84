"""A model compiled by ``torch.compile``; the model itself stays as it is."""

import warnings
from collections.abc import Callable
from typing import Any

import torch

# most kinds of input that are compiled separately; torch's own limit, 8, is too low for sampling
_KINDS = 64


class CompiledModel:
    """A model whose calls are compiled for inputs of any shape; all else is the model's own."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._compiled: Any = torch.compile(model.forward, dynamic=True)

    def __call__(self, **inputs: Any) -> Any:
        """Call the compiled model."""
        dynamo: Any = torch._dynamo.config
        with dynamo.patch(recompile_limit=_KINDS):
            return self._compiled(**inputs)

    def __getattr__(self, name: str) -> Any:
        """Return the model's attribute."""
        return getattr(self._model, name)


def compiled_if_it_works(model: Any, use: Callable[[Any], Any]) -> Any:
    """Return the compiled model or, with a warning that tells why not, the model itself.

    Args:
        model: A module in eval mode.
        use: Calls the compiled model in every way it will be called, which takes minutes; raises if a call fails.
    """
    compiled = CompiledModel(model)
    try:
        use(compiled)
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # tracing fails, or no compiler works: the model itself still does
        reason = "".join(str(error).strip().splitlines()[:1])
        warnings.warn(f"the reader is not compiled: {type(error).__name__}: {reason}", stacklevel=2)
        return model
    return compiled
