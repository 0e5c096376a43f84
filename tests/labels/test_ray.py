"""Real Ray on two CPU actors: `make ray-test` sets it up and runs this."""

import json
import os
import signal

import pytest

from seper_reward.cli import main
from seper_reward.labels.dataset import Labeler
from seper_reward.options import LabelOptions
from tests.helpers import ENVIRONMENT, mill_rows, write_rows

ray = pytest.importorskip("ray", reason="Ray has an environment of its own: make ray-test")
pytestmark = pytest.mark.slow

ROWS = mill_rows(40)


@pytest.fixture(scope="module", autouse=True)
def cluster():
    ray.init(num_cpus=3, include_dashboard=False, runtime_env={"env_vars": ENVIRONMENT})
    yield
    ray.shutdown()


class Dying(Labeler):
    """Kills its process in the middle of the run, once: it leaves a file."""

    def __init__(self, options, left):
        super().__init__(options)
        self._left = left

    def __call__(self, batch):
        if "q20" in list(batch["id"]) and not self._left.exists():
            self._left.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__call__(batch)


@pytest.mark.parametrize("killed", [False, True])
def test_two_actors_have_the_labels_of_one_process(tiny_reader, tiny_entailment, tmp_path, killed):
    words = ["--reader", str(tiny_reader), "--judge", str(tiny_entailment), "--num_samples", "3"]
    source = write_rows(tmp_path / "data.jsonl", ROWS)
    assert main(["label", "--input", str(source), "--output_dir", str(tmp_path / "out"), *words]) == 0
    options = LabelOptions(reader=str(tiny_reader), judge=str(tiny_entailment), num_samples=3)
    left = tmp_path / "killed"
    labelled = ray.data.read_json(str(source), lines=True, override_num_blocks=8).map_batches(
        Dying if killed else Labeler,
        fn_constructor_args=(options, left) if killed else (options,),
        batch_size=5,
        compute=ray.data.ActorPoolStrategy(size=2),
    )
    rows = sorted(labelled.take_all(), key=lambda row: row["id"])
    assert left.exists() == killed
    lines = (tmp_path / "out" / "labels.jsonl").read_text().splitlines()
    assert [row["label_row"] for row in rows] == lines
    assert {row["label_error"] for row in rows} == {""}
    for row, line in zip(rows, lines, strict=True):
        assert list(row["labels"]) == [passage["delta_seper"] for passage in json.loads(line)["passages"]]
