"""Files as other libraries and people write them: names of columns, joined texts, classes, true, and line ends."""

import pytest
from datasets import ClassLabel, Dataset, Features, List, Value

from seper_reward.data.queries import read_queries
from seper_reward.data.tables import open_table
from seper_reward.options import InputOptions
from seper_reward.types import Passage


def texts(query):
    return [passage.text for passage in query.passages]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (
            {"user_input": "Who?", "reference": "Ann", "retrieved_contexts": ["One.", "Two."], "response": "Bob"},
            "read user_input as question, reference as answers, retrieved_contexts as passages",
        ),
        # Ragas before 0.2: the answer is the system's
        (
            {"question": "Who?", "ground_truth": "Ann", "contexts": ["One.", "Two."], "answer": "Bob"},
            "read ground_truth as answers, contexts as passages",
        ),
        (
            {
                "input": "Who?",
                "expected_output": "Ann",
                "retrieval_context": ["One.", "Two."],
                "actual_output": "Bob",
                "context": ["Three."],
            },
            "read input as question, expected_output as answers, retrieval_context as passages",
        ),
        ({"question": "Who?", "answer": "Ann", "passages": ["One.", "Two."]}, "read answer as answers"),
        (
            {"Question": "Who?", "Answer": "Ann", "Contexts": ["One.", "Two."]},
            "read Question as question, Answer as answers, Contexts as passages",
        ),
        ({"question": "Who?", "golden_answers": ["Ann"], "passages": ["One.", "Two."]}, "read golden_answers as"),
    ],
)
def test_names_of_other_libraries(row, said, capsys):
    (query,) = read_queries([row]).queries
    assert (query.question, query.answers, texts(query)) == ("Who?", ("Ann",), ["One.", "Two."])
    assert f"the input: {said}" in capsys.readouterr().err


def test_objects_have_no_other_name():
    """TriviaQA's `answer` is an object; it is named, not guessed."""
    row = {"question": "Who?", "answer": {"value": "Ann", "aliases": ["Ann"]}, "passages": ["One."]}
    with pytest.raises(ValueError, match=r"found no column for answers, .*--columns answers=COLUMN"):
        read_queries([row])
    assert read_queries([row], options=InputOptions(columns=["answers=answer.aliases"])).queries[0].answers == ("Ann",)


def test_deepevals_files_are_split(tmp_path, capsys):
    """`EvaluationDataset.save_as` joins contexts by "|" in CSV and JSON lines."""
    path = tmp_path / "de.csv"
    path.write_text("input,actual_output,expected_output,retrieval_context\nWho?,Bob,Ann,A runs it.|Rain fell.|B.\n")
    for columns in ([], ["question=input", "answers=expected_output", "passages=retrieval_context"]):
        (query,) = read_queries(path, options=InputOptions(columns=columns)).queries
        assert (query.answers, texts(query)) == (("Ann",), ["A runs it.", "Rain fell.", "B."])
        assert "'|' is in 1 of 1 text of 'retrieval_context' and separates passages, as" in capsys.readouterr().err
    row = {"input": "Who?", "expected_output": "Ann", "retrieval_context": ["A | B runs it.", "Rain fell."]}
    assert texts(read_queries([row]).queries[0]) == ["A | B runs it.", "Rain fell."]  # a list is no joined text


@pytest.mark.parametrize(
    ("cell", "separator", "aliases"),
    [
        ("Ann Lee|A. Lee", "|", ("Ann Lee", "A. Lee")),
        ("Ann Lee; A. Lee", ";", ("Ann Lee", "A. Lee")),
        ("Ann Lee / A. Lee", "/", ("Ann Lee", "A. Lee")),
    ],
)
def test_aliases_in_one_cell(cell, separator, aliases, capsys):
    rows = [{"question": f"Who? {number}", "answers": cell, "passages": ["One."]} for number in range(3)]
    rows.append({"question": "How fast?", "answers": ["60 km/h"], "passages": ["One."]})
    queries = read_queries(rows).queries
    assert queries[0].answers == (cell,)  # it may be one answer: only said
    said = capsys.readouterr().err
    way_out = f"answers=answers{separator}"
    assert f"'{separator}' is in 3 of 4 texts of 'answers', and each text is one answer" in said
    assert f"--columns '{way_out}' splits them" in said
    queries = read_queries(rows, options=InputOptions(columns=[way_out])).queries
    assert [query.answers for query in queries] == [aliases] * 3 + [("60 km/h",)]
    assert "splits them" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "text",
    [
        "It turns; the wheel is old.",  # prose
        "The old mill | Hallow news. It turns.",  # the title of a web page
        "One line / another line",  # a poem
        "a|",
    ],
)
def test_prose_is_not_taken_for_several_passages(text, capsys):
    read_queries([{"question": "Who?", "answers": ["Ann"], "passages": text}])
    assert capsys.readouterr().err == ""


def test_joined_passages_are_said(capsys):
    read_queries([{"question": "Who?", "answers": ["Ann"], "ctx": "A runs it.; Rain fell."}], options=InputOptions(
        columns=["passages=ctx"]
    ))  # fmt: skip
    assert "--columns 'passages=ctx;' splits them" in capsys.readouterr().err


@pytest.mark.parametrize("form", ["memory", "parquet", "saved"])
def test_classes_are_their_names(form, tmp_path):
    features = Features(
        {
            "question": Value("string"),
            "answers": ClassLabel(names=["no", "yes"]),
            "passages": [{"text": Value("string"), "kind": ClassLabel(names=["old", "new"])}],
            "tags": List(ClassLabel(names=["a", "b"])),
        }
    )
    passages = [{"text": "It is old.", "kind": 0}]
    rows = [
        {"question": "Is it old?", "answers": 1, "passages": passages, "tags": [1, 0]},
        {"question": "Is it new?", "answers": -1, "passages": passages, "tags": []},  # unlabelled
    ]
    dataset = Dataset.from_list(rows, features=features)
    source = dataset
    if form == "parquet":
        dataset.to_parquet(source := tmp_path / "yes.parquet")
    elif form == "saved":
        dataset.save_to_disk(source := tmp_path / "yes")
    found = read_queries(source)
    (query,) = found.queries
    assert (query.answers, query.metadata) == (("yes",), {"tags": ["b", "a"]})
    assert query.passages == (Passage("It is old.", id="0"),)
    assert query.passages[0].metadata == {"kind": "old"}
    assert len(found.rejected) == 1


def test_true_is_yes():
    """BoolQ's rows have `answer: true` and one `passage`."""
    rows = [{"question": f"is it {answer}", "answer": answer, "passage": "It is."} for answer in (True, False)]
    assert [query.answers for query in read_queries(rows).queries] == [("yes",), ("no",)]


@pytest.mark.parametrize("end", ["\r", "\n", "\r\n"])
def test_ends_of_lines(tmp_path, end):
    path = tmp_path / "old.csv"
    path.write_bytes(end.join(["question,answers,passages", "Who?,Ann,Ann did.", "When?,1912,In 1912."]).encode())
    assert [query.answers for query in read_queries(path).queries] == [("Ann",), ("1912",)]


def test_other_encodings_are_named(tmp_path):
    path = tmp_path / "excel.csv"
    for encoding in ("utf-16", "cp1252"):
        path.write_bytes("question,answers,passages\nWho?,Zoë,Zoë did.\n".encode(encoding))
        with pytest.raises(OSError, match=r"excel\.csv: .*can't decode byte 0x.*; save it as UTF-8"):
            read_queries(path)


def test_an_unreadable_header_is_one_line(tmp_path):
    path = tmp_path / "wide.csv"
    path.write_text(f'question,"{"a" * 200_000}"\nWho?,Ann\n')
    with pytest.raises(OSError, match=r"wide\.csv: cannot be read .*field larger than field limit"):
        list(open_table(path))


def test_the_error_says_how_texts_and_columns_are_read():
    with pytest.raises(ValueError, match=r"--columns passages=COLUMN \(a text is one passage; several columns are"):
        read_queries([{"question": "Who?", "answer": "Ann", "p1": "One."}])
