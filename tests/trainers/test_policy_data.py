"""Warm-up examples: both actions, no bias between them, whole prompts."""

from collections import Counter

import pytest
from transformers import AutoTokenizer

from seper_reward.reader.loading import embedded_reader_folder
from seper_reward.retrieval import BM25Retriever
from seper_reward.reward.chat_template import with_tool_template
from seper_reward.types import Passage, Query
from trainers.policy_data import warm_up_rows

CORPUS = {
    "a": Passage("Ida Voss runs the mill in Hallow. " + "It is old. " * 40, id="a"),
    "b": Passage("The capital of France is a large city.", id="b"),
}
QUERIES = [
    Query("1", "Who runs the mill in Hallow?", ("Ida Voss",), metadata={"group": "fiction"}),
    Query("2", "What is the capital of France?", ("Paris",), metadata={"group": "known"}),
]


@pytest.fixture(scope="module")
def tokenizer():
    return with_tool_template(AutoTokenizer.from_pretrained(embedded_reader_folder()))


def test_each_question_shows_both_actions(tokenizer):
    rows = warm_up_rows(QUERIES, BM25Retriever(CORPUS), tokenizer, seed=0)
    assert Counter(row["kind"] for row in rows) == {"memory": 2, "search": 2, "after a search": 2}
    by_kind = {(row["kind"], "mill" in row["prompt"].split("user\n")[1]): row for row in rows}
    assert by_kind["memory", True]["prompt"] == by_kind["search", True]["prompt"]  # nothing tells which it will be
    assert by_kind["memory", True]["completion"] == "unknown"
    assert by_kind["memory", False]["completion"] == "Paris"
    assert by_kind["search", True]["completion"].startswith('<tool_call>\n{"name": "search", "arguments"')
    assert by_kind["after a search", True]["completion"] == "Ida Voss"
    assert by_kind["after a search", False]["completion"] == "unknown"  # the passage does not name it
    for row in rows:
        assert row["prompt"].endswith("<|im_start|>assistant\n")
        assert "<|im_end|>" not in row["completion"]
    assert len(by_kind["after a search", True]["prompt"].split()) < 90  # long passages are cut


def test_a_search_that_finds_nothing(tokenizer):
    rows = warm_up_rows([Query("3", "Zzz?", ("Paris",))], BM25Retriever(CORPUS), tokenizer, seed=0)
    assert "Nothing was found." in rows[2]["prompt"]
    assert rows[2]["completion"] == "unknown"


def test_other_orders_for_other_seeds(tokenizer):
    one, other = (warm_up_rows(QUERIES * 3, BM25Retriever(CORPUS), tokenizer, seed=seed) for seed in (0, 1))
    assert one != other
    assert sorted(map(str, one)) == sorted(map(str, other))


def test_a_list_is_said_whole_where_the_passage_holds_all_of_it(tokenizer):
    mills = [["Ida Voss", "Ida"], ["Bob"]]
    queries = [Query("1", "Who runs the mill in Hallow?", answers) for answers in (mills, [*mills, ["an old man"]])]
    corpus = {"a": Passage("Bob and Ida run the mill in Hallow.", id="a")}
    for query, said in zip(queries, ("Ida Voss, Bob", "unknown"), strict=True):
        rows = warm_up_rows([query], BM25Retriever(corpus), tokenizer, seed=0)
        assert rows[2]["completion"] == said
