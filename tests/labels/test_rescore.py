"""`seper-reward rescore`: the same responses under other options, without the reader."""

import json
from collections import Counter

import pytest

from seper_reward.cli import main
from seper_reward.config import EstimatorConfig
from seper_reward.estimators import Estimator
from seper_reward.reader import loading
from seper_reward.runtime.hashing import file_hash
from tests.helpers import labels_of

PRESETS = ["default", "paper", "official"]


def records(count):
    return [
        {
            "id": f"q{number}",
            "question": f"Who built mill {number}?",
            "answers": [f"Voss {number}", "the monks"],
            "century": 18,
            "passages": [
                {"id": "s", "text": f"Voss {number} built mill {number}.", "page": 7},
                {"id": "u", "text": "A mill grinds corn."},
            ],
        }
        for number in range(count)
    ]


@pytest.fixture
def words(tmp_path, tiny_reader, tiny_entailment):
    """Return the words of both commands for a folder and a preset."""
    (tmp_path / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in records(3)))
    judge = ["--entailment", str(tiny_entailment)]
    sampling = ["--reader", str(tiny_reader), "--num_samples", "4", "--max_new_tokens", "3", *judge]

    def words(command, folder, *more):
        own = {
            "label": ["--input", str(tmp_path / "data.jsonl"), *sampling, "--set", "reader.dtype=float32"],
            "rescore": ["--labels", str(tmp_path / "labels"), *judge, "--set", "judge.dtype=float32"],
        }[command]
        return [command, "--output_dir", str(tmp_path / folder), *own, *more]

    return words


def no_reader(monkeypatch):
    monkeypatch.setattr(loading, "load_reader", lambda *_: pytest.fail("a reader was loaded"))


def numbers(row):
    """Return the numbers of each context in a label row, and how the texts weigh in it."""
    for context in (row["baseline"], *row["passages"]):
        weights = Counter()
        for response in context["responses"]:
            weights[response["text"]] += response["weight"]
        yield {name: value for name, value in context.items() if isinstance(value, float)} | weights


@pytest.mark.parametrize("preset", PRESETS)
def test_it_is_what_labelling_with_these_options_gives(words, tmp_path, monkeypatch, preset):
    with monkeypatch.context() as patch:  # an estimator that is no preset
        patch.setattr(EstimatorConfig, "estimator_options", Estimator.preset("default", kernel="max"))
        assert main(words("label", "labels")) == 0
    assert main(words("label", "expected", "--estimator", preset)) == 0
    no_reader(monkeypatch)
    assert main(words("rescore", "found", "--estimator", preset)) == 0
    for found, expected in zip(labels_of(tmp_path / "found"), labels_of(tmp_path / "expected"), strict=True):
        assert (found["metadata"], found["passages"][0]["metadata"]) == ({"century": 18}, {"page": 7})
        for one, other in zip(numbers(found), numbers(expected), strict=True):
            # probabilities have 6 digits in the rows that were read, which tell more than the paper's estimator asks
            assert {name: one[name] for name in other} == pytest.approx(other, abs=1e-4)
    known = json.loads((tmp_path / "labels" / "provenance.json").read_text())
    provenance = json.loads((tmp_path / "found" / "provenance.json").read_text())
    assert provenance["decides"]["reestimated"] == known["labels_hash"] != provenance["labels_hash"]
    assert provenance["decides"]["sampling"] == known["decides"]["sampling"]
    summary = json.loads((tmp_path / "found" / "summary.json").read_text())
    assert (summary["questions"], summary["passages"], summary["contexts"]) == (3, 6, 9)


def test_the_default_is_no_copy_of_the_paper(words, tmp_path):
    assert main(words("label", "labels")) == 0
    assert main(words("rescore", "found", "--estimator", "paper")) == 0
    (found, *_), (known, *_) = labels_of(tmp_path / "found"), labels_of(tmp_path / "labels")
    assert found["baseline"]["seper"] != pytest.approx(known["baseline"]["seper"], abs=1e-3)
    assert [each["passages"][0]["delta_belief"] is None for each in (found, known)] == [True, False]


def test_labels_that_cannot_be_estimated_again_are_refused(words, tmp_path, capsys):
    assert main(words("label", "labels", "--labeler", "erag")) == 0
    assert main(words("rescore", "found")) == 2
    assert "has labels of 'erag_exact_match'; only labels of ΔSePer" in capsys.readouterr().err


def test_old_rows_and_wrong_folders_are_refused(words, tmp_path, capsys):
    assert main(words("rescore", "found")) == 2
    assert "has no finished labels (no summary.json)" in capsys.readouterr().err
    assert main(words("label", "labels")) == 0
    assert main(words("rescore", "labels")) == 2
    assert "output_dir must not be the folder of the labels" in capsys.readouterr().err
    assert main(words("rescore", "found")) == 0
    assert main(words("rescore", "found", "--estimator", "official")) == 2
    assert "holds labels made otherwise; changed: " in capsys.readouterr().err
    rows = labels_of(tmp_path / "labels")
    del rows[1]["passages"][0]["responses"][0]["token_log_probs"]
    (tmp_path / "labels" / "labels.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert main(words("rescore", "other")) == 2
    assert "labels.jsonl changed after the run ended" in capsys.readouterr().err
    summary = json.loads((tmp_path / "labels" / "summary.json").read_text())
    summary["sha256"]["labels.jsonl"] = file_hash(tmp_path / "labels" / "labels.jsonl")
    (tmp_path / "labels" / "summary.json").write_text(json.dumps(summary))
    assert main(words("rescore", "other")) == 2
    assert "line 2: expected responses with their probabilities, but 'token_log_probs'" in capsys.readouterr().err
