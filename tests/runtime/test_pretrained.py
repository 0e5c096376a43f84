"""Devices and dtypes by name, and models that are whole whatever a trainer does with its own."""

import sys

import pytest
import torch
from transformers import AutoModelForCausalLM
from transformers.integrations import deepspeed

from seper_reward.reader.loading import load_reader
from seper_reward.runtime.pretrained import LoadOptions, fast_dtype, resolve_dtype


def test_dtypes():
    assert resolve_dtype("float32", torch.device("cpu")) == torch.float32
    assert fast_dtype(torch.device("cpu")) in (torch.float32, torch.bfloat16)
    for wrong in ("int8", "fast"):
        with pytest.raises(ValueError, match="dtype must be"):
            resolve_dtype(wrong, torch.device("cpu"))


class Zero3:
    """What a trainer's arguments keep where transformers looks for it."""

    config = {}  # noqa: RUF012

    def is_zero3(self):
        return True


def test_zero3_of_a_trainer_divides_no_other_model(tiny_reader, monkeypatch):
    monkeypatch.setitem(sys.modules, "deepspeed", None)
    configured = Zero3()
    deepspeed.set_hf_deepspeed_config(configured)
    try:
        with pytest.raises(ModuleNotFoundError, match="deepspeed"):  # transformers would call it
            AutoModelForCausalLM.from_pretrained(tiny_reader)
        loaded = load_reader(str(tiny_reader), LoadOptions(dtype="float32", device="cpu"))
        assert deepspeed.is_deepspeed_zero3_enabled()  # for the trainer's own model it still would
    finally:
        deepspeed.unset_hf_deepspeed_config()
    assert loaded.model.get_input_embeddings().weight.shape[1] == 32
