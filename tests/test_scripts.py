"""The scripts to copy from ``configs/scripts``, on tiny models."""

import json

import pytest
from peft import AutoPeftModelForCausalLM
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer

from seper_reward.shipped import configs_folder
from tests.helpers import run

SCRIPTS = configs_folder() / "scripts"


@pytest.mark.parametrize(("name", "lines"), [("grpo", 60), ("retriever", 50)])
def test_scripts_are_short(name, lines):
    assert len((SCRIPTS / f"{name}.py").read_text(encoding="utf-8").splitlines()) <= lines


@pytest.mark.slow
def test_grpo(tiny_reader, tmp_path):
    words = ["--model", tiny_reader, "--reader", tiny_reader, "--max_steps", "1", "--output_dir", tmp_path / "run"]
    done = run(list(map(str, words)), [str(SCRIPTS / "grpo.py")], cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "seper/searches" in done.stdout
    assert AutoPeftModelForCausalLM.from_pretrained(tmp_path / "run" / "model").active_adapter == "default"


@pytest.mark.slow
def test_retriever(tiny_encoder, tmp_path):
    """32 questions with two triplets each; of these every eighth question is held out."""
    rows = [
        {
            "anchor": f"Who owns {at}?",
            "positive": f"Owner {at} owns {at}.",
            "negative": f"{animal} graze.",
            "label": 0.5,
        }
        for at in range(32)
        for animal in ("Sheep", "Cows")
    ]
    (tmp_path / "triplets.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = ["--triplets", tmp_path / "triplets.jsonl", "--model", tiny_encoder, "--output_dir", tmp_path / "run"]
    done = run(list(map(str, words)), [str(SCRIPTS / "retriever.py")], cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "after {'held_out_cosine_accuracy'" in done.stdout
    (before,) = tiny_encoder.glob("*.safetensors")
    (after,) = (tmp_path / "run" / "model").glob("*.safetensors")
    one, other = load_file(before), load_file(after)
    assert any((one[name] != other[name]).any() for name in one)
    SentenceTransformer(str(tmp_path / "run" / "model"))
