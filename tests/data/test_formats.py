"""Layouts of published data, recognised by their columns; runs and judgments."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from datasets import Dataset, Features, List, Value

from seper_reward.data.formats import parse_columns
from seper_reward.data.inputs import Needs, load_input
from seper_reward.data.queries import read_queries
from seper_reward.options import InputOptions
from seper_reward.types import Passage

FILES = Path(__file__).parent / "files"
BEIR = InputOptions(str(FILES / "beir" / "queries.jsonl"), corpus=str(FILES / "beir" / "corpus.jsonl"))
MILL = Passage("Ida Voss runs Hallow's mill.", "Mill", "0")
SQUAD = Features(
    {
        "id": Value("string"),
        "title": Value("string"),
        "context": Value("string"),
        "question": Value("string"),
        "answers": {"text": List(Value("string")), "answer_start": List(Value("int32"))},
    }
)


def squad_row(number, texts):
    answers = {"text": texts, "answer_start": [MILL.text.find(text) for text in texts]}
    return {
        "id": f"s{number}",
        "title": "Mill",
        "context": MILL.text,
        "question": f"Who? {number}",
        "answers": answers,
    }


def test_squad_of_the_hub(tmp_path, capsys):
    rows = [squad_row(0, ["Ida Voss", "Voss", "Ida Voss"]), squad_row(1, [])]
    Dataset.from_list(rows, features=SQUAD).to_parquet(tmp_path / "squad.parquet")
    examples = read_queries(tmp_path / "squad.parquet")
    (query,) = examples.queries
    assert (query.id, query.question, query.answers) == ("s0", "Who? 0", ("Ida Voss", "Voss"))
    assert query.passages == (MILL,)
    assert query.passages[0].metadata == {"relevant": True}
    assert query.metadata == {}
    assert capsys.readouterr().err.endswith(f"{tmp_path / 'squad.parquet'}: read as SQuAD\n")
    # unanswerable, as in SQuAD 2.0
    assert "answers must be a text or a list with at least one text, got []" in examples.rejected[0].reason


def test_squads_own_file(tmp_path):
    """After https://rajpurkar.github.io/SQuAD-explorer: data, paragraphs, qas."""
    asked = [
        {
            "id": "s0",
            "question": "Who? 0",
            "answers": [{"text": "Ida Voss", "answer_start": 0}],
            "is_impossible": False,
        },
        {"id": "s1", "question": "Who? 1", "answers": [], "plausible_answers": [], "is_impossible": True},
    ]
    document = {"version": "v2.0", "data": [{"title": "Mill", "paragraphs": [{"context": MILL.text, "qas": asked}]}]}
    (tmp_path / "dev-v2.0.json").write_text(json.dumps(document))
    examples = read_queries(tmp_path / "dev-v2.0.json")
    assert [(query.id, query.passages) for query in examples.queries] == [("s0", (MILL,))]
    assert len(examples.rejected) == 1
    document["data"][0]["paragraphs"][0].pop("context")
    (tmp_path / "dev-v2.0.json").write_text(json.dumps(document))
    with pytest.raises(ValueError, match=r"dev-v2.0.json: expected the JSON of SQuAD, but KeyError\('context'\)"):
        read_queries(tmp_path / "dev-v2.0.json")


@pytest.mark.parametrize("kind", ["hub", "file"])
def test_hotpotqa(kind, capsys):
    context = {"title": ["Mill", "Hill"], "sentences": [["Ida runs it.", " She is old."], ["Sheep graze."]]}
    facts = {"title": ["Mill", "Mill"], "sent_id": [0, 1]}
    if kind == "file":
        context = list(zip(context["title"], context["sentences"], strict=True))
        facts = list(zip(facts["title"], facts["sent_id"], strict=True))
    row = {
        "id": "h",
        "question": "Who?",
        "answer": "Ida",
        "type": "bridge",
        "context": context,
        "supporting_facts": facts,
    }
    examples = read_queries([row])
    (query,) = examples.queries
    assert (query.id, query.answers, query.metadata) == ("h", ("Ida",), {"type": "bridge"})
    assert query.passages == (Passage("Ida runs it. She is old.", "Mill", "0"), Passage("Sheep graze.", "Hill", "1"))
    assert [passage.metadata["relevant"] for passage in query.passages] == [True, False]
    assert capsys.readouterr().err == "the input: read as HotpotQA\n"


def test_ms_marco():
    passages = {"is_selected": [0, 1], "passage_text": ["Sheep.", "Ida runs it."], "url": ["a", "b"]}
    row = {"query_id": 7, "query": "who runs it", "answers": ["Ida"], "passages": passages, "query_type": "PERSON"}
    examples = read_queries([row, {**row, "query_id": 8, "answers": ["No Answer Present."]}])
    (query,) = examples.queries
    assert (query.id, query.answers, query.metadata) == ("7", ("Ida",), {"query_type": "PERSON"})
    assert [(each.text, each.metadata["relevant"]) for each in query.passages] == [
        ("Sheep.", False),
        ("Ida runs it.", True),
    ]
    assert "drop unanswerable" in examples.rejected[0].reason


def test_our_own_layout_says_nothing_and_stays_as_it_is(capsys):
    row = {"question": "Who?", "answers": ["Ann"], "passages": ["one"], "contexts": ["mine"], "reference": "mine"}
    examples = read_queries([row])
    assert capsys.readouterr().err == ""
    assert examples.queries[0].metadata == {"contexts": ["mine"], "reference": "mine"}


def test_columns_that_the_user_names():
    row = {
        "q": "Who?",
        "gold": {"value": "Ann", "aliases": ["Ann", "A. Lee"]},
        "ctx": [{"body": "one"}],
        "key": 3,
        "n": 1,
    }
    words = ["question=q", "answers=gold.aliases", "passages=ctx.body", "id=key"]
    examples = read_queries([row], options=InputOptions(columns=words))
    (query,) = examples.queries
    assert (query.id, query.question, query.answers) == ("3", "Who?", ("Ann", "A. Lee"))
    assert query.passages == (Passage("one", id="0"),)
    assert query.metadata["n"] == 1
    # what is named wins, the others are those of the layout
    marco = {
        "query": "Who?",
        "answers": ["x"],
        "passages": {"passage_text": ["one"], "is_selected": [1]},
        "gold": "Ann",
    }
    (query,) = read_queries([{**marco, "name": "Who is it?"}], options=InputOptions(columns=["question=name"])).queries
    assert (query.question, query.answers, query.passages[0].text) == ("Who is it?", ("x",), "one")


@pytest.mark.parametrize(
    ("row", "options", "message"),
    [
        (
            {"q": "Who?", "gold": "Ann", "ctx": "one"},
            {},
            r"the input: found no column for question and answers and passages, got the columns q, gold, ctx; "
            r"name it: --columns question=COLUMN answers=COLUMN passages=COLUMN \(a text is one passage; several ",
        ),
        (
            {"question": "Who?", "gold": "Ann", "passages": ["one"]},
            {},
            r"for answers, got .*; name it: --columns answers=COLUMN; some labelers need no answers",
        ),
        ({"question": "Who?", "answers": "Ann"}, {}, r"for passages, got the columns question, answers; name it"),
        (
            {"question": "Who?", "answers": "Ann", "passages": "one"},
            {"columns": ["passages=ctx"]},
            r"expected a column 'ctx', got the columns question, answers, passages",
        ),
    ],
)
def test_what_is_not_recognised(row, options, message):
    with pytest.raises(ValueError, match=message):
        read_queries([row], options=InputOptions(**options))


def test_words_that_name_no_column():
    with pytest.raises(ValueError, match=r"columns must be like question=COLUMN, for id, .*, got 'title=x'"):
        parse_columns(["title=x"])
    with pytest.raises(ValueError, match="got 'answers'"):
        parse_columns(["answers"])


def test_a_bad_first_row_does_not_decide():
    rows = [{"answers": ["Ann"]}, {"question": "Who?", "answers": ["Ann"], "passages": ["one"]}]
    examples = read_queries(rows)
    assert len(examples.queries) == len(examples.rejected) == 1


def ids(query):
    return [passage.id for passage in query.passages]


def marks(query):
    return [passage.metadata.get("relevant") for passage in query.passages]


def test_beir(capsys):
    examples = load_input(InputOptions(f"{FILES / 'beir'}:test"), Needs([]))
    first, second = examples.queries  # q3 is judged in train only
    assert (first.id, first.question, first.answers) == ("q1", "Who runs the mill in Hallow?", ())
    assert (ids(first), marks(first)) == (["d1", "d4"], [1, 0])
    assert (ids(second), marks(second)) == (["d3"], [2])
    assert len(examples.corpus) == 4
    assert examples.judgments
    assert "queries.jsonl: read as BEIR" in capsys.readouterr().err
    with pytest.raises(ValueError, match=r"expected a split, one of test, train, got none; .*beir:test"):
        load_input(InputOptions(str(FILES / "beir")))
    with pytest.raises(ValueError, match="got 'dev'"):
        load_input(InputOptions(f"{FILES / 'beir'}:dev"))


def test_answers_of_beir(tmp_path):
    """BEIR's HotpotQA has them in the metadata of queries."""
    for name in ("corpus.jsonl", "queries.jsonl"):
        (tmp_path / name).write_text((FILES / "beir" / name).read_text().replace('green.", "metadata": {}', 'green."'))
    lines = (FILES / "beir" / "queries.jsonl").read_text().splitlines()
    rows = [{**json.loads(line), "metadata": {"answer": name}} for line, name in zip(lines, "abc", strict=True)]
    (tmp_path / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    examples = load_input(InputOptions(str(tmp_path)))  # no qrels: all questions, passages are to be retrieved
    assert [(query.answers, query.passages) for query in examples.queries] == [((name,), ()) for name in "abc"]
    assert examples.judgments is None
    with pytest.raises(ValueError, match=r"found no column for answers, got the columns _id, text.*; some labelers"):
        load_input(InputOptions(str(FILES / "beir:test")))


def test_a_run_and_judgments_of_files(tmp_path, capsys):
    import ir_measures

    run = [("q1", "d2", 1.0), ("q1", "d1", 2.5), ("q1", "d3", 0.5), ("q2", "d4", 1.0)]
    qrels = [("q1", "d1", 3), ("q1", "d3", 0), ("q3", "d2", 1)]
    converted = ir_measures.util.RunConverter([ir_measures.ScoredDoc(*each) for each in run])
    with converted.as_tmp_file() as file:
        (tmp_path / "bm25.run").write_text(file.read())
    with ir_measures.util.QrelsConverter([ir_measures.Qrel(*each) for each in qrels]).as_tmp_file() as file:
        (tmp_path / "qrels.txt").write_text(file.read())

    def examples(**files):
        paths = {name: str(tmp_path / file) for name, file in files.items()}
        return load_input(replace(BEIR, **paths), Needs([]))

    first, second = examples(run="bm25.run").queries
    assert (ids(first), ids(second)) == (["d1", "d2", "d3"], ["d4"])
    assert marks(first) == [None] * 3
    (first,) = examples(run="bm25.run", qrels="qrels.txt").queries
    assert (ids(first)[:2], marks(first)[:2]) == (["d1", "d2"], [3, 0])
    said = capsys.readouterr().err
    assert "bm25.run does not have 1 of 3 questions, " in said
    assert "qrels.txt does not have 1 of 2 questions, " in said
    found = examples(qrels="qrels.txt")
    assert [ids(query) for query in found.queries] == [["d1", "d3"], ["d2"]]
    assert found.judgments == examples(run="bm25.run", qrels="qrels.txt").judgments
    assert found.judgments["q3"] == {"d2": 1}
    options = InputOptions(str(FILES / "beir:test"), run=str(FILES / "beir" / "bm25.run"))
    first, _ = load_input(options, Needs([], top_k=2)).queries
    assert (ids(first), marks(first)) == (["d1", "d2"], [1, 0])


def test_judgments_of_the_hub_are_tables(tmp_path):
    Dataset.from_list([{"query-id": "q1", "corpus-id": "d1", "score": 1}]).save_to_disk(tmp_path / "qrels")
    options = replace(BEIR, qrels=str(tmp_path / "qrels"))
    (query,) = load_input(options, Needs([])).queries
    assert (ids(query), marks(query)) == (["d1"], [1])


@pytest.mark.parametrize(
    ("option", "text", "message"),
    [
        (
            "run",
            "q1 Q0 d1 1 0.5",
            r"file, line 1: expected a line of a TREC run, .*, got \['q1', 'Q0', 'd1', '1', '0.5'\]",
        ),
        ("run", "q1 Q0 d1 1 high name", "line 1: expected a line of a TREC run"),
        (
            "run",
            "q1 Q0 d1 1 .5 name\n\nq1 Q0 d1 2 .4 name",
            "line 3: expected each passage of a question once, got 'd1'",
        ),
        ("run", "q1 Q0 d9 1 .5 name", "the corpus has no passage of the run, such as 'd9'"),
        ("run", "77 Q0 d1 1 .5 name", r"expected ids of the questions, such as 'q1', got none of them"),
        ("qrels", "q1 0 d1 yes", "line 1: expected a judgment, question iteration passage grade or BEIR's"),
        ("qrels", "q1 0", "line 1: expected a judgment"),
        ("qrels", "q1 0 d1 0.5", "line 1: expected a judgment"),
        ("qrels", "q1 0 d1 nan", "line 1: expected a judgment"),
        ("qrels", "q1 0 d1 1\nq1 0 d1 2", "line 2: expected one grade for each passage, got 'd1' again"),
        ("run", "q1 Q0 d1 1 nan name", "line 1: expected a line of a TREC run"),
        ("qrels", "77 0 d1 1", r"expected ids of the questions, such as 'q1', got none of them"),
    ],
)
def test_runs_and_judgments_that_do_not_fit(tmp_path, option, text, message):
    (tmp_path / "file").write_text(text)
    options = replace(BEIR, **{option: str(tmp_path / "file")})
    with pytest.raises(ValueError, match=message):
        load_input(options, Needs([]))
    with pytest.raises(ValueError, match="give the corpus, too"):
        load_input(replace(options, corpus=None), Needs([]))


def test_several_columns_are_joined():
    rows = [
        {"Q": "Who?", "A": "Ann", "B": "A. Lee", "P1": "one", "P2": ["two", "three"], "n": 1},
        {"Q": "When?", "A": "May", "B": None, "P1": "", "P2": "four", "n": 2},
    ]
    columns = ["question=Q", "answers=A", "answers=B", "passages=P1", "passages=P2"]
    examples = read_queries(rows, options=InputOptions(columns=columns))
    assert [query.answers for query in examples.queries] == [("Ann", "A. Lee"), ("May",)]
    assert [[each.text for each in query.passages] for query in examples.queries] == [
        ["one", "two", "three"],
        ["four"],
    ]
    assert [query.metadata for query in examples.queries] == [{"n": 1}, {"n": 2}]
    with pytest.raises(ValueError, match="columns names two for question, 'Q' and 'R'; name one"):
        parse_columns(["question=Q", "question=R"])


def test_a_column_that_the_user_did_not_name_is_metadata():
    row = {"question": "Who?", "answers": ["Ann"], "paragraphs": ["Ann did."], "context": "A dispute."}
    (query,) = read_queries([row], options=InputOptions(columns=["passages=paragraphs"])).queries
    assert [passage.text for passage in query.passages] == ["Ann did."]
    assert query.metadata == {"context": "A dispute."}


@pytest.mark.parametrize(
    ("row", "answers"),
    [
        ({"question": "Where?", "context": "Paris is.", "answers": {"text": "Paris"}}, ("Paris",)),
        ({"query": "Where?", "answers": "Paris", "passages": {"passage_text": ["x"], "is_selected": [1]}}, ("Paris",)),
    ],
)
def test_an_answer_that_is_no_list_is_one_alias(row, answers):
    assert read_queries([row]).queries[0].answers == answers


def test_rows_of_published_layouts_that_cannot_be_converted_are_rejected():
    facts = {"title": ["A"], "sent_id": [0]}
    hops = [
        {
            "question": "Who?",
            "answer": "Ann",
            "supporting_facts": facts,
            "context": {"title": ["A"], "sentences": [each]},
        }
        for each in (["Ann did."], [None])
    ]
    assert [len(each) for each in (read_queries(hops).queries, read_queries(hops).rejected)] == [1, 1]


def test_columns_that_some_rows_lack():
    rows = [
        {"question": "Who?", "output": [{"answer": "Ann"}, {"provenance": []}], "aliases": None, "passages": ["x"]}
    ]
    options = InputOptions(columns=["answers=output.answer", "answers=aliases"])
    assert read_queries(rows, None, options).queries[0].answers == ("Ann",)
    assert read_queries(rows, None, InputOptions(columns=["answers=output.answer"])).queries[0].answers == ("Ann",)
    for wrong in ("alias", "output.answers"):
        with pytest.raises(ValueError, match=f"expected a column '{wrong}'"):
            read_queries(rows, None, InputOptions(columns=[f"answers={wrong}"]))
    rows = [{"question": "Who?", "answer": {"aliases": ["Ann", None]}, "found": [{"text": "x"}, {"id": 1}]}]
    rows = [{**rows[0], "answer": {"aliases": None}}, *rows]
    named = InputOptions(columns=["answers=answer.aliases", "passages=found.text"])
    found = read_queries(rows, None, named)
    assert [(query.answers, len(query.passages)) for query in found.queries] == [(("Ann",), 1)]
    assert "answers must be" in found.rejected[0].reason
    aliases = {"question": "Who?", "obj": "Paris", "all": '["Paris", "paris, france"]', "passages": ["x"]}
    (query,) = read_queries([aliases], None, InputOptions(columns=["answers=obj", "answers=all"])).queries
    assert query.answers == ("Paris", "paris, france")


def test_layouts_may_be_mixed_and_a_bad_row_is_rejected_by_itself():
    rows = [
        squad_row(0, ["Ida"]),
        {"question": "Who?", "answers": ["Ann"], "passages": ["one"]},
        squad_row(2, ["Ida"]),
    ]
    examples = read_queries([*rows, {**squad_row(3, ["Ida"]), "answers": {"text": 3}}])
    assert [query.answers for query in examples.queries] == [("Ida",), ("Ann",), ("Ida",)]
    assert "expected a row of SQuAD (TypeError" in examples.rejected[0].reason


def test_a_byte_order_mark_in_judgments_is_no_part_of_an_id(tmp_path):
    (tmp_path / "qrels.txt").write_bytes(b"\xef\xbb\xbfq1 0 d1 2\nq2 0 d4 1\n")
    options = replace(BEIR, qrels=str(tmp_path / "qrels.txt"))
    assert [marks(query) for query in load_input(options, Needs([])).queries] == [[2], [1]]


def test_passages_of_a_run_that_the_corpus_lacks_are_passed_over(tmp_path, capsys):
    (tmp_path / "file.run").write_text("q1 Q0 d1 1 3 x\nq1 Q0 blank 2 2 x\nq1 Q0 d3 3 1 x\nq2 Q0 gone 1 1 x\n")
    options = replace(BEIR, run=str(tmp_path / "file.run"))
    (query,) = load_input(options, Needs([])).queries
    assert ids(query) == ["d1", "d3"]
    said = capsys.readouterr().err
    assert "left out: 2 passages of the run without a text in the corpus, such as 'blank', and 1 question " in said
