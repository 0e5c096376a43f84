"""Forward passes without gradients."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

_lock = threading.Lock()
_inside, _allowed = 0, True  # number of blocks that run, in all threads, and the setting before the first


@contextmanager
def inference() -> Iterator[None]:
    """Compute without gradients and, on a GPU, without cuDNN's attention; also a decorator of functions."""
    # cuDNN plans attention for each new shape, and shapes rarely repeat; PyTorch has the setting for the process
    global _inside, _allowed
    with _lock:
        if not _inside:
            _allowed = torch.backends.cuda.cudnn_sdp_enabled()  # type: ignore[no-untyped-call]
            torch.backends.cuda.enable_cudnn_sdp(False)
        _inside += 1
    try:
        with torch.no_grad():
            yield
    finally:
        with _lock:
            _inside -= 1
            if not _inside:
                torch.backends.cuda.enable_cudnn_sdp(_allowed)
