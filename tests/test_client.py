"""Thin clients: no torch, no models, picklable, and patient with a server that is busy, stopping or gone."""

import json
import pickle
import time
from contextlib import contextmanager

import pytest

from seper_reward.client import TOKEN, SePerClient, belief_from_json, belief_json
from seper_reward.types import Asked, Passage, UnscorableError
from tests.completions_server import json_server

ASKED = Asked("Who runs the mill?", ("Ida Voss",), ((), (Passage("Ida runs it.", "Hallow"),)), ("Ida",))
NOTHING = {"results": [None], "reasons": ["too long"]}


@contextmanager
def answering(*answers):
    """Answer one request after the other with (status, headers, body), the last one again and again."""
    seen, left = [], list(answers)

    def answer(path, headers, body):
        seen.append((path, headers, body))
        return left.pop(0) if len(left) > 1 else left[0]

    with json_server(answer) as url:
        yield url, seen


def measure(url, **options):
    return SePerClient(url, **options).measure([ASKED])


def test_a_busy_server_is_asked_again():
    busy = [(429, {}, {"detail": "full"}), (503, {"Retry-After": "1"}, {"detail": "stopping"})]
    with answering(*busy, (200, {}, NOTHING)) as (url, seen):
        start = time.monotonic()
        (found,) = measure(url)
    assert time.monotonic() - start >= 1  # as the server wished
    assert isinstance(found, UnscorableError)
    assert str(found) == "too long"
    assert len(seen) == 3
    path, headers, body = seen[-1]
    assert path == "/beliefs"
    assert 598 < float(headers["SePer-Deadline"]) < 599.1
    assert body["asked"][0]["contexts"] == [[], [{"title": "Hallow", "text": "Ida runs it."}]]
    assert body["asked"][0]["texts"] == ["Ida"]


def test_what_the_request_is_to_blame_for_is_not_sent_again():
    for status, kind in ((422, ValueError), (401, ValueError), (500, ConnectionError)):
        with answering((status, {}, {"detail": "body.asked: no"})) as (url, seen):
            with pytest.raises(kind, match=f"answered {status}: body.asked: no"):
                measure(url)
            assert len(seen) == 1


def test_nobody_there():
    start = time.monotonic()
    with pytest.raises(ConnectionError, match=r"did not answer within 0.5 s \(\d+ attempts; the last: ConnectError"):
        measure("http://127.0.0.1:9", timeout=0.5)
    assert time.monotonic() - start < 0.6  # no sleep into a time that is over


def test_the_token_comes_from_the_environment(monkeypatch):
    with answering((200, {}, NOTHING)) as (url, seen):
        measure(url)
        monkeypatch.setenv(TOKEN, "secret\n")  # as many files with secrets end
        measure(url)
    assert [headers.get("Authorization") for _, headers, _ in seen] == [None, "Bearer secret"]


def test_many_queries_are_several_requests_and_errors_have_reasons():
    query = {"question": "Who runs the mill?", "answers": ["Ida Voss"], "passages": ["x" * 400_000]}
    late = (504, {}, {"detail": "late"})
    with answering((200, {}, {"results": [{"seper": 0.5}] * 2, "reasons": [None] * 2}), late, (200, {}, NOTHING)) as (
        url,
        seen,
    ):
        found = SePerClient(url).utilities([query] * 3)
    assert [len(body["queries"]) for *_, body in seen] == [2, 1, 1]
    assert found[:2] == [{"seper": 0.5}] * 2
    assert str(found[2]) == "too long"


def test_an_answer_as_a_text_is_one_alias():
    with answering((200, {}, NOTHING)) as (url, seen), pytest.raises(UnscorableError, match="too long"):
        SePerClient(url).beliefs("Where?", "Paris", [()])
    assert seen[0][2]["asked"][0]["answers"] == ["Paris"]


def test_a_pickle_has_the_address_and_nothing_else():
    with answering((200, {}, NOTHING)) as (url, seen):
        client = SePerClient(url, timeout=7)
        client.measure([ASKED])  # it has connections now
        copy = pickle.loads(pickle.dumps(client))
        assert vars(copy) == {"url": url, "timeout": 7}
        copy.measure([ASKED])
    assert len(seen) == 2


def test_nothing_asked_is_not_sent():
    assert SePerClient("http://127.0.0.1:9").measure([]) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("localhost:8100",), "url must be an address such as http://localhost:8100"),
        (("http://user:secret@host:1",), "must not contain a password"),
        (("http://localhost:8100", 0), "timeout must be above 0"),
    ],
)
def test_nonsense_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message) as caught:
        SePerClient(*arguments)
    assert "secret" not in str(caught.value)


def test_a_belief_travels(tiny_scorer):
    (belief,) = tiny_scorer.beliefs(ASKED.question, ASKED.answers, [ASKED.contexts[1]])
    copy = belief_from_json(json.loads(json.dumps(belief_json(belief))))
    assert copy.responses == belief.responses
    assert len(copy.responses) > 1
    for name in vars(belief).keys() - {"sampled"}:
        assert getattr(copy, name) == getattr(belief, name), name


def test_a_proxy_is_named_and_this_machine_is_asked_directly(monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy"):
        monkeypatch.setenv(name, "http://user:secret@127.0.0.1:9")
    with answering((200, {}, NOTHING)) as (url, seen):
        assert measure(url, timeout=20)
    assert len(seen) == 1
    with pytest.raises(ConnectionError) as caught:
        measure("http://scorer.invalid:8100", timeout=0.5)
    assert "did not answer through the proxy 127.0.0.1:9 of the environment (NO_PROXY leaves" in str(caught.value)
    assert "secret" not in str(caught.value)
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "scorer.invalid")
    with pytest.raises(ConnectionError) as caught:
        measure("http://scorer.invalid:8100", timeout=0.5)
    assert "proxy" not in str(caught.value)
