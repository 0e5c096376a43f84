"""The door for questions: each step by itself, as commands and trainers need it."""

from dataclasses import replace

import pytest

from seper_reward.data.inputs import Needs, Search, load_input
from seper_reward.data.rows import BadRowError
from seper_reward.data.splits import split_of
from seper_reward.options import InputOptions
from seper_reward.types import Passage
from tests.helpers import FindsThese, mill_rows, write_rows

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
    paths = [write_rows(tmp_path / f"{name}.jsonl", rows) for name, rows in (("rows", ROWS), ("corpus", CORPUS))]
    return InputOptions(input=str(paths[0]), corpus=str(paths[1]))


def last_of(corpus):
    """Return a retriever that finds the last passages of a corpus."""
    return FindsThese(list(corpus.values())[::-1])


def ids(query):
    return [passage.id for passage in query.passages]


def test_load_input_retrieves_for_questions_without_passages(source):
    made = []
    needs = Needs(["answers", "passages"], Search(lambda corpus: made.append(last_of(corpus)) or made[-1]), top_k=2)
    data = load_input(source, needs)
    assert [(query.id, ids(query)) for query in data.queries] == [("q1", ["sheep", "ferry"]), ("q2", ["mill"])]
    assert made[0].asked == [(["Who runs it?"], 2)]
    assert [row.where.rpartition(", ")[2] for row in data.rejected] == ["line 3"]
    assert list(data.corpus) == ["mill", "ferry", "sheep"]


def test_load_input_adds_passages_and_grades_to_judged_questions(source, tmp_path, capsys):
    (tmp_path / "qrels.txt").write_text("q1 0 ferry 2\nq1 0 gone 1\nq2 0 sheep 1\n")
    options = replace(source, qrels=str(tmp_path / "qrels.txt"))
    data = load_input(options, Needs(search=Search(last_of), top_k=1))
    marks = [[(each.id, each.metadata["relevant"]) for each in query.passages] for query in data.queries]
    # q2 has its own passage, which is not judged, and finds the relevant one
    assert marks == [[("ferry", 2), ("sheep", 0)], [("mill", 0), ("sheep", 1)]]
    assert [query.judged for query in data.queries] == [{"ferry": 2, "gone": 1}, {"sheep": 1}]
    assert "qrels.txt: not in the corpus: 1 of 3 relevant documents; nDCG and recall count" in capsys.readouterr().err
    retrieved_later = load_input(options, Needs(["answers", "corpus"])).queries
    assert list(map(ids, retrieved_later)) == [["ferry"], ["mill", "sheep"]]


def test_load_input_needs_no_corpus_for_a_search_service(source):
    service = FindsThese([Passage("Found.", id="a")])
    needs = Needs(search=Search(lambda corpus: service, needs_corpus=False), top_k=1)
    data = load_input(InputOptions(source.input), needs)
    assert list(map(ids, data.queries)) == [["a"], ["mill"]]
    assert data.corpus is None


def test_load_input_checks_what_a_job_needs(source):
    data = load_input(source, Needs(["answers", "passages", "relevance"]))
    assert [query.id for query in data.queries] == ["q2"]
    assert data.rejected[1].where == f"{source.input}, id q1"
    assert data.rejected[1].reason.startswith("no passage was found for the question")
    assert data.rejected[1].row == {"id": "q1", "question": "Who runs it?"}
    data = load_input(source, Needs(["relevance"]))
    assert [row.reason[:47] for row in data.rejected] == ["expected 'relevant': true, false or a grade in "] * 2
    for options, fields, message in (
        (InputOptions(source.input), ["answers"], r"line 1: passages must be .* \(2 unusable rows in all\)"),
        (source, ["answers"], r"line 3: answers must be .* \(1 unusable rows in all\)"),
        (source, ["passages"], r"id q1: no passage was found .* \(2 unusable rows in all\)"),
    ):
        with pytest.raises(BadRowError, match=message):
            load_input(options, Needs(fields, strict=True))


def test_load_input_takes_a_split_or_an_even_sample(tmp_path):
    rows = mill_rows(40)
    options = InputOptions(str(write_rows(tmp_path / "many.jsonl", rows)))
    dev = [query.id for query in load_input(options, Needs(split="dev")).queries]
    assert dev == [row["id"] for row in rows if split_of(row["id"]) == "dev"]
    assert 0 < len(dev) < 40
    assert [query.id for query in load_input(options, Needs(limit=3)).queries] == ["q00", "q13", "q26"]
