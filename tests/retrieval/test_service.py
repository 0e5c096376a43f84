"""A search service in place of a corpus: what is sent, what is understood, and what goes wrong."""

import pickle
from types import SimpleNamespace

import pytest

from seper_reward.retrieval import SearchService, load_retriever, service
from seper_reward.retrieval.service import passages_in
from seper_reward.types import Passage
from tests.completions_server import json_server


@pytest.fixture
def search_service():
    """Start a search service on this machine; it answers with what ``answers`` hold, then with the query itself."""
    server = SimpleNamespace(requests=[], answers=[])

    def answer(path, headers, body):
        server.requests.append(body)
        passages = [{"id": rank, "text": f"{body['query']} {rank}"} for rank in range(body["top_k"])]
        status, found = server.answers.pop(0) if server.answers else (200, {"passages": passages})
        return status, {}, found

    with json_server(answer) as url:
        server.url = f"{url}/search"
        yield server


def test_search_service_answers_each_question(search_service):
    retriever = load_retriever(search_service.url)
    questions = [f"who {number}" for number in range(40)]
    found = retriever.retrieve(questions, 2)
    assert [[(passage.id, passage.text) for passage in row] for row in found] == [
        [("0", f"{question} 0"), ("1", f"{question} 1")] for question in questions
    ]
    assert {"query": "who 7", "top_k": 2} in search_service.requests
    assert retriever.retrieve([], 3) == []
    with pytest.raises(ValueError, match="top_k must be at least 1, got 0"):
        retriever.retrieve(["who"], 0)


def test_search_service_retries_a_busy_service(search_service, monkeypatch):
    pauses = []
    monkeypatch.setattr(service.time, "sleep", pauses.append)
    search_service.answers = [(503, {}), (429, {})]
    assert len(SearchService(search_service.url).retrieve(["who"], 3)[0]) == 3
    assert pauses == [0.5, 2.0]
    search_service.answers = [(503, {"why": "warming up"})] * 4
    with pytest.raises(ConnectionError, match=r"did not answer in 4 attempts .503: .*warming up"):
        SearchService(search_service.url).retrieve(["who"], 3)


def test_search_service_refusals_and_failures(search_service):
    search_service.answers = [(422, {}), (404, {}), (500, {}), (200, {"found": []}), (200, [{"id": 1}])]
    for kind, message in (
        (ValueError, "answered 422"),  # the question is at fault; anything else is the service's
        (ConnectionError, "answered 404"),
        (ConnectionError, "answered 500"),
        (ConnectionError, "another form: expected a list of passages or an object with one of"),
        (ConnectionError, "another form: a passage must be a text or an object with one of"),
    ):
        with pytest.raises(kind, match=message):
            SearchService(search_service.url).retrieve(["who"], 3)
    with pytest.raises(ValueError, match="url must be an address such as"):
        SearchService("localhost:8000")


@pytest.mark.parametrize(
    "answer",
    [
        ["The mill burnt down."],
        {"results": ["The mill burnt down."]},
        {"documents": [{"content": "The mill burnt down."}]},
        {"hits": [{"document": {"contents": "The mill burnt down."}, "score": 0.3}]},
        {"hits": [{"document": "The mill burnt down.", "score": 0.3}]},
    ],
)
def test_passages_in_all_forms(answer):
    assert passages_in(answer) == (Passage("The mill burnt down."),)
    assert passages_in({"passages": [{"_id": 3, "title": "Mill", "text": "It burnt."}]}) == (
        Passage("It burnt.", "Mill", "3"),
    )
    for document in ("It burnt.", {"text": "It burnt."}):  # the id and the title may be next to it
        assert passages_in([{"id": 3, "title": "Mill", "document": document}]) == (Passage("It burnt.", "Mill", "3"),)
    inner = {"_id": "d7", "contents": "It burnt."}  # the inner id and text count
    assert passages_in([{"id": 0, "text": "burnt", "document": inner}]) == (Passage("It burnt.", "", "d7"),)
    assert passages_in([{"id": 7, "document": {**inner, "_id": None}}]) == (Passage("It burnt.", "", "7"),)
    for document in ({"title": "in"}, {"url": "x"}, {}):  # the text may be next to it, too
        assert passages_in([{"id": 1, "text": "It burnt.", "document": document}])[0].text == "It burnt."
    assert passages_in(["", {"text": " "}, {"text": "", "contents": "It burnt."}]) == (Passage("It burnt."),)


def test_search_service_pickles_its_address():
    copy = pickle.loads(pickle.dumps(SearchService("http://127.0.0.1:9/search", timeout=7)))
    assert (copy.url, copy.timeout) == ("http://127.0.0.1:9/search", 7)
