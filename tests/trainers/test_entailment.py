"""The recipe of entailment adapters: its loss, its pairs, a few steps, calibration, the card."""

import math
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file

from seper_reward.evaluate.judge import Verdict
from seper_reward.judge import entailment
from seper_reward.judge.entailment import EntailmentScorer
from seper_reward.options import ModelOptions
from seper_reward.reports.tracking import Run
from seper_reward.runtime.json_files import read_json
from seper_reward.types import Pair
from tests.helpers import write_rows
from trainers import entailment as trainer
from trainers import runs

ROWS = [
    {"premise": "Ann Lee", "hypothesis": "Ann", "label": "entailment", "question": "Who built the mill?"},
    {"premise": "It was Bob.", "hypothesis": "Ann", "label": "not_entailment", "question": "Who built the mill?"},
    {"premise": "A man sleeps", "hypothesis": "A man rests", "label": "entailment"},
    {"premise": "A man sleeps", "hypothesis": "A man is at sea", "label": "neutral", "question": None},
    {"premise": "A man sleeps", "hypothesis": "A man runs", "label": "contradiction", "source": "ours"},
]


@pytest.fixture
def tiny_base(tiny_entailment, monkeypatch):
    """Put a tiny model in the place of multilingual-e5-small."""
    monkeypatch.setattr(entailment, "multilingual_encoder_folder", lambda: tiny_entailment)
    monkeypatch.setattr(entailment, "_LAYERS", 2)


def written(path, rows):
    return str(write_rows(path, rows))


def test_three_way_loss_by_hand():
    logits = torch.tensor([[0.5, 0.3, 0.2], [0.5, 0.3, 0.2], [0.1, 0.2, 0.7]]).log()
    labels = torch.tensor([1, trainer.NOT_ENTAILMENT, 2])
    expected = -(math.log(0.3) + math.log(0.5) + math.log(0.7)) / 3
    assert float(trainer.three_way_loss({"logits": logits}, labels)) == pytest.approx(expected, rel=1e-5)


def test_read_pairs_and_verdicts_of_them(tmp_path):
    pairs = trainer.read_pairs(written(tmp_path / "pairs.jsonl", ROWS))
    assert [pair.label for pair in pairs] == [0, 3, 0, 1, 2]
    assert pairs[0] == ("Ann Lee", "Ann", 0, "", "Who built the mill?")
    assert pairs[3] == ("A man sleeps", "A man is at sea", 1, "", "")
    assert pairs[4].source == "ours"
    assert [row.equivalent for row in trainer.verdicts_of(pairs)] == [True, False, True, False, False]
    assert trainer.verdicts_of(pairs)[0] == Verdict("Who built the mill?", ("Ann",), "Ann Lee", True)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({**ROWS[0], "premise": 3}, "line 2: expected 'premise' as a text, got 3"),
        ({"premise": "Ann", "label": "neutral"}, "line 2: expected 'hypothesis' as a text, got None"),
        ({**ROWS[0], "label": 1}, "line 2: label must be one of entailment, .*, not_entailment, got 1"),
    ],
)
def test_read_pairs_refuses_other_rows(tmp_path, row, message):
    with pytest.raises(ValueError, match=message):
        trainer.read_pairs(written(tmp_path / "pairs.jsonl", [ROWS[0], row]))
    with pytest.raises(ValueError, match="expected pairs, got none"):
        trainer.read_pairs(written(tmp_path / "none.jsonl", []))


@pytest.mark.usefixtures("tiny_base")
def test_train_moves_the_adapter_and_temperature_calibrates_it(tmp_path):
    pairs = written(tmp_path / "pairs.jsonl", ROWS * 8)
    folder = trainer.train(
        trainer.EntailmentConfig(pairs=pairs, lora_r=4),
        trainer.EntailmentArguments(str(tmp_path / "adapter"), max_steps=3, per_device_train_batch_size=8),
    )
    weights = load_file(folder / "adapter_model.safetensors")
    moved = [name for name, tensor in weights.items() if "lora_B" in name and tensor.abs().max() > 0]  # B starts at 0
    assert len(moved) == sum("lora_B" in name for name in weights) == 2 * 6  # layers, each with six linear ones
    assert {tensor.dtype for tensor in weights.values()} == {torch.float16}
    # half of its verdicts are wrong, so that it should be less certain: a temperature above 1, in the weights
    verdicts = [Verdict(f"who {n}?", ("Ann Lee",), "Ann", n % 2 == 0) for n in range(20)]
    judged = [Pair(row.question, row.response, row.answers[0]) for row in verdicts]

    def probs():
        return EntailmentScorer.from_pretrained(str(folder), ModelOptions(dtype="float32", device="cpu")).probs(judged)

    before, temperature = probs(), trainer.fitted_temperature(folder, verdicts)
    assert temperature != pytest.approx(1.0, abs=0.05)
    trainer.divide_logits(folder, temperature)
    after = probs()
    torch.testing.assert_close(after, (before.log() / temperature).softmax(-1), atol=2e-2, rtol=0)
    assert (after[:, 0] - 0.5).abs().mean() < (before[:, 0] - 0.5).abs().mean()


def test_main_refuses_several_processes(tmp_path, monkeypatch):
    monkeypatch.setattr(trainer, "process_state", lambda: SimpleNamespace(num_processes=2))
    with pytest.raises(ValueError, match="runs in one process"):
        trainer.main(["--output_dir", str(tmp_path)])


@pytest.mark.usefixtures("tiny_base")
def test_main_calibrates_on_dev_pairs_writes_a_card_and_logs(tmp_path, capsys, monkeypatch):
    logged, kept = [], []

    class Log(Run):
        def log(self, values):
            logged.append(values)

        def artifact(self, name, kind, paths, metadata=None):
            kept.append([path.name for path in paths if path.is_file()])

    monkeypatch.setattr(runs, "Run", Log)
    folder = tmp_path / "adapter"
    pairs, dev = (written(tmp_path / f"{name}.jsonl", rows) for name, rows in (("pairs", ROWS * 8), ("dev", ROWS)))
    words = ["--pairs", pairs, "--output_dir", str(folder), "--max_steps", "2", "--lora_r", "4"]
    assert trainer.main([*words, "--dev_pairs", dev]) == 0
    scores = read_json(folder / "scores.json")
    assert scores["temperature"] != 1
    assert scores["dev"].keys() == {"n", "accuracy", "ece"}
    assert scores["dev"]["n"] == len(ROWS)
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert f"Trained on {8 * len(ROWS)} pairs; the logits are divided by {scores['temperature']:.3f}." in card
    assert f"Accuracy on 5 dev pairs, entailed or not: {scores['dev']['accuracy']} %." in card
    assert not (folder / "checkpoints").exists()
    assert "next: seper-reward evaluate judge --judge" in capsys.readouterr().err
    assert [values["temperature"] for values in logged] == [scores["temperature"]]
    assert kept == [["adapter_model.safetensors", "README.md"]]
    for changed, message in ((["--pairs", dev], "other data"), (["--lora_r", "2"], "lora_r was 4, is 2")):
        with pytest.raises(ValueError, match=f"other settings; changed: {message}"):
            trainer.main([*words, *changed])
    assert trainer.main([*words, "--output_dir", str(tmp_path / "other"), "--temperature", "2"]) == 0
    assert "No dev pairs were given" in (tmp_path / "other" / "README.md").read_text(encoding="utf-8")
    assert logged[-1] == {"temperature": 2.0}
