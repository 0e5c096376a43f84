"""Where rows come from: JSON, CSV, Parquet, saved datasets, the hub, and rows in memory."""

import gzip
import json
from dataclasses import replace

import datasets
import numpy
import pandas
import pytest
from datasets import Dataset, DatasetDict

from seper_reward.data.queries import read_corpus, read_queries
from seper_reward.data.rows import BrokenRow, read_rows
from seper_reward.data.tables import open_dataset
from seper_reward.options import InputOptions

ROWS = [
    {"id": "mill", "question": "Who runs the mill?", "answers": ["Ida Voss", "I. Voss"], "passages": ["Ida runs it."]},
    {"id": "ferry", "question": 'Which "ferry"?', "answers": ["Heron"], "passages": ["A ferry,", "two\nlines"]},
]
QUERIES = read_queries(ROWS).queries


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))


def rows_of(source, **options):
    return [row for _, row in read_rows(source, **options)]


def test_read_queries_of_json_as_libraries_write_it(tmp_path):
    Dataset.from_list(ROWS).to_json(tmp_path / "lines.json")
    Dataset.from_list(ROWS).to_json(tmp_path / "array.json", lines=False)
    Dataset.from_list(ROWS).save_to_disk(tmp_path / "saved")
    (arrow,) = (tmp_path / "saved").glob("*.arrow")
    for path in (tmp_path / "lines.json", tmp_path / "array.json", arrow):
        assert read_queries(path).queries == QUERIES


@pytest.mark.parametrize("lists", [json.dumps, str], ids=["json", "python"])
@pytest.mark.parametrize("name", ["rows.csv", "rows.tsv", "rows.csv.gz", "rows-semicolons.csv"])
def test_read_queries_of_csv(tmp_path, name, lists):
    table = pandas.DataFrame([{**row, **{key: lists(row[key]) for key in ("answers", "passages")}} for row in ROWS])
    separator = "\t" if ".tsv" in name else ";" if "semicolons" in name else ","
    table.to_csv(tmp_path / name, index=False, sep=separator, encoding="utf-8-sig")  # Excel's byte order mark
    assert read_queries(tmp_path / name).queries == QUERIES
    assert [where for where, _ in read_rows(tmp_path / name)] == [f"{tmp_path / name}, row {row}" for row in (1, 2)]


def test_read_rows_of_csv_by_cells(tmp_path):
    folder = tmp_path / "a [b] *"  # a name, not a pattern
    folder.mkdir()
    path = folder / "rows.csv"
    path.write_text(
        "question,answers,passages,note\n"
        'Who?,Ann,"Ann ""B."" did.\nIndeed.",\n\nWhen?,[1] is no list,[a],[2]\nToo,few\n"Too",m,a,n,y\n'
        "Code?,007,NA,1.50\n"
    )
    rows = list(read_rows(path))
    assert rows[0] == (
        f"{path}, row 1",
        {"question": "Who?", "answers": "Ann", "passages": 'Ann "B." did.\nIndeed.', "note": None},
    )
    assert rows[1][1] == {"question": "When?", "answers": "[1] is no list", "passages": "[a]", "note": [2]}
    assert rows[2][1] == {"question": "Too", "answers": "few", "passages": None, "note": None}
    reason = "expected 4 cells, as in the header, got further ones, 'y'; quote the cells"
    assert rows[3] == (f"{path}, row 4", BrokenRow(reason, "Too,m,a,n,y"))
    examples = read_queries(path)
    assert [query.answers for query in examples.queries] == [("Ann",), ("[1] is no list",), ("007",)]
    assert examples.queries[2].metadata == {"note": "1.50"}
    assert [each.where.rpartition(", ")[2] for each in examples.rejected] == ["row 3", "row 4"]


def test_read_queries_of_tsv_keeps_quotes_between_tabs(tmp_path):
    (tmp_path / "rows.tsv").write_text(
        'question\tanswers\tpassages\nWho runs it?\tIda\t"The mill is old\nWho keeps it?\tBen\tBen keeps the inn"\n'
        'Who rows?\t"[""Bo"", ""Bob""]"\tBo rows.\n'
    )
    found = read_queries(tmp_path / "rows.tsv")
    texts = ['"The mill is old', 'Ben keeps the inn"', "Bo rows."]
    assert [query.passages[0].text for query in found.queries] == texts
    assert found.queries[2].answers == ("Bo", "Bob")


@pytest.mark.parametrize("missing", ["", "nan", "NULL", "None", "NaN"])
def test_read_queries_takes_missing_values_for_missing(tmp_path, missing, capsys):
    (tmp_path / "rows.csv").write_text(
        f"id,question,answers,passages\na,Who?,{missing},x\n"
        f'b,Who else?,"[""Ann"", ""{missing}""]","[""x"", ""{missing}""]"\n'
    )
    found = read_queries(tmp_path / "rows.csv")
    assert [(query.answers, len(query.passages)) for query in found.queries] == [(("Ann",), 1)]
    assert "answers must be a text or a list with at least one text" in found.rejected[0].reason
    assert capsys.readouterr().err.endswith("rows.csv: left out 1 empty aliases and 1 empty passages\n")


def test_read_queries_of_rows_of_pandas():
    arrays = {key: numpy.array(ROWS[0][key]) for key in ("answers", "passages")}
    data = read_queries([{**ROWS[0], **arrays, "year": float("nan")}, {**ROWS[1], "year": 1912.0}])
    assert [replace(query, metadata={}) for query in data.queries] == list(QUERIES)
    assert [query.metadata["year"] for query in data.queries] == [None, 1912.0]
    (query,) = read_queries([{"question": "When?", "answers": numpy.array([1912.0, 7]), "passages": ["x"]}]).queries
    assert query.answers == ("1912", "7")
    columns = ["answers=gold.text", "answers=also"]
    row = {"question": "When?", "gold": {"text": numpy.array(["1912"])}, "also": numpy.array([7]), "passages": ["x"]}
    assert read_queries([row], options=InputOptions(columns=columns)).queries[0].answers == ("1912", "7")


def test_read_queries_does_not_guess_lists_that_csv_has_lost(tmp_path):
    numbers = [{"question": "When?", "answers": [1912, 7], "passages": ["in 1912"]}]
    for rows in (ROWS, numbers):
        Dataset.from_list(rows).to_csv(tmp_path / "rows.csv")  # numpy prints lists without commas
        data = read_queries(tmp_path / "rows.csv")
        assert not data.queries
        assert "a list without commas cannot be read" in data.rejected[0].reason
        assert "save Parquet" in data.rejected[0].reason


def test_read_queries_takes_whole_numbers_of_csv(tmp_path):
    (tmp_path / "rows.csv").write_text("question,answers,passages\nWhen?,1912.0,in 1912\nWhich?,3.5,x\n")
    assert [query.answers for query in read_queries(tmp_path / "rows.csv").queries] == [("1912",), ("3.5",)]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("data.xml", b"", "data.xml: expected a name ending in"),
        ("cut.jsonl.gz", gzip.compress(bytes(range(256)) * 9, mtime=0)[:200], "the compressed file ends too early"),
        ("plain.jsonl.gz", b"{}", "plain.jsonl.gz: expected gzip"),
        ("rows.csv", b"", r"rows\.csv: expected a header with a unique name for each column, got \[\]"),
        ("rows.csv", b"a,,b\n", r"expected a header with a unique name"),
        ("rows.csv", b"a,a\n", r"expected a header with a unique name"),
        ("rows.csv", b"a,b\nx,caf\xe9\n", r"rows\.csv: cannot be read .*can't decode byte 0xe9"),
        ("rows.csv", b'a,b\nx,y\nx,"open\n', r"rows\.csv: cannot be read .*EOF inside string starting at row"),
        (
            "cut.csv.gz",
            gzip.compress(b"a,b\n" + bytes(range(32, 127)) * 99, mtime=0)[:60],
            "ended before the end-of-stream",
        ),
        ("wide.csv", b'a,"' + b"b" * 200_000 + b'"\n', r"wide\.csv: cannot be read .*field larger than field limit"),
        ("utf-16.csv", "a,b\nx,y\n".encode("utf-16"), r"utf-16\.csv: .*can't decode byte 0x.*; save it as UTF-8"),
        ("broken.json", b'[{"question": "Who?"}', r"broken\.json: expected a JSON array of rows"),
        ("object.json", b'{"questions": []}', r"object\.json: expected a JSON array of rows or SQuAD's 'data'"),
    ],
)
def test_read_rows_refuses_files(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises((OSError, ValueError), match=message):
        rows_of(tmp_path / name)


def test_read_queries_of_parquet_of_mixed_types(tmp_path):
    rows = [{**ROWS[0], "answers": ["Ida Voss", "Ida"], "n": 1}, {**ROWS[1], "n": "one"}]
    Dataset.from_list(rows, on_mixed_types="use_json").to_parquet(tmp_path / "rows.parquet")
    first, second = read_queries(tmp_path / "rows.parquet").queries
    assert (first.answers, first.metadata) == (("Ida Voss", "Ida"), {"n": 1})
    assert (second.answers, second.metadata) == (("Heron",), {"n": "one"})


def test_read_queries_of_saved_datasets_by_split(tmp_path):
    both = DatasetDict(train=Dataset.from_list(ROWS[:1]), dev=Dataset.from_list(ROWS[1:]))
    both.save_to_disk(tmp_path / "both")
    DatasetDict(train=both["train"]).save_to_disk(tmp_path / "one")
    both["dev"].save_to_disk(tmp_path / "plain")
    for source, queries in (("both:train", QUERIES[:1]), ("both:dev", QUERIES[1:]), ("one", QUERIES[:1]),
                            ("plain", QUERIES[1:])):  # fmt: skip
        assert read_queries(f"{tmp_path}/{source}").queries == queries
    for source, message in (
        ("both", rf"expected a split, one of train, dev, got none; .* {tmp_path}/both:train"),
        ("both:test", "one of train, dev, got 'test'"),
        ("plain:dev", "expected no split, as this is a Dataset, got 'dev'"),
    ):
        with pytest.raises(ValueError, match=message):
            read_queries(f"{tmp_path}/{source}")


def test_read_queries_of_data_files_as_on_the_hub(tmp_path):
    folder = tmp_path / "repository"
    for name, rows in (("train", ROWS), ("test", ROWS[1:])):
        Dataset.from_list(rows).to_parquet(folder / "data" / f"{name}-00000-of-00001.parquet")
    assert read_queries(f"{folder}:train").queries == QUERIES
    assert read_queries(f"{folder}:train[:1]").queries == QUERIES[:1]
    with pytest.raises(ValueError, match="expected a split, one of train, test, got none"):
        rows_of(folder)
    with pytest.raises(OSError, match=r"repository:dev: cannot be read .*(?:Unknown|Bad) split"):
        rows_of(f"{folder}:dev")


def test_open_dataset_by_ids_on_the_hub(monkeypatch):
    """``load_dataset`` is replaced: what it is asked for, and what becomes of its answer."""
    asked = []

    def load_dataset(path, **options):
        asked.append({"path": path, **options})
        found = DatasetDict(train=Dataset.from_list(ROWS))
        return found["train"] if options["split"] else found

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    for source in ("org/name", "org/name:train", "my.org/set_1@v2/config-a:train[:5%]"):
        assert read_queries(source).queries == QUERIES
    plain = {"path": "org/name", "name": None, "revision": None, "split": None}
    assert asked == [
        plain,
        {**plain, "split": "train"},
        {**plain, "path": "my.org/set_1", "name": "config-a", "revision": "v2", "split": "train[:5%]"},
    ]


def test_open_dataset_without_network_is_one_line():
    # offline by HF_HUB_OFFLINE, which all tests set
    message = r"^org/name:train: cannot be read as a dataset of the hub .* without network"
    with pytest.raises(OSError, match=message) as error:
        open_dataset("org/name:train")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("source", ["nowhere/rows.csv", "nowhere", "a/b/c/d", "../x", "runs/mine", "runs/mine/labels"])
def test_read_rows_refuses_what_is_not_there(tmp_path, monkeypatch, source):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()  # a file in a folder that exists is not sought on the hub
    monkeypatch.setattr(datasets, "load_dataset", lambda *_, **__: pytest.fail("asked the hub"))
    with pytest.raises(FileNotFoundError, match=rf"^{source}: no such file or folder.*:train"):
        rows_of(source)


def test_read_rows_refuses_an_empty_folder(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(OSError, match=r"empty: cannot be read as a dataset .* any data files"):
        rows_of(tmp_path / "empty")


def test_read_queries_of_rows_in_memory(tmp_path):
    dataset = Dataset.from_list(ROWS)
    for rows in (ROWS, dataset, dataset.to_iterable_dataset(), iter(ROWS)):
        assert read_queries(rows).queries == QUERIES
    (rejected,) = read_queries([{**ROWS[0], "question": ""}]).rejected
    assert rejected.where == "row 1"
    Dataset.from_list([{"_id": "d1", "title": "", "text": "one"}]).save_to_disk(tmp_path / "corpus")
    assert read_corpus(tmp_path / "corpus")["d1"].text == "one"


def test_read_rows_ignores_the_index_that_pandas_writes(tmp_path):
    pandas.DataFrame([{"question": "Who?", "answers": "Ida"}]).to_csv(tmp_path / "a.csv")
    assert (tmp_path / "a.csv").read_text().startswith(",")
    assert rows_of(tmp_path / "a.csv") == [{"question": "Who?", "answers": "Ida"}]
