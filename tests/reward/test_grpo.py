"""The reward and the environment inside TRL's GRPOTrainer, on a tiny policy."""

import pytest
import torch
import trl
from datasets import Dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer

from seper_reward.retrieval import BM25Retriever
from seper_reward.reward.environment import search_environment
from seper_reward.reward.reward import SePerReward
from tests.reward.test_credit import HOUSES, QUESTIONS, trainer_of
from trainers.runs import project_completions_only


class Spying(trl.GRPOTrainer):
    """Keeps what was said, and says that it searched: a random policy never calls a tool by itself."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.said = []

    def _calculate_rewards(self, inputs, prompts, completions, completion_ids_list):
        self.said.append(completion_ids_list)
        for place, world in enumerate(self.environments or []):
            if place % 2:
                found = world.search(inputs[place]["question"])
                completions[place] = [
                    {"role": "assistant", "tool_calls": [{"function": {"name": "search", "arguments": {}}}]},
                    {"role": "tool", "name": "search", "content": found},
                    {"role": "assistant", "content": "Owner 1"},
                ]
        return super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)


def arbitrary(completion_ids, **_):
    return [float(sum(ids) % 7) for ids in completion_ids]


def train(folder, reader, rewards, weights=None):
    settings = {
        "max_steps": 2, "per_device_train_batch_size": 4, "max_completion_length": 12, "reward_weights": weights,
    }  # fmt: skip
    lora = LoraConfig(r=2, target_modules=["q_proj", "v_proj"])
    made = {"peft_config": lora, "environment_factory": search_environment(BM25Retriever(HOUSES))}
    trainer = trainer_of(folder, reader, rewards, Spying, QUESTIONS, gradient_checkpointing=True, **settings, **made)
    for reward in rewards:
        if isinstance(reward, SePerReward) and reward.reader != "separate":
            reward.attach(trainer)
    trainer.train()
    return trainer


def weights_of(trainer):
    return {name: weight.detach().clone() for name, weight in trainer.model.named_parameters()}


@pytest.fixture(scope="module")
def alone(tmp_path_factory, tiny_reader):
    """Return a trainer that has trained without our reward."""
    return train(tmp_path_factory.mktemp("alone"), tiny_reader, [arbitrary])


@pytest.mark.parametrize("reader", [pytest.param("separate", marks=pytest.mark.slow), "policy-base", "policy"])
def test_reward_leaves_training_alone(tmp_path, tiny_reader, tiny_scorer, reader, alone):
    reward = SePerReward(tiny_scorer, answer_weight=0.0, price=0.1, reader=reader)
    beside = train(tmp_path / "beside", tiny_reader, [arbitrary, reward], weights=[1.0, 0.0])
    assert alone.said == beside.said
    one, other = weights_of(alone), weights_of(beside)
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert any(one[name].abs().max() > 0 for name in one if "lora_B" in name)  # it trained
    assert beside.model.is_gradient_checkpointing
    log = [row for row in beside.state.log_history if "rewards/seper/mean" in row]
    assert len(log) == 2
    assert log[0]["seper/search_rate"] == 0.5
    assert log[0]["seper/unscored"] == 0
    assert not reward.failures


WITH_PASSAGES = [
    {**row, "prompt": row["question"], "passages": [HOUSES[str(at)].text]} for at, row in enumerate(QUESTIONS)
]


def columns_of(rows):
    return {name: [row[name] for row in rows] for name in ("question", "answers", "passages")}


def test_reward_in_rloo(tmp_path, tiny_reader, tiny_scorer):
    """Without tools: passages from a dataset column, plain prompts."""
    arguments = trl.RLOOConfig(
        output_dir=str(tmp_path), max_steps=1, per_device_train_batch_size=4, num_generations=2, report_to="none",
        max_completion_length=8, use_cpu=True, bf16=False, save_strategy="no", disable_tqdm=True, logging_steps=1,
    )  # fmt: skip
    answer = SePerReward(tiny_scorer, gain_weight=0.0, price=0.0)
    answer.__name__ = "answer"
    trainer = trl.RLOOTrainer(
        model=AutoModelForCausalLM.from_pretrained(tiny_reader),
        reward_funcs=[SePerReward(tiny_scorer, answer_weight=0.0, price=0.0), answer],
        args=arguments,
        train_dataset=Dataset.from_list(WITH_PASSAGES),
        processing_class=AutoTokenizer.from_pretrained(tiny_reader),
    )
    trainer.train()
    (log,) = [row for row in trainer.state.log_history if "seper/search_rate" in row]
    assert log["seper/search_rate"] == log["answer/search_rate"] == 1.0
    assert "answer/baseline" not in log  # it needs no belief
    assert "rewards/answer/mean" in log
    expected = SePerReward(tiny_scorer, answer_weight=0.0, price=0.0)(**columns_of(WITH_PASSAGES))
    assert min(expected) <= log["rewards/seper/mean"] <= max(expected)


def test_project_completions_only_changes_nothing(tmp_path, tiny_reader, alone):
    before = dict(vars(trl.trainer.utils))
    with project_completions_only():
        fewer = train(tmp_path / "fewer", tiny_reader, [arbitrary])
    one, other = weights_of(alone), weights_of(fewer)
    assert all(torch.allclose(one[name], other[name], atol=1e-6) for name in one)
    assert any(one[name].any() for name in one if "lora_B" in name)  # it trained
    assert vars(trl.trainer.utils) == before
