"""The demo of trained retrievers: which comparisons it runs, and what its one results.json holds."""

from pathlib import Path

import pytest
import yaml

from seper_reward.runtime.json_files import read_json, write_json
from tests.benchmarks.experiments import compare_labelers, gating, retriever_demo


@pytest.mark.parametrize("full", [False, True])
def test_three_comparisons_become_one_file(tmp_path, monkeypatch, full):
    asked = []

    def writes(results):
        def command(argv):
            asked.append(argv)
            write_json(Path(argv[argv.index("--output_dir") + 1]) / "results.json", results)
            return 0

        return command

    compared = {"untrained": {"seper@2": {"mean": 0.5, "sd": 0.0}}, "comparison": {}, "primary": "seper@2"}
    monkeypatch.setattr(compare_labelers, "main", writes(compared))
    monkeypatch.setattr(gating, "main", writes({"gating": {"never": {"seper": 0.4}}, "leads": {}}))
    assert retriever_demo.main(["--output_dir", str(tmp_path / "demo"), "--full", str(full)]) == 0
    assert read_json(tmp_path / "demo" / "results.json") == {
        **compared,
        "two_hop": {"untrained": compared["untrained"]},
        "gating": {"never": {"seper": 0.4}},
    }
    assert all(("--eval_readers" in argv) == (not full) for argv in asked)
    assert len({argv[argv.index("--cache") + 1] for argv in asked}) == 1
    assert len({argv[argv.index("--output_dir") + 1] for argv in asked}) == 3
    settings = [yaml.safe_load(Path(argv[argv.index("--config") + 1]).read_text()) for argv in asked]
    assert [each["input"] for each in settings] == ["demo", {"path": "demo", "marked": 2}, "demo"]
    assert settings[1]["labelers"][0] == "conditional_delta_seper"
    # what is promised of two_hop in results.json
    assert {"delta_seper", "conditional_delta_seper", "erag", "likelihood", "gold"} <= set(settings[1]["labelers"])
    assert settings[1]["eval_top_k"] == settings[1]["hops"] == 2
