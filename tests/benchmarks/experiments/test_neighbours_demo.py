"""The demo of neighbours: which commands it runs, and what its one results.json holds."""

from pathlib import Path

import yaml

from seper_reward import cli
from seper_reward.runtime.json_files import read_json, write_json
from tests.benchmarks.experiments import neighbours_demo

LABELER = {
    "needs_answers": True,
    "marks": {"pearson": 0.7, "interval": None},
    "score": {"kendall": {"value": 0.4, "interval": None}, "spearman": {"value": 0.5, "interval": None}},
    "per_label": {"seconds": 0.2, "calls": 1.2},
}
CONSISTENCY = {
    "sources": {
        name: {"accuracy": {"mean": accuracy}, "mrwr": {"mean": accuracy / 2}, "mrlr": {"mean": accuracy / 4}}
        for name, accuracy in (("none", 0.25), ("bm25@1", 0.5))
    }
}
ENSEMBLE = {
    "best_single": {"accuracy": {"mean": 0.45}},
    "voters": {name: {"accuracy": {"mean": value}} for name, value in (("eor_paper", 0.55), ("belief_vote", 0.6))},
    "upper_bound": {"mean": 0.75},
}


def test_three_comparisons_become_one_file(tmp_path, monkeypatch):
    asked = []

    def command(words):
        asked.append(words)
        if words[1] == "compare":
            folder = Path(words[words.index("--output_dir") + 1])
            write_json(folder / "results.json", {"demo": {"labelers": {"delta_seper": LABELER}}})
        else:
            found = CONSISTENCY if words[1] == "consistency" else ENSEMBLE
            write_json(Path(words[words.index("--json") + 1]), found)
        return 0

    monkeypatch.setattr(cli, "main", command)
    assert neighbours_demo.main(["--output_dir", str(tmp_path)]) == 0
    assert read_json(tmp_path / "results.json") == {
        "labelers": {"delta_seper": {"pearson": 0.7, "kendall": 0.4, "seconds_per_label": 0.2, "needs_answers": True}},
        "consistency": {"mrwr": 0.25, "mrlr": 0.125},
        "ensemble": {"best_single": 0.45, "eor": 0.55, "belief_vote": 0.6, "upper_bound": 0.75},
    }
    assert [words[1] for words in asked] == ["consistency", "ensemble", "compare"]
    assert "--cache" not in asked[2]  # costs are measured


def test_a_command_that_fails_ends_the_demo(tmp_path, monkeypatch):
    monkeypatch.setattr(cli, "main", lambda words: 2)
    assert neighbours_demo.main(["--output_dir", str(tmp_path)]) == 2


def test_its_settings_are_settings():
    from seper_reward.commands.neighbours import CompareConfig, ConsistencyConfig, EnsembleConfig

    folder = Path(neighbours_demo.__file__).parents[3] / "configs" / "evaluate"
    ensemble = yaml.safe_load((folder / "ensemble-demo.yaml").read_text())
    assert ConsistencyConfig(**ensemble).sources == EnsembleConfig(**ensemble).sources
    for name in ("compare", "compare-demo"):
        assert "demo" in CompareConfig(**yaml.safe_load((folder / f"{name}.yaml").read_text())).files
