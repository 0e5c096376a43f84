"""Slow, half-open and too many connections, and bodies that never end."""

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


def seconds_until_closed(connection):
    start = time.monotonic()
    while connection.recv(4096):
        pass
    return time.monotonic() - start


@pytest.mark.parametrize("sent", [b"", b"POST /bel", HEAD])
def test_headers_have_a_time(running, monkeypatch, sent):
    monkeypatch.setattr(server, "_HEADER_SECONDS", 0.5)
    with connected(running) as connection:
        connection.sendall(sent)
        assert 0.2 < seconds_until_closed(connection) < 20


def test_headers_of_a_second_request_have_a_time(running, monkeypatch):
    monkeypatch.setattr(server, "_HEADER_SECONDS", 1.0)
    with connected(running) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        assert connection.recv(4096).startswith(b"HTTP/1.1 200")
        time.sleep(1.5)  # between requests a connection is kept
        connection.sendall(b"GET /heal")
        assert seconds_until_closed(connection) < 20


def test_a_request_that_is_answered_slowly_is_not_closed(running, monkeypatch):
    monkeypatch.setattr(server, "_HEADER_SECONDS", 0.2)
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


def test_too_many_connections_are_closed(running, monkeypatch):
    monkeypatch.setattr(server, "most_connections", lambda: 3)
    kept = [connected(running) for _ in range(3)]
    try:
        time.sleep(0.5)
        with connected(running) as one_more:
            assert seconds_until_closed(one_more) < 10
        kept[0].sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        assert kept[0].recv(4096).startswith(b"HTTP/1.1 200")
    finally:
        for each in kept:
            each.close()


def test_the_limit_is_that_of_open_files(monkeypatch):
    for soft, most in ((1024, 896), (100, 1), (10**6, 10_000), (-1, 10_000)):
        monkeypatch.setattr(server.resource, "getrlimit", lambda _, soft=soft: (soft, -1))
        assert server.most_connections() == most
