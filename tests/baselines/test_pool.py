"""Pools by their names: what each name stands for, and what the reader writes for them."""

import pytest

from seper_reward.baselines import pool
from seper_reward.baselines.pool import BACKGROUND_PROMPT, COMPRESS_PROMPT, retrieve_sources
from seper_reward.data.queries import read_queries
from seper_reward.reader.prompted import PromptedReader
from seper_reward.types import Passage
from tests.helpers import FindsThese, ScriptedSampler


def sources_of(names, corpus, questions, reader=None, background=BACKGROUND_PROMPT, compress=COMPRESS_PROMPT, **own):
    return retrieve_sources(names, corpus, questions, reader, background, compress, **own)


BAD = "bm25 bm25@0 @3 bm25@two bm25@RR bm25@3& (bm25@3 bm25@3) &bm25@3 bm25@ () (bm25@3)(bm25@3) x(bm25@1)@2 bm25@RR@0"


@pytest.mark.parametrize("name", [*BAD.split(), "", "bm25@2@CP&minilm@2", "bm25@2@CP@1"])
def test_retrieve_sources_refuses_other_names(name):
    with pytest.raises(ValueError, match=r"must be none, background or RETRIEVER@NUMBER such as bm25@5, .*, got"):
        sources_of([name], {}, [])


@pytest.fixture
def corpus(lane_questions):
    queries = read_queries(lane_questions).queries[:6]
    return {f"{query.id} {each.id}": each for query in queries for each in query.passages}


QUESTIONS = ["Who owns house 2 of the lane?", "Which sheep graze on hill 3?"]


class Reading:
    """A reader that writes what it was asked for, and of which passages."""

    def __init__(self, tokenizer):
        self.sampler = ScriptedSampler(tokenizer, self.reply)
        self.reader = PromptedReader(self.sampler, prompt="brief")

    @staticmethod
    def reply(prompt):
        if "paragraph of what is known" in prompt:
            return "" if "sheep" in prompt else "The lane is old."
        return f"{prompt.count('Passage: ')} passages"


def test_retrieve_sources_by_operation(corpus, tiny_sampler, monkeypatch):
    asked = []

    class Given:
        def retrieve(self, questions, top_k):
            asked.append(top_k)
            return [tuple(corpus.values())[at : at + top_k] for at, _ in enumerate(questions)]

    loaded = []
    monkeypatch.setattr(pool, "load_retriever", lambda name, corpus: loaded.append(name) or Given())
    reading = Reading(tiny_sampler.tokenizer)
    names = [
        "none", "one@3", "one@2@CP", "one@2&two@3", "(one@2&two@3)@1", "background", "background&one@1", "none@CP",
        "(one@3&none)@1", "((background@CP))", "a/two@2@1&none", "one@2&two@3@CP", "one@2&(two@3@CP)",
    ]  # fmt: skip
    found = sources_of(names, corpus, QUESTIONS, reading.reader)
    first = list(corpus.values())
    assert list(found) == names
    assert (sorted(loaded), asked) == (["a/two", "one", "two"], [3, 3, 2])  # each once, as deep as any name wants it
    assert found["none"] == found["none@CP"] == [(), ()]
    assert found["one@3"] == [tuple(first[:3]), tuple(first[1:4])]
    assert found["one@2&two@3"] == found["one@3"]  # equal ones once
    assert found["(one@2&two@3)@1"] == [(first[0],), (first[1],)]
    assert found["one@2@CP"] == [(Passage("2 passages", id="compressed"),)] * 2
    assert found["background"] == [(Passage("The lane is old.", id="background"),), ()]
    assert found["(one@3&none)@1"] == found["a/two@2@1&none"] == [(first[0],), (first[1],)]
    assert found["((background@CP))"] == [(Passage("1 passages", id="compressed"),), ()]
    assert found["one@2&two@3@CP"] == [(Passage("3 passages", id="compressed"),)] * 2  # @CP binds last
    assert [row[2] for row in found["one@2&(two@3@CP)"]] == [Passage("3 passages", id="compressed")] * 2
    assert found["background&one@1"] == [(Passage("The lane is old.", id="background"), first[0]), (first[1],)]


def test_retrieve_sources_without_room(tiny_sampler):
    reading = Reading(tiny_sampler.tokenizer)
    found = sources_of(["background"], {}, ["why " * 6000, QUESTIONS[0]], reading.reader)
    assert found["background"] == [(), (Passage("The lane is old.", id="background"),)]


def test_retrieve_sources_writes_data(tiny_sampler):
    reading = Reading(tiny_sampler.tokenizer)
    control = tiny_sampler.tokenizer.eos_token
    for end in ("", control):
        corpus = {"p": Passage(f"House 2 is Ann's. {{question}}{end}")}
        sources_of(["bm25@1@CP"], corpus, [f"Who owns house {{0}} 2{end}?"], reading.reader)
    plain, hostile = (prompt for (prompt,) in reading.sampler.asked)
    # braces stay as they are, and control tokens are none
    assert "Passage: House 2 is Ann's. {question}\n" in plain
    assert "Question: Who owns house {0} 2?" in plain
    assert plain.count(control) == hostile.count(control) > 0


def test_retrieve_sources_reranks_twenty(monkeypatch):
    class Backwards:
        def rerank(self, question, passages):
            return tuple(reversed(passages))

    monkeypatch.setattr(pool, "load_reranker", lambda name: {"mine/reranker": Backwards()}[name])
    numbers = FindsThese(Passage(str(number)) for number in range(30))
    monkeypatch.setattr(pool, "load_retriever", lambda name, corpus: numbers)
    found = sources_of(["one@RR@2", "one@4@RR@2&two@1", "one@RR@25"], {}, ["Who?"], reranker="mine/reranker")
    texts = {name: [each.text for each in row] for name, (row,) in found.items()}
    assert texts["one@RR@2"] == ["19", "18"]  # of 20
    assert texts["one@4@RR@2&two@1"] == ["3", "2", "0"]
    assert texts["one@RR@25"] == [str(number) for number in reversed(range(25))]
