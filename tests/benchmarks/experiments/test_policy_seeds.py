"""Tables of trained policies over seeds, by hand."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from tests.benchmarks.experiments.policy_seeds import (
    leads_between,
    leads_over_seeds,
    main,
    over_seeds,
    smoothed,
    training_table,
)
from tests.benchmarks.experiments.seeds import interval_over_questions_and_seeds


def test_over_seeds_by_hand(tmp_path, capsys):
    first = {"accuracy": 0.5, "search_rate_not_needed": 0.0, "intervals": {"accuracy": [0.1, 0.9]}}
    runs = [{"after": first}, {"after": {"accuracy": 0.3333, "intervals": {}}, "threshold": first}]
    found = over_seeds(runs)
    assert list(found) == ["after"]
    accuracy = found["after"]["accuracy"]
    assert accuracy["mean"] == pytest.approx((0.5 + 0.3333) / 2, abs=1e-4)
    assert accuracy["sd"] == pytest.approx(0.1667 / 2**0.5, abs=1e-4)
    half = 12.706 * 0.1667 / 2  # t of one degree of freedom, sd / sqrt(2) of two numbers
    assert accuracy["interval"] == pytest.approx([0.4167 - half, 0.4167 + half], abs=1e-3)
    assert "search_rate_not_needed" not in found["after"]
    for at, run in enumerate(runs):
        (tmp_path / str(at)).mkdir()
        (tmp_path / str(at) / "results.json").write_text(json.dumps(run))
    assert main(["--runs", str(tmp_path / "0"), str(tmp_path / "1")]) == 0
    assert "0.417 [-0.642, 1.476]" in capsys.readouterr().out
    assert json.loads((tmp_path / "0" / "over_seeds.json").read_text())["after"]["accuracy"] == accuracy
    assert over_seeds(runs[:1])["after"]["accuracy"]["interval"] is None


def test_leads_over_questions_and_seeds_by_hand():
    def rows(by, *values):
        return [{"by": by, "id": str(at), "accuracy": v, "reward": 2 * v} for at, v in enumerate(values)]

    always = rows("always_search", 1.0, 0.0, 0.5, 1.0)
    one = [*rows("after", 1.0, 1.0, 0.5, 1.0), *rows("after", 1.0, 0.0, 0.5, 1.0), *always]  # two rollouts
    one += rows("before", 0.0, 0.0, 0.5, 0.0)
    two = [*rows("after", 1.0, 0.0, 0.5, 0.0), *always, *rows("before", 0.0, 0.5, 0.5, 1.0)]
    two += rows("after_reader_answers", 1.0)  # neither a rule nor the start
    found = leads_over_seeds([one, two])
    assert found.keys() == {"accuracy_leads", "reward_leads"}  # these rewards have no weight for answers
    leads = found["accuracy_leads"]
    assert leads.keys() == {"always_search", "before"}
    ours = np.array([[1.0, 0.5, 0.5, 1.0], [1.0, 0.0, 0.5, 0.0]])
    assert leads["always_search"]["lead"] == pytest.approx(ours.mean() - 2.5 / 4, abs=1e-4)
    theirs = np.array([1.0, 0.0, 0.5, 1.0])
    assert leads["always_search"]["interval"] == interval_over_questions_and_seeds(ours, theirs)
    starts = np.array([[0.0, 0.0, 0.5, 0.0], [0.0, 0.5, 0.5, 1.0]])  # each seed has its own
    assert leads["before"]["lead"] == pytest.approx(ours.mean() - starts.mean(), abs=1e-4)
    assert leads["before"]["interval"] == interval_over_questions_and_seeds(ours, starts)
    assert found["reward_leads"]["before"]["lead"] == pytest.approx(2 * (ours.mean() - starts.mean()), abs=1e-4)
    unscored = [row for row in two if (row["by"], row["id"]) != ("after", "3")]
    lead = leads_over_seeds([one, unscored])["accuracy_leads"]["always_search"]["lead"]
    assert lead == pytest.approx(ours[:, :3].mean() - 0.5, abs=1e-4)


def test_leads_of_a_setting_by_hand():
    def rows(*values):
        return [
            {"by": "after", "id": str(at), "accuracy": v, "seper": v, "reward": 2 * v} for at, v in enumerate(values)
        ]

    found = leads_between([rows(1, 0, 1), rows(1, 1, 0)], [rows(0.5, 0, 0.5, 1)])
    assert found["accuracy"]["lead"] == pytest.approx((0.5 + 0.5 + 0) / 3, abs=1e-4)
    assert found["reward"]["lead"] == pytest.approx(2 / 3, abs=1e-4)
    low, high = found["seper"]["interval"]
    assert 0 <= low < high <= 0.5


def test_table_of_trainings_by_hand():
    def log(*rewards):
        return [{"loss": 1.0}, *({"reward": r, "seper/exact_match": r / 2, "seper/searches": 1.0} for r in rewards)]

    table = training_table({"turn": [log(0.0, 0.2, 0.4, 0.8), log(0.2, 0.4)], "rollout": [log(1.0, 0.0)]}, parts=2)
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]
    assert cells == [
        ["turn", "1 to 1", "0.100", "0.050", "1.000"], ["turn", "2 to 2", "0.300", "0.150", "1.000"],
        ["rollout", "1 to 1", "1.000", "0.500", "1.000"], ["rollout", "2 to 2", "0.000", "0.000", "1.000"],
    ]  # fmt: skip


def test_two_settings_are_shown_side_by_side(tmp_path, capsys):
    for name, reward in (("rollout", 0.1), ("turn", 0.4)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "results.json").write_text(json.dumps({"after": {"accuracy": 0.5}}))
        steps = [{"step": at, "reward": reward, "seper/exact_match": 0.5, "seper/searches": 1.0} for at in range(1, 9)]
        log = [{"before/reward": 0.0, "step": 0}, *steps]
        (tmp_path / name / "training.jsonl").write_text("".join(json.dumps(row) + "\n" for row in log))
    rollout, turn, plot = (str(tmp_path / name) for name in ("rollout", "turn", "training.svg"))
    assert main(["--runs", rollout, "--against", turn, "--plot", plot]) == 0
    printed = capsys.readouterr().out
    assert printed.index(rollout) < printed.index("accuracy") < printed.index(turn)
    assert all((tmp_path / name / "over_seeds.json").is_file() for name in ("rollout", "turn"))
    assert "<svg" in Path(plot).read_text()
    assert re.search(r"rollout +\| 7 to 8 +\| 0\.100 +\|", printed)


def test_points_of_a_training_are_means_over_the_steps_before():
    log = [
        {"step": 1, "reward": 0.0},
        {"step": 2, "reward": 1.0},
        {"step": 2, "loss": 9.0},
        {"step": 3, "reward": 0.2},
    ]
    assert smoothed(log, "reward", 2) == {1: 0.0, 2: 0.5, 3: 0.6}
    assert smoothed(log, "reward", 9) == pytest.approx({1: 0.0, 2: 0.5, 3: 0.4})
    assert smoothed(log, "absent", 2) == {}
