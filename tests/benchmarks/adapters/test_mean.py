"""The mean of two stages of an adapter."""

import torch
from safetensors.torch import load_file, save_file

from tests.benchmarks.adapters.mean import average


def test_the_mean_of_two_stages_weighs_each_by_its_share(tmp_path):
    for name, value in (("trained", 2.0), ("start", -3.0)):
        (tmp_path / name).mkdir()
        save_file({"layer": torch.full((2,), value).half()}, tmp_path / name / "adapter_model.safetensors")
    average(tmp_path / "trained", tmp_path / "start", 0.75)
    mean = load_file(tmp_path / "trained" / "adapter_model.safetensors")["layer"]
    assert mean.dtype == torch.float16
    assert mean.tolist() == [0.75, 0.75]  # .75 * 2 - .25 * 3
