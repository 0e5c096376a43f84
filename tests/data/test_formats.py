"""Layouts of published data, recognised by their columns; runs and judgments."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from datasets import Dataset, Features, List, Value

from seper_reward.data.inputs import Needs, load_input
from seper_reward.data.queries import read_queries
from seper_reward.options import InputOptions
from seper_reward.runtime.json_files import read_lines
from seper_reward.types import Passage
from tests.helpers import write_rows

FILES = Path(__file__).parent / "files"
BEIR = InputOptions(str(FILES / "beir" / "queries.jsonl"), corpus=str(FILES / "beir" / "corpus.jsonl"))
MILL = Passage("Ida Voss runs Hallow's mill.", "Mill", "0")
SQUAD_ANSWERS = {"text": List(Value("string")), "answer_start": List(Value("int32"))}
SQUAD = Features(dict.fromkeys(("id", "title", "context", "question"), Value("string")) | {"answers": SQUAD_ANSWERS})


SQUAD_ROW = {"id": "s0", "title": "Mill", "context": MILL.text, "question": "Who?"}
SQUAD_ROW |= {"answers": {"text": ["Ida Voss", "Voss", "Ida Voss"], "answer_start": [0, 4, 0]}}
HOTPOT_ROW = {
    "id": "h", "question": "Who?", "answer": "Ida", "type": "bridge",
    "context": {"title": ["Mill", "Hill"], "sentences": [["Ida runs it.", " She is old."], ["Sheep graze."]]},
    "supporting_facts": {"title": ["Mill", "Mill"], "sent_id": [0, 1]},
}  # fmt: skip
MARCO_ROW = {
    "query_id": 7, "query": "who runs it", "answers": ["Ida"], "query_type": "PERSON",
    "passages": {"is_selected": [0, 1], "passage_text": ["Sheep.", "Ida runs it."], "url": ["a", "b"]},
}  # fmt: skip


def test_read_queries_of_squad_on_the_hub(tmp_path, capsys):
    rows = [SQUAD_ROW, {**SQUAD_ROW, "id": "s1", "answers": {"text": [], "answer_start": []}}]
    Dataset.from_list(rows, features=SQUAD).to_parquet(tmp_path / "squad.parquet")
    data = read_queries(tmp_path / "squad.parquet")
    (query,) = data.queries
    assert (query.id, query.question, query.answers) == ("s0", "Who?", ("Ida Voss", "Voss"))
    assert query.passages == (MILL,)
    assert query.passages[0].metadata == {"relevant": True}
    assert query.metadata == {}
    assert capsys.readouterr().err.endswith(f"{tmp_path / 'squad.parquet'}: read as SQuAD\n")
    # unanswerable, as in SQuAD 2.0
    assert "answers must be a text or a list with at least one text, got []" in data.rejected[0].reason


def test_read_queries_of_squads_own_file(tmp_path):
    """After https://rajpurkar.github.io/SQuAD-explorer: data, paragraphs, qas."""
    asked = [
        {"id": "s0", "question": "Who?", "answers": [{"text": "Ida Voss", "answer_start": 0}], "is_impossible": False},
        {"id": "s1", "question": "Who?", "answers": [], "plausible_answers": [], "is_impossible": True},
    ]
    document = {"version": "v2.0", "data": [{"title": "Mill", "paragraphs": [{"context": MILL.text, "qas": asked}]}]}
    path = tmp_path / "dev-v2.0.json"
    path.write_text(json.dumps(document))
    data = read_queries(path)
    assert [(query.id, query.passages) for query in data.queries] == [("s0", (MILL,))]
    assert len(data.rejected) == 1
    path.write_text(path.read_text().replace('"context"', '"text"'))
    with pytest.raises(ValueError, match=r"dev-v2.0.json: expected the JSON of SQuAD, but KeyError\('context'\)"):
        read_queries(path)


@pytest.mark.parametrize("kind", ["hub", "file"])
def test_read_queries_of_hotpotqa(kind, capsys):
    row = dict(HOTPOT_ROW)
    if kind == "file":
        row |= {name: list(zip(*row[name].values(), strict=True)) for name in ("context", "supporting_facts")}
    (query,) = read_queries([row]).queries
    assert (query.id, query.answers, query.metadata) == ("h", ("Ida",), {"type": "bridge"})
    assert query.passages == (Passage("Ida runs it. She is old.", "Mill", "0"), Passage("Sheep graze.", "Hill", "1"))
    assert marks(query) == [True, False]
    assert capsys.readouterr().err == "the input: read as HotpotQA\n"


def test_read_queries_of_ms_marco():
    data = read_queries([MARCO_ROW, {**MARCO_ROW, "query_id": 8, "answers": ["No Answer Present."]}])
    (query,) = data.queries
    assert (query.id, query.answers, query.metadata) == ("7", ("Ida",), {"query_type": "PERSON"})
    assert [passage.text for passage in query.passages] == ["Sheep.", "Ida runs it."]
    assert marks(query) == [False, True]
    assert "drop unanswerable" in data.rejected[0].reason


def test_read_queries_leaves_our_own_layout_as_it_is(capsys):
    row = {"question": "Who?", "answers": ["Ann"], "passages": ["one"], "contexts": ["mine"], "reference": "mine"}
    assert read_queries([row]).queries[0].metadata == {"contexts": ["mine"], "reference": "mine"}
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("row", "columns", "question", "answers", "texts", "rest"),
    [
        ({"q": "Who?", "gold": {"value": "Ann", "aliases": ["Ann", "A. Lee"]}, "ctx": [{"body": "one"}], "n": 1},
         ["question=q", "answers=gold.aliases", "passages=ctx.body"],
         "Who?", ("Ann", "A. Lee"), ["one"], {"gold", "ctx", "n"}),
        # a named column wins, the others are those of the layout
        ({**MARCO_ROW, "name": "Who is it?"}, ["question=name"],
         "Who is it?", ("Ida",), ["Sheep.", "Ida runs it."], {"query_type"}),
        # several columns are joined
        ({"Q": "Who?", "A": "Ann", "B": "A. Lee", "P1": "one", "P2": ["two", "three"], "n": 1},
         ["question=Q", "answers=A", "answers=B", "passages=P1", "passages=P2"],
         "Who?", ("Ann", "A. Lee"), ["one", "two", "three"], {"n"}),
        ({"Q": "Who?", "A": "May", "B": None, "P1": "", "P2": "four", "n": 2},
         ["question=Q", "answers=A", "answers=B", "passages=P1", "passages=P2"], "Who?", ("May",), ["four"], {"n"}),
        # columns without a name are metadata
        ({"question": "Who?", "answers": ["Ann"], "paragraphs": ["Ann did."], "context": "A dispute."},
         ["passages=paragraphs"], "Who?", ("Ann",), ["Ann did."], {"context"}),
        # texts of lists
        ({"question": "Who?", "obj": "Paris", "all": '["Paris", "paris, france"]', "passages": ["x"]},
         ["answers=obj", "answers=all"], "Who?", ("Paris", "paris, france"), ["x"], set()),
        # some objects lack a field
        ({"question": "Who?", "output": [{"answer": "Ann"}, {"provenance": []}], "aliases": None, "passages": ["x"]},
         ["answers=output.answer", "answers=aliases"], "Who?", ("Ann",), ["x"], {"output"}),
        ({"question": "Who?", "answer": {"aliases": ["Ann", None]}, "found": [{"text": "x"}, {"id": 1}]},
         ["answers=answer.aliases", "passages=found.text"], "Who?", ("Ann",), ["x"], {"answer", "found"}),
    ],
)  # fmt: skip
def test_read_queries_by_named_columns(row, columns, question, answers, texts, rest):
    (query,) = read_queries([row], options=InputOptions(columns=columns)).queries
    assert (query.question, query.answers, set(query.metadata)) == (question, answers, rest)
    assert [passage.text for passage in query.passages] == texts


@pytest.mark.parametrize(
    ("row", "columns", "message"),
    [
        ({"q": "Who?", "gold": "Ann", "ctx": "one"}, [],
         r"the input: found no column for question and answers and passages, got the columns q, gold, ctx; "
         r"name it: --columns question=COLUMN answers=COLUMN passages=COLUMN \(a text is one passage; several "),
        ({"question": "Who?", "gold": "Ann", "passages": ["one"]}, [],
         r"for answers, got .*; name it: --columns answers=COLUMN; some labelers need no answers"),
        ({"question": "Who?", "answers": "Ann"}, [], r"for passages, got the columns question, answers; name it"),
        ({"question": "Who?", "answers": "Ann", "passages": "one"}, ["passages=ctx"],
         r"expected a column 'ctx', got the columns question, answers, passages"),
        ({"question": "Who?", "output": [{"answer": "Ann"}], "passages": "one"}, ["answers=output.answers"],
         "expected a column 'output.answers'"),
        ({}, ["title=x"], r"columns must be like question=COLUMN, for id, .*, got 'title=x'"),
        ({}, ["answers"], "got 'answers'"),
        ({}, ["question=Q", "question=R"], "columns names two for question, 'Q' and 'R'; name one"),
    ],
)  # fmt: skip
def test_read_queries_refuses_columns(row, columns, message):
    with pytest.raises(ValueError, match=message):
        read_queries([row], options=InputOptions(columns=columns))


def test_read_queries_mixes_layouts_and_rejects_bad_rows_alone():
    ours = {"question": "Who?", "answers": ["Ann"], "passages": ["one"]}
    broken = {**HOTPOT_ROW, "context": {"title": ["A"], "sentences": [[None]]}}
    rows = [{"answers": ["Ann"]}, ours, SQUAD_ROW, HOTPOT_ROW, broken, {**SQUAD_ROW, "answers": {"text": 3}}]
    data = read_queries(rows)
    assert [query.answers for query in data.queries] == [("Ann",), ("Ida Voss", "Voss"), ("Ida",)]
    assert [rejected.where for rejected in data.rejected] == ["row 1", "row 5", "row 6"]
    assert "expected a row of SQuAD (TypeError" in data.rejected[2].reason


def ids(query):
    return [passage.id for passage in query.passages]


def marks(query):
    return [passage.metadata.get("relevant") for passage in query.passages]


def test_load_input_of_beir(capsys):
    data = load_input(InputOptions(f"{FILES / 'beir'}:test"), Needs([]))
    first, second = data.queries  # q3 is judged in train only
    assert (first.id, first.question, first.answers) == ("q1", "Who runs the mill in Hallow?", ())
    assert (ids(first), marks(first)) == (["d1", "d4"], [1, 0])
    assert (ids(second), marks(second)) == (["d3"], [2])
    assert len(data.corpus) == 4
    assert data.judgments
    assert "queries.jsonl: read as BEIR" in capsys.readouterr().err
    for source, message in (
        ("beir", r"expected a split, one of test, train, got none; .*beir:test"),
        ("beir:dev", "got 'dev'"),
        ("beir:test", r"found no column for answers, got the columns _id, text.*; some labelers"),
    ):
        with pytest.raises(ValueError, match=message):
            load_input(InputOptions(str(FILES / source)))


def test_load_input_of_beir_with_answers_in_metadata(tmp_path):
    """BEIR's HotpotQA has them; without qrels, all questions are read, and passages are to be retrieved."""
    shutil.copy(FILES / "beir" / "corpus.jsonl", tmp_path)
    rows = zip(read_lines(FILES / "beir" / "queries.jsonl"), "abc", strict=True)
    write_rows(tmp_path / "queries.jsonl", [{**row, "metadata": {"answer": name}} for row, name in rows])
    data = load_input(InputOptions(str(tmp_path)))
    assert [(query.answers, query.passages) for query in data.queries] == [((name,), ()) for name in "abc"]
    assert data.judgments is None


def test_load_input_of_a_run_and_judgments(tmp_path, capsys):
    (tmp_path / "bm25.run").write_text("q1 Q0 d2 9 1.0 x\nq1 Q0 d1 9 2.5 x\nq1 Q0 d3 9 0.5 x\nq2 Q0 d4 9 1.0 x\n")
    (tmp_path / "qrels.txt").write_bytes(b"\xef\xbb\xbfq1 0 d1 3\nq1 0 d3 0\nq3 0 d2 1\n")  # no part of an id

    def data(**files):
        paths = {name: str(tmp_path / file) for name, file in files.items()}
        return load_input(replace(BEIR, **paths), Needs([]))

    first, second = data(run="bm25.run").queries
    assert (ids(first), ids(second)) == (["d1", "d2", "d3"], ["d4"])
    assert marks(first) == [None] * 3
    (first,) = data(run="bm25.run", qrels="qrels.txt").queries
    assert (ids(first)[:2], marks(first)[:2]) == (["d1", "d2"], [3, 0])
    said = capsys.readouterr().err
    assert "bm25.run does not have 1 of 3 questions, " in said
    assert "qrels.txt does not have 1 of 2 questions, " in said
    judged = data(qrels="qrels.txt")
    assert [ids(query) for query in judged.queries] == [["d1", "d3"], ["d2"]]
    assert judged.judgments["q3"] == {"d2": 1}
    options = InputOptions(str(FILES / "beir:test"), run=str(FILES / "beir" / "bm25.run"))
    first, _ = load_input(options, Needs([], top_k=2)).queries
    assert (ids(first), marks(first)) == (["d1", "d2"], [1, 0])


def test_load_input_of_judgments_in_a_table(tmp_path):
    Dataset.from_list([{"query-id": "q1", "corpus-id": "d1", "score": 1}]).save_to_disk(tmp_path / "qrels")
    (query,) = load_input(replace(BEIR, qrels=str(tmp_path / "qrels")), Needs([])).queries
    assert (ids(query), marks(query)) == (["d1"], [1])


@pytest.mark.parametrize(
    ("option", "text", "message"),
    [
        ("run", "q1 Q0 d1 1 0.5", r"line 1: expected a line of a TREC run, .*, got \['q1', 'Q0', 'd1', '1', '0.5'\]"),
        ("run", "q1 Q0 d1 1 high name", "line 1: expected a line of a TREC run"),
        ("run", "q1 Q0 d1 1 nan name", "line 1: expected a line of a TREC run"),
        ("run", "q1 Q0 d1 1 .5 x\n\nq1 Q0 d1 2 .4 x", "line 3: expected each passage of a question once, got 'd1'"),
        ("run", "q1 Q0 d9 1 .5 name", "the corpus has no passage of the run, such as 'd9'"),
        ("run", "77 Q0 d1 1 .5 name", r"expected ids of the questions, such as 'q1', got none of them"),
        ("qrels", "q1 0 d1 yes", "line 1: expected a judgment, question iteration passage grade or BEIR's"),
        ("qrels", "q1 0", "line 1: expected a judgment"),
        ("qrels", "q1 0 d1 0.5", "line 1: expected a judgment"),
        ("qrels", "q1 0 d1 nan", "line 1: expected a judgment"),
        ("qrels", "q1 0 d1 1\nq1 0 d1 2", "line 2: expected one grade for each passage, got 'd1' again"),
        ("qrels", "77 0 d1 1", r"expected ids of the questions, such as 'q1', got none of them"),
    ],
)
def test_load_input_refuses_runs_and_judgments(tmp_path, option, text, message):
    (tmp_path / "file").write_text(text)
    options = replace(BEIR, **{option: str(tmp_path / "file")})
    with pytest.raises(ValueError, match=message):
        load_input(options, Needs([]))
    with pytest.raises(ValueError, match="give the corpus, too"):
        load_input(replace(options, corpus=None), Needs([]))


@pytest.mark.parametrize("row", [{**SQUAD_ROW, "answers": {"text": "Paris"}}, {**MARCO_ROW, "answers": "Paris"}])
def test_read_queries_takes_one_answer_for_a_list(row):
    assert read_queries([row]).queries[0].answers == ("Paris",)


def test_load_input_passes_over_passages_that_the_corpus_lacks(tmp_path, capsys):
    (tmp_path / "file.run").write_text("q1 Q0 d1 1 3 x\nq1 Q0 blank 2 2 x\nq1 Q0 d3 3 1 x\nq2 Q0 gone 1 1 x\n")
    (query,) = load_input(replace(BEIR, run=str(tmp_path / "file.run")), Needs([])).queries
    assert ids(query) == ["d1", "d3"]
    said = capsys.readouterr().err
    assert "left out: 2 passages of the run without a text in the corpus, such as 'blank', and 1 question " in said
