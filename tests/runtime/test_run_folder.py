"""A run's folder: one run at a time, and only with the settings it was begun with."""

import pytest

from seper_reward.runtime.json_files import read_json
from seper_reward.runtime.run_folder import claim_settings, lock_folder


def test_lock_folder_one_run_at_a_time(tmp_path):
    first = lock_folder(tmp_path / "run")
    with pytest.raises(ValueError, match="is in use by another process; wait for it or name another folder"):
        lock_folder(tmp_path / "run")
    first.close()
    lock_folder(tmp_path / "run").close()
    with pytest.raises(OSError, match="cannot be written"):
        lock_folder(tmp_path / "run" / ".lock" / "below")


def test_claim_settings_lets_the_same_in(tmp_path):
    path = tmp_path / "settings.json"
    settings = {"loss": "kl", "stop": ("\n",), "margin": 0.1}  # JSON has no tuples
    claim_settings(path, settings)
    claim_settings(path, settings)
    assert read_json(path) == {"loss": "kl", "stop": ["\n"], "margin": 0.1}


def test_claim_settings_names_changes(tmp_path):
    path = tmp_path / "settings.json"
    claim_settings(path, {"loss": "kl", "reader": {"name": "a", "seed": 1}})
    message = r"changed: loss was 'kl', is 'mse'; reader\.seed was 1, is None; top_k was None, is 3"
    with pytest.raises(ValueError, match=message):
        claim_settings(path, {"loss": "mse", "reader": {"name": "a"}, "top_k": 3})
    assert read_json(path)["loss"] == "kl"


def test_claim_settings_of_some_keys(tmp_path):
    path = tmp_path / "provenance.json"
    claim_settings(path, {"decides": {"seed": 0}, "processes": 1})
    claim_settings(path, {"decides": {"seed": 0}, "processes": 2}, ["decides"])
    with pytest.raises(ValueError, match="holds labels made otherwise; changed: seed was 0, is 1"):
        claim_settings(path, {"decides": {"seed": 1}, "processes": 1}, ["decides"], holds="labels made otherwise")
