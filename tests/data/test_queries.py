"""Input: every format, every kind of bad row, each with a message that says where and what to do."""

import gzip
import json
import math
import re

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


def ids(query):
    return [passage.id for passage in query.passages]


def test_add_passages_gives_each_an_id_of_its_own():
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


def test_in_corpus_refuses_ids_of_another_text(capsys):
    query = as_query(GOOD)
    assert ids(query) == ["0"]
    in_corpus([query], {"0": Passage("Ann did.", id="0"), "1": Passage("Rain fell.", id="1")})
    titled = as_query({**GOOD, "passages": [{"id": "a", "title": "Mill", "text": "Ann did.", "relevant": True}]})
    in_corpus([titled, query], {"a": Passage("Ann did.", "Mill", "a")})
    assert capsys.readouterr().err.startswith("not in the corpus: 1 of 2 passages of questions; no retriever can")
    in_corpus([titled], {"a": Passage("Ann did.", "", "a")})
    in_corpus([as_query({**GOOD, "passages": [{"id": "b", "text": "x", "relevant": 0.7}]})], {})  # marks may rest
    with pytest.raises(BadRowError, match=r"its passage id='0' is 'Ann did.', but the corpus has 'Rain fell.'"):
        in_corpus([query], {"0": Passage("Rain fell.", id="0")})
    with pytest.raises(BadRowError, match=r"'Mill: Ann did\.', but the corpus has 'Sheep: Ann did\.'"):
        in_corpus([titled], {"a": Passage("Ann did.", "Sheep", "a")})


def test_in_corpus_adds_titles_and_judged_passages():
    corpus = {name: Passage(f"Text {name}.", "Mill", name, {"page": 1}) for name in "abc"}
    query = as_query({**GOOD, "passages": [{"id": "a", "text": "Text a.", "relevant": 2}]})
    (judged,) = in_corpus([query], corpus, {query.id: {"a": 2, "b": 1, "c": 0, "gone": 1}})
    assert [(each.id, each.full_text) for each in judged.passages] == [("a", "Mill: Text a."), ("b", "Mill: Text b.")]
    assert [each.metadata for each in judged.passages] == [{"relevant": 2}, {"page": 1, "relevant": 1}]


def test_parse_query_numbers_passages_apart_from_a_numbered_corpus():
    corpus = {"0": Passage("Rain fell.", id="0"), "1": Passage("Ann did.", id="1")}
    query = as_query({**GOOD, "passages": ["Ann did.", "Ann did.", {"text": "Sheep graze."}]}, corpus)
    assert [passage.text for passage in query.passages] == ["Ann did.", "Ann did.", "Sheep graze."]
    assert len(set(ids(as_query({**GOOD, "passages": ["Ida.", "Ida."]}, corpus)))) == 2
    named, *others = ids(query)
    assert len(named) == 16
    assert others == ["1", "2"]
    in_corpus([query], corpus)


def test_parse_query_by_hand():
    passages = ["one", {"id": "x", "title": "T", "text": "two", "relevant": True}, {"text": "three"}]
    row = {"id": 7, "question": " Who? ", "answers": ["Ann", "Ann B."], "passages": passages, "source": "mine"}
    query = as_query(row)
    assert (query.id, query.question, query.answers) == ("7", "Who?", ("Ann", "Ann B."))
    assert query.metadata == {"source": "mine"}
    assert query.passages == (Passage("one", id="0"), Passage("two", "T", "x"), Passage("three", id="2"))
    assert query.passages[1].metadata == {"relevant": True}
    assert as_query(query) is query


@pytest.mark.parametrize(
    ("answers", "aliases"),
    [
        ("Ann ", ("Ann",)),
        ([["Ann"]], ("Ann",)),  # columns of lists of lists
        (["Ann", "the Tern", "ann!", "Tern"], ("Ann", "the Tern")),  # equal ones count once, by the first spelling
        ('["politician", "political leader"]', ("politician", "political leader")),  # of PopQA on the hub
        ('[["Ann", "A. B."]]', ("Ann", "A. B.")),
        *((text, (text,)) for text in ("[1, 2]", "[sic]", "{[1]}")),
    ],
)
def test_parse_query_reads_answers(answers, aliases):
    assert as_query({**GOOD, "answers": answers}).answers == aliases


def test_query_ids_and_keys_are_as_they_always_were(tmp_path):
    """Ids and keys decide samples, resumed folders and caches; the place in the file has no part in them."""
    row = {**GOOD, "answers": ["Ann", "Ann B."]}
    query = as_query(row)
    assert (query.id, query_key(query)[:16]) == ("d828b2f5788da07f", "0181a663044f61e4")
    _, other = read_queries(write(tmp_path / "a.jsonl", {**row, "question": "When?"}, row)).queries
    assert other.id == query.id


@pytest.mark.parametrize("kind", ["jsonl", "jsonl.gz", "parquet", "folder"])
def test_read_queries_from_formats(tmp_path, kind):
    rows = [{"id": str(number), **GOOD, "question": f"Who {number}?", "answers": ["Ann", "B."]} for number in range(3)]
    path = write(tmp_path / f"data.{kind}", *rows)
    if kind == "jsonl.gz":
        path.write_bytes(gzip.compress(path.read_bytes()))
    elif kind == "parquet":
        Dataset.from_list(rows).to_parquet(path)
    elif kind == "folder":
        path.unlink()
        Dataset.from_list(rows).save_to_disk(str(path))
    data = read_queries(path)
    assert data.queries == tuple(map(as_query, rows))
    assert not data.rejected


def passages(*rows):
    return {**GOOD, "passages": [*rows]}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({**GOOD, "question": ""}, r"question must be a non-empty text, got ''"),
        ({"answers": ["x"], "passages": ["y"]}, r"question must be a non-empty text, got nothing"),
        ({**GOOD, "question": True}, r"question must be a non-empty text, got True \(bool\)"),
        ({**GOOD, "question": "half \ud83d pair"}, r"half a surrogate pair at 5"),
        ({**GOOD, "answers": []}, r"answers must be a text or a list with at least one text, got \[\]"),
        ({**GOOD, "answers": "[]"}, r"answers must be a text or a list with at least one text, got \[\]"),
        ({**GOOD, "answers": ["", None, "nan"]}, r"answers must be a text or a list with at least one text"),
        ({**GOOD, "answers": [["Ann"], ["Bob"]]}, r"answers\[0\] must be a text, got the list \['Ann'\] .*per item"),
        ({**GOOD, "answers": ["Bob", ["Ann"]]}, r"answers\[1\] must be a text, got the list \['Ann'\]"),
        ({**GOOD, "answers": '[["Ann", "A. B."], ["Bo"]]'}, r"answers\[0\] must be a text, got the list \['Ann', 'A"),
        ({**GOOD, "answers": [[" ", None]]}, r"answers must be a text or a list with at least one text, got \[\[' '"),
        ({**GOOD, "answers": ["Ann", {"alias": "Bob"}]}, r"answers\[1\] must be a non-empty text, got {'alias'"),
        (passages(), r"passages must be a text or a list with at least one passage, got \[\] \(list\); give passages"),
        ({**GOOD, "passages": ""}, r"passages must be a text or a list with at least one passage, got ''"),
        (passages("", {"text": " "}), r"passages must be a text or a list with at least one passage"),
        (passages({"title": "T"}), r"passages\[0\].text must be a non-empty text, got nothing"),
        (passages(["a"]), r"passages\[0\] must be a text or"),
        (passages({"id": "a", "text": "1"}, {"id": "a", "text": "2"}), r"distinct ids, got \['a'\] twice"),
        (passages({"text": "a", "source": ["b", "\ud800"]}), r"passages\[0\]\.'source' cannot be written as JSON"),
        (passages({"_id": "\ud800", "text": "a"}), r"passages\[0\]\._id contains half a surrogate"),
        (passages({"text": "a", "scores": {"bm25": math.inf}}), r"passages\[0\]\.'scores' cannot be .*Out of range"),
        ({**GOOD, "id": [1]}, r"id must be a text or a whole number"),
        ({**GOOD, "id": "half \ud83d"}, r"id contains half a surrogate pair at 5"),
        ({**GOOD, "group": "\ud800"}, r"'group' cannot be written as JSON in UTF-8 .*surrogates not allowed"),
        ({**GOOD, "\ud800": 1}, r"'\\ud800' cannot be written as JSON in UTF-8"),
        ([1, 2], r"expected an object"),
        (b"{broken", r"expected one JSON object on the line"),
        (b'{"question": "caf\xe9"}', r"expected UTF-8, got byte 0xe9 at 17"),
        (b"[" * 100_000, r"expected one JSON object on the line"),
        (b'{"id": ' + b"9" * 5000 + b"}", r"expected one JSON object on the line"),
        ({**GOOD, "id": "a"}, "id 'a' was used by an earlier row"),
    ],
)
def test_read_queries_rejects_bad_rows_alone(tmp_path, row, message):
    path = write(tmp_path / "data.jsonl", {**GOOD, "id": "a"}, row, {**GOOD, "id": "b"})
    data = read_queries(path)
    assert [query.id for query in data.queries] == ["a", "b"]
    (rejected,) = data.rejected
    assert rejected.where == f"{path}, line 2"
    assert re.search(message, rejected.reason)
    json.dumps(rejected.row)  # can be written to rejected.jsonl


@pytest.mark.parametrize("text", ["🙂 עברית العربية", "a" * 100_000, "line\nbreak\ttab \u0000 nul"])
def test_read_queries_keeps_odd_texts_and_passes_over_blank_lines(tmp_path, text):
    path = tmp_path / "data.jsonl"
    row = {"question": text, "answers": [text[:50]], "passages": [text]}
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(row).encode() + b"\n\n  \n")  # after a byte order mark
    data = read_queries(path)
    assert (data.queries[0].question, data.queries[0].passages[0].text) == (text.strip(), text.strip())
    assert not data.rejected


def test_parse_query_finds_passages_in_a_corpus(tmp_path):
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


def test_read_corpus_leaves_out_documents_without_text(tmp_path, capsys):
    texts = {"a": ("Mill", ""), "b": ("", " "), "c": (" ", "x"), "d": ("Sheep", None), "e": (None, None)}
    rows = [{"_id": name, "title": title, "text": text} for name, (title, text) in texts.items()]
    corpus = read_corpus(write(tmp_path / "corpus.jsonl", *rows))
    assert list(corpus.values()) == [Passage("Mill", id="a"), Passage("x", id="c"), Passage("Sheep", id="d")]
    assert "left out: 2 passages without a text" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("first", "second", "ids"),
    [
        ({"_id": "doc7", "title": "", "text": "one"}, {"_id": "doc42", "text": "two"}, ["doc7", "doc42"]),  # BEIR
        ({"passage_id": "a", "text": "one"}, {"id": 3, "text": "two"}, ["a", "3"]),
        ({"text": "one"}, "two", ["0", "1"]),
    ],
)
def test_read_corpus_by_ids(tmp_path, first, second, ids):
    corpus = read_corpus(write(tmp_path / "corpus.jsonl", first, second))
    assert list(corpus.items()) == [(ids[0], Passage("one", id=ids[0])), (ids[1], Passage("two", id=ids[1]))]
    assert not any(passage.metadata for passage in corpus.values())


def test_parse_query_takes_ids_by_other_names():
    rows = [{"_id": "doc7", "text": "a"}, {"passage_id": "c0-2", "text": "b"}, {"id": 1, "_id": 2, "text": "c"}]
    query = as_query({**GOOD, "_id": "q7", "passages": rows})
    assert (query.id, query.metadata) == ("q7", {})
    assert ids(query) == ["doc7", "c0-2", "1"]
    assert [passage.metadata for passage in query.passages] == [{}, {}, {"_id": 2}]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"_id": "a", "text": "1"}, {"text": "2"}], "line 2: expected an id, as in the rows before, got none"),
        ([{"text": "1"}, {"_id": "a", "text": "2"}], "line 2: expected no id, as in the rows before, got one"),
        ([{"_id": "a", "text": "1"}, {"_id": "a", "text": "2"}], "line 2: expected an id that no other passage has"),
        ([{"_id": "a", "text": "1"}, {"_id": "b", "text": "2", "x": math.inf}], "line 2: .*'x' cannot be"),
        ([{"text": "1"}, {"id": "p1"}], "line 2: "),
        ([{"text": "1"}, {"id": "p1", "text": [3]}], "line 2: "),
        ([{"text": "1"}, b"{broken"], "line 2: "),
        ([{"text": ""}, {"text": "x"}], "text must be a non-empty text"),  # leaving it out would renumber the rest
        ([], "empty corpus"),
    ],
)
def test_read_corpus_refuses(tmp_path, rows, message):
    with pytest.raises(ValueError, match=message):
        read_corpus(write(tmp_path / "corpus.jsonl", *rows))


def test_pool_passages_of_files_without_a_corpus():
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


def test_parse_query_leaves_out_and_counts_empty_values():
    row = {"question": 7, "answers": ["Ann", "", None, 1912.0, float("nan")], "passages": ["", "x", {"text": None}, 3]}
    parsed = parse_query(clean({**row, "score": float("nan")}))
    query = parsed.query
    assert (query.question, query.answers, query.metadata) == ("7", ("Ann", "1912"), {"score": None})
    assert [(each.id, each.text) for each in query.passages] == [("1", "x"), ("3", "3")]  # ids are places in the row
    assert (parsed.empty_aliases, parsed.empty_passages) == (3, [0, 2])
    parsed = parse_query({**GOOD, "answers": ["Ann", "ann"]})
    assert (parsed.empty_aliases, parsed.empty_passages) == (0, [])  # an equal alias is not empty
    parsed = parse_query({**GOOD, "answers": [["Ann Lee", "ann lee!", None, " Lee "]]})
    assert (parsed.query.answers, parsed.empty_aliases) == (("Ann Lee", "Lee"), 1)
