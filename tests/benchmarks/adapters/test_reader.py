"""The factory of the reader adapter that ships: its data."""

import random
from dataclasses import replace

import pytest

from seper_reward.data.answers import normalize_answer
from seper_reward.data.demo import CORPUS, QUESTIONS
from seper_reward.data.queries import read_corpus, read_queries
from seper_reward.data.splits import split_of
from seper_reward.reader.loading import load_tokenizer
from seper_reward.types import Passage, Query
from tests.benchmarks.adapters import reader_data as data
from tests.benchmarks.adapters.entailment_data import common_facts
from tests.benchmarks.adapters.substitution import misleads, states, substituted


@pytest.fixture(scope="module")
def examples(shared_data):
    return list(data.examples(shared_data, random.Random(0)))


@pytest.mark.slow
def test_only_train_questions_are_trained_on(examples, shared_data):
    held_out = {
        query.question
        for name in ("nq_oracle_bm25neg", "hotpotqa_distractor", "2wikimultihopqa")
        for query in read_queries(shared_data / "qa" / f"{name}.jsonl.gz").queries
        if split_of(query.id) != "train"
    }
    rgb = {query.question for query in read_queries(shared_data / "qa" / "rgb_counterfactual.jsonl.gz").queries}
    assert held_out.isdisjoint(example.question for example in examples)
    assert rgb.isdisjoint(example.question for example in examples)


def test_what_should_be_said_follows_from_what_is_shown(examples):
    for example in examples:
        shown = " ".join(passage.text for passage in example.passages)
        if example.kind in {"gold", "substituted", "among distractors"}:
            assert states(shown, [example.target])
        if example.kind in {"distractor", "unrelated"}:
            assert example.target == data.UNKNOWN
        assert bool(example.passages) == (example.kind not in {"closed-book", "common fact"})
    kinds = {example.kind for example in examples}
    assert len(kinds) == 10
    assert sum(example.target == data.UNKNOWN for example in examples) < 0.2 * len(examples)


def test_prompts_are_whole(examples, shared_data, monkeypatch):
    some = examples[::9]
    monkeypatch.setattr(data, "examples", lambda *_: iter(some))
    tokenizer = load_tokenizer("plain")
    rows = data.reader_rows(shared_data, tokenizer, 0, ["brief"])
    assert 0.85 * len(some) < len(rows) < len(some)
    for row in rows:
        assert len(tokenizer(row["prompt"], add_special_tokens=False).input_ids) <= data.MAX_PROMPT_TOKENS
        if row["kind"] in {"gold", "substituted", "among distractors"}:
            assert states(row["prompt"], [row["completion"]])


def test_common_facts_are_apart_from_the_demo():
    demo = {normalize_answer(query.question) for query in read_queries(QUESTIONS, read_corpus(CORPUS)).queries}
    facts = common_facts()
    assert len(facts) == len({fact["question"] for fact in facts}) == 700
    assert demo.isdisjoint(normalize_answer(fact["question"]) for fact in facts)


OWNER = Query("q", "Who owned the inn?", ("Ann Lee",))


def test_every_spelling_of_the_answer_is_replaced():
    passage = Passage("Ann Lee ran. Later ANN rested; Annette did not.", "Ann Lee (runner)")
    changed = substituted(passage, ["Ann", "Ann Lee"], r"Bo\b Ray")
    assert changed.title == r"Bo\b Ray (runner)"
    assert changed.text == r"Bo\b Ray ran. Later Bo\b Ray rested; Annette did not."


def test_what_names_or_shares_the_answer_misleads_nobody():
    assert misleads(OWNER, "Bo Ray")
    assert not misleads(OWNER, "Lee Ray")  # a word of the right answer
    assert not misleads(OWNER, "yes")
    assert not misleads(replace(OWNER, answers=("no",)), "Ray")
    assert not misleads(replace(OWNER, question="Who was Ann Lee of the inn?"), "Bo Ray")
