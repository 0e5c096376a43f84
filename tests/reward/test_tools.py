"""Which results of tools are searches: names, in the shapes of several libraries, errors, and who is asked to name."""

import json
from types import SimpleNamespace

import pytest

from seper_reward.reward.reward import SePerReward
from seper_reward.reward.rollouts import read_rollouts
from seper_reward.reward.tools import SearchTools, SeveralToolsError, read_results, unread_results
from seper_reward.types import Passage, UnscorableError
from tests.helpers import texts_of

QUESTION, ANSWERS = "Who runs the mill in Hallow?", ["Ida Voss"]
MILL = "Ida Voss runs Hallow's mill."
LAST = {"role": "assistant", "content": "Ida Voss"}


def called(*names, ids=(), query="mill"):
    """Return the policy's message with one call per name."""
    calls = [{"type": "function", "function": {"name": name, "arguments": {"query": query}}} for name in names]
    for call, own in zip(calls, ids, strict=False):
        call["id"] = own
    return {"role": "assistant", "tool_calls": calls}


def said(text, name=None, own=None, **fields):
    """Return the message of a tool."""
    names = {"name": name, "tool_call_id": own}
    return {"role": "tool", "content": text} | {key: value for key, value in names.items() if value} | fields


def play(tool, text=MILL):
    """Return a rollout with one call, as TRL writes it."""
    return [called(tool), said(text, tool), LAST]


def read(*completions, **options):
    count = len(completions)
    return read_rollouts([QUESTION] * count, [ANSWERS] * count, completions, **options)


def found(rollout):
    return [passage.text for passage in rollout.passages]


def score(reward, *completions, **columns):
    count = len(completions)
    return reward(completions=completions, question=[QUESTION] * count, answers=[ANSWERS] * count, **columns)


def test_read_rollouts_of_several_tools():
    both = [*play("python", "Ida Voss runs it.")[:2], *play("search")]
    python, calculator, mixed = read(play("python"), play("calculator", "42"), both, search_tools=["search"])
    assert python.turns == calculator.turns == ()
    assert (mixed.calls, mixed.failed, found(mixed), mixed.turns[0].query) == ((0, 1, 0), 0, [MILL], "mill")
    with pytest.raises(SeveralToolsError, match=r"got search \(1\), python \(1\): set search_tools=\(\.\.\.\)"):
        read(play("search"), play("python"))
    assert [len(each.turns) for each in read(play("search"), play("python"), search_tools=["search", "python"])] == [
        1,
        1,
    ]


def test_reward_refuses_several_tools_of_two_batches(tiny_scorer):
    reward = SePerReward(tiny_scorer)
    assert score(reward, play("search"), play("lookup", "Error: no"))[0] is not None  # lookup has no result
    with pytest.raises(ValueError, match=r"search \(1\), python \(1\): set search_tools"):
        score(reward, play("python"))


def test_reward_refuses_several_tools_of_a_trainer(tiny_scorer):
    def search(query): ...

    def python(code): ...

    class Trainer(SimpleNamespace):
        def log_metric(self, name, value): ...

    both = Trainer(tools=[search, python]).log_metric
    with pytest.raises(ValueError, match=r"got search \(0\), python \(0\): set search_tools"):
        score(SePerReward(tiny_scorer), play("search"), log_metric=both)
    assert score(SePerReward(tiny_scorer), play("search"), log_metric=Trainer(tools=[search]).log_metric) != [None]
    assert score(SePerReward(tiny_scorer, search_tools=["search"]), play("search"), log_metric=both) != [None]


def test_reward_warns_of_names_without_a_result(tiny_scorer, recwarn):
    reward = SePerReward(tiny_scorer, search_tools=("serch",))
    score(reward, [LAST])  # nothing was called yet
    assert not recwarn.list
    with pytest.warns(UserWarning, match=r"search_tools=\('serch',\) have no results so far, but search \(1\) have"):
        score(reward, play("search"))
    score(reward, play("search"))
    assert not recwarn.list


@pytest.mark.parametrize("wrong", ["search", (), [""], [1]])
def test_search_tools_refuses_other_names(wrong):
    with pytest.raises(ValueError, match=r"search_tools must be a list with at least one name of a tool"):
        SePerReward("http://nowhere:1", search_tools=wrong)


CALLS = {
    "id": "a", "type": "function", "function": {"name": "search", "arguments": '{"query": "mill"}'},
}  # fmt: skip
SHAPES = {
    "trl": [called("search", "python"), said(MILL, "search"), said("42", "python")],
    "by id": [called("search", "python", ids="ab"), said("42", own="b"), said(MILL, own="a")],
    "by order": [called("search", "python"), said(MILL), said("42")],
    "one after another": [called("python"), said("42"), called("search"), said(MILL)],
    "ids that repeat": [
        called("python", ids="a"), said("42", own="a"), called("search", ids="a"), said(MILL, own="a"),
    ],
    "json texts": [{"role": "assistant", "tool_calls": [json.dumps(CALLS)]}, said(MILL, own="a")],
    "verifiers, flat": [
        {"role": "assistant", "tool_calls": [{"id": "a", "name": "search", "arguments": '{"query": "mill"}'}]},
        said(MILL, own="a"),
    ],
    "the first failed": [called("search"), said("Error: down"), called("search"), said(MILL)],
    "another failed": [called("python"), said("{'error': 'x'}", "python"), called("search"), said(MILL, "search")],
    "no such tool": [called("find"), said("{'error': 'Tool find not found.'}", "find"), called("search"), said(MILL)],
}  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
def test_read_rollouts_names_results(shape):
    (rollout,) = read([*SHAPES[shape], LAST], search_tools=["search"])
    assert (found(rollout), rollout.answer) == ([MILL], "Ida Voss")
    assert [turn.query for turn in rollout.turns] == ["mill"]
    assert rollout.failed == (shape in ("the first failed", "no such tool"))


def test_read_rollouts_of_unnamed_results():
    unnamed = [{"role": "assistant", "content": "I search."}, said(MILL), LAST]
    assert [len(each.turns) for each in read(unnamed, unnamed)] == [1, 1]
    assert [len(each.turns) for each in read(unnamed, search_tools=["search"])] == [1]
    more = [called("search"), said(MILL), said("Rain fell."), LAST]  # a call with two results
    assert [len(each.turns) for each in read(more)] == [2]
    other = [called("python"), said("42"), said("43"), LAST]
    assert [len(each.turns) for each in read(other, search_tools=["search"])] == [0]


def test_read_rollouts_with_passages_needs_no_names():
    turns = SimpleNamespace(turns=[], search=lambda query: MILL)
    both = [*play("python")[:2], *play("search")]
    assert [each.problem for each in read(both, environments=[turns])] == [""]
    (rollout,) = read(both, passages=[[MILL]])
    assert found(rollout) == [MILL]
    failed = [called("x"), said("{'error': 'Tool x not found.'}", "x"), LAST]
    (rollout,) = read([*play("python", "{'error': 'no'}")[:2], *failed], environments=[turns])
    assert rollout.failed == 1


def test_read_rollouts_refuses_other_messages():
    (first, second) = read(["mill", LAST], [LAST])
    assert first.problem == "completion must be a text or a list of messages, got 'mill' (str) in it"
    assert second.problem == ""
    with pytest.raises(UnscorableError):
        read_results([3])
    tools = SearchTools()
    tools.see([["mill"], "x", None, play("search")])
    assert tools.seen == {"search": 1}


TEXTS = texts_of(__file__)
LONG = "Too many requests. " + "Ida Voss runs the mill. " * 20


@pytest.mark.parametrize(
    ("text", "turns", "passages"),
    [
        *((text, 0, 0) for text in TEXTS["errors"]),
        *((text, 1, 1) for text in [*TEXTS["no errors"], LONG]),
        *((text, 1, 0) for text in TEXTS["empty"]),
    ],
)
def test_read_rollouts_knows_errors_and_empty_results(text, turns, passages):
    (rollout,) = read(play("search", text))
    assert (len(rollout.turns), rollout.failed, found(rollout)) == (turns, 1 - turns, [text] * passages)


@pytest.mark.parametrize("form", TEXTS["echoes of a query X"])
@pytest.mark.parametrize("query", ["mill", 'the "mill"\nIda Voss runs the mill.'])
def test_read_rollouts_drops_an_echoed_query(form, query):
    text = form.replace("X", json.dumps(query)[1:-1] if form.startswith("{") else query)
    (rollout,) = read([called("search", query=query), said(text, "search"), LAST])
    assert (len(rollout.turns), rollout.passages) == (1, ())


@pytest.mark.parametrize("role", ["function", "ipython"])
def test_read_rollouts_of_other_roles(role):
    (rollout,) = read([called("search"), {"role": role, "content": MILL}, LAST])
    assert (found(rollout), rollout.turns[0].query) == ([MILL], "mill")


def test_read_rollouts_of_qwens_template():
    shown = f"<tool_response>\n{MILL}\n</tool_response>\n<tool_response>\nRain fell.\n</tool_response>"
    (rollout,) = read([called("search", "search"), {"role": "user", "content": shown}, LAST])
    assert found(rollout) == [MILL, "Rain fell."]


UNREAD = {
    "text between <information> tags": f"<search>mill</search><information>{MILL}</information> Ida Voss",
    "text between <tool_response> tags": [
        {"role": "assistant", "content": f"<tool_response>{MILL}</tool_response> Ida"}
    ],
    "messages of the role 'observation'": [called("search"), {"role": "observation", "content": MILL}, LAST],
    "messages of the user": [called("search"), {"role": "user", "content": MILL}, LAST],
}


@pytest.mark.parametrize("place", UNREAD)
def test_reward_warns_of_unread_results(tiny_scorer, recwarn, place):
    reward = SePerReward(tiny_scorer, price=0.1)
    with pytest.warns(UserWarning, match=f"seem to be in 1 of 2 completions, but are not read.* {place}"):
        score(reward, UNREAD[place], play("search"))
    score(reward, UNREAD[place], play("search"))
    assert not recwarn.list


def test_unread_results_are_none_if_all_are_read():
    text = f"<search>mill</search><information>{MILL}</information> Ida Voss"
    prompted = [{"role": "system", "content": "Search."}, {"role": "user", "content": QUESTION}, *play("search")]
    for tag, completion in (("information", text), (None, prompted), (None, "In <b>Hallow</b>: Ida Voss")):
        assert unread_results(completion, tag) is None


@pytest.mark.parametrize(
    "fields",
    [
        {"status": "error"},
        {"is_error": True},
        {"isError": True},
        {"content": [{"type": "text", "text": "Error: no"}]},
        {"content": {"error": "no"}},
    ],
)
def test_read_rollouts_of_failed_fields(fields):
    (rollout,) = read([called("search"), {**said(MILL, "search"), **fields}, LAST])
    assert (rollout.turns, rollout.failed) == ((), 1)
    (rollout,) = read([called("search"), said(MILL, "search", status="success", is_error=False), LAST])
    assert rollout.passages == (Passage(MILL),)


def test_reward_reads_a_pattern_of_the_answer(tiny_scorer):
    reward = SePerReward(tiny_scorer, gain_weight=0.0, price=0.0, answer_pattern=r"FINAL: (.*)")
    completions = [r"FINAL: $\text{Ida Voss}$", "Ida Voss", "Answer: Bob\nFINAL: Ida Voss"]
    assert score(reward, *completions) == [1.0, 0.0, 1.0]
    with pytest.raises(ValueError, match=r"answer_pattern must be a regular expression, got '\(': missing \)"):
        SePerReward("http://nowhere:1", answer_pattern="(")
