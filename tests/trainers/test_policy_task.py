"""The task of a policy: its search tool, its queries, its settings read from a policy's file; closed-book beliefs."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from seper_reward.data.answers import normalize_answer
from seper_reward.data.demo import CORPUS as CORPUS_OF_THE_DEMO
from seper_reward.data.demo import QUESTIONS
from seper_reward.data.queries import read_corpus, read_queries
from seper_reward.reader.prompts import STYLES
from seper_reward.reward.environment import search_environment
from seper_reward.reward.turns import NO_MORE, NOTHING_FOUND
from seper_reward.runtime.cache import Cache
from seper_reward.scorer import SePerScorer
from seper_reward.types import Passage, Query
from tests.benchmarks.adapters.entailment_data import common_facts
from tests.benchmarks.adapters.substitution import states
from tests.benchmarks.judge import EQUIVALENCE
from tests.helpers import write_rows
from trainers.policy_task import (
    PolicyTaskConfig,
    SearchTool,
    closed_book_beliefs,
    read_policy_questions,
    read_policy_task,
    read_scorer_config,
    simple_query,
)
from trainers.ranking.clusters import shared_keys

ROOT = Path(__file__).parents[2]

A, B = Passage("Ann runs it.", id="a"), Passage("Bob {rows}.", id="b")


class Scripted:
    """A retriever that knows the answers to two queries."""

    def retrieve(self, questions, top_k):
        return [{"mill": (A,), "boat": (B, A)}.get(question, ())[:top_k] for question in questions]


def new_tool(**options):
    tool = SearchTool(search_environment(Scripted(), **options)(), STYLES["brief"])
    tool.reset(question="Who runs {it}?", answers=[["Ann"]], prompt=[])
    return tool


def test_search_tool_words_results_as_the_reader_is_asked():
    tool = new_tool(max_turns=3, top_k=2)
    assert tool.search("mill") == STYLES["brief"].ask("Who runs {it}?", ["Ann runs it."])
    assert tool.search("fog") == NOTHING_FOUND
    # what was found before is shown again, each passage once
    assert tool.search("boat") == STYLES["brief"].ask("Who runs {it}?", ["Ann runs it.", "Bob {rows}."])
    assert tool.search("mill") == NO_MORE
    assert [turn.query for turn in tool.turns] == ["mill", "fog", "boat"]
    with pytest.raises(ValueError, match="query must be a text"):
        tool.search(7)
    tool.reset("Who rows?")
    assert tool.turns == []
    assert "Question: Who rows?" in tool.search("boat")


def test_simple_query_knows_the_question_only():
    question = "Who kept the Gannet Light on Noss?"
    assert simple_query(question, [], 1) == simple_query(question, [A], 1) == question
    assert simple_query(question, [], 2) == "Gannet Light Noss"
    passage = Passage("It was kept by Dorrin Pask, from Noss, by Dorrin Pask the elder.")
    assert simple_query(question, [passage], 2) == "Who kept the on ? Dorrin Pask"
    assert simple_query("Who kept it?", [], 2) == "Who kept it?"


def test_read_policy_task_and_read_scorer_config(tmp_path):
    path = tmp_path / "policy.yaml"
    path.write_text("{input: [demo, x.jsonl], max_turns: 2, price: 0.3, max_steps: 7}")
    task = read_policy_task(str(path))
    assert (task.input, task.max_turns, task.model) == (["demo", "x.jsonl"], 2, "embedded")
    assert not hasattr(task, "price")
    path.write_text("seed: 7\nnum_samples: 3\n")
    config = read_scorer_config(str(path))
    assert (config.seed, config.num_samples, read_scorer_config(None).seed) == (7, 3, 0)


def test_closed_book_beliefs_resume_from_the_cache(tiny_sampler, tiny_judge, tmp_path, capsys):
    queries = [Query(str(at), f"Who runs mill {at}?", ("Ann",), (A,)) for at in range(3)]
    queries.insert(1, Query("long", "who " * 600, ("Ann",)))

    def scorer():
        return SePerScorer(tiny_sampler, tiny_judge, prompt="brief", cache=Cache(tmp_path / "cache.sqlite"))

    first, again, resumed = scorer(), scorer(), scorer()
    closed_book_beliefs(first, queries[:3])  # killed after these
    beliefs = closed_book_beliefs(again, queries)
    assert [belief is None for belief in beliefs] == [False, True, False, False]
    assert "question id='long' is left out: question has no room" in capsys.readouterr().err
    assert closed_book_beliefs(resumed, queries) == beliefs
    assert 0 == resumed.cache.misses < again.cache.misses <= first.cache.misses
    # a reward that compares a passage with none takes the baseline from there
    resumed.beliefs("Who runs mill 2?", ("Ann",), [(), (A,)])
    assert resumed.cache.hits > again.cache.hits


def write(path, rows):
    return str(write_rows(path, rows))


def rows_with(letter, count, **more):
    return [
        {"id": f"{letter}{at}", "question": f"Who is {letter}{at}?", "answers": ["Ann"],
         "passages": [f"Fog {letter}{at}."], **more}
        for at in range(count)
    ]  # fmt: skip


def test_read_policy_questions_mixes_inputs(tmp_path, capsys):
    one = write(tmp_path / "one.jsonl", [*rows_with("a", 30), {"question": "No answer?"}])
    two = write(tmp_path / "two.jsonl", rows_with("b", 20, group="islands"))
    task = PolicyTaskConfig(input=[one, two], test_share=0.3, dev_share=0.2)
    questions = read_policy_questions(task)
    assert "1 row cannot be used" in capsys.readouterr().err
    ids = [{query.id for query in rows} for rows in questions[1:]]
    assert sum(map(len, ids)) == len(set.union(*ids)) == 50
    assert len(questions.corpus) == 50
    groups = Counter(query.metadata["group"] for rows in questions[1:] for query in rows)
    assert groups == {"one": 30, "islands": 20}
    some = read_policy_questions(replace(task, limit_each=10, limit=4, eval_limit=2))
    assert (len(some.train), len(some.test), len(some.corpus)) == (4, 2, 50)
    of_group = read_policy_questions(replace(task, groups=["islands"]))
    assert {query.metadata["group"] for query in of_group.train} == {"islands"}
    with pytest.raises(ValueError, match=r"expected questions, got none with groups=\['moon'\]"):
        read_policy_questions(replace(task, groups=["moon"]))
    with pytest.raises(ValueError, match="question id 'a0' is used in an earlier input; rename one"):
        read_policy_questions(replace(task, input=[one, two, one]))


def test_read_policy_questions_with_a_corpus_searches_it(tmp_path):
    rows = [{key: row[key] for key in ("id", "question", "answers")} for row in rows_with("a", 30)]
    path, corpus = write(tmp_path / "q.jsonl", rows), write(tmp_path / "c.jsonl", [{"id": "x", "text": "All of it."}])
    questions = read_policy_questions(PolicyTaskConfig(input=[path], corpus=corpus))
    assert list(questions.corpus) == ["x"]
    assert questions.train
    assert not questions.train[0].passages


def test_unseen_facts_are_apart_from_what_the_reader_learned():
    facts = read_queries(ROOT / "trainers/unseen_facts.jsonl")
    assert not facts.rejected
    assert Counter(query.metadata["group"] for query in facts.queries) == {"common": 158, "obscure": 74}
    others = [fact["question"] for fact in common_facts()]
    others += [query.question for query in read_queries(QUESTIONS, read_corpus(CORPUS_OF_THE_DEMO)).queries]
    others += [json.loads(line)["question"] for line in EQUIVALENCE.read_text(encoding="utf-8").splitlines()]
    asked = [normalize_answer(query.question) for query in facts.queries]
    assert len(set(asked)) == len(asked)
    assert set(asked).isdisjoint(map(normalize_answer, others))
    for query in facts.queries:
        (passage,) = query.passages
        assert states(passage.text, query.answers), query.id


@pytest.mark.parametrize("name", ["demo", pytest.param("qwen", marks=pytest.mark.slow), "two-hop"])
def test_read_policy_questions_of_shipped_policies_are_apart(name, shared_data, monkeypatch):
    monkeypatch.chdir(ROOT)
    task = read_policy_task(f"configs/policy/{name}.yaml")
    task = replace(task, input=[each.replace("../shared/data", str(shared_data)) for each in task.input])
    questions = read_policy_questions(task)
    assert len(questions.test) > 10

    def keys(rows):
        return set().union(*(shared_keys(query, task.split_by) for query in rows))

    assert not keys(questions.test) & keys([*questions.train, *questions.dev])
    assert {query.metadata["group"] for query in questions.test} == set(task.groups)
