"""Devices and dtypes by name."""

import pytest
import torch

from seper_reward.runtime.pretrained import fast_dtype, resolve_dtype


def test_dtypes():
    assert resolve_dtype("float32", torch.device("cpu")) == torch.float32
    assert fast_dtype(torch.device("cpu")) in (torch.float32, torch.bfloat16)
    for wrong in ("int8", "fast"):
        with pytest.raises(ValueError, match="dtype must be"):
            resolve_dtype(wrong, torch.device("cpu"))
