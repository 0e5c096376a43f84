"""The task of a policy: its search tool, its queries, its settings read from a policy's file; closed-book beliefs."""

import pytest
import yaml

from seper_reward.reader.prompts import STYLES
from seper_reward.reward.environment import search_environment
from seper_reward.reward.rollouts import read_rollouts
from seper_reward.reward.turns import NO_MORE, NOTHING_FOUND
from seper_reward.runtime.cache import Cache
from seper_reward.scorer import SePerScorer
from seper_reward.types import Passage, Query
from trainers.policy_task import SearchTool, closed_book_beliefs, read_policy_task, read_scorer_config, simple_query

A, B = Passage("Ann runs it.", id="a"), Passage("Bob {rows}.", id="b")


class Scripted:
    """A retriever that knows the answers to two queries."""

    def retrieve(self, questions, top_k):
        return [{"mill": (A,), "boat": (B, A)}.get(question, ())[:top_k] for question in questions]


def new_tool(**options):
    tool = SearchTool(search_environment(Scripted(), **options)(), STYLES["brief"])
    tool.reset(question="Who runs {it}?", answers=[["Ann"]], prompt=[])
    return tool


def test_results_are_worded_as_the_reader_is_asked():
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


def test_rollouts_have_the_passages_themselves():
    tool = new_tool()
    result = tool.search("mill")
    call = {"role": "assistant", "tool_calls": [{"function": {"name": "search", "arguments": {"query": "mill"}}}]}
    messages = [call, {"role": "tool", "name": "search", "content": result}, {"role": "assistant", "content": "Ann"}]
    (rollout,) = read_rollouts(["Who?"], [["Ann"]], [messages], None, [tool])
    assert rollout.passages == (A,)
    assert rollout.turns[0].query == "mill"
    assert rollout.answer == "Ann"


def test_queries_of_one_who_knows_the_question_only():
    question = "Who kept the Gannet Light on Noss?"
    assert simple_query(question, [], 1) == simple_query(question, [A], 1) == question
    assert simple_query(question, [], 2) == "Gannet Light Noss"
    found = Passage("It was kept by Dorrin Pask, from Noss, by Dorrin Pask the elder.")
    assert simple_query(question, [found], 2) == "Who kept the on ? Dorrin Pask"
    assert simple_query("Who kept it?", [], 2) == "Who kept it?"


def test_the_task_is_read_from_a_policys_file(tmp_path):
    path = tmp_path / "policy.yaml"
    path.write_text(yaml.safe_dump({"input": ["demo", "x.jsonl"], "max_turns": 2, "price": 0.3, "max_steps": 7}))
    task = read_policy_task(str(path))
    assert (task.input, task.max_turns, task.model) == (["demo", "x.jsonl"], 2, "embedded")
    assert not hasattr(task, "price")


def test_the_file_of_the_scorer_has_the_seed_of_its_sampling(tmp_path):
    (tmp_path / "scorer.yaml").write_text("seed: 7\nnum_samples: 3\n")
    found = read_scorer_config(str(tmp_path / "scorer.yaml"))
    assert (found.seed, found.num_samples, read_scorer_config(None).seed) == (7, 3, 0)


def test_closed_book_beliefs_resume_from_the_cache(tiny_sampler, tiny_judge, tmp_path, capsys):
    queries = [Query(str(at), f"Who runs mill {at}?", ("Ann",), (A,)) for at in range(3)]
    queries.insert(1, Query("long", "who " * 600, ("Ann",)))

    def scorer():
        return SePerScorer(tiny_sampler, tiny_judge, prompt="brief", cache=Cache(tmp_path / "cache.sqlite"))

    first = scorer()
    closed_book_beliefs(first, queries[:3])  # killed after these
    again = scorer()
    beliefs = closed_book_beliefs(again, queries)
    assert [belief is None for belief in beliefs] == [False, True, False, False]
    assert "question id='long' left out: question has no room" in capsys.readouterr().err
    whole = SePerScorer(tiny_sampler, tiny_judge, prompt="brief")
    assert beliefs[3].seper == whole.beliefs("Who runs mill 2?", ("Ann",), [()])[0].seper
    resumed = scorer()
    closed_book_beliefs(resumed, queries)
    assert resumed.cache.misses == 0
    assert 0 < again.cache.misses < first.cache.misses + 1
    # a reward that compares a passage with none takes the baseline from there
    resumed.beliefs("Who runs mill 2?", ("Ann",), [(), (A,)])
    assert resumed.cache.hits > again.cache.hits
