"""A cached retriever asks once for each query, and for those of threads that wait together."""

import pickle
import threading
import time

import pytest

from seper_reward.retrieval import BM25Retriever, CachedRetriever, cached
from seper_reward.types import Passage
from tests.reward.scripted import Counting

CORPUS = {name: Passage(f"The {name} in the fog.", id=name) for name in ("mill", "ferry", "barn", "ox")}


def ids(found):
    return [[passage.id for passage in row] for row in found]


@pytest.fixture
def counting():
    return Counting(BM25Retriever(CORPUS))


def test_retrieve_asks_each_query_once(counting):
    retriever = CachedRetriever(counting)
    assert ids(retriever.retrieve(["mill", "ferry", "mill"], 1)) == [["mill"], ["ferry"], ["mill"]]
    assert ids(retriever.retrieve(["barn", "ferry"], 1)) == [["barn"], ["ferry"]]
    assert ids(retriever.retrieve(["ferry fog"], 3))[0][0] == "ferry"
    assert len(retriever.retrieve(["ferry fog"], 1)[0]) == 1  # another depth
    assert retriever.retrieve([], 1) == []
    assert counting.asked == [["mill", "ferry"], ["barn"], ["ferry fog"], ["ferry fog"]]


def test_retrieve_joins_queries_of_waiting_threads():
    class Held:
        """Waits in its first search until three other threads have asked."""

        def __init__(self):
            self.asked, self.begun, self.may_go_on = [], threading.Event(), threading.Event()

        def retrieve(self, questions, top_k):
            self.asked.append(sorted(questions))
            self.begun.set()
            assert self.may_go_on.wait(30)
            return [(CORPUS[question],) for question in questions]

    held, found = Held(), {}
    retriever = CachedRetriever(held)

    def search(name):
        found[name] = retriever.retrieve([name], 1)

    threads = [threading.Thread(target=search, args=(name,)) for name in CORPUS]
    threads[0].start()
    assert held.begun.wait(30)
    for thread in threads[1:]:
        thread.start()
    while set(retriever._waiting) != set(CORPUS) - {"mill"}:
        time.sleep(0.001)
    held.may_go_on.set()
    for thread in threads:
        thread.join(30)
    assert held.asked == [["mill"], ["barn", "ferry", "ox"]]
    assert found == {name: [(passage,)] for name, passage in CORPUS.items()}


class Picky(Counting):
    def retrieve(self, questions, top_k):
        found = super().retrieve(questions, top_k)
        if "ox" in questions:
            raise ValueError("no oxen")
        return found


def test_retrieve_drops_refused_queries_of_others():
    picky = Picky(BM25Retriever(CORPUS))
    retriever = CachedRetriever(picky)
    retriever._waiting = dict.fromkeys(["mill", "ox", "ferry"])  # of threads that wait
    assert ids(retriever.retrieve(["mill"], 1)) == [["mill"]]
    with pytest.raises(ValueError, match="no oxen"):
        retriever.retrieve(["ox"], 1)
    assert ids(retriever.retrieve(["ferry"], 1)) == [["ferry"]]
    assert picky.asked == [["mill", "ox", "ferry"], ["mill"], ["ox"], ["ferry"]]


def test_cached_retriever_forgets_and_pickles_without_results(counting, monkeypatch):
    monkeypatch.setattr(cached, "_SIZE", 2)
    retriever = CachedRetriever(counting)
    for name in ("mill", "ferry", "barn", "barn", "mill"):
        assert ids(retriever.retrieve([name], 1)) == [[name]]
    assert counting.asked == [["mill"], ["ferry"], ["barn"], ["mill"]]
    assert ids(retriever.retrieve(["ox", "mill"], 1)) == [["ox"], ["mill"]]  # a third: only what is asked for is kept
    assert counting.asked[4:] == [["ox"]]
    fresh = CachedRetriever(BM25Retriever(CORPUS))
    size = len(pickle.dumps(fresh))
    fresh.retrieve(["mill"], 1)
    assert len(pickle.dumps(fresh)) == size
    assert ids(pickle.loads(pickle.dumps(fresh)).retrieve(["mill"], 1)) == [["mill"]]
