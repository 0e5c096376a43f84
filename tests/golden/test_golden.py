"""The frozen artifacts: this code makes the same ones, and the comparison sees what changes."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.golden.compare import differences, read_frozen
from tests.helpers import ENVIRONMENT


@pytest.mark.slow
def test_main_jobs_make_the_frozen_artifacts():
    command = [sys.executable, "-m", "tests.golden"]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-4000:]


def test_low_digits_may_differ_and_nothing_else():
    before = {"a": '{"x": [1.0, 0.25], "s": "Ann"}\n{"x": []}\n', "b": "q1 0 p1 1\n"}
    near = {"a": '{"x": [1.00001, 0.25], "s": "Ann"}\n{"x": []}\n', "b": "q1 0 p1 1\n"}
    assert differences(before, near) == {}
    far = {"a": '{"x": [1.0, 0.26], "s": "Ann"}\n{"x": []}\n', "c": ""}
    assert differences(before, far) == {
        "a": "[0].x[1]: was 0.25, is 0.26",
        "b": "is missing",
        "c": "is not among the frozen ones",
    }
    other = {"a": '{"x": [1.0, 0.25], "t": "Ann"}\n{"x": []}\n', "b": "q1 0 p2 1\n"}
    assert differences(before, other) == {
        "a": "[0]: lost ['s'], new ['t']",
        "b": "[0]: was 'q1 0 p1 1', is 'q1 0 p2 1'",
    }


def test_frozen_artifacts_are_complete():
    names = set(read_frozen())
    assert {name.split("/")[0] for name in names} == {
        "labels", "exports", "rewards", "server", "training", "retriever",
    }  # fmt: skip
    assert len(names) >= 41
