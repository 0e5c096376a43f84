"""Mined hard negatives of other libraries: read, repaired and written, by hand and as the libraries write them."""

import json

import pytest
from datasets import Dataset

from seper_reward.data.rows import BadRowError
from seper_reward.labels.mined_negatives import read_mined
from seper_reward.runtime.json_files import write_lines

TRIPLETS = [
    {"anchor": "Who runs the mill?", "positive": "Ida does.", "negative": "Fog."},
    {"anchor": "Who runs the mill?", "positive": "Ida does.", "negative": " Ida owns it. "},
    {"anchor": "Who runs the mill?", "positive": "Ida runs it.", "negative": "Ida owns it."},
    {"anchor": "Who sings?", "positive": "Bob.", "negative": "Ida owns it."},
]
FALSE = {"Who runs the mill?": {"Ida owns it."}}


def mined(tmp_path, rows, name="mined.jsonl"):
    path = tmp_path / name
    text = "".join(json.dumps(row) + "\n" for row in rows)
    path.write_text(json.dumps(rows) if path.suffix == ".json" else text)
    return read_mined(path)


def test_triplets_are_grouped_by_question(tmp_path):
    found = mined(tmp_path, TRIPLETS)
    assert found.layout.name == "sentence-transformers (anchor, positive, negative)"
    assert found.by_question() == {"Who runs the mill?": ["Fog.", "Ida owns it."], "Who sings?": ["Ida owns it."]}


def test_false_triplets_are_dropped_for_their_question_only(tmp_path):
    found = mined(tmp_path, TRIPLETS)
    assert list(found.repaired(FALSE)) == [TRIPLETS[0], None, None, TRIPLETS[3]]


def test_tuples_keep_their_columns(tmp_path):
    row = {"query": "Who?", "answer": "A.", **{f"negative_{place}": f"N{place}." for place in (1, 2, 3, 10)}}
    found = mined(tmp_path, [row])
    assert found.layout.name == (
        "sentence-transformers (query, answer, negative_1, negative_2, negative_3, negative_10)"
    )
    false = {"Who?": {"N1.", "N3."}}
    filled = {**row, "negative_1": "N2.", "negative_3": "N10."}  # by the row's others, in turn
    assert list(found.repaired(false)) == [filled]
    everything = {"Who?": {"N1.", "N2.", "N3.", "N10."}}
    assert list(found.repaired(everything)) == [None]


def test_lists_of_flag_embedding_keep_their_scores(tmp_path):
    row = {"query": "Who?", "pos": ["A."], "neg": ["B.", " C.", "D."], "prompt": "Find it."}
    scored = {**row, "pos_scores": [0.9], "neg_scores": [0.1, 0.8, 0.3]}
    alone = {"query": "Where?", "pos": ["E."], "neg": ["F."]}
    found = mined(tmp_path, [row, scored, alone])
    assert found.layout.name == "FlagEmbedding (query, pos, neg)"
    false = {"Who?": {"C."}, "Where?": {"F."}}
    assert list(found.repaired(false)) == [
        {**row, "neg": ["B.", "D."]},
        {**scored, "neg": ["B.", "D."], "neg_scores": [0.1, 0.3]},
        None,
    ]


def test_scores_that_would_be_false_are_refused(tmp_path):
    assert mined(tmp_path, [{**TRIPLETS[0], "label": 0.4}]).layout.refusal() is None
    tuples = mined(tmp_path, [{"anchor": "Q", "positive": "A", "negative_1": "B", "negative_2": "C", "scores": [1]}])
    assert "column 'scores' scores the passages" in tuples.layout.refusal()


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            [{"question": "Q", "text": "T"}],
            r"line 1: expected mined negatives of FlagEmbedding .*got columns question",
        ),
        ([TRIPLETS[0], {"anchor": "Q", "positive": "P"}], r"line 2: expected rows of .*got no 'negative'"),
        ([{**TRIPLETS[0], "negative": None}], r"line 1: .* with texts, got nothing"),
        ([{"query": "Q", "pos": ["P"], "neg": ["N", " "]}], r"line 1: .* with texts, got ' '"),
        ([{"query": "Q", "pos": ["P"], "neg": ["N", 3]}], r"line 1: .* with texts, got 3"),
    ],
)
def test_rows_that_are_no_mined_negatives_are_named(tmp_path, rows, message):
    with pytest.raises(BadRowError, match=message):
        mined(tmp_path, rows)


def test_an_empty_file_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"expected rows with mined negatives, got an empty file"):
        mined(tmp_path, [])


@pytest.mark.parametrize(("output_format", "columns"), [("triplet", 1), ("n-tuple", 2)])
@pytest.mark.parametrize("kind", ["jsonl", "parquet", "folder"])
def test_what_sentence_transformers_mines_comes_back_in_its_layout(
    tmp_path, tiny_encoder, output_format, columns, kind
):
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.util import mine_hard_negatives

    names = ["mill", "ferry", "lane", "bridge"]
    pairs = {
        "query": [f"Who runs the {name}?" for name in names],
        "answer": [f"Ida runs the {name}." for name in names],
    }
    rows = mine_hard_negatives(
        Dataset.from_dict(pairs),
        SentenceTransformer(str(tiny_encoder), device="cpu"),
        num_negatives=columns,
        output_format=output_format,
        verbose=False,
    )
    path = tmp_path / ("mined" if kind == "folder" else f"mined.{kind}")
    {"jsonl": rows.to_json, "parquet": rows.to_parquet, "folder": rows.save_to_disk}[kind](str(path))
    found = read_mined(path)
    assert (found.layout.anchor, found.layout.positive, len(found.layout.columns)) == ("query", "answer", columns)
    question, negatives = next(iter(found.by_question().items()))
    repaired = [row for row in found.repaired({question: {negatives[0]}}) if row]
    write_lines(tmp_path / "audited.jsonl", repaired)
    written = read_mined(tmp_path / "audited.jsonl")
    assert written.layout == found.layout
    assert list(written.rows) == repaired
    assert negatives[0] not in written.by_question().get(question, [])
