"""Files as other libraries and people write them: names of columns, joined texts, classes, true, and line ends."""

import pytest
from datasets import ClassLabel, Dataset, Features, List, Value

from seper_reward.data.queries import read_queries
from seper_reward.options import InputOptions
from seper_reward.types import Passage


def texts(query):
    return [passage.text for passage in query.passages]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"user_input": "Who?", "reference": "Ann", "retrieved_contexts": ["One.", "Two."], "response": "Bob"},
         "read user_input as question, reference as answers, retrieved_contexts as passages"),
        # Ragas before 0.2: the answer is the system's
        ({"question": "Who?", "ground_truth": "Ann", "contexts": ["One.", "Two."], "answer": "Bob"},
         "read ground_truth as answers, contexts as passages"),
        ({"input": "Who?", "expected_output": "Ann", "retrieval_context": ["One.", "Two."], "actual_output": "Bob",
          "context": ["Three."]},
         "read input as question, expected_output as answers, retrieval_context as passages"),
        ({"question": "Who?", "answer": "Ann", "passages": ["One.", "Two."]}, "read answer as answers"),
        ({"Question": "Who?", "Answer": "Ann", "Contexts": ["One.", "Two."]},
         "read Question as question, Answer as answers, Contexts as passages"),
        ({"question": "Who?", "golden_answers": ["Ann"], "passages": ["One.", "Two."]}, "read golden_answers as"),
    ],
)  # fmt: skip
def test_read_queries_knows_names_of_other_libraries(row, said, capsys):
    (query,) = read_queries([row]).queries
    assert (query.question, query.answers, texts(query)) == ("Who?", ("Ann",), ["One.", "Two."])
    assert f"the input: {said}" in capsys.readouterr().err


def test_read_queries_does_not_guess_in_objects():
    """TriviaQA's `answer` is an object; it is named, not guessed."""
    row = {"question": "Who?", "answer": {"value": "Ann", "aliases": ["Ann"]}, "passages": ["One."]}
    with pytest.raises(ValueError, match=r"found no column for answers, .*--columns answers=COLUMN"):
        read_queries([row])
    assert read_queries([row], options=InputOptions(columns=["answers=answer.aliases"])).queries[0].answers == ("Ann",)


def test_read_queries_splits_joined_texts_of_deepeval(tmp_path, capsys):
    """`EvaluationDataset.save_as` joins contexts by "|" in CSV and JSON lines."""
    path = tmp_path / "de.csv"
    path.write_text("input,actual_output,expected_output,retrieval_context\nWho?,Bob,Ann,A runs it.|Rain fell.|B.\n")
    for columns in ([], ["question=input", "answers=expected_output", "passages=retrieval_context"]):
        (query,) = read_queries(path, options=InputOptions(columns=columns)).queries
        assert (query.answers, texts(query)) == (("Ann",), ["A runs it.", "Rain fell.", "B."])
        assert "'|' is in 1 of 1 text of 'retrieval_context' and separates passages, as" in capsys.readouterr().err
    row = {"input": "Who?", "expected_output": "Ann", "retrieval_context": ["A | B runs it.", "Rain fell."]}
    assert texts(read_queries([row]).queries[0]) == ["A | B runs it.", "Rain fell."]  # a list is no joined text


@pytest.mark.parametrize(("separator", "joint"), [("|", "|"), (";", "; "), ("/", " / ")])
def test_read_queries_names_aliases_in_one_cell(separator, joint, capsys):
    cell = f"Ann Lee{joint}A. Lee"
    rows = [{"question": f"Who? {number}", "answers": cell, "passages": ["One."]} for number in range(3)]
    rows.append({"question": "How fast?", "answers": ["60 km/h"], "passages": ["One."]})
    queries = read_queries(rows).queries
    assert queries[0].answers == (cell,)  # it may be one answer: only said
    said = capsys.readouterr().err
    way_out = f"answers=answers{separator}"
    assert f"'{separator}' is in 3 of 4 texts of 'answers', and each text is one answer" in said
    assert f"--columns '{way_out}' splits them" in said
    queries = read_queries(rows, options=InputOptions(columns=[way_out])).queries
    assert [query.answers for query in queries] == [("Ann Lee", "A. Lee")] * 3 + [("60 km/h",)]
    assert "splits them" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("A runs it.; Rain fell.", "--columns 'passages=passages;' splits them"),
        ("It turns; the wheel is old.", ""),  # prose
        ("The old mill | Hallow news. It turns.", ""),  # the title of a web page
        ("One line / another line", ""),  # a poem
        ("a|", ""),
    ],
)
def test_read_queries_names_joined_passages_but_not_prose(text, said, capsys):
    read_queries([{"question": "Who?", "answers": ["Ann"], "passages": text}])
    shown = capsys.readouterr().err
    assert said in shown
    assert bool(shown) == bool(said)


@pytest.mark.parametrize("form", ["memory", "parquet", "saved"])
def test_read_queries_takes_classes_by_their_names(form, tmp_path):
    passages = [{"text": Value("string"), "kind": ClassLabel(names=["old", "new"])}]
    classes = {"answers": ClassLabel(names=["no", "yes"]), "tags": List(ClassLabel(names=["a", "b"]))}
    features = Features({"question": Value("string"), "passages": passages, **classes})
    row = {"question": "Is it old?", "answers": 1, "passages": [{"text": "It is old.", "kind": 0}], "tags": [1, 0]}
    source = dataset = Dataset.from_list([row, {**row, "answers": -1}], features=features)  # -1 is unlabelled
    if form == "parquet":
        dataset.to_parquet(source := tmp_path / "yes.parquet")
    elif form == "saved":
        dataset.save_to_disk(source := tmp_path / "yes")
    data = read_queries(source)
    (query,) = data.queries
    assert (query.answers, query.metadata) == (("yes",), {"tags": ["b", "a"]})
    assert query.passages == (Passage("It is old.", id="0"),)
    assert query.passages[0].metadata == {"kind": "old"}
    assert len(data.rejected) == 1


def test_read_queries_takes_true_for_yes():
    """BoolQ's rows have `answer: true` and one `passage`."""
    rows = [{"question": f"is it {answer}", "answer": answer, "passage": "It is."} for answer in (True, False)]
    assert [query.answers for query in read_queries(rows).queries] == [("yes",), ("no",)]


@pytest.mark.parametrize("end", ["\r", "\n", "\r\n"])
def test_read_queries_knows_all_ends_of_lines(tmp_path, end):
    path = tmp_path / "old.csv"
    path.write_bytes(end.join(["question,answers,passages", "Who?,Ann,Ann did.", "When?,1912,In 1912."]).encode())
    assert [query.answers for query in read_queries(path).queries] == [("Ann",), ("1912",)]
