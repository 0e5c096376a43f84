"""Logs of agents in the layouts of their libraries, read as rollouts."""

import json

import pytest

from seper_reward.data.rows import BadRowError
from seper_reward.evaluate.logs import passages_of, read_gold_answers, read_rollout_log
from seper_reward.types import Passage

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


def write(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_say_the_same(layout, tmp_path):
    ((where, rollout),) = read_rollout_log(write(tmp_path / "log.jsonl", LAYOUTS[layout]))
    assert "log.jsonl" in where
    assert rollout.problem == ""
    assert (rollout.question, rollout.answers, rollout.answer) == (QUESTION, ("Ida Voss",), "Ida Voss")
    (turn,) = rollout.turns
    assert turn.query == "mill"
    assert [(each.title, each.text) for each in turn.passages] == [(each.title, each.text) for each in (MILL, INN)]


def test_tables_of_trl_have_no_answers_of_their_own(tmp_path):
    row = {"prompt": PROMPT, "completion": MESSAGES}
    ((_, known), (_, unknown)) = read_rollout_log(
        write(tmp_path / "log.jsonl", row, {**row, "prompt": "Question: Who else?"}), answers={QUESTION: ["Ida Voss"]}
    )
    assert known.answers == ("Ida Voss",)
    assert unknown.problem == "no gold answer"


def test_gold_answers_are_read_by_question(tmp_path):
    rows = [{"question": "Who? ", "answers": ["Ann", "Anna"]}, {"anchor": "Who?", "answers": "Bob"}]
    assert read_gold_answers(write(tmp_path / "gold.jsonl", *rows)) == {"Who?": ["Ann", "Anna"]}
    with pytest.raises(BadRowError, match=r"line 1: expected 'answers', got fields question; name the"):
        read_gold_answers(write(tmp_path / "gold.jsonl", {"question": "Who?"}))
    with pytest.raises(BadRowError, match=r"line 1: expected a text in one of question, query, anchor, got fields id"):
        read_gold_answers(write(tmp_path / "gold.jsonl", {"id": "q1", "answers": ["x"]}))


def test_failed_calls_and_rollouts_without_a_search(tmp_path):
    failed = [MESSAGES[0], {"role": "tool", "name": "search", "content": "{'error': 'no'}"}, MESSAGES[2]]
    rows = [{"question": QUESTION, "answers": "Ida Voss", "completion": each} for each in (failed, MESSAGES[2:])]
    (first, second) = (each.rollout for each in read_rollout_log(write(tmp_path / "log.jsonl", *rows)))
    assert (first.turns, first.failed, first.answer) == ((), 1, "Ida Voss")
    assert (second.turns, second.failed, second.answer) == ((), 0, "Ida Voss")


def test_a_template_is_no_search(tmp_path):
    rows = [
        {"question": QUESTION, "answers": ["Ida Voss"], "sequences_str": TEMPLATE + said}
        for said in ("<answer>Ida Voss</answer>", "<think>Hm")
    ]
    found = [each.rollout for each in read_rollout_log(write(tmp_path / "log.jsonl", *rows))]
    assert [(each.turns, each.answer, each.problem) for each in found] == [((), "Ida Voss", ""), ((), "", "")]


def test_a_passage_may_be_one_text(tmp_path):
    row = {"question": QUESTION, "answers": ["a"], "searches": [{"query": "mill", "passages": "Ida runs it."}]}
    ((_, rollout),) = read_rollout_log(write(tmp_path / "log.jsonl", row))
    assert rollout.turns[0].passages == (Passage("Ida runs it."),)


def test_a_layout_that_is_not_known_is_no_agent_without_searches(tmp_path):
    row = {"question": QUESTION, "answers": ["a"]}
    text = "<search>mill</search><result>Ida runs it.</result><answer>Ida</answer>"
    rows = [{**row, "generation": SEARCH_R1}, {**row, "response": text}, {**row, "response": "<search>mill</search>"}]
    found = [each.rollout for each in read_rollout_log(write(tmp_path / "log.jsonl", *rows))]
    assert "got the fields question, answers, generation" in found[0].problem
    assert found[1].problem == "it searched, but there is no text between <information> tags; name the tag"
    assert (found[2].problem, found[2].turns) == ("", ())  # cut off behind its search
    named = read_rollout_log(write(tmp_path / "log.jsonl", rows[1]), passage_tag="result")
    assert [each.rollout.turns[0].query for each in named] == ["mill"]


def test_what_is_no_rollout_says_so(tmp_path):
    rows = [
        {"question": QUESTION, "answers": ["a"], "searches": each} for each in ([{"query": "x"}], [{"passages": [3]}])
    ]
    found = [each.rollout.problem for each in read_rollout_log(write(tmp_path / "log.jsonl", *rows))]
    assert "a search must be {query?, passages: [...]}" in found[0]
    assert "a passage must be a text or an object with one of" in found[1]


def test_one_odd_result_of_a_tool_is_one_row(tmp_path):
    results = ([{"title": "Mill", "url": "http://x"}], [], {"results": []})
    said = [{**MESSAGES[1], "content": json.dumps(each)} for each in results]
    rows = [{"prompt": PROMPT, "completion": [MESSAGES[0], each, MESSAGES[2]], "answer": 1912} for each in said]
    odd, *empty = (each.rollout for each in read_rollout_log(write(tmp_path / "log.jsonl", *rows)))
    assert "a passage must be a text or an object with one of" in odd.problem
    assert [(each.problem, each.answers, each.passages) for each in empty] == [("", ("1912",), ())] * 2


def test_passages_of_what_tools_say():
    assert passages_of("It is old.") == (Passage("It is old."),)
    assert passages_of(" ") == ()
    for head in ('"Mercury (planet)"', "Mercury (planet)"):
        assert passages_of(f"Doc 1(Title: {head}) It is near.") == (Passage("It is near.", "Mercury (planet)"),)
    assert passages_of('Doc 1(Title: "The "Fish" pub") It is old.') == (Passage("It is old.", 'The "Fish" pub'),)
    assert passages_of(json.dumps(["a", "b"])) == (Passage("a"), Passage("b"))
    assert passages_of(json.dumps({"results": [{"contents": "a", "title": "T"}]})) == (Passage("a", "T"),)
    assert passages_of(json.dumps([{"document": {"contents": "a"}, "score": 1}])) == (Passage("a"),)
