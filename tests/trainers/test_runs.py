"""What all recipes' training arguments take from the machine."""

import pytest
import torch

from trainers import runs
from trainers.entailment import EntailmentArguments
from trainers.policy import PolicyArguments
from trainers.retriever import RetrieverArguments
from trainers.sft import SftArguments


@pytest.mark.parametrize("kind", [SftArguments, PolicyArguments, RetrieverArguments, EntailmentArguments])
@pytest.mark.parametrize("fast", [torch.float32, torch.bfloat16])
def test_training_takes_bf16_where_that_is_fast(tmp_path, monkeypatch, kind, fast):
    monkeypatch.setattr(runs, "fast_dtype", lambda device: fast)
    assert kind(output_dir=str(tmp_path), use_cpu=True).bf16 == (fast == torch.bfloat16)
    for given in (False, True):
        assert kind(output_dir=str(tmp_path), use_cpu=True, bf16=given).bf16 == given
