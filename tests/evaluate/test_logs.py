"""Logs of agents in the layouts of their libraries, read as rollouts."""

import json

import pytest

from seper_reward.data.rows import BadRowError
from seper_reward.evaluate.logs import passages_of, read_gold_answers, read_rollout_log
from seper_reward.types import Passage
from tests.helpers import write_rows

MILL, INN = Passage("Ida Voss runs it.", "Mill"), Passage("It burnt down.", "Inn")
PASSAGES = [{"title": each.title, "text": each.text} for each in (MILL, INN)]
QUESTION, PROMPT = (
    "Who runs the mill?",
    [{"role": "system", "content": "Search."}, {"role": "user", "content": "Who runs the mill?"}],
)
DOCUMENTS = '\nDoc 1(Title: "Mill") Ida Voss runs it.\nDoc 2(Title: "Inn") It burnt down.\n'


def call(query):
    return {"type": "function", "function": {"name": "search", "arguments": json.dumps({"query": query})}}


MESSAGES = [
    {"role": "assistant", "content": "", "tool_calls": [call("mill")]},
    {"role": "tool", "name": "search", "content": json.dumps(PASSAGES)},
    {"role": "assistant", "content": "Answer: Ida Voss"},
]
SEARCH_R1 = f"<think>Hm.</think><search> mill </search><information>{DOCUMENTS}</information><answer>Ida Voss</answer>"
LAYOUTS = {
    "searches": {
        "question": QUESTION, "answers": ["Ida Voss"], "searches": [{"query": "mill", "passages": PASSAGES}],
        "answer": "Ida Voss",
    },
    "trl": {"step": 3, "prompt": PROMPT, "completion": MESSAGES, "seper_delta": 0.4, "answers": ["Ida Voss"]},
    "trl as text": {"prompt": json.dumps(PROMPT), "completion": json.dumps(MESSAGES), "answers": '["Ida Voss"]'},
    "verifiers": {
        "example_id": 0, "prompt": PROMPT, "completion": MESSAGES, "answer": "Ida Voss", "reward": 1.0, "info": {},
    },
    "prime-rl": {"prompt": PROMPT, "completion": MESSAGES, "info": {"answer": ["Ida Voss"]}, "task": "mill"},
    "search-r1": {
        "prompt": [{"role": "user", "content": "Answer with tags. Question: Who runs the mill?"}],
        "reward_model": {"style": "rule", "ground_truth": {"target": ["Ida Voss"]}}, "response": SEARCH_R1,
    },
    "search-r1, golden answers": {"question": QUESTION, "golden_answers": ["Ida Voss"], "sequences_str": SEARCH_R1},
}  # fmt: skip


LAYOUTS["a trace of verifiers 0.4"] = {
    "task": {"type": "Mill", "data": {"prompt": QUESTION, "answers": ["Ida Voss"]}},
    "nodes": [
        {"parent": None, "message": PROMPT[-1], "sampled": False},
        {"parent": 0, "message": {"role": "assistant", "content": "Answer: Bob"}, "sampled": True},  # given up
        {"parent": 0, "message": MESSAGES[0], "sampled": True},
        {"parent": 2, "message": MESSAGES[1], "sampled": False},
        {"parent": 3, "message": MESSAGES[2], "sampled": True},
    ],
    "rewards": {"seper_judge": {"score": 0.9, "weight": 1.0}},
    "info": {},
}


# how Search-R1's tables hold it: its template, with examples of the tags, and then what the policy wrote
TEMPLATE = (
    "<|im_start|>user\nReason inside <think> and </think>. If you lack knowledge, search by <search> query </search>, "
    "and it returns results between <information> and </information>. Answer inside <answer> and </answer>, such as "
    "<answer> Beijing </answer>. Question: Who runs the mill?<|im_end|>\n<|im_start|>assistant\n"
)
LAYOUTS |= {
    "search-r1, with its prompt": {
        "question": QUESTION, "golden_answers": ["Ida Voss"], "sequences_str": TEMPLATE + SEARCH_R1,
    },
    "text behind its prompt": {
        "question": QUESTION, "answers": ["Ida Voss"], "prompt": TEMPLATE, "response": TEMPLATE + SEARCH_R1,
    },
    "openai": {"messages": [*PROMPT, *MESSAGES], "answer": "Ida Voss"},
    "text in blocks": {
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": QUESTION}]},
            *MESSAGES[:2],
            {"role": "assistant", "content": [{"type": "text", "text": "Answer: Ida Voss"}]},
        ],
        "answer": "Ida Voss",
    },
    "searches as text": {**LAYOUTS["searches"], "searches": json.dumps(LAYOUTS["searches"]["searches"])},
}  # fmt: skip


def read(folder, *rows, **options):
    """Return the rollouts of a log of rows."""
    return [logged.rollout for logged in read_rollout_log(write_rows(folder / "log.jsonl", rows), **options)]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_read_rollout_log_by_layout(layout, tmp_path):
    (rollout,) = read(tmp_path, LAYOUTS[layout])
    assert rollout.problem == ""
    assert (rollout.question, rollout.answers, rollout.answer) == (QUESTION, ("Ida Voss",), "Ida Voss")
    (turn,) = rollout.turns
    assert turn.query == "mill"
    assert [(each.title, each.text) for each in turn.passages] == [(each.title, each.text) for each in (MILL, INN)]


def test_read_rollout_log_with_answers(tmp_path):
    row = {"prompt": PROMPT, "completion": MESSAGES}
    other = {**row, "prompt": "Question: Who else?"}
    known, unknown = read(tmp_path, row, other, answers={QUESTION: ["Ida Voss"]})
    assert known.answers == ("Ida Voss",)
    assert unknown.problem == "no gold answer"


def test_read_gold_answers(tmp_path):
    rows = [{"question": "Who? ", "answers": ["Ann", "Anna"]}, {"anchor": "Who?", "answers": "Bob"}]
    assert read_gold_answers(write_rows(tmp_path / "gold.jsonl", rows)) == {"Who?": ["Ann", "Anna"]}
    for row, message in (
        ({"question": "Who?"}, r"line 1: expected 'answers', got fields question; name the"),
        ({"id": "q1", "answers": ["x"]}, "line 1: expected a text in one of question, query, anchor, got fields id"),
    ):
        with pytest.raises(BadRowError, match=message):
            read_gold_answers(write_rows(tmp_path / "gold.jsonl", [row]))


def test_read_rollout_log_of_failed_calls(tmp_path):
    failed = [MESSAGES[0], {"role": "tool", "name": "search", "content": "{'error': 'no'}"}, MESSAGES[2]]
    rows = [{"question": QUESTION, "answers": "Ida Voss", "completion": each} for each in (failed, MESSAGES[2:])]
    first, second = read(tmp_path, *rows)
    assert (first.turns, first.failed, first.answer) == ((), 1, "Ida Voss")
    assert (second.turns, second.failed, second.answer) == ((), 0, "Ida Voss")


def test_read_rollout_log_skips_the_template(tmp_path):
    rows = [
        {"question": QUESTION, "answers": ["Ida Voss"], "sequences_str": TEMPLATE + said}
        for said in ("<answer>Ida Voss</answer>", "<think>Hm")
    ]
    found = read(tmp_path, *rows)
    assert [(each.turns, each.answer, each.problem) for each in found] == [((), "Ida Voss", ""), ((), "", "")]


def test_read_rollout_log_of_unknown_layouts(tmp_path):
    row = {"question": QUESTION, "answers": ["a"]}
    text = "<search>mill</search><result>Ida runs it.</result><answer>Ida</answer>"
    rows = [{**row, "generation": SEARCH_R1}, {**row, "response": text}, {**row, "response": "<search>mill</search>"}]
    found = read(tmp_path, *rows)
    assert "got the fields question, answers, generation" in found[0].problem
    assert found[1].problem == "it searched, but there is no text between <information> tags; name the tag"
    assert (found[2].problem, found[2].turns) == ("", ())  # cut off behind its search
    (named,) = read(tmp_path, rows[1], passage_tag="result")
    assert named.turns[0].query == "mill"


def test_read_rollout_log_of_odd_searches(tmp_path):
    searches = [{"query": "x"}], [{"passages": [3]}], [{"passages": "Ida runs it."}]
    rows = [{"question": QUESTION, "answers": ["a"], "searches": each} for each in searches]
    no_passages, no_passage, text = read(tmp_path, *rows)
    assert "a search must be {query?, passages: [...]}" in no_passages.problem
    assert "a passage must be a text or an object with one of" in no_passage.problem
    assert text.turns[0].passages == (Passage("Ida runs it."),)


def test_read_rollout_log_of_odd_results(tmp_path):
    results = ([{"title": "Mill", "url": "http://x"}], [], {"results": []})
    said = [{**MESSAGES[1], "content": json.dumps(each)} for each in results]
    rows = [{"prompt": PROMPT, "completion": [MESSAGES[0], each, MESSAGES[2]], "answer": 1912} for each in said]
    odd, *empty = read(tmp_path, *rows)
    assert "a passage must be a text or an object with one of" in odd.problem
    assert [(each.problem, each.answers, each.passages) for each in empty] == [("", ("1912",), ())] * 2


def test_passages_of():
    assert passages_of("It is old.") == (Passage("It is old."),)
    assert passages_of(" ") == ()
    for head in ('"Mercury (planet)"', "Mercury (planet)"):
        assert passages_of(f"Doc 1(Title: {head}) It is near.") == (Passage("It is near.", "Mercury (planet)"),)
    assert passages_of('Doc 1(Title: "The "Fish" pub") It is old.') == (Passage("It is old.", 'The "Fish" pub'),)
    assert passages_of(json.dumps(["a", "b"])) == (Passage("a"), Passage("b"))
    assert passages_of(json.dumps({"results": [{"contents": "a", "title": "T"}]})) == (Passage("a", "T"),)
    assert passages_of(json.dumps([{"document": {"contents": "a"}, "score": 1}])) == (Passage("a"),)
