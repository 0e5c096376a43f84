"""`seper-reward serve` as users run it: it answers, keeps its cache, and stops as it should."""

import multiprocessing
import socket
import sys
import threading

import httpx2
import torch

from seper_reward import cli
from seper_reward.client import SePerClient
from seper_reward.commands import serve as command
from seper_reward.reward.reward import SePerReward
from tests.serving.helpers import free_port, wait_for

COLUMNS = {"question": ["Who runs the mill?"], "answers": [["Ida Voss"]], "passages": [["Ida Voss runs it."]]}


def serving(words):
    torch.set_num_threads(1)  # OpenMP's threads do not survive a fork
    sys.exit(cli.main(words))


def test_serve_answers_before_it_stops(tiny_reader, tiny_entailment, tmp_path):
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    words = ["--reader", tiny_reader, "--judge", tiny_entailment, "--cache", tmp_path / "cache.sqlite"]
    words = ["serve", "--port", port, "--prompt", "brief", *words, "--num_samples", 2, "--max_new_tokens", 4]
    server = multiprocessing.get_context("fork").Process(target=serving, args=(list(map(str, words)),))
    server.start()
    try:
        wait_for(url, lambda: server.exitcode, seconds=60)
        (reward,) = SePerReward(url, answer_weight=0.0, price=0.0)(**COLUMNS)
        assert reward != 0
        queries = [{**{name: value[0] for name, value in COLUMNS.items()}, "question": f"{n}?"} for n in range(60)]
        found = []
        asking = threading.Thread(target=lambda: found.extend(SePerClient(url, timeout=60).utilities(queries)))
        asking.start()
        while httpx2.get(f"{url}/health").json()["waiting"] < 50:
            assert asking.is_alive()
        server.terminate()
        asking.join(60)
        assert len(found) == 60
        assert None not in found
        server.join(30)
        assert server.exitcode == 0
    finally:
        server.kill()
        server.join()
    assert (tmp_path / "cache.sqlite").stat().st_size > 50_000


def test_serve_refuses_an_empty_token(capsys, monkeypatch):
    monkeypatch.setattr(command, "SePerScorer", None)
    for token in ("", " "):
        monkeypatch.setenv("SEPER_SERVER_TOKEN", token)
        assert cli.main(["serve"]) == 2
        assert "$SEPER_SERVER_TOKEN must not be empty; set a secret, or unset it" in capsys.readouterr().err


def test_serve_names_a_taken_address_early(capsys, monkeypatch):
    monkeypatch.setattr(command, "SePerScorer", None)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert cli.main(["serve", "--port", str(port)]) == 2
    error = capsys.readouterr().err
    assert f"cannot listen on 127.0.0.1, port {port}" in error
    assert error.count("\n") == 1


def test_serve_without_its_extra(monkeypatch, capsys):
    for name in [name for name in sys.modules if name.startswith("seper_reward.serving")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "fastapi", None)
    assert cli.main(["serve"]) == 2
    assert "run: pip install fastapi (extra: serve)" in capsys.readouterr().err
