"""What `pip install` gives: the wheel of the sdist, in a fresh environment and an empty folder."""

import json
import os
import re
import site
import subprocess
import sys
import tarfile
import venv
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.slow


def run(command, folder, **environment):
    done = subprocess.run(
        list(map(str, command)), cwd=folder, env=environment or None, capture_output=True, text=True, timeout=900,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}"
    return done


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> dict[str, Path]:
    """An sdist of the working tree, and a wheel made of that sdist, as an index would have them."""
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("dist")
    run([sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", folder], ROOT, **os.environ)
    (sdist,) = folder.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    source = folder / sdist.name.removesuffix(".tar.gz")
    run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder], source, **os.environ)
    (wheel,) = folder.glob("*.whl")
    return {"sdist": source, "wheel": wheel}


@pytest.fixture(scope="module")
def installed(built, tmp_path_factory):
    """Return a function that runs a program of an environment that has the wheel, in a folder that is empty at first.

    What the wheel depends on is lent by this environment, whose own installation of the package is not.
    """
    folder = tmp_path_factory.mktemp("fresh")
    venv.create(folder / "env")
    (packages,) = (folder / "env").glob("lib/python*/site-packages")
    (packages / "lent.pth").write_text("\n".join(site.getsitepackages()) + "\n")
    bin_ = folder / "env" / "bin"
    pip = [sys.executable, "-m", "pip", "--python", bin_ / "python", "install", "--quiet"]
    run([*pip, "--no-deps", "--no-index", "--disable-pip-version-check", built["wheel"]], folder, **os.environ)
    (folder / "empty").mkdir()
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    environment = {**kept, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "PATH": f"{bin_}:{os.environ['PATH']}"}
    return lambda program, *words: run([bin_ / program, *words], folder / "empty", **environment)


def test_what_travels(built):
    with zipfile.ZipFile(built["wheel"]) as archive:
        names = set(archive.namelist())
        (metadata,) = (Parser().parsestr(archive.read(name).decode()) for name in names if name.endswith("/METADATA"))
    tracked = run(["git", "ls-files", "seper_reward", "trainers", "configs"], ROOT).stdout.splitlines()
    present = [path for path in tracked if (ROOT / path).is_file()]
    homes = {path if path.startswith("seper_reward/") else f"seper_reward/{path}" for path in present}
    assert homes == {name for name in names if ".dist-info/" not in name}
    assert all((built["sdist"] / path).is_file() for path in [*present, "docs/index.md", "README.md", "LICENSE"])
    assert {"train", "wandb"} <= set(metadata.get_all("Provides-Extra"))
    assert metadata["Version"]


def test_the_package_is_the_installed_one(installed):
    code = "import seper_reward; print(seper_reward.__version__, seper_reward.__file__)"
    version, path = installed("python", "-c", code).stdout.split()
    assert "/env/lib/" in path
    assert installed("seper-reward", "--version").stdout == f"seper-reward {version}\n"
    code = "from importlib.util import find_spec; print(find_spec('trainers'), find_spec('configs'))"
    assert installed("python", "-c", code).stdout == "None None\n"  # these names are everybody's


def test_label_and_what_it_says_next(installed):
    done = installed("seper-reward", "label", "--limit", "3", "--num_samples", "4")
    (label,) = re.findall(r"^labels: (.+)$", done.stdout, re.MULTILINE)
    assert label == "runs/label/labels.jsonl"
    following = re.findall(r"^next: seper-reward (.+)$", done.stderr, re.MULTILINE)
    assert following == ["report --labels runs/label --output report.html"]
    done = installed("seper-reward", *following[0].split())
    (following,) = re.findall(r"^next: seper-reward (.+)$", done.stderr, re.MULTILINE)
    assert installed("seper-reward", *following.split(), "--format", "trec").stdout.startswith("lists.jsonl: ")


def test_a_recipe_runs_by_a_copied_configuration(installed):
    copies = installed("seper-reward", "init").stdout.splitlines()
    named = set(re.findall(r"\bconfigs/[\w/.-]+\.yaml", (ROOT / "README.md").read_text(encoding="utf-8")))
    assert named <= set(copies)
    words = "--labeler gold --limit 24 --test_share 0.2 --max_steps 2 --per_device_train_batch_size 4"
    words += " --num_samples 4 --eval_readers embedded --reader plain --eval_strategy no"
    words += " --output_dir runs/mine"
    done = installed("seper-reward", "train", "retriever", "--config", "configs/retriever/demo.yaml", *words.split())
    assert "model: runs/mine/model" in done.stdout
    assert "next: seper-reward train reranker --retriever runs/mine/model --input demo" in done.stderr
    code = "import json; print(json.dumps(json.load(open('runs/mine/results.json'))['after']))"
    assert 0 <= json.loads(installed("python", "-c", code).stdout)["ndcg@10"] <= 1
