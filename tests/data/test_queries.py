"""Input: every format, every kind of bad row, each with a message that says where and what to do."""

import gzip
import json

import pytest
from datasets import Dataset

from seper_reward import Query
from seper_reward.data.inputs import add_passages, in_corpus
from seper_reward.data.queries import parse_query, pool_passages, read_corpus, read_queries
from seper_reward.data.rows import BadRowError, clean
from seper_reward.labels.provenance import query_key
from seper_reward.types import Passage
from tests.helpers import as_query

GOOD = {"question": "Who?", "answers": ["Ann"], "passages": ["Ann did."]}


def write(path, *rows):
    lines = [row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows]
    path.write_bytes(b"\n".join(lines) + b"\n")
    return path


def test_found_passages_have_ids_each_once():
    query = Query("q", "Who?", ("Ann",), (Passage("own", id="a"),))
    found = [Passage("one"), Passage("two"), Passage("own", id="a"), Passage("one"), Passage("x", id="b")]
    parts = [Passage("y", id="b"), Passage("x", id="b"), Passage("y", id="b")]  # of one document
    passages = add_passages(query, [*found, *parts]).passages
    assert [passage.text for passage in passages] == ["own", "one", "two", "x", "y"]
    assert len({passage.id for passage in passages}) == 5
    assert "" not in {passage.id for passage in passages}
    assert [passage.id for passage in passages[:4:3]] == ["a", "b"]
    assert passages[4].id.startswith("b#")
    others = [Passage("part", id="a"), Passage("x", id="b"), Passage("y", id="c")]
    of_judged = add_passages(query, others, {"c": 2}).passages
    assert [(passage.text, passage.metadata) for passage in of_judged[1:]] == [
        ("x", {"relevant": 0}),
        ("y", {"relevant": 2}),
    ]


def test_ids_that_mean_another_text_in_the_corpus_are_refused(capsys):
    query = as_query(GOOD)
    assert [passage.id for passage in query.passages] == ["0"]
    in_corpus([query], {"0": Passage("Ann did.", id="0"), "1": Passage("Rain fell.", id="1")})
    with pytest.raises(BadRowError, match=r"its passage id='0' is 'Ann did.', but the corpus has 'Rain fell.'"):
        in_corpus([query], {"0": Passage("Rain fell.", id="0")})
    titled = as_query({**GOOD, "passages": [{"id": "a", "title": "Mill", "text": "Ann did.", "relevant": True}]})
    in_corpus([titled, query], {"a": Passage("Ann did.", "Mill", "a")})
    assert capsys.readouterr().err.startswith("not in the corpus: 1 of 2 passages of questions; no retriever can")
    in_corpus([titled], {"a": Passage("Ann did.", "", "a")})
    in_corpus([as_query({**GOOD, "passages": [{"id": "b", "text": "x", "relevant": 0.7}]})], {})  # marks may rest
    with pytest.raises(BadRowError, match=r"'Mill: Ann did\.', but the corpus has 'Sheep: Ann did\.'"):
        in_corpus([titled], {"a": Passage("Ann did.", "Sheep", "a")})


def test_passages_of_a_corpus_have_its_titles_and_judged_ones_are_added():
    corpus = {each: Passage(f"Text {each}.", "Mill", each, {"page": 1}) for each in "abc"}
    query = as_query({**GOOD, "passages": [{"id": "a", "text": "Text a.", "relevant": 2}]})
    (found,) = in_corpus([query], corpus, {query.id: {"a": 2, "b": 1, "c": 0, "gone": 1}})
    assert [(each.id, each.full_text) for each in found.passages] == [("a", "Mill: Text a."), ("b", "Mill: Text b.")]
    assert [each.metadata for each in found.passages] == [{"relevant": 2}, {"page": 1, "relevant": 1}]


def test_a_passage_without_an_id_is_not_another_one_of_a_numbered_corpus():
    corpus = {"0": Passage("Rain fell.", id="0"), "1": Passage("Ann did.", id="1")}
    query = as_query({**GOOD, "passages": ["Ann did.", "Ann did.", {"text": "Sheep graze."}]}, corpus)
    assert [passage.text for passage in query.passages] == ["Ann did.", "Ann did.", "Sheep graze."]
    assert len({each.id for each in as_query({**GOOD, "passages": ["Ida.", "Ida."]}, corpus).passages}) == 2
    named, *others = [passage.id for passage in query.passages]
    assert len(named) == 16
    assert others == ["1", "2"]
    in_corpus([query], corpus)


def test_a_record_by_hand():
    query = as_query(
        {
            "id": 7,
            "question": " Who? ",
            "answers": ["Ann", "Ann B."],
            "passages": ["one", {"id": "x", "title": "T", "text": "two", "relevant": True}, {"text": "three"}],
            "source": "mine",
        }
    )
    assert (query.id, query.question, query.answers, query.metadata) == (
        "7",
        "Who?",
        ("Ann", "Ann B."),
        {"source": "mine"},
    )
    assert [(passage.id, passage.title, passage.text) for passage in query.passages] == [
        ("0", "", "one"),
        ("x", "T", "two"),
        ("2", "", "three"),
    ]
    assert query.passages[1].metadata == {"relevant": True}
    assert as_query(query) is query


def test_equal_aliases_count_once_and_the_first_spelling_wins():
    assert as_query({**GOOD, "answers": ["Ann", "the Tern", "ann!", "Tern"]}).answers == ("Ann", "the Tern")


def test_one_text_stands_for_a_list_of_one():
    query = as_query({"question": "Who?", "answers": "Ann ", "passages": "Ann did."})
    assert query == as_query(GOOD)
    assert query.id == as_query(GOOD).id


def test_a_list_in_a_list_of_one_is_the_aliases():
    """Columns of lists of lists have it."""
    parsed = parse_query({**GOOD, "answers": [["Ann Lee", "ann lee!", None, " Lee "]]})
    assert parsed.query.answers == ("Ann Lee", "Lee")
    assert (parsed.empty_aliases, parsed.empty_passages) == (1, [])
    assert as_query({**GOOD, "answers": [["Ann"]]}) == as_query(GOOD)


def test_what_is_made_of_plain_answers_is_as_it_always_was():
    """Ids and keys decide samples, resumed folders and caches."""
    query = as_query({**GOOD, "answers": ["Ann", "Ann B."]})
    assert (query.id, query_key(query)[:16]) == ("d828b2f5788da07f", "0181a663044f61e4")


def test_an_id_made_up_from_content_ignores_position_in_the_file(tmp_path):
    other = {**GOOD, "question": "When?"}
    one = read_queries(write(tmp_path / "a.jsonl", GOOD, other)).queries
    two = read_queries(write(tmp_path / "b.jsonl", other, GOOD)).queries
    assert {query.question: query.id for query in one} == {query.question: query.id for query in two}
    assert one[0].id != one[1].id


@pytest.mark.parametrize("kind", ["jsonl", "jsonl.gz", "parquet", "folder"])
def test_formats(tmp_path, kind):
    answers = ["Ann", "Ann B."]
    rows = [{"id": str(number), **GOOD, "question": f"Who {number}?", "answers": answers} for number in range(3)]
    path = tmp_path / (f"data.{kind}" if kind != "folder" else "folder")
    if kind == "jsonl":
        write(path, *rows)
    elif kind == "jsonl.gz":
        path.write_bytes(gzip.compress(b"\n".join(json.dumps(row).encode() for row in rows)))
    elif kind == "parquet":
        Dataset.from_list(rows).to_parquet(path)
    else:
        Dataset.from_list(rows).save_to_disk(str(path))
    examples = read_queries(path)
    assert [query.question for query in examples.queries] == ["Who 0?", "Who 1?", "Who 2?"]
    assert examples.queries[0].answers == ("Ann", "Ann B.")
    assert examples.queries[0].passages[0].text == "Ann did."
    assert not examples.rejected


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({**GOOD, "question": ""}, r"question must be a non-empty text, got ''"),
        ({**GOOD, "question": "  "}, r"question must be a non-empty text"),
        ({"answers": ["x"], "passages": ["y"]}, r"question must be a non-empty text, got nothing"),
        ({**GOOD, "answers": []}, r"answers must be a text or a list with at least one text, got \[\]"),
        ({**GOOD, "answers": " "}, r"answers must be a text or a list with at least one text, got ' '"),
        ({**GOOD, "answers": ["", None, "nan"]}, r"answers must be a text or a list with at least one text"),
        ({**GOOD, "question": True}, r"question must be a non-empty text, got True \(bool\)"),
        ({**GOOD, "answers": [["Ann"], ["Bob"]]}, r"answers\[0\] must be a text, got the list \['Ann'\] .*per item"),
        ({**GOOD, "answers": ["Bob", ["Ann"]]}, r"answers\[1\] must be a text, got the list \['Ann'\]"),
        ({**GOOD, "answers": '[["Ann", "A. B."], ["Bo"]]'}, r"answers\[0\] must be a text, got the list \['Ann', 'A"),
        ({**GOOD, "answers": [[["Ann"]]]}, r"answers\[0\] must be a text, got the list \['Ann'\]"),
        ({**GOOD, "answers": [[" ", None]]}, r"answers must be a text or a list with at least one text, got \[\[' '"),
        ({**GOOD, "answers": ["Ann", {"alias": "Bob"}]}, r"answers\[1\] must be a non-empty text, got {'alias'"),
        (
            {**GOOD, "passages": []},
            r"passages must be a text or a list with at least one passage, got \[\] \(list\); give passages, or",
        ),
        ({**GOOD, "passages": None}, r"passages must be a text or a list"),
        ({**GOOD, "passages": ""}, r"passages must be a text or a list with at least one passage, got ''"),
        ({**GOOD, "passages": ["", {"text": " "}]}, r"passages must be a text or a list with at least one passage"),
        ({**GOOD, "passages": [{"title": "T"}]}, r"passages\[0\].text must be a non-empty text, got nothing"),
        ({**GOOD, "passages": [["a"]]}, r"passages\[0\] must be a text or"),
        (
            {**GOOD, "passages": [{"id": "a", "text": "1"}, {"id": "a", "text": "2"}]},
            r"distinct ids, got \['a'\] twice",
        ),
        ({**GOOD, "id": [1]}, r"id must be a text or a whole number"),
        ({**GOOD, "id": "half \ud83d"}, r"id contains half a surrogate pair at 5"),
        ({**GOOD, "group": "\ud800"}, r"'group' cannot be written as JSON in UTF-8 .*surrogates not allowed"),
        ({**GOOD, "\ud800": 1}, r"'\\ud800' cannot be written as JSON in UTF-8"),
        (
            {**GOOD, "passages": [{"text": "a", "source": ["b", "\ud800"]}]},
            r"passages\[0\]\.'source' cannot be written as JSON in UTF-8",
        ),
        ({**GOOD, "passages": [{"_id": "\ud800", "text": "a"}]}, r"passages\[0\]\._id contains half a surrogate"),
        (
            {**GOOD, "passages": [{"text": "a", "scores": {"bm25": float("inf")}}]},
            r"passages\[0\]\.'scores' cannot be written as JSON .*Out of range",
        ),
        ({**GOOD, "question": "half \ud83d pair"}, r"half a surrogate pair at 5"),
        ([1, 2], r"expected an object"),
        (b"{broken", r"expected one JSON object on the line"),
        (b'{"question": "caf\xe9"}', r"expected UTF-8, got byte 0xe9 at 17"),
        (b"[" * 100_000, r"expected one JSON object on the line"),
        (b'{"id": ' + b"9" * 5000 + b"}", r"expected one JSON object on the line"),
    ],
)
def test_a_bad_row_is_named_and_the_good_ones_stay(tmp_path, row, message):
    path = write(tmp_path / "data.jsonl", {**GOOD, "id": "a"}, row, {**GOOD, "id": "b"})
    examples = read_queries(path)
    assert [query.id for query in examples.queries] == ["a", "b"]
    (rejected,) = examples.rejected
    assert rejected.where == f"{path}, line 2"
    with pytest.raises(BadRowError, match=message):
        raise BadRowError(rejected.reason)
    json.dumps(rejected.row)  # can be written to rejected.jsonl


def test_the_second_of_two_equal_ids_is_rejected(tmp_path):
    path = write(tmp_path / "data.jsonl", {**GOOD, "id": "a"}, {**GOOD, "id": "a", "question": "When?"})
    examples = read_queries(path)
    assert [query.question for query in examples.queries] == ["Who?"]
    assert "id 'a' was used by an earlier row" in examples.rejected[0].reason


def test_blank_lines_and_a_byte_order_mark_are_no_rows(tmp_path):
    path = tmp_path / "data.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(GOOD).encode() + b"\n\n  \n")
    assert len(read_queries(path).queries) == 1
    assert not read_queries(path).rejected


@pytest.mark.parametrize("text", ["🙂 עברית العربية", "a" * 100_000, "line\nbreak\ttab \u0000 nul"])
def test_odd_but_good_text_is_kept(tmp_path, text):
    row = {"question": text, "answers": [text[:50]], "passages": [text]}
    (query,) = read_queries(write(tmp_path / "data.jsonl", row)).queries
    assert query.question == text.strip()
    assert query.passages[0].text == text.strip()


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere.jsonl: no such file or folder; expected one of"):
        read_queries(tmp_path / "nowhere.jsonl")
    (tmp_path / "data.xml").touch()
    with pytest.raises(ValueError, match=r"data.xml: expected a name ending in"):
        read_queries(tmp_path / "data.xml")
    (tmp_path / "cut.jsonl.gz").write_bytes(gzip.compress(bytes(range(256)) * 9)[:200])
    with pytest.raises(OSError, match=r"cut.jsonl.gz: the compressed file ends too early"):
        read_queries(tmp_path / "cut.jsonl.gz")
    (tmp_path / "plain.jsonl.gz").write_text("{}")
    with pytest.raises(OSError, match=r"plain.jsonl.gz: expected gzip"):
        read_queries(tmp_path / "plain.jsonl.gz")


def test_a_list_of_answers_as_json_is_a_list():
    """PopQA on the hub has them."""
    assert as_query({**GOOD, "answers": '["politician", "political leader"]'}).answers == (
        "politician",
        "political leader",
    )
    for text in ("[1, 2]", "[sic]", "{[1]}"):
        assert as_query({**GOOD, "answers": text}).answers == (text,)
    assert as_query({**GOOD, "answers": '[["Ann", "A. B."]]'}).answers == ("Ann", "A. B.")
    assert [each.text for each in as_query({**GOOD, "passages": "['Ann did.', 'Rain fell.']"}).passages] == [
        "Ann did.",
        "Rain fell.",
    ]
    with pytest.raises(BadRowError, match="answers must be a text or a list with at least one text"):
        as_query({**GOOD, "answers": "[]"})
    assert as_query({**GOOD, "answers": "[]"}, answers_needed=False).answers == ()


def test_passages_by_id_from_a_corpus(tmp_path):
    corpus = read_corpus(write(tmp_path / "corpus.jsonl", {"id": "p1", "title": "T", "text": "one"}))
    query = as_query({**GOOD, "passages": [{"id": "p1", "role": "supporting"}]}, corpus)
    assert query.passages == (Passage("one", "T", "p1"),)
    assert query.passages[0].metadata == {"role": "supporting"}
    for absent in ({}, {"passages": None}, {"passages": []}):
        assert as_query({"question": "Who?", "answers": ["Ann"], **absent}, corpus).passages == ()
    for row in ({"docid": "p1"}, {"title": "T"}):  # its place is no id
        with pytest.raises(BadRowError, match=r"neither a text nor an id of the corpus, got \{"):
            as_query({**GOOD, "passages": [row]}, {"0": Passage("one", id="0")})
    with pytest.raises(BadRowError, match="id of the corpus, got id 'p9'"):
        as_query({**GOOD, "passages": [{"id": "p9"}]}, corpus)


def test_documents_of_a_corpus_without_text(tmp_path, capsys):
    rows = [
        {"_id": "a", "title": "Mill", "text": ""},
        {"_id": "b", "title": "", "text": " "},
        {"_id": "c", "title": " ", "text": "x"},
        {"_id": "d", "title": "Sheep", "text": None},
        {"_id": "e", "text": None},
    ]
    corpus = read_corpus(write(tmp_path / "corpus.jsonl", *rows))
    assert list(corpus.values()) == [Passage("Mill", id="a"), Passage("x", id="c"), Passage("Sheep", id="d")]
    assert "left out: 2 passages without a text" in capsys.readouterr().err
    with pytest.raises(ValueError, match="text must be a non-empty text"):  # leaving it out would renumber the rest
        read_corpus(write(tmp_path / "corpus.jsonl", {"text": ""}, {"text": "x"}))


@pytest.mark.parametrize(
    ("first", "second", "ids"),
    [
        ({"_id": "doc7", "title": "", "text": "one"}, {"_id": "doc42", "text": "two"}, ["doc7", "doc42"]),  # BEIR
        ({"passage_id": "a", "text": "one"}, {"id": 3, "text": "two"}, ["a", "3"]),
        ({"text": "one"}, "two", ["0", "1"]),
    ],
)
def test_the_ids_of_a_corpus(tmp_path, first, second, ids):
    corpus = read_corpus(write(tmp_path / "corpus.jsonl", first, second))
    assert [(passage.id, passage.text, dict(passage.metadata)) for passage in corpus.values()] == [
        (ids[0], "one", {}),
        (ids[1], "two", {}),
    ]
    assert list(corpus) == ids


def test_ids_by_other_names_and_the_other_ids_stay():
    row = {
        **GOOD,
        "_id": "q7",
        "passages": [
            {"_id": "doc7", "text": "a"},
            {"passage_id": "c0-2", "text": "b"},
            {"id": 1, "_id": 2, "text": "c"},
        ],
    }
    query = as_query(row)
    assert (query.id, query.metadata) == ("q7", {})
    assert [(passage.id, passage.metadata) for passage in query.passages] == [
        ("doc7", {}),
        ("c0-2", {}),
        ("1", {"_id": 2}),
    ]


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ({"_id": "a", "text": "one"}, {"text": "two"}, "line 2: expected an id, as in the rows before, got none"),
        ({"text": "one"}, {"_id": "a", "text": "two"}, "line 2: expected no id, as in the rows before, got one"),
        ({"_id": "a", "text": "one"}, {"_id": "a", "text": "two"}, "line 2: expected an id that no other passage has"),
        ({"_id": "a", "text": "1"}, {"_id": "b", "text": "2", "x": float("inf")}, "line 2: .*'x' cannot be"),
    ],
)
def test_a_corpus_whose_ids_are_in_doubt_is_refused(tmp_path, first, second, message):
    with pytest.raises(ValueError, match=message):
        read_corpus(write(tmp_path / "corpus.jsonl", first, second))


@pytest.mark.parametrize("row", [{"id": "p1"}, {"id": "p1", "text": [3]}, {"id": "p0", "text": "again"}, "{broken"])
def test_a_corpus_with_a_bad_row_is_refused(tmp_path, row):
    first = {"id": "p0", "text": "one"}
    rows = [first, row if isinstance(row, dict) else row.encode()]
    with pytest.raises(ValueError, match=r"corpus.jsonl, line 2: "):
        read_corpus(write(tmp_path / "corpus.jsonl", *rows))


def test_an_empty_corpus_is_refused(tmp_path):
    (tmp_path / "corpus.jsonl").touch()
    with pytest.raises(ValueError, match="empty corpus"):
        read_corpus(tmp_path / "corpus.jsonl")


def test_pooling_passages_of_files_without_a_corpus():
    marked = Passage("same text", "T", "0", {"relevant": True})
    queries = [
        Query("q1", "Who?", ("x",), (marked, Passage("other", id="1"))),
        Query("q2", "When?", ("y",), (Passage("same text", "T", "0", {"relevant": False}), Passage("third", id="1"))),
    ]
    corpus, renamed = pool_passages(queries)
    assert len(corpus) == 3
    assert all(passage.id == name and not passage.metadata for name, passage in corpus.items())
    first, second = (query.passages[0] for query in renamed)
    assert first.id == second.id
    assert [first.metadata, second.metadata] == [{"relevant": True}, {"relevant": False}]
    twice = [Passage("same", id=str(grade), metadata={"relevant": grade}) for grade in (0, 2, 1)]
    _, (pooled,) = pool_passages([Query("q", "Who?", ("x",), tuple(twice))])
    assert [passage.metadata for passage in pooled.passages] == [{"relevant": 2}]


def test_empty_aliases_and_passages_are_left_out_and_counted():
    row = {"question": 7, "answers": ["Ann", "", None, 1912.0, float("nan")], "passages": ["", "x", {"text": None}, 3]}
    parsed = parse_query(clean({**row, "score": float("nan")}))
    query = parsed.query
    assert (query.question, query.answers, query.metadata) == ("7", ("Ann", "1912"), {"score": None})
    assert [(each.id, each.text) for each in query.passages] == [("1", "x"), ("3", "3")]  # ids are places in the row
    assert (parsed.empty_aliases, parsed.empty_passages) == (3, [0, 2])
    parsed = parse_query({**GOOD, "answers": ["Ann", "ann"]})
    assert (parsed.empty_aliases, parsed.empty_passages) == (0, [])  # an equal alias is not empty
