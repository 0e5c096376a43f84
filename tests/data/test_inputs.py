"""The door for questions: each step by itself, as commands and trainers need it."""

import json

import pytest

from seper_reward.data.inputs import Needs, Search, load_input
from seper_reward.data.rows import BadRowError
from seper_reward.data.splits import split_of
from seper_reward.options import InputOptions
from seper_reward.types import Passage

CORPUS = [
    {"id": "mill", "title": "Mill", "text": "Ida runs it."},
    {"id": "ferry", "text": "Bo rows it."},
    {"id": "sheep", "text": "Sheep graze."},
]
MARKED = {"id": "mill", "text": "Ida runs it.", "relevant": True}
ROWS = [
    {"id": "q1", "question": "Who runs it?", "answers": ["Ida"]},
    {"id": "q2", "question": "Who rows it?", "answers": ["Bo"], "passages": [MARKED]},
    {"id": "q3", "question": "Who grazes?", "answers": []},
]


@pytest.fixture
def source(tmp_path):
    """Options of reading the rows, with the corpus."""
    for name, rows in (("rows", ROWS), ("corpus", CORPUS)):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return InputOptions(input=str(tmp_path / "rows.jsonl"), corpus=str(tmp_path / "corpus.jsonl"))


class Fixed:
    """A retriever that finds the last passages of its corpus, and records the questions."""

    def __init__(self, corpus):
        self.passages, self.asked = list(corpus.values())[::-1], []

    def retrieve(self, queries, top_k):
        self.asked += queries
        return [self.passages[:top_k] for _ in queries]


def ids(query):
    return [passage.id for passage in query.passages]


def test_questions_without_passages_get_those_of_the_retriever(source):
    made = []
    needs = Needs(["answers", "passages"], Search(lambda corpus: made.append(Fixed(corpus)) or made[-1]), top_k=2)
    found = load_input(source, needs)
    assert [(query.id, ids(query)) for query in found.queries] == [("q1", ["sheep", "ferry"]), ("q2", ["mill"])]
    assert made[0].asked == ["Who runs it?"]
    assert [row.where.rpartition(", ")[2] for row in found.rejected] == ["line 3"]
    assert list(found.corpus) == ["mill", "ferry", "sheep"]


def test_judged_questions_get_further_passages_with_grades(source, tmp_path, capsys):
    (tmp_path / "qrels.txt").write_text("q1 0 ferry 2\nq1 0 gone 1\nq2 0 sheep 1\n")
    options = InputOptions(input=source.input, corpus=source.corpus, qrels=str(tmp_path / "qrels.txt"))
    found = load_input(options, Needs(search=Search(Fixed), top_k=1))
    marks = [[(each.id, each.metadata["relevant"]) for each in query.passages] for query in found.queries]
    # q2 has its own passage, which is not judged, and finds the relevant one
    assert marks == [[("ferry", 2), ("sheep", 0)], [("mill", 0), ("sheep", 1)]]
    assert [query.judged for query in found.queries] == [{"ferry": 2, "gone": 1}, {"sheep": 1}]
    assert "qrels.txt: not in the corpus: 1 of 3 relevant documents; nDCG and recall count" in capsys.readouterr().err
    assert [ids(query) for query in load_input(options, Needs(["answers", "corpus"])).queries] == [
        ["ferry"],
        ["mill", "sheep"],
    ]


def test_passages_of_a_search_service_need_no_corpus(source):
    options = InputOptions(source.input)
    with pytest.raises(BadRowError, match=r"line 1: passages must be .* \(2 unusable rows in all\)"):
        load_input(options, Needs(strict=True))
    service = Fixed({"a": Passage("Found.", id="a")})
    found = load_input(options, Needs(search=Search(lambda corpus: service, needs_corpus=False), top_k=1))
    assert [ids(query) for query in found.queries] == [["a"], ["mill"]]
    assert found.corpus is None


def test_what_a_job_needs_is_checked(source):
    found = load_input(source, Needs(["answers", "passages", "relevance"]))
    assert [query.id for query in found.queries] == ["q2"]
    assert found.rejected[1].where == f"{source.input}, id q1"
    assert found.rejected[1].reason.startswith("no passage was found for the question")
    assert found.rejected[1].row == {"id": "q1", "question": "Who runs it?"}
    found = load_input(source, Needs(["relevance"]))
    assert [row.reason.partition(" in its")[0] for row in found.rejected] == [
        "expected 'relevant': true, false or a grade"
    ] * 2
    with pytest.raises(BadRowError, match=r"line 3: answers must be .* \(1 unusable rows in all\)"):
        load_input(source, Needs(strict=True))
    with pytest.raises(BadRowError, match=r"id q1: no passage was found .* \(2 unusable rows in all\)"):
        load_input(source, Needs(["passages"], strict=True))


def test_the_questions_of_a_split_or_an_even_sample(source, tmp_path):
    rows = [{"id": f"q{at}", "question": f"Who {at}?", "answers": ["x"], "passages": ["y"]} for at in range(40)]
    (tmp_path / "many.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = InputOptions(str(tmp_path / "many.jsonl"))
    found = [query.id for query in load_input(options, Needs(split="dev")).queries]
    assert found == [row["id"] for row in rows if split_of(row["id"]) == "dev"]
    assert 0 < len(found) < 40
    assert [query.id for query in load_input(options, Needs(limit=3)).queries] == ["q0", "q13", "q26"]
