"""Warm-up examples of a policy: both actions, the reader's own answers and wording."""

import json
from collections import Counter
from types import SimpleNamespace

import pytest
from transformers import AutoTokenizer

from seper_reward.reader.loading import embedded_reader_folder
from seper_reward.reader.prompts import STYLES
from seper_reward.retrieval import BM25Retriever
from seper_reward.reward import with_tool_template
from seper_reward.reward.environment import search_environment
from seper_reward.types import Belief, Estimate, Passage, Query, Responses, UnscorableError
from tests.helpers import OneByOne
from trainers.policy_task import SearchTool, row_of, warm_up_rows

CORPUS = {
    "a": Passage("Ida Voss runs the mill in Hallow. " + "It is old. " * 40, id="a"),
    "b": Passage("The capital of France is a large city.", id="b"),
}
QUERIES = [
    Query("1", "Who runs the mill in Hallow?", ("Ida Voss",)),
    Query("2", "What is the capital of France?", ("Paris",)),
]


def belief(seper, *said):
    """A belief of responses (text, count, weight, support)."""
    texts, counts, weights, support = zip(*said, strict=True)
    value = Estimate(seper, 0.0, seper, seper)
    return Belief(
        value, value, sampled=Responses(texts, ()), counts=counts, weights=weights, cluster_ids=(0,) * len(said),
        best_support=support,
    )  # fmt: skip


class ScriptedScorer(OneByOne):
    """Knows France's capital, and the miller once it reads of her; one question is too long for it."""

    def __init__(self):
        self.reader = SimpleNamespace(prompts=SimpleNamespace(style=STYLES["brief"]), **vars(OneByOne.reader))
        self.asked = []

    def beliefs(self, question, answers, passage_sets):
        self.asked.append((question, passage_sets))
        if "too long" in question:
            raise UnscorableError("question has no room")
        read = " ".join(passage.text for passage in passage_sets[0])
        if "France" in question:
            # the likeliest text is wrong, and the likeliest right one was never drawn
            said = ("Lyon", 5, 0.4, 0.1), ("in Paris", 0, 0.3, 0.9), ("Paris", 4, 0.25, 0.8), ("paris", 1, 0.05, 0.9)
            return [belief(0.6, *said)]
        if "Voss" in read:
            return [belief(0.9, ("Ida Voss", 9, 0.9, 1.0), ("Bob", 1, 0.1, 0.0))]
        return [belief(0.1, ("unknown", 6, 0.6, 0.0), ("Ida", 3, 0.3, 0.7), (" ", 1, 0.1, 0.0))]


@pytest.fixture(scope="module")
def tokenizer():
    return with_tool_template(AutoTokenizer.from_pretrained(embedded_reader_folder()))


def tool(tokenizer, corpus=CORPUS, turns=1):
    make = search_environment(BM25Retriever(corpus), max_turns=turns, max_passage_tokens=48, tokenizer=tokenizer)
    return lambda: SearchTool(make(), STYLES["brief"])


def rows_of(queries, tokenizer, seed=0, turns=1, corpus=CORPUS):
    made = tool(tokenizer, corpus, turns)
    return warm_up_rows(queries, ScriptedScorer(), made, tokenizer, max_turns=turns, seed=seed)


class TwoBegins:
    """A template that prints the token which the tokenizer also adds."""

    bos_token, bos_token_id = "<s>", 1

    def __init__(self, adds):
        self.adds = adds

    def __call__(self, text):
        return SimpleNamespace(input_ids=[1] * (self.adds + text.startswith("<s>")) + [2])

    def apply_chat_template(self, messages, **_):
        return "<s>" + "".join(message["content"] for message in messages)


def test_row_of_begins_a_prompt_once():
    asked, reply = [{"role": "user", "content": "Who?"}], {"role": "assistant", "content": " Ann"}
    found = [row_of(TwoBegins(adds), asked, reply, "memory")["prompt"] for adds in (True, False)]
    assert found == ["Who?", "<s>Who?"]


def test_warm_up_rows_show_both_actions_in_the_readers_words(tokenizer):
    rows = rows_of(QUERIES, tokenizer)
    assert Counter(row["kind"] for row in rows) == {"memory": 2, "search": 2, "after a search": 2}
    by_kind = {(row["kind"], "mill" in row["prompt"].split("Question: ")[1]): row for row in rows}
    assert by_kind["memory", True]["prompt"] == by_kind["search", True]["prompt"]  # the same for both actions
    assert by_kind["memory", True]["completion"] == "unknown"  # not known: what it says, right or wrong
    assert by_kind["memory", False]["completion"] == "Paris"  # known: the likeliest right one that it said
    assert by_kind["search", True]["completion"].startswith('<tool_call>\n{"name": "search", "arguments"')
    assert by_kind["after a search", True]["completion"] == "Ida Voss"
    asked = "Answer the question in a few words.\nQuestion: Who runs the mill in Hallow?<|im_end|>"
    assert asked in by_kind["memory", True]["prompt"]
    found = by_kind["after a search", True]["prompt"].partition("<tool_response>\n")[2]
    assert found.startswith("Answer the question in a few words, using the passage.\nPassage: Ida Voss runs")
    assert found.count("It is old") < 20  # long passages are cut
    assert "Question: Who runs the mill in Hallow?\n</tool_response>" in found
    for row in rows:
        assert row["prompt"].endswith("<|im_start|>assistant\n")
        assert "<|im_end|>" not in row["completion"]


def test_warm_up_rows_leave_out_a_wrong_answer_after_a_search(tokenizer):
    corpus = {"x": Passage("Nobody danced.", id="x")}
    kinds = [row["kind"] for row in rows_of([Query("3", "Who danced?", ("Ida Voss",))], tokenizer, corpus=corpus)]
    assert kinds == ["memory", "search", "after a search"]  # "Ida" is its likeliest right answer, though not its first
    unknown = ScriptedScorer()
    unknown.beliefs = lambda *_: [belief(0.0, ("Bob", 10, 1.0, 0.0))]
    rows = warm_up_rows(QUERIES[:1], unknown, tool(tokenizer), tokenizer, max_turns=1, seed=0)
    assert [row["kind"] for row in rows] == ["memory", "search"]


def test_warm_up_rows_of_several_searches_follow_the_names(tokenizer):
    corpus = {
        "1": Passage("The Gannet Light was kept by Dorrin Pask for years.", id="1"),
        "2": Passage("On the grave of Dorrin Pask stands an otter.", id="2"),
    }
    query = Query("q", "Which animal is on the grave of the keeper of the Gannet Light?", ("otter",))
    rows = rows_of([query], tokenizer, turns=2, corpus=corpus)
    assert [row["kind"] for row in rows] == ["memory", "search", "after a search", "another search", "after a search"]
    calls = [json.loads(rows[at]["completion"].split("\n")[1])["arguments"]["query"] for at in (1, 3)]
    assert calls == ["Gannet Light", "Which animal is on the grave of the keeper of the ? Dorrin Pask"]
    last = rows[-1]["prompt"].rpartition("<tool_response>")[2]
    assert "[1] The Gannet Light was" in last
    assert "[2] On the grave" in last


def test_warm_up_rows_of_questions_without_results_or_room(tokenizer):
    rows = rows_of([Query("3", "Zzz?", ("Paris",))], tokenizer)
    assert "<tool_response>\nNothing was found.\n" in rows[2]["prompt"]
    assert rows_of([Query("3", "Is this too long?", ("yes",))], tokenizer) == []
