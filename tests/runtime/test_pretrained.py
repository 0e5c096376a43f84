"""Devices and dtypes by name, and models that are whole whatever a trainer does with its own."""

import sys

import pytest
import torch
from transformers import AutoModelForCausalLM
from transformers.integrations import deepspeed

from seper_reward.options import ModelOptions
from seper_reward.reader.loading import load_reader
from seper_reward.runtime.pretrained import fast_dtype, resolve_device, resolve_dtype


def test_resolve_dtype():
    assert resolve_dtype("float32", torch.device("cpu")) == torch.float32


@pytest.mark.parametrize("device", ["cpus", "cuda:99"])
def test_resolve_device_names_a_missing_device(device):
    with pytest.raises(ValueError, match=f"device='{device}' cannot be used: "):
        resolve_device(device)


@pytest.mark.parametrize(
    ("found", "dtype"),
    [
        ({}, torch.float32),
        ({"avx512_bf16": True}, torch.bfloat16),
        ({"avx512_bf16": True, "avx512_fp16": True}, torch.float32),  # tiles hidden by a virtual machine
        ({"avx512_bf16": True, "avx512_fp16": True, "amx_bf16": True}, torch.bfloat16),
    ],
)
def test_fast_dtype_of_cpus(monkeypatch, found, dtype):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: found, raising=False)
    assert fast_dtype(torch.device("cpu")) == resolve_dtype("auto", torch.device("cpu")) == dtype


class Zero3:
    """What a trainer's arguments keep where transformers looks for it."""

    config = {}  # noqa: RUF012

    def is_zero3(self):
        return True


def test_loaded_whole_under_zero3(tiny_reader, monkeypatch):
    monkeypatch.setitem(sys.modules, "deepspeed", None)
    configured = Zero3()
    deepspeed.set_hf_deepspeed_config(configured)
    try:
        with pytest.raises(ModuleNotFoundError, match="deepspeed"):  # transformers would call it
            AutoModelForCausalLM.from_pretrained(tiny_reader)
        loaded = load_reader(str(tiny_reader), ModelOptions(dtype="float32", device="cpu"))
        assert deepspeed.is_deepspeed_zero3_enabled()  # for the trainer's own model it still would
    finally:
        deepspeed.unset_hf_deepspeed_config()
    assert loaded.model.get_input_embeddings().weight.shape[1] == 32
