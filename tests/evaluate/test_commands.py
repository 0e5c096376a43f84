"""Each evaluation and baseline as a whole command on tiny models: its output, JSON and figure."""

import json

import pytest

from seper_reward.cli import main
from tests.helpers import evaluation_arguments, write_rows
from tests.tiny_models import lane_rows


@pytest.mark.parametrize(
    ("words", "shown", "numbers"),
    [
        (
            "baseline correlation --llm_judge reader --leave_out_known true --plot PLOT",
            "questions (n=9)",
            {"files questions n": 9, "files questions known_left_out": 0, "files questions contexts llm_judge": 9},
        ),
        ("evaluate counterfactual", "planted", {"questions": 3, "kinds planted passages": 3}),
        (
            "evaluate retrievers --retrievers bm25 ENCODER bm25+ENCODER --depths 1 2 --readers READER",
            "| order of all retrievers ",
            {"readers READER retrievers 0 retriever": "bm25", "readers READER retrievers 5 k": 2},
        ),
        (
            "baseline compression --depths 1 3 --candidates 5 --rerankers minilm --readers READER --plot PLOT"
            " --compressions selective_context longllmlingua",
            "| k   | reranker   | compression ",
            {"questions": 3, "readers READER variants 11 k": 3, "readers READER variants 0 passages": 1.0},
        ),
        (
            "baseline eor --sources none bm25@1 bm25@2@RR@1 --pooling plurality --plot PLOT",
            "\nright by at least one: 0.000",  # a random reader is never right
            # greedily, and two of the sources show one passage
            {"consistency sources bm25@1 errors wrong": 1.0, "per_question calls": 2.0, "pooling": "plurality"},
        ),
        (
            "baseline erag --retrievers bm25 --depths 1 2 --labelers erag:token_f1 delta_seper gold --plot PLOT",
            "\nKendall tau with the gain ",
            # without a passage, and two
            {f"retrievers bm25 labels {name} per_label calls": n for name, n in (("gold", 0), ("delta_seper", 1.5))},
        ),
        (
            "baseline item --judges vanilla:form=pointwise erag contains",
            "\nPearson of labels with",
            # a random reader's judgments are not understood
            {
                "judges contains f1": 1.0,
                "judges erag per_question calls": 4,
                "judges vanilla:form=pointwise questions": 0,
            },
        ),
    ],
)
def test_command_shows_and_writes(words, shown, numbers, tiny_reader, tiny_entailment, tiny_encoder, tmp_path, capsys):
    rows = lane_rows()
    for row in rows:
        row["passages"][1]["counterfactual"] = True
    arguments = evaluation_arguments(
        tiny_reader, tiny_entailment, write_rows(tmp_path / "questions.jsonl", rows), tmp_path / "out.json"
    )
    places = {"READER": str(tiny_reader), "ENCODER": str(tiny_encoder), "PLOT": str(tmp_path / "plot.svg")}
    for name, path in places.items():
        words = words.replace(name, path)
    assert main([*words.split(), *arguments, "--limit", "3"]) == 0
    assert shown in capsys.readouterr().out
    for path, number in numbers.items():
        found = json.loads((tmp_path / "out.json").read_text())
        for name in path.split():
            found = found[int(name)] if isinstance(found, list) else found[places.get(name, name)]
        assert found == pytest.approx(number), path
    assert (tmp_path / "plot.svg").is_file() == ("--plot" in words)


def test_item_command_without_gold_answers(tiny_reader, tiny_entailment, tmp_path, capsys):
    rows = [{name: value for name, value in row.items() if name != "answers"} for row in lane_rows(2)]
    questions = write_rows(tmp_path / "questions.jsonl", rows)
    arguments = evaluation_arguments(tiny_reader, tiny_entailment, questions, tmp_path / "out.json")
    assert main(["baseline", "item", "--judges", "gold", *arguments]) == 0
    assert "2 of 2 questions have no gold answer: labels are not compared with" in capsys.readouterr().err
    assert json.loads((tmp_path / "out.json").read_text())["judges"]["gold"]["precision"] == 1.0


def test_correlation_command_needs_different_files(capsys):
    assert main(["baseline", "correlation"]) == 2
    assert "file is required" in capsys.readouterr().err
    assert main(["baseline", "correlation", "--file", __file__, __file__]) == 2
    assert "expected different files" in capsys.readouterr().err
