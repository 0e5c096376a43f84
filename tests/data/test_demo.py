"""The embedded models distinguish the passages of the demo."""

import json
from pathlib import Path

import pytest

from seper_reward.cli import main

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_label_command_tells_the_roles_of_the_demo_apart(tmp_path):
    assert main(["label", "--config", str(ROOT / "configs/label/demo.yaml"), "--output_dir", str(tmp_path)]) == 0
    groups = json.loads((tmp_path / "summary.json").read_text())["groups"]
    for group in ("fiction", "two_hop"):
        delta = groups[group]["delta_seper"]
        assert delta["supporting"] > 0.3, group
        assert max(map(abs, (delta["unrelated"], delta["misleading"]))) < 0.1, group  # a reader that knows nothing
    known = groups["known"]["delta_seper"]
    assert known["supporting"] > known["unrelated"] > known["misleading"] + 0.3
    assert groups["known"]["baseline_seper"] > groups["fiction"]["baseline_seper"] + 0.5
