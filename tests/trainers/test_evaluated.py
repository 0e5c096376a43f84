"""Two processes that evaluate before they train learn from one another's examples."""

import os

import torch
from transformers import Trainer, TrainingArguments

from tests.helpers import on_two_ranks
from tests.trainers.test_runs import Line
from trainers.runs import evaluated


def test_gradients_are_shared_after_an_evaluation(tmp_path):
    rows = [{"x": torch.tensor([1.0]), "labels": torch.tensor([value])} for value in (1.0, 5.0)]  # one a rank

    def rank(number):
        os.environ |= {"WORLD_SIZE": "2", "RANK": str(number), "LOCAL_RANK": str(number), "LOCAL_WORLD_SIZE": "2"}
        arguments = TrainingArguments(
            str(tmp_path / "out"), use_cpu=True, max_steps=1, max_grad_norm=0.0, per_device_train_batch_size=1,
            learning_rate=0.1, optim="sgd", lr_scheduler_type="constant", report_to="none", save_strategy="no",
            disable_tqdm=True,
        )  # fmt: skip
        trainer = Trainer(Line(), arguments, train_dataset=rows, eval_dataset=rows)
        evaluated(trainer)
        trainer.train()
        return trainer.accelerator.unwrap_model(trainer.model).slope.item()

    one, other = on_two_ranks(rank, tmp_path, seconds=60)
    assert one == other
    assert abs(one - 0.6) < 1e-6  # a step of 0.1 against the mean gradient, -6
