"""A base that TRL merges the adapter into for vLLM: the reader has the weights of the beginning, training its own."""

from contextlib import nullcontext, suppress
from types import SimpleNamespace

import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM
from trl.generation.vllm_generation import VLLMGeneration

from seper_reward.reward.reward import SePerReward
from seper_reward.reward.sharding import BaseWeights

COLUMNS = {"question": ["Who?"] * 3, "answers": [["Ida Voss"]] * 3, "passages": [["Ida Voss."], ["Bob."], []]}


def new_policy(folder, dtype=torch.bfloat16, targets=("q_proj", "down_proj")):
    """Return a model with random adapters, which reach a part of its linear layers or all."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)
    torch.manual_seed(0)
    return get_peft_model(model, LoraConfig(r=4, target_modules=targets, init_lora_weights=False))


def trainer_of(policy, tokenizer, use_vllm=True):
    accelerator = SimpleNamespace(unwrap_model=lambda model: model)
    return SimpleNamespace(model=policy, processing_class=tokenizer, accelerator=accelerator, use_vllm=use_vllm)


def synchronise(policy, times):
    """Send the weights to nowhere by TRL's own code, after a step of the adapter each time."""
    generation = VLLMGeneration.__new__(VLLMGeneration)
    vars(generation).update(
        model=policy, _dist=SimpleNamespace(gather_params=lambda weights: nullcontext(), is_fsdp=False)
    )
    for step in range(times):
        with torch.no_grad():
            for name, weight in policy.named_parameters():
                if "lora_B" in name:
                    weight.mul_(-1.01 if step % 2 else -0.99)
        assert len(list(generation._iter_named_params())) == 20


def base_of(policy):
    return {name: weight.clone() for name, weight in policy.named_parameters() if "lora_" not in name}


def share_that_moved(before, after):
    names = [name for name in before if "base_layer" in name]
    moved = sum((before[name] != after[name]).sum().item() for name in names)
    return moved / sum(before[name].numel() for name in names)


@pytest.mark.parametrize("use_vllm", [True, False])
def test_base_weights_after_80_synchronisations(use_vllm, tiny_reader, tiny_scorer):
    """With the copy they are the same to the bit; without it, as before there was one, they are others."""
    policy = new_policy(tiny_reader)
    reward = SePerReward(tiny_scorer, answer_weight=0.0, price=0.0, reader="policy-base")
    reward.attach(trainer_of(policy, tiny_scorer.sampler.tokenizer, use_vllm))
    before, base = reward(**COLUMNS), base_of(policy)
    synchronise(policy, 80)
    drifted = base_of(policy)
    after = reward(**{**COLUMNS, "answers": [["ida voss"]] * 3})  # not from the memory, and judged alike
    assert share_that_moved(base, drifted) > 0.2
    assert (after == before) is use_vllm
    assert all(torch.equal(weight, drifted[name]) for name, weight in base_of(policy).items())


def test_policy_reader_follows_the_policy(tiny_reader, tiny_scorer):
    policy = new_policy(tiny_reader)
    reward = SePerReward(tiny_scorer, answer_weight=0.0, reader="policy")
    reward.attach(trainer_of(policy, tiny_scorer.sampler.tokenizer))
    before = reward(**COLUMNS)
    assert reward(**COLUMNS) == before
    synchronise(policy, 1)  # a step of the adapter
    assert reward(**COLUMNS) != before


def test_base_weights_return_after_an_exception(tiny_reader):
    policy = new_policy(tiny_reader)
    kept, base = BaseWeights(policy), base_of(policy)
    synchronise(policy, 3)
    drifted = base_of(policy)
    with suppress(KeyError), kept.in_place(policy):
        assert all(torch.equal(weight, base[name]) for name, weight in base_of(policy).items())
        raise KeyError
    assert all(torch.equal(weight, drifted[name]) for name, weight in base_of(policy).items())


def test_base_weights_refuse_a_quantized_base(tiny_reader):
    policy = new_policy(tiny_reader)
    layer = policy.get_base_model().model.layers[0].self_attn.q_proj.base_layer
    layer.weight = torch.nn.Parameter(torch.zeros(32, 16, dtype=torch.uint8), requires_grad=False)
    with pytest.raises(ValueError, match=r"cannot restore a base of torch\.uint8"):
        BaseWeights(policy)
