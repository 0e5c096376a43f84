"""Too many connections, slow bodies, and bodies that never end."""

import contextlib
import json
import socket
import time

import pytest

from seper_reward.serving import middleware, server
from tests.serving.helpers import ServerThread

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


def test_too_many_connections_get_503(tiny_scorer, monkeypatch):
    monkeypatch.setattr(server, "_MOST_CONNECTIONS", 3)
    ask = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
    with ServerThread(tiny_scorer) as limited, contextlib.ExitStack() as kept:
        first, *_ = [kept.enter_context(connected(limited)) for _ in range(2)]
        first.sendall(ask)
        assert first.recv(4096).startswith(b"HTTP/1.1 200")
        with connected(limited) as one_more:
            one_more.sendall(ask)
            assert one_more.recv(4096).startswith(b"HTTP/1.1 503")
