"""The checks of an accelerator: all of them on the CPU, small, and on an accelerator if there is one."""

import json
import os
import subprocess
from importlib.metadata import version

import pytest

from tests.gpu_check.__main__ import CHECKS, main
from tests.vllm_server import ABSENT, PYTHON, SETTINGS

LEFT_OUT_ON_CPU = {"halves"}
WITH_VLLM = {"grpo_vllm", "async_grpo", "grpo_vllm_server"}


def rows_of(path):
    return {row["name"]: row for row in json.loads(path.read_text())["checks"]}


def test_a_check_writes_its_numbers(tmp_path):
    path = tmp_path / "runs" / "found.json"
    assert main(["--output", str(path), "--device", "cpu", "--only", "labels", "halves"]) == 0
    rows = rows_of(path)
    assert rows["labels"]["status"] == "passed"
    assert rows["labels"]["found"]["labels"] == rows["labels"]["found"]["same_responses"] == 8
    assert rows["labels"]["found"]["greatest_difference"] == 0  # the same device twice
    assert rows["halves"]["status"] == "left out"
    assert json.loads(path.read_text())["machine"]["torch"] == version("torch")


def test_a_failed_check_and_a_late_one_are_no_success(tmp_path, monkeypatch):
    def failing(plan):
        raise AssertionError("7 of 9 differ")

    monkeypatch.setattr("tests.gpu_check.__main__.CHECKS", (failing,))
    assert main(["--output", str(tmp_path / "found.json"), "--device", "cpu"]) == 1
    found = json.loads((tmp_path / "found.json").read_text())
    assert not found["passed"]
    assert found["checks"][0]["error"] == "AssertionError: 7 of 9 differ"
    assert main(["--output", str(tmp_path / "found.json"), "--device", "cpu", "--seconds", "-1"]) == 1
    assert rows_of(tmp_path / "found.json")["failing"]["status"] == "late"


@pytest.mark.slow
def test_all_checks_on_the_cpu(tmp_path):
    path = tmp_path / "found.json"
    assert main(["--output", str(path), "--device", "cpu", "--seconds", "1200"]) == 0, path.read_text()
    rows = rows_of(path)
    assert set(rows) == {each.__name__ for each in CHECKS}
    assert {name for name, row in rows.items() if row["status"] == "left out"} == LEFT_OUT_ON_CPU | WITH_VLLM
    assert rows["published"]["found"]["ratio"] > 1
    assert len(rows["grpo_policy_base"]["found"]["share_of_step"]) == 2


@pytest.mark.slow
@pytest.mark.skipif(not PYTHON.exists(), reason=ABSENT)
@pytest.mark.parametrize("name", sorted(WITH_VLLM))
def test_trainers_use_a_real_vllm(name, tmp_path):
    """With stand-ins for three parts that need a GPU (``tests.gpu_check.engines``)."""
    path = tmp_path / "found.json"
    words = [PYTHON, "-m", "tests.gpu_check", "--device", "cpu", "--output", path, "--only", name]
    done = subprocess.run(list(map(str, words)), env={**os.environ, **SETTINGS}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert rows_of(path)[name]["status"] == "passed"


@pytest.mark.gpu
def test_all_checks_on_an_accelerator(tmp_path):
    path = tmp_path / "found.json"
    assert main(["--output", str(path)]) == 0, path.read_text()
