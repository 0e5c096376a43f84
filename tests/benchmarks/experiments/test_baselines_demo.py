"""The demo of the baselines: which commands it runs, and the content of its one results.json."""

from pathlib import Path

from seper_reward import cli
from seper_reward.runtime.json_files import read_json, write_json
from seper_reward.runtime.parser import parse_settings
from seper_reward.shipped import configs_folder
from tests.benchmarks.experiments import baselines_demo, compare

LABELER = {
    "needs_answers": True,
    "marks": {"pearson": 0.7, "interval": None},
    "score": {"kendall": {"value": 0.4, "interval": None}, "spearman": {"value": 0.5, "interval": None}},
    "per_label": {"seconds": 0.2, "calls": 1.2},
}
EOR = {
    "best_single": {"accuracy": {"mean": 0.45}},
    "voters": {name: {"accuracy": {"mean": value}} for name, value in (("eor_paper", 0.55), ("eor_default", 0.6))},
    "consistency": {
        "upper_bound": {"mean": 0.75},
        "sources": {
            name: {"accuracy": {"mean": accuracy}, "mrwr": {"mean": accuracy / 2}, "mrlr": {"mean": accuracy / 4}}
            for name, accuracy in (("none", 0.25), ("bm25@1", 0.5))
        },
    },
}


def test_both_comparisons_become_one_file(tmp_path, monkeypatch):
    asked = []

    def eor(words):
        asked.append(words)
        write_json(Path(words[words.index("--json") + 1]), EOR)
        return 0

    def compared(words):
        asked.append(words)
        folder = Path(words[words.index("--output_dir") + 1])
        write_json(folder / "results.json", {"demo": {"labelers": {"delta_seper": LABELER}}})
        return 0

    monkeypatch.setattr(cli, "main", eor)
    monkeypatch.setattr(compare, "main", compared)
    assert baselines_demo.main(["--output_dir", str(tmp_path)]) == 0
    assert read_json(tmp_path / "results.json") == {
        "labelers": {"delta_seper": {"pearson": 0.7, "kendall": 0.4, "seconds_per_label": 0.2, "needs_answers": True}},
        "consistency": {"mrwr": 0.25, "mrlr": 0.125},
        "ensemble": {"best_single": 0.45, "eor": 0.55, "upper_bound": 0.75},
    }
    assert asked[0][:2] == ["baseline", "eor"]
    assert len(asked) == 2
    assert "--cache" not in asked[1]  # costs are measured


def test_a_command_that_fails_ends_the_demo(tmp_path, monkeypatch):
    monkeypatch.setattr(cli, "main", lambda words: 2)
    assert baselines_demo.main(["--output_dir", str(tmp_path)]) == 2


def test_its_settings_are_settings():
    from seper_reward.baselines.eor import EoRConfig

    parse_settings((EoRConfig,), ["--config", str(configs_folder() / "baselines" / "eor-demo.yaml")], "eor")
    folder = Path(baselines_demo.__file__).parent / "configs"
    for name in ("compare", "labelers-demo"):
        (config,) = parse_settings((compare.CompareConfig,), ["--config", str(folder / f"{name}.yaml")], "compare")
        assert "demo" in config.files
