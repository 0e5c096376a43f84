"""Forward passes of models that are only read."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def inference() -> Iterator[None]:
    """Compute without gradients and, on a GPU, without cuDNN's attention; also a decorator of functions.

    cuDNN plans attention for each new shape, in about a tenth of a second. Decoding steps and batches of unequal texts
    rarely repeat a shape.
    """
    allowed: bool = torch.backends.cuda.cudnn_sdp_enabled()  # type: ignore[no-untyped-call]
    torch.backends.cuda.enable_cudnn_sdp(False)
    try:
        with torch.no_grad():
            yield
    finally:
        torch.backends.cuda.enable_cudnn_sdp(allowed)
