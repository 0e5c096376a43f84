"""Too many connections, slow bodies, and bodies that never end."""

import contextlib
import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import httpx2
import pytest

from seper_reward.serving import middleware
from tests.serving.helpers import ServerThread, held

HEAD = b"POST /beliefs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"


@pytest.fixture(scope="module")
def running(tiny_scorer):
    with ServerThread(tiny_scorer, token="secret") as serving:
        yield serving


def connected(running):
    host, port = running.url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=30)


def test_a_request_that_is_answered_slowly_is_not_closed(running, monkeypatch):
    monkeypatch.setattr(middleware, "_BODY_SECONDS", 30.0)
    body = json.dumps({"asked": [{"question": "Who?", "answers": ["x"], "contexts": [[]]}]}).encode()
    length = b"Authorization: Bearer secret\r\nContent-Length: %d\r\n\r\n" % len(body)
    with connected(running) as connection:
        connection.sendall(HEAD + length)
        time.sleep(1.0)
        connection.sendall(body)
        assert connection.recv(4096).startswith(b"HTTP/1.1 200")


def test_a_body_has_a_time(running, monkeypatch):
    monkeypatch.setattr(middleware, "_BODY_SECONDS", 0.5)
    for token, status in ((b"secret", b"408"), (b"wrong", b"401")):
        with connected(running) as connection:
            connection.sendall(HEAD + b"Authorization: Bearer " + token + b"\r\nContent-Length: 1000\r\n\r\n{")
            answer = b"".join(iter(lambda connection=connection: connection.recv(4096), b""))
            assert answer.startswith(b"HTTP/1.1 " + status)
            assert b"connection: close" in answer.lower()


def test_a_body_without_end_is_not_swallowed(running, monkeypatch):
    monkeypatch.setattr(middleware, "_MOST_DRAINED", 100_000)
    with connected(running) as connection:
        connection.sendall(HEAD + b"Authorization: Bearer secret\r\nContent-Length: 100000000000\r\n\r\n")
        sent = 0
        with contextlib.suppress(OSError):
            while sent < 10**9:
                sent += connection.send(b"x" * 65536)
        assert sent < 10**9


def test_too_many_requests_get_503_and_health_is_reachable(tiny_scorer, monkeypatch):
    monkeypatch.setattr(middleware, "_MOST_REQUESTS", 2)
    asked = {"asked": [{"question": "Who?", "answers": ["x"], "contexts": [[]]}]}
    scorer, hold = held(tiny_scorer)
    with ServerThread(scorer) as limited, ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(httpx2.post, f"{limited.url}/beliefs", json=asked, timeout=30)]
        assert hold.reached.wait(30)
        waiting.append(pool.submit(httpx2.post, f"{limited.url}/beliefs", json=asked, timeout=30))
        eventually(lambda: limited.worker.waiting == 1)  # the other one is being measured
        assert httpx2.post(f"{limited.url}/beliefs", json=asked).status_code == 503
        assert httpx2.get(f"{limited.url}/health").status_code == 200
        hold.may_go_on.set()
        assert [each.result().status_code for each in waiting] == [200, 200]


def test_half_open_connections_do_not_count(tiny_scorer, monkeypatch):
    monkeypatch.setattr(middleware, "_MOST_REQUESTS", 2)
    with ServerThread(tiny_scorer) as limited, contextlib.ExitStack() as kept:
        for _ in range(20):
            kept.enter_context(connected(limited)).sendall(HEAD)
        assert httpx2.get(f"{limited.url}/scorer").status_code == 200


def test_the_questions_of_a_client_that_has_gone_are_dropped(tiny_scorer):
    asked = [{"question": f"Who? {number}", "answers": ["x"], "contexts": [[]]} for number in range(9)]
    scorer, hold = held(tiny_scorer)
    with ServerThread(scorer, block=1) as serving:
        with pytest.raises(httpx2.ReadTimeout):
            httpx2.post(f"{serving.url}/beliefs", json={"asked": asked}, timeout=1)
        assert hold.reached.is_set()  # the first question is being measured
        time.sleep(0.5)
        hold.may_go_on.set()
        other = {"asked": [{"question": "Whose turn?", "answers": ["x"], "contexts": [[]]}]}
        assert httpx2.post(f"{serving.url}/beliefs", json=other, timeout=30).status_code == 200
    assert [question for block in hold.blocks for question, _ in block] == ["Who? 0", "Whose turn?"]


def eventually(condition):
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
