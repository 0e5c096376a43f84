"""Questions of a policy by input and split; warm-up examples: both actions, the reader's own answers and wording."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from transformers import AutoTokenizer

from seper_reward.data.answers import normalize_answer
from seper_reward.data.demo import CORPUS as CORPUS_OF_THE_DEMO
from seper_reward.data.demo import QUESTIONS
from seper_reward.data.queries import read_corpus, read_queries
from seper_reward.data.splits import shared_keys
from seper_reward.reader.loading import embedded_reader_folder
from seper_reward.reader.prompts import STYLES
from seper_reward.retrieval import BM25Retriever
from seper_reward.reward.chat_template import with_tool_template
from seper_reward.reward.environment import search_environment
from seper_reward.types import Belief, Estimate, Passage, Query, Responses, UnscorableError
from tests.benchmarks.adapters.entailment_data import common_facts
from tests.benchmarks.adapters.substitution import states
from tests.benchmarks.judge import EQUIVALENCE
from tests.helpers import OneByOne
from trainers.policy import no_room
from trainers.policy_data import read_policy_questions, rollout_lengths, row_of, trained_on, warm_up_rows
from trainers.policy_task import PolicyTaskConfig, SearchTool, new_tool, read_policy_task

ROOT = Path(__file__).parents[2]
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


def test_a_prompt_begins_once():
    asked, reply = [{"role": "user", "content": "Who?"}], {"role": "assistant", "content": " Ann"}
    found = [row_of(TwoBegins(adds), asked, reply, "memory")["prompt"] for adds in (True, False)]
    assert found == ["Who?", "<s>Who?"]


def test_each_question_shows_both_actions_in_the_readers_words(tokenizer):
    rows = rows_of(QUERIES, tokenizer)
    assert Counter(row["kind"] for row in rows) == {"memory": 2, "search": 2, "after a search": 2}
    by_kind = {(row["kind"], "mill" in row["prompt"].split("Question: ")[1]): row for row in rows}
    assert by_kind["memory", True]["prompt"] == by_kind["search", True]["prompt"]  # nothing tells which it will be
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


def test_a_wrong_answer_after_a_search_is_not_learned(tokenizer):
    kinds = [row["kind"] for row in rows_of([Query("3", "Who danced?", ("Ida Voss",))], tokenizer, corpus={
        "x": Passage("Nobody danced.", id="x")
    })]  # fmt: skip
    assert kinds == ["memory", "search", "after a search"]  # "Ida" is its likeliest right answer, though not its first
    unknown = ScriptedScorer()
    unknown.beliefs = lambda *_: [belief(0.0, ("Bob", 10, 1.0, 0.0))]
    rows = warm_up_rows(QUERIES[:1], unknown, tool(tokenizer), tokenizer, max_turns=1, seed=0)
    assert [row["kind"] for row in rows] == ["memory", "search"]


def test_several_searches_follow_the_names(tokenizer):
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
    made = tool(tokenizer, corpus, 2)
    first, whole = (len(tokenizer(row["prompt"], add_special_tokens=False).input_ids) for row in (rows[0], rows[-1]))
    assert rollout_lengths([query], made(), tokenizer, STYLES["brief"], 2) == [whole - first]


def test_a_search_that_finds_nothing(tokenizer):
    rows = rows_of([Query("3", "Zzz?", ("Paris",))], tokenizer)
    assert "<tool_response>\nNothing was found.\n" in rows[2]["prompt"]


def test_questions_that_the_reader_cannot_be_asked_are_left_out(tokenizer):
    assert rows_of([Query("3", "Is this too long?", ("yes",))], tokenizer) == []


def test_other_orders_for_other_seeds(tokenizer):
    many = [replace(query, id=f"{query.id}{at}") for at in range(3) for query in QUERIES]
    one, other = (rows_of(many, tokenizer, seed) for seed in (0, 1))
    assert one != other
    assert sorted(map(str, one)) == sorted(map(str, other))


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def rows_with(letter, count, **more):
    return [
        {"id": f"{letter}{at}", "question": f"Who is {letter}{at}?", "answers": ["Ann"],
         "passages": [f"Fog {letter}{at}."], **more}
        for at in range(count)
    ]  # fmt: skip


def test_inputs_are_mixed(tmp_path, capsys):
    one = write(tmp_path / "one.jsonl", [*rows_with("a", 30), {"question": "No answer?"}])
    two = write(tmp_path / "two.jsonl", rows_with("b", 20, group="islands"))
    task = PolicyTaskConfig(input=[one, two], test_share=0.3, dev_share=0.2)
    questions = read_policy_questions(task)
    assert "1 rows cannot be used" in capsys.readouterr().err
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


def test_a_corpus_is_searched_instead_of_the_questions_passages(tmp_path):
    path = write(tmp_path / "q.jsonl", [{key: row[key] for key in ("id", "question", "answers")} for row in
                                        rows_with("a", 30)])  # fmt: skip
    corpus = write(tmp_path / "corpus.jsonl", [{"id": "x", "text": "All of it."}])
    questions = read_policy_questions(PolicyTaskConfig(input=[path], corpus=corpus))
    assert list(questions.corpus) == ["x"]
    assert questions.train
    assert not questions.train[0].passages


def test_questions_that_the_adapter_was_trained_on_are_left_out(tmp_path):
    """Of NQ its train split, and all common facts; whatever is left is divided anew."""
    nq = write(tmp_path / "nq.jsonl", rows_with("n", 200, source="nq-open oracle (lost-in-the-middle)"))
    facts = write(tmp_path / "facts.jsonl", [{**row, "question": f"{fact['question'].upper()} "} for row, fact in
                                             zip(rows_with("f", 20), common_facts(), strict=False)])  # fmt: skip
    task = PolicyTaskConfig(input=[nq, facts], unseen=True, test_share=0.5, dev_share=0.0)
    questions = read_policy_questions(task)
    kept = [query.id for query in (*questions.train, *questions.test)]
    assert all(name.startswith("n") for name in kept)
    assert 30 < len(kept) < 70  # a quarter
    assert 10 < len(questions.test) < 40


def test_the_facts_of_our_own_are_usable_and_apart_from_what_the_reader_learned():
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


@pytest.mark.parametrize("name", ["demo", pytest.param("real", marks=pytest.mark.slow), "two-hop"])
def test_held_out_questions_of_the_shipped_policies_are_apart_and_have_room(name, shared_data, monkeypatch, tokenizer):
    monkeypatch.chdir(ROOT)
    task = read_policy_task(f"configs/policy/{name}.yaml")
    task = replace(task, input=[each.replace("../shared/data", str(shared_data)) for each in task.input])
    questions = read_policy_questions(task)
    assert len(questions.test) > 10

    def keys(rows):
        return set().union(*(shared_keys(query, task.split_by) for query in rows))

    assert not keys(questions.test) & keys([*questions.train, *questions.dev])
    assert not any(map(trained_on, questions.test)) or not task.unseen
    assert {query.metadata["group"] for query in questions.test} == set(task.groups)
    made = new_tool(task, BM25Retriever(questions.corpus), STYLES["brief"])
    lengths = rollout_lengths(questions.test, made(), tokenizer, STYLES["brief"], task.max_turns)
    room = yaml.safe_load((ROOT / "configs" / "policy" / f"{name}.yaml").read_text())["max_completion_length"]
    assert no_room(lengths, room) is None
    assert "leave no room for an answer" in str(no_room(lengths, max(lengths)))
