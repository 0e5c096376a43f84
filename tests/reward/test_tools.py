"""Which results of tools are searches: names, in the shapes of several libraries, errors, and who is asked to name."""

import json
import warnings
from types import SimpleNamespace

import pytest

from seper_reward.reward.reward import SePerReward
from seper_reward.reward.rollouts import read_rollouts
from seper_reward.reward.tools import SearchTools, SeveralToolsError, read_results
from seper_reward.types import Passage, UnscorableError

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


def test_other_tools_are_neither_paid_nor_priced(tiny_scorer):
    reward = SePerReward(tiny_scorer, price=0.1, search_tools=("search",))
    columns = {"question": [QUESTION] * 4, "answers": [ANSWERS] * 4}
    both = [*play("python", "Ida Voss runs it.")[:2], *play("search")]
    completions = [play("python"), play("calculator", "42"), play("search"), both]
    python, calculator, search, mixed = reward(completions=completions, **columns)
    (memory,) = reward(completions=[[LAST]], question=[QUESTION], answers=[ANSWERS])
    assert python == calculator == memory
    assert mixed == search != memory
    (rollout,) = read(both, search_tools=["search"])
    assert (rollout.calls, rollout.failed, found(rollout)) == ((0, 1, 0), 0, [MILL])
    assert rollout.turns[0].query == "mill"


def test_several_tools_of_one_batch_have_to_be_named(tiny_scorer):
    reward = SePerReward(tiny_scorer)
    completions = [play("search"), play("search"), play("python")]
    with pytest.raises(ValueError, match=r"got search \(2\), python \(1\): set search_tools=\(\.\.\.\)"):
        reward(completions=completions, question=[QUESTION] * 3, answers=[ANSWERS] * 3)
    with pytest.raises(SeveralToolsError):
        read(*completions)
    assert [len(each.turns) for each in read(*completions, search_tools=["search", "python"])] == [1, 1, 1]


def test_several_tools_of_two_batches_have_to_be_named(tiny_scorer):
    reward = SePerReward(tiny_scorer)
    columns = {"question": [QUESTION], "answers": [ANSWERS]}
    assert reward(completions=[play("search")], **columns) != [None]
    assert reward(completions=[play("lookup", "Error: no")], **columns) != [None]  # it has no result
    with pytest.raises(ValueError, match=r"search \(1\), python \(1\): set search_tools"):
        reward(completions=[play("python")], **columns)


def test_the_tools_of_a_trainer_have_to_be_named_before_they_are_called(tiny_scorer):
    def search(query): ...

    def python(code): ...

    class Trainer(SimpleNamespace):
        def log_metric(self, name, value): ...

    columns = {"completions": [play("search")], "question": [QUESTION], "answers": [ANSWERS]}
    with pytest.raises(ValueError, match=r"got search \(0\), python \(0\): set search_tools"):
        SePerReward(tiny_scorer)(**columns, log_metric=Trainer(tools=[search, python]).log_metric)
    for reward, trainer in (
        (SePerReward(tiny_scorer), Trainer(tools=[search])),
        (SePerReward(tiny_scorer, search_tools=["search"]), Trainer(tools=[search, python])),
    ):
        assert reward(**columns, log_metric=trainer.log_metric) != [None]


def test_names_without_a_result_are_warned_of_once(tiny_scorer):
    reward = SePerReward(tiny_scorer, search_tools=("serch",))
    columns = {"question": [QUESTION], "answers": [ANSWERS]}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        reward(completions=[[LAST]], **columns)  # nothing was called yet
    with pytest.warns(UserWarning, match=r"search_tools=\('serch',\) have no results so far, but search \(1\) have"):
        reward(completions=[play("search")], **columns)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        reward(completions=[play("search")], **columns)


@pytest.mark.parametrize("wrong", ["search", (), [""], [1]])
def test_names_that_are_no_list(wrong):
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
def test_names_of_results(shape):
    (rollout,) = read([*SHAPES[shape], LAST], search_tools=["search"])
    assert (found(rollout), rollout.answer) == ([MILL], "Ida Voss")
    assert [turn.query for turn in rollout.turns] == ["mill"]
    assert rollout.failed == (shape in ("the first failed", "no such tool"))


def test_results_without_any_name():
    unnamed = [{"role": "assistant", "content": "I search."}, said(MILL), LAST]
    assert [len(each.turns) for each in read(unnamed, unnamed)] == [1, 1]
    assert [len(each.turns) for each in read(unnamed, search_tools=["search"])] == [1]
    more = [called("search"), said(MILL), said("Rain fell."), LAST]  # a call with two results
    assert [len(each.turns) for each in read(more)] == [2]
    other = [called("python"), said("42"), said("43"), LAST]
    assert [len(each.turns) for each in read(other, search_tools=["search"])] == [0]


def test_texts_with_tags_have_no_tools():
    text = f"<search>mill</search><information>{MILL}</information>Ida Voss"
    for names in (None, ["search"]):
        (rollout,) = read(text, passage_tag="information", search_tools=names)
        assert found(rollout) == [MILL]


def test_environments_and_columns_need_no_names(tiny_scorer):
    turns = SimpleNamespace(turns=[], search=lambda query: MILL)
    both = [*play("python")[:2], *play("search")]
    assert [each.problem for each in read(both, environments=[turns])] == [""]
    (rollout,) = read(both, passages=[[MILL]])
    assert found(rollout) == [MILL]
    failed = [
        called("python"),
        said("{'error': 'no'}", "python"),
        called("x"),
        said("{'error': 'Tool x not found.'}", "x"),
    ]
    (rollout,) = read([*failed, LAST], environments=[turns])
    assert rollout.failed == 1


def test_a_message_that_is_none():
    (first, second) = read(["mill", LAST], [LAST])
    assert first.problem == "completion must be a text or a list of messages, got 'mill' (str) in it"
    assert second.problem == ""
    with pytest.raises(UnscorableError):
        read_results([3])
    tools = SearchTools()
    tools.see([["mill"], "x", None, play("search")])
    assert tools.seen == {"search": 1}


ERRORS = [
    "{'error': 'no'}",
    "{'error': ''}",
    '{"error": "no"}',
    '{"status": 503, "error": {"message": "no"}}',
    '{"isError": true, "content": [{"type": "text", "text": "no"}]}',
    '{"content": [], "isError": true}',
    "{'isError': True, 'content': []}",
    '{"status": "error", "message": "no"}',
    "Error: search backend timed out",
    "error: no",
    "ERROR: no",
    "[ERROR] no",
    "Error",
    "Error 503: Service Unavailable",
    "HTTP Error 503: Service Unavailable",
    "HTTP 503 Service Unavailable",
    "HTTPError 503 for url",
    "Exception: no",
    "ToolError: no",
    "requests.exceptions.ConnectionError: no",
    "TimeoutError",
    "Traceback (most recent call last):\n  File",
    "Error executing tool search: no",
    "Tool call failed: no",
    "Tool execution failed",
    "Search failed: no",
    "Request failed with status code 503",
    "Request timed out",
    "Request timed out.",
    "Search timed out after 30 s",
    "Tool 'find' not found",
    "Unknown tool: find",
    "Error: find is not a valid tool, try one of [search].",
    '{"errors": [{"message": "no"}]}',
    '{"detail": "no such index"}',
    '{"detail": [{"loc": ["query"], "msg": "field required", "type": "missing"}], "status": 422}',
    "429 Too Many Requests",
    "404",
    "HTTP/1.1 503 Service Unavailable",
    "502 Bad Gateway\nnginx/1.18",
    "403 Forbidden: this index is private",
    "Rate limit exceeded. Try again in 20 seconds.",
    "Rate limit reached for gpt-4o in organization x",
    "Too many requests, slow down",
    "Access denied",
    "Access Denied. You have no permission to view this.",
    "Permission denied",
    "Service unavailable",
    "Daily quota exceeded.",
    "Invalid API key",
    "Connection refused",
    "Unauthorized",
    "<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>nginx</body></html>",
    "<!DOCTYPE html><html lang=en><title>Error 429 (Too Many Requests)!!1</title><p>Sorry.</html>",
    "<!DOCTYPE html>\n<html><head><title>search.example | 504: Gateway time-out</title></head><body>x</body></html>",
    "<html><head><title>Access denied | search.example</title></head></html>",
    "<h1>Not Found</h1>The requested URL was not found on this server.",
]
NO_ERRORS = [
    "Error analysis is the study of kinds of error.",
    "Errors in the census were found in 1912.",
    "Error correction codes: a history.",
    "Error 404 is the status of a page that is not there.",
    "Exception handling is a part of languages.",
    "Exceptions: Ida Voss and Bob Lee.",
    "TypeError is raised by Python.",
    "Terror: a history.",
    "The search failed after three weeks, and the ship was given up.",
    "Search parties found the mill.",
    "The request timed out.",
    "Tool making is old. It was not found in the valley.",
    "Unknown tool marks were seen on the bone.",
    "HTTP 404 is a status.",
    "Traceback is a report.",
    '{"error": null, "results": [{"text": "Ida"}]}',
    '{"error": "", "results": ["Ida"]}',
    "{'error': None, 'results': ['Ida']}",
    '{"status": "ok", "results": ["Ida"]}',
    '{"isError": false, "content": [{"type": "text", "text": "Ida"}]}',
    '{"status": "error',
    "",
    '{"errors": [], "results": ["Ida"]}',
    '{"errors": ["one shard is down"], "results": ["Ida"]}',
    '{"detail": "Ida Voss runs it.", "name": "mill"}',
    "404 people live in Hallow.",
    "429 BC was the year of the plague.",
    "The 404 Not Found page is a joke of the site.",
    "500 Internal Server Error is a status.",
    "Access denied to the mine caused the strike of 1912.",
    "Too many requests led the archive to close its hall.",
    "Forbidden City: palace in Beijing.",
    "Unauthorized copies of the plan were sold.",
    "Connection refused is a message of Unix.",
    "1912",
    "<html><head><title>The mill of Hallow</title></head><body>404 sheep graze there.</body></html>",
    "<html><body>Ida Voss runs it.</body></html>",
    "<html><head><title>Forbidden | films of 1912</title></head></html>",
    "<p>403 steps lead to the mill.</p>",
    "Too many requests. " + "Ida Voss runs the mill. " * 20,
]
EMPTY = [
    "[]",
    "{}",
    "null",
    '{"results": []}',
    '{"documents": [], "total": 0}',
    "No results found.",
    "no documents were found for 'mill'",
    "No relevant passages found",
    "Nothing was found.",
    "There were no matches.",
    "0 results",
    "(no results)",
    "[No results found]",
    "0 documents found.",
    "Found 0 results for 'mill'.",
    "The search returned no results.",
]
NOT_EMPTY = ["No results of the vote were published.", "[1]", "No one runs the mill.", '{"results": ["Ida"]}']


@pytest.mark.parametrize("text", ERRORS)
def test_errors_are_failed_calls(text):
    (rollout,) = read(play("search", text))
    assert (rollout.turns, rollout.failed) == ((), 1)


@pytest.mark.parametrize("text", NO_ERRORS)
def test_prose_is_no_error(text):
    (rollout,) = read(play("search", text))
    assert (len(rollout.turns), rollout.failed) == (1, 0)


@pytest.mark.parametrize("text", EMPTY)
def test_a_search_that_found_nothing(text):
    (rollout,) = read(play("search", text))
    assert (len(rollout.turns), rollout.passages, rollout.failed) == (1, (), 0)


@pytest.mark.parametrize(
    "form",
    [
        "No results found for: X",
        "No results found for X.",
        "Nothing found for X",
        "Sorry, no results were found for your query.",
        "No good Wikipedia Search Result was found",
        "Your search - X - did not match any documents.",
        '{"query": "X", "results": []}',
    ],
)
@pytest.mark.parametrize("query", ["mill", 'the "mill"\nIda Voss runs the mill.'])
def test_an_echo_of_the_query_is_no_passage(form, query):
    text = form.replace("X", json.dumps(query)[1:-1] if form.startswith("{") else query)
    (rollout,) = read([called("search", query=query), said(text, "search"), LAST])
    assert (len(rollout.turns), rollout.passages) == (1, ())


@pytest.mark.parametrize("text", NOT_EMPTY)
def test_texts_that_look_like_nothing_found(text):
    (rollout,) = read(play("search", text))
    assert found(rollout) == [text]


@pytest.mark.parametrize("role", ["function", "ipython"])
def test_results_in_other_roles(role):
    (rollout,) = read([called("search"), {"role": role, "content": MILL}, LAST])
    assert (found(rollout), rollout.turns[0].query) == ([MILL], "mill")


def test_results_as_the_chat_template_of_qwen_shows_them():
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
def test_results_that_are_not_read_are_warned_of_once(tiny_scorer, place):
    reward = SePerReward(tiny_scorer, price=0.1)
    columns = {"question": [QUESTION] * 2, "answers": [ANSWERS] * 2}
    with pytest.warns(UserWarning, match=f"seem to be in 1 of 2 completions, but are not read.* {place}"):
        reward(completions=[UNREAD[place], play("search")], **columns)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        reward(completions=[UNREAD[place], play("search")], **columns)


def test_no_warning_if_all_results_are_read(tiny_scorer):
    text = f"<search>mill</search><information>{MILL}</information> Ida Voss"
    prompted = [{"role": "system", "content": "Search."}, {"role": "user", "content": QUESTION}, *play("search")]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for tag, completion in (("information", text), (None, prompted), (None, "In <b>Hallow</b>: Ida Voss")):
            SePerReward(tiny_scorer, price=0.1, passage_tag=tag)(
                completions=[completion], question=[QUESTION], answers=[ANSWERS]
            )


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
def test_fields_that_say_that_a_call_failed(fields):
    (rollout,) = read([called("search"), {**said(MILL, "search"), **fields}, LAST])
    assert (rollout.turns, rollout.failed) == ((), 1)
    (rollout,) = read([called("search"), said(MILL, "search", status="success", is_error=False), LAST])
    assert rollout.passages == (Passage(MILL),)


def test_a_pattern_of_the_answer(tiny_scorer):
    reward = SePerReward(tiny_scorer, gain_weight=0.0, price=0.0, answer_pattern=r"FINAL: (.*)")
    columns = {"question": [QUESTION] * 3, "answers": [ANSWERS] * 3}
    completions = [r"FINAL: $\text{Ida Voss}$", "Ida Voss", "Answer: Bob\nFINAL: Ida Voss"]
    assert reward(completions=completions, **columns) == [1.0, 0.0, 1.0]
    assert [each.answer for each in read(*completions, answer_pattern=r"FINAL: (.*)")] == ["Ida Voss", "", "Ida Voss"]
    with pytest.raises(ValueError, match=r"answer_pattern must be a regular expression, got '\(': missing \)"):
        SePerReward("http://nowhere:1", answer_pattern="(")
