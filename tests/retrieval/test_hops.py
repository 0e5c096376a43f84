"""Retrieval in hops, by a scripted retriever and against a slow loop."""

import random

import pytest

from seper_reward.retrieval import next_hop, next_query, retrieve_hops
from seper_reward.types import Passage, Query

A, B, C, D, E = (Passage(f"text {name}", id=name) for name in "abcde")


class Scripted:
    """Finds what the script says of a query, as often as it is asked."""

    def __init__(self, script):
        self.script, self.asked = script, []

    def retrieve(self, questions, top_k):
        self.asked.append((list(questions), top_k))
        return [tuple(self.script(question)[:top_k]) for question in questions]


def test_next_query_and_next_hop_by_hand():
    mill = Passage("It is Ida's.", title="Mill")
    assert next_query("Who?", ()) == "Who?"
    assert next_query("Who?", (mill, B)) == "Who? [SEP] Mill: It is Ida's. [SEP] text b"
    query = Query("q", "Who?", ("Ida",), (A,), metadata={"group": "x"})
    assert next_hop(query, ()) is query
    asked = next_hop(query, (A, B))
    assert (asked.id, asked.question) == ("q|a+b", "Who? [SEP] text a [SEP] text b")
    assert (asked.answers, asked.passages, asked.metadata) == (query.answers, query.passages, query.metadata)


def test_next_query_cuts_long_passages():
    one, two = Passage("x " * 300), Passage("y " * 300)
    assert next_query("Who?", (one,)).split() == ["Who?", "[SEP]", *["x"] * 120]
    assert next_query("Who?", (one, two)).split() == ["Who?", "[SEP]", *["x"] * 60, "[SEP]", *["y"] * 60]


def test_retrieve_hops_by_hand():
    found = {
        "1": [A, B, C, D],
        "1 [SEP] text a": [A, D, E, C],  # read already, so D is the best
        "2": [B, A],
        "2 [SEP] text b": [B],  # nothing new: one passage is read
    }
    retriever = Scripted(lambda question: found[question])
    # ranks among those not read: B 1, C 2, D 3, then D 0, E 1, C 2
    assert retrieve_hops(retriever, ["1", "2"], 2, 4) == [(A, D, B, E), (B, A)]
    assert retriever.asked == [(["1", "2"], 4), (["1 [SEP] text a", "2 [SEP] text b"], 5)]
    assert retrieve_hops(retriever, ["1"], 2, 1) == [(A,)]
    assert retrieve_hops(retriever, ["1"], 1, 3) == [(A, B, C)]


def test_retrieve_hops_refuses_no_hop():
    with pytest.raises(ValueError, match="hops must be at least 1, got 0"):
        retrieve_hops(Scripted(lambda question: [A]), ["Who?"], 0, 2)


@pytest.mark.parametrize("hops", [1, 2, 3])
def test_retrieve_hops_against_a_slow_loop(hops):
    corpus = [Passage(f"text {number}", id=str(number)) for number in range(9)]

    def script(question):
        return random.Random(question).sample(corpus, 7)

    questions = [f"question {number}" for number in range(20)]
    expected = []
    for question in questions:
        read, ranks = [], {}
        for _ in range(hops):
            unread = [each for each in script(next_query(question, read)) if each not in read]
            for each in unread:
                ranks.setdefault(each.id, []).append(unread.index(each))
            read.append(unread[0])
        # among equal ranks the one found first
        order = sorted((min(places), number, name) for number, (name, places) in enumerate(ranks.items()))
        others = [name for _, _, name in order if name not in {each.id for each in read}]
        expected.append([*(each.id for each in read), *others][:6])
    # each hop asks for as many more as were read, the script for at most seven
    found = retrieve_hops(Scripted(script), questions, hops, 7)
    assert [[each.id for each in row][:6] for row in found] == expected
