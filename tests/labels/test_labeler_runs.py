"""Every labeler goes through the same run: the same folder, resume, provenance, rejected rows and exports."""

import json

import pytest
from transformers import AutoTokenizer

from seper_reward import load_labels
from seper_reward.cli import main
from seper_reward.data.queries import read_queries
from seper_reward.labels.dataset import label
from seper_reward.labels.labelers import LABELERS, ERAGLabeler, GoldLabeler, load_labeler, needs_answers
from seper_reward.labels.rows import label_row, labeler_of, passage_lengths
from seper_reward.labels.run import LabelRun
from seper_reward.reader.in_process.response_sampler import ResponseSampler
from seper_reward.types import LabeledQuery, UnscorableError
from tests.helpers import as_query, labels_of


def records(count):
    return [
        {
            "id": f"q{number}",
            "question": f"Who built mill {number}?",
            "answers": [f"Voss {number}"],
            "passages": [
                {"id": "s", "text": f"Voss {number} built mill {number}.", "relevant": True, "page": 7},
                {"id": "u", "text": "A mill grinds corn.", "relevant": False},
            ],
        }
        for number in range(count)
    ]


@pytest.fixture
def words(tmp_path, tiny_reader, tiny_entailment):
    """Return the command's words for a labeler and a folder."""
    rows = [*records(3), {**records(1)[0], "id": "long", "question": "why " * 600}]
    (tmp_path / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    models = ["--reader", str(tiny_reader), "--judge", str(tiny_entailment), "--dtype", "float32"]
    common = ["--input", str(tmp_path / "data.jsonl"), "--num_samples", "3", "--max_new_tokens", "4", *models]
    return lambda labeler, folder: ["label", "--labeler", labeler, "--output_dir", str(tmp_path / folder), *common]


@pytest.mark.parametrize("labeler", ["erag", "likelihood"])
def test_a_labelers_folder_is_like_any_other(words, labeler, tmp_path, capsys):
    name = {"erag": "erag_exact_match"}.get(labeler, labeler)
    assert main(words(labeler, "out")) == 0
    assert f"{name} relevant" in capsys.readouterr().out  # the summary's table
    rows = labels_of(tmp_path / "out")
    assert [row["id"] for row in rows] == ["q0", "q1", "q2"]
    assert {row["labeler"] for row in rows} == {name}
    passage = rows[0]["passages"][0]
    assert (passage["passage_id"], passage["metadata"]) == ("s", {"relevant": True, "page": 7})
    assert {name, "std_error"} <= set(passage)
    assert name in rows[0]["baseline"]
    (rejected,) = (tmp_path / "out" / "rejected.jsonl").read_text().splitlines()
    assert "no room" in json.loads(rejected)["reason"]
    decides = json.loads((tmp_path / "out" / "provenance.json").read_text())["decides"]
    assert (decides["labeler"], decides["sampling"]["num_samples"]) == (name, 3)
    before = (tmp_path / "out" / "labels.jsonl").read_bytes()
    assert main(words(labeler, "out")) == 0  # a finished folder is left alone
    assert (tmp_path / "out" / "labels.jsonl").read_bytes() == before
    assert main(words("delta_seper", "out")) == 2
    assert "labels made otherwise" in capsys.readouterr().err


def test_published_erag_runs_like_any_other(words, tmp_path, capsys):
    assert main(words("erag:token_f1:preset=paper", "out")) == 0
    rows = labels_of(tmp_path / "out")
    assert "baseline" not in rows[0]
    assert rows[0]["passages"][0]["responses"][0]["count"] == 1
    assert {row.baseline_error for row in load_labels(tmp_path / "out").labeled()} == {0.0}
    capsys.readouterr()
    assert main(words("erag:token_f1", "out")) == 2
    assert "labels made otherwise" in capsys.readouterr().err
    assert main(words("erag:f2", "other")) == 2
    assert "metric must be one of" in capsys.readouterr().err


def test_gold_marks_need_no_reader(words, tmp_path):
    assert main([*words("gold", "out"), "--reader", "no/such-model"]) == 0
    labeled = load_labels(tmp_path / "out").labeled()
    assert {row.labels for row in labeled} == {(1.0, 0.0)}
    assert len(labeled) == 4  # nobody reads, so no question is too long
    output = tmp_path / "qrels"
    assert main(["export", "--labels", str(tmp_path / "out"), "--format", "trec", "--output", str(output)]) == 0
    assert output.read_text().startswith("q0 0 q0:s 1\nq0 0 u 0\n")


def test_questions_without_answers_are_for_labelers_that_need_none(words, tmp_path, capsys):
    rows = [{key: value for key, value in row.items() if key != "answers"} for row in records(2)]
    (tmp_path / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert main([*words("gold", "out")]) == 0
    assert [row["answers"] for row in labels_of(tmp_path / "out")] == [[], []]
    assert [row.labels for row in load_labels(tmp_path / "out").labeled()] == [(1.0, 0.0)] * 2
    assert main(words("contains", "other")) == 2
    assert "found no column for answers" in capsys.readouterr().err


def test_labels_that_rows_of_others_do_not_hold_have_folders_of_their_own(words, tmp_path, capsys):
    # of a set, rows hold the label of one name; questions that have no delta_belief are rejected where it is the label
    for folder, more, other in (("sets", ["--sets", "conditional"], "delta_seper_hard"), ("out", [], "delta_belief")):
        assert main([*words("delta_seper", folder), *more]) == 0
        capsys.readouterr()
        assert main([*words("delta_seper", folder), *more, "--label", f"{other}"]) == 2
        assert "labels made otherwise" in capsys.readouterr().err


@pytest.mark.parametrize("name", LABELERS)
def test_who_needs_answers(name, tiny_scorer):
    assert load_labeler(name, lambda: tiny_scorer).needs_answers == needs_answers(name, by_question=True)
    assert needs_answers("delta_seper")


def test_soft_and_hard_labels_share_a_folder(words, tmp_path, capsys):
    assert main(words("delta_seper", "out")) == 0
    rows = (tmp_path / "out" / "labels.jsonl").read_bytes()
    capsys.readouterr()
    assert main([*words("delta_seper", "out"), "--label", "delta_seper_hard"]) == 0
    assert "ΔSePer relevant" in capsys.readouterr().out
    assert (tmp_path / "out" / "labels.jsonl").read_bytes() == rows
    hard = [passage["delta_seper_hard"] for row in labels_of(tmp_path / "out") for passage in row["passages"]]
    found = [label for row in load_labels(tmp_path / "out").labeled("delta_seper_hard") for label in row.labels]
    assert found == hard


@pytest.mark.parametrize("name", ["delta_seper", "erag", "gold"])
def test_fields_of_the_input_that_are_called_like_ours_stay(tmp_path, tiny_scorer, name):
    own = {"labeler": "alice", "baseline": "mine", "source": "web"}
    own_of_passage = {"seper": "x", "std_error": "y", "responses": [3], "delta_seper": 9, "gold": 8, "page": 7}
    first, second = records(1)[0]["passages"]
    query = as_query({**records(1)[0], **own, "passages": [{**first, **own_of_passage, "passage_id": "mine"}, second]})
    labeler = load_labeler(name, lambda: tiny_scorer)
    labeled = labeler.label(query)
    row = label_row(labeled, labeler.name)
    assert row["metadata"] == own
    kept = row["passages"][0]
    assert kept["passage_id"] == "s"
    assert kept["metadata"] == {"relevant": True, **own_of_passage, "passage_id": "mine"}
    assert row["passages"][1]["metadata"] == {"relevant": False}
    (tmp_path / "labels.jsonl").write_text(json.dumps(row) + "\n")
    (found,) = load_labels(tmp_path).labeled(labeler.name)
    assert found.query.metadata == query.metadata
    assert [each.metadata for each in found.query.passages] == [each.metadata for each in query.passages]
    assert found.labels == pytest.approx(labeled.labels, abs=1e-6)


def test_a_detail_of_a_labeler_overwrites_no_field_of_the_input(tmp_path):
    query = as_query({**records(1)[0], "passages": [{"text": "Corn.", "pace": "slow"}]})
    row = label_row(LabeledQuery(query, (0.5,), (0.0,), details=({"pace": 3},)), "mine")
    assert row["passages"][0]["pace"] == 3
    assert row["passages"][0]["metadata"] == {"pace": "slow"}
    (tmp_path / "labels.jsonl").write_text(json.dumps(row) + "\n")
    assert load_labels(tmp_path).labeled()[0].query.passages[0].metadata == {"pace": "slow"}


@pytest.mark.parametrize(("first", "second"), [("erag", "gold"), ("gold", "delta_seper"), ("delta_seper", "gold")])
def test_labels_of_an_earlier_labeler_do_not_pass_for_new_ones(tmp_path, tiny_scorer, first, second):
    queries = [as_query(record) for record in records(2)]
    LabelRun(tmp_path / "first", load_labeler(first, lambda: tiny_scorer), queries).run()
    examples = read_queries(tmp_path / "first" / "labels.jsonl")
    assert not examples.rejected
    LabelRun(tmp_path / "second", load_labeler(second, lambda: tiny_scorer), examples.queries).run()
    LabelRun(tmp_path / "alone", load_labeler(second, lambda: tiny_scorer), queries).run()
    old, new, alone = (labels_of(tmp_path / name) for name in ("first", "second", "alone"))
    column = labeler_of(old)
    assert labeler_of(new) == second
    with pytest.raises(ValueError, match=f"'{column}' is missing"):
        load_labels(tmp_path / "second").labeled(column)
    for before, after, expected in zip(old, new, alone, strict=True):
        for was, judged, passage in zip(before["passages"], after["passages"], expected["passages"], strict=True):
            kept, marks = judged.pop("metadata"), passage.pop("metadata")
            assert kept[column] == was[column]
            assert kept.items() >= marks.items()
            assert judged == passage  # ids, labels
        assert after.pop("metadata", {}).get("baseline") == before.get("baseline")
        assert {**after, "passages": 0} == {**expected, "passages": 0}


def test_a_run_whose_questions_are_all_rejected_fails_with_the_reason(words, tmp_path, capsys):
    row = {**records(1)[0], "id": "long", "question": "why " * 600}
    (tmp_path / "long.jsonl").write_text(json.dumps(row) + "\n")
    for _ in range(2):  # the second finds a finished folder
        assert main([*words("delta_seper", "out"), "--input", str(tmp_path / "long.jsonl")]) == 2
        shown = capsys.readouterr()
        assert "1 row rejected\n" in shown.out
        assert "out/rejected.jsonl: id long: question has no room" in shown.out
        assert "no question could be labelled; rejected.jsonl there has the reasons" in shown.err
        assert "next:" not in shown.err


def test_one_question_is_one_and_a_corpus_that_is_not_searched_is_named(words, tmp_path, capsys):
    (tmp_path / "corpus.jsonl").write_text('{"id": "1", "text": "Rain fell."}\n')
    corpus = ["--corpus", str(tmp_path / "corpus.jsonl"), "--limit", "1"]
    assert main([*words("contains", "out"), *corpus]) == 0
    shown = capsys.readouterr()
    assert "1 question with 2 passages from" in shown.err
    assert "corpus.jsonl is not searched: all questions have passages" in shown.err
    assert "1 question, 2 passages: 1 help and 0 harm, their labels beyond ±0.05; 0 rows rejected" in shown.out
    assert main([*words("delta_seper", "beliefs"), *corpus]) == 0
    assert "harm, their 95 % intervals beyond ±0.05" in capsys.readouterr().out


def test_cut_passages_are_marked_and_counted(words, tmp_path, capsys, tiny_reader):
    first, second = records(1)[0]["passages"]
    row = {**records(1)[0], "passages": [first, {**second, "text": "A mill grinds corn. " * 300}]}
    (tmp_path / "long.jsonl").write_text(json.dumps(row) + "\n")
    assert main([*words("likelihood", "out"), "--input", str(tmp_path / "long.jsonl")]) == 0
    assert "warning: longer than the reader's window or max_passage_tokens: 1 passage; " in capsys.readouterr().err
    (labels,) = labels_of(tmp_path / "out")
    short, long = labels["passages"]
    assert (short["truncated"], long["truncated"]) == (False, True)
    tokenizer = AutoTokenizer.from_pretrained(tiny_reader)
    for passage in (short, long):  # of the whole passage, whatever the prompt has room for
        assert passage["tokens"] == len(tokenizer(passage["text"]).input_ids)
    assert long["tokens"] > 512
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["truncated"] == 1
    (found,) = load_labels(tmp_path / "out").labeled()
    assert found.query.passages[1].metadata == {"relevant": False}
    own = {"truncated": "mine", "tokens": 7}
    mine = as_query({**row, "passages": [{**first, **own}]})
    row = label_row(GoldLabeler().label(mine), "gold", passage_lengths(GoldLabeler().scorer, mine))
    assert row["passages"][0]["metadata"].items() >= own.items()
    assert "tokens" not in row["passages"][0]  # no reader is asked


def test_rows_come_back_as_they_were(tmp_path, tiny_scorer):
    for name, chosen in (
        ("delta_seper", None), ("delta_seper", "delta_seper_hard"), ("erag:token_f1", None), ("likelihood", None),
        ("gold", None),
    ):  # fmt: skip
        labeler = load_labeler(name, lambda: tiny_scorer, label=chosen)
        labeled = labeler.label(as_query(records(1)[0]))
        (tmp_path / "labels.jsonl").write_text(json.dumps(label_row(labeled, labeler.name)) + "\n")
        (found,) = load_labels(tmp_path).labeled(labeler.name)
        assert found.query == labeled.query
        assert found.query.passages[0].metadata["page"] == 7
        assert found.labels == pytest.approx(labeled.labels, abs=1e-6)
        assert found.std_errors == pytest.approx(labeled.std_errors, abs=1e-6)
        assert found.baseline_error == pytest.approx(labeled.baseline_error, abs=1e-6)


def test_label_takes_any_labeler(tiny_scorer):
    from datasets import Dataset

    dataset = Dataset.from_list(records(2))
    labels = label(dataset, ERAGLabeler(tiny_scorer, "token_f1"))
    assert set(labels[0]["passages"][0]) >= {"erag_token_f1", "std_error", "responses"}
    assert label(dataset, GoldLabeler())[1]["passages"][1]["gold"] == 0.0
    unanswered = [{name: value for name, value in row.items() if name != "answers"} for row in records(2)]
    assert len(label(Dataset.from_list(unanswered), GoldLabeler())) == 2
    with pytest.raises(ValueError, match="answers"):
        label(Dataset.from_list(unanswered), ERAGLabeler(tiny_scorer))
    broken = Dataset.from_list([{**records(1)[0], "question": "why " * 600}])
    with pytest.raises(UnscorableError, match="row 0: question has no room"):
        label(broken, ERAGLabeler(tiny_scorer))


def test_aliases_in_a_run_and_a_list_that_is_rejected(words, tmp_path):
    both = {**records(2)[1], "answers": [["Voss 0", "V. Voss"]]}
    bad = {**records(1)[0], "id": "bad", "answers": [["Voss 0"], ["the monks"]]}
    (tmp_path / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in (*records(1), both, bad)))
    assert main(words("delta_seper", "out")) == 0
    plain, row = labels_of(tmp_path / "out")
    assert (plain["answers"], row["answers"]) == (["Voss 0"], ["Voss 0", "V. Voss"])
    assert (len(plain["baseline"]["known_leaves"]), len(row["baseline"]["known_leaves"])) == (1, 2)
    for context in (row["baseline"], *row["passages"]):
        total = sum(response["weight"] * response["support"] for response in context["responses"])
        assert context["seper"] == pytest.approx(total, abs=1e-5)
    (rejected,) = map(json.loads, (tmp_path / "out" / "rejected.jsonl").read_text().splitlines())
    assert rejected["where"].endswith("data.jsonl, line 3")
    assert "answers[0] must be a text, got the list ['Voss 0']" in rejected["reason"]
    _, labeled = load_labels(tmp_path / "out").labeled()
    assert labeled.query.answers == ("Voss 0", "V. Voss")


def test_another_preset_with_the_same_cache_asks_no_reader(words, tmp_path, monkeypatch):
    def told(preset, folder):
        given = [*words("delta_seper", folder), "--cache", str(tmp_path / "cache.sqlite"), "--estimator", preset]
        assert main(given) == 0
        return labels_of(tmp_path / folder)

    official = told("official", "official")
    monkeypatch.setattr(ResponseSampler, "sample", lambda *_, **__: pytest.fail("the reader was asked"))
    paper = told("paper", "paper")
    assert [row["baseline"]["seper"] for row in paper] != [row["baseline"]["seper"] for row in official]
    for one, other in zip(paper, official, strict=True):
        said = [{(each["text"], each["count"]) for each in row["baseline"]["responses"]} for row in (one, other)]
        assert said[0] == said[1]
