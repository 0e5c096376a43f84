"""Supervised fine-tuning: the loss, a few steps, settings and rows."""

import math

import pytest
import torch
import yaml
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from tests.helpers import cells, run_block, write_rows
from trainers import sft


def arguments(folder, **options):
    fixed = {"report_to": "none", "gradient_checkpointing": False, "save_strategy": "no"}
    return sft.SftArguments(output_dir=str(folder), **fixed, **options)


def new_trainer(folder, reader, rows, **options):
    """Return the trainer of rows with the tiny reader."""
    config = sft.SftScriptConfig(data=str(write_rows(folder / "rows.jsonl", rows)), model=str(reader))
    return sft.new_trainer(config, arguments(folder / "out", bf16=False, max_steps=1, **options))[0]


@pytest.mark.parametrize("loss_type", ["nll", "dft"])
def test_new_trainer_has_the_loss_of_completions(tiny_reader, tmp_path, loss_type):
    """Against a slow loop over rows and tokens, with prompts and answers of different lengths."""
    answers = [" Ann", " a longer answer of more tokens"]
    rows = [
        {"prompt": "Question: Who?\nAnswer:", "completion": answers[0]},
        {"prompt": "Q:", "completion": answers[1]},
    ]
    trainer = new_trainer(tmp_path, tiny_reader, rows, loss_type=loss_type, per_device_train_batch_size=2)
    batch = next(iter(trainer.get_train_dataloader()))
    model = trainer.model.float().eval()
    with torch.no_grad():
        loss = float(trainer.compute_loss(model, dict(batch)))
        total, count = 0.0, 0
        for ids, mask, labels in zip(batch["input_ids"], batch["attention_mask"], batch["labels"], strict=True):
            length = int(mask.sum())
            log_probs = model(input_ids=ids[None, :length]).logits[0].log_softmax(-1)
            for place in range(1, length):
                if labels[place] != -100:
                    log_prob = float(log_probs[place - 1, ids[place]])
                    total -= log_prob * (math.exp(log_prob) if loss_type == "dft" else 1)
                    count += 1
    assert count == sum(len(trainer.processing_class(text).input_ids) + 1 for text in answers)  # and end of sequence
    assert loss == pytest.approx(total / count, rel=1e-4)


def test_new_trainer_learns_long_rows_whole(tiny_reader, tmp_path):
    row = {"prompt": "mill " * 1200, "completion": " Ann"}  # TRL's own default leaves this row out
    trainer = new_trainer(tmp_path, tiny_reader, [row])
    (learned,) = trainer.train_dataset
    assert learned["input_ids"][:-1] == trainer.processing_class(row["prompt"] + row["completion"]).input_ids
    assert trainer.args.max_length is None
    assert sft.SftArguments(str(tmp_path), packing=True).max_length == 1024


def test_train_moves_the_adapter_which_another_run_starts_from(tiny_reader, tmp_path):
    rows = [{"prompt": f"Question {n}?\nAnswer:", "completion": f" {n}"} for n in range(16)]
    write_rows(tmp_path / "rows.jsonl", rows)
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder, start in zip(folders, (None, str(folders[0])), strict=True):
        config = sft.SftScriptConfig(
            data=str(tmp_path / "rows.jsonl"), model=str(tiny_reader), lora_r=2, init_adapter=start
        )
        sft.train(config, arguments(folder, max_steps=3, per_device_train_batch_size=4, learning_rate=1e-2))
    one, two = (load_file(folder / "adapter_model.safetensors") for folder in folders)
    assert all(tensor.abs().max() > 0 for name, tensor in one.items() if "lora_B" in name)  # B starts at 0
    assert any((one[name] != two[name]).any() for name in one)
    assert {tensor.dtype for tensor in one.values()} == {torch.float16}
    assert not list(folders[0].glob("*.bin"))
    assert not (folders[1] / "merged").exists()
    card = (folders[1] / "README.md").read_text()
    assert "16 examples: " in card
    assert "max_steps: 3\n" in card
    assert float(cells(card, ["mean"])[0]) > 0
    run_block(card, folders[1])


def test_train_of_an_adapters_adapter_also_saves_it_merged(tiny_reader, tmp_path, monkeypatch):
    """With B moved by a large learning rate, the logits are those of the trainer's model, in bf16."""
    write_rows(tmp_path / "rows.jsonl", [{"prompt": f"Q{n}?", "completion": f" {n}"} for n in range(8)])
    model, trainers, made = str(tiny_reader), [], sft.new_trainer

    def watched(*args):
        trainer, kinds = made(*args)
        trainers.append(trainer)
        return trainer, kinds

    monkeypatch.setattr(sft, "new_trainer", watched)
    for name in ("reader", "run"):
        config = sft.SftScriptConfig(data=str(tmp_path / "rows.jsonl"), model=model, lora_r=2)
        sizes = {"max_steps": 2, "per_device_train_batch_size": 4, "learning_rate": 0.1, "bf16": False}
        model = str(sft.train(config, arguments(tmp_path / name, **sizes)))
    ids = torch.tensor([[5, 9, 300, 42]])
    with torch.no_grad():
        trained = trainers[1].model.float().eval()
        expected = trained(input_ids=ids).logits
        with trained.disable_adapter():
            start = trained(input_ids=ids).logits
        found = AutoModelForCausalLM.from_pretrained(tmp_path / "run" / "merged")(input_ids=ids).logits
    assert found.dtype == torch.bfloat16
    assert (found.float() - expected).abs().max() < 0.1 * (start - expected).abs().max()
    run_block((tmp_path / "run" / "merged" / "README.md").read_text(), tmp_path / "run" / "merged")


def test_training_rows_refuse_rows_without_a_completion(tmp_path):
    data = str(write_rows(tmp_path / "rows.jsonl", [{"prompt": "a"}]))
    with pytest.raises(ValueError, match="line 1: expected the texts prompt and completion"):
        sft.training_rows(sft.SftScriptConfig(data=data))


def test_new_trainer_warms_a_policy_up_on_its_own_task(tiny_reader, tiny_entailment, lane_questions, tmp_path):
    reading = {
        "prompt": "brief", "dtype": "float32", "device": "cpu",
        "judge": str(tiny_entailment), "num_samples": 2, "max_new_tokens": 3,
    }  # fmt: skip
    (tmp_path / "scorer.yaml").write_text(yaml.safe_dump(reading))
    task = {
        "model": str(tiny_reader), "input": [str(lane_questions)], "reader": "policy-base", "limit": 4,
        "scorer": str(tmp_path / "scorer.yaml"), "price": 0.3,
    }  # fmt: skip
    (tmp_path / "policy.yaml").write_text(yaml.safe_dump(task))
    config = sft.SftScriptConfig(data="policy", policy=str(tmp_path / "policy.yaml"), model=str(tiny_reader), lora_r=2)
    sizes = {"max_steps": 1, "per_device_train_batch_size": 9, "train_sampling_strategy": "sequential", "bf16": False}
    trainer, kinds = sft.new_trainer(config, arguments(tmp_path / "out", **sizes))
    assert (kinds["memory"], kinds["search"]) == (4, 4)
    learned = [int((torch.tensor(row["labels"]) != -100).sum()) for row in trainer.train_dataset]
    calls = [length for length in learned if length > 10]
    assert len(calls) == 4
    trainer.train()
    assert (tmp_path / "out" / "cache.sqlite").is_file()
