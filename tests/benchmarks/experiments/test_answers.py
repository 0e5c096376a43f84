"""Answers of a reader with the passages of trained retrievers."""

import pytest

from seper_reward.runtime.json_files import read_json, write_json, write_lines
from seper_reward.types import Passage
from tests.benchmarks.experiments.answers import answer
from tests.benchmarks.experiments.query_side import Frame

TEXTS = ("Ann saw the house.", "Fog is on the lake.", "Sheep graze.")
PASSAGES = tuple(Passage(text, id=str(at)) for at, text in enumerate(TEXTS))
RANKINGS = {"a-0": (1, 0, 2), "b-0": (2, 1, 0)}


def write_trainings(folder, questions):
    """Write the corpus, the questions and two trainings; return the folder of the latter."""
    write_lines(folder / "corpus.jsonl", [{"id": passage.id, "text": passage.text} for passage in PASSAGES])
    marks = [{"id": "0", "relevant": True}]
    write_lines(folder / "questions.jsonl", [{**row, "passages": marks, "set": "popqa"} for row in questions])
    trained = folder / "trained"
    trained.mkdir()
    for name, places in RANKINGS.items():
        found = [{"id": row["id"], "set": "popqa", "passages": list(map(str, places))} for row in questions]
        write_json(trained / f"{name}.json", {"rows": 3, "questions": found})
    return trained


def test_answer_adds_the_beliefs_with_the_first_passages(tiny_scorer, tmp_path):
    firsts = {name: [PASSAGES[place] for place in places[:2]] for name, places in RANKINGS.items()}
    (drawn,) = tiny_scorer.beliefs("Who saw it?", ["Ann"], [firsts["b-0"]])
    gold = max(zip(drawn.weights, drawn.responses, strict=True))[1]
    trained = write_trainings(tmp_path, [{"id": "q", "question": "Who saw it?", "answers": [gold]}])
    answer(trained, Frame(tmp_path), tiny_scorer, 2)
    for name, first in firsts.items():
        training = read_json(trained / f"{name}.json")
        (belief,) = tiny_scorer.beliefs("Who saw it?", [gold], [first])
        matching = [weight for text, weight in zip(belief.responses, belief.weights, strict=True) if text == gold]
        assert training["rows"] == 3
        assert training["questions"][0]["seper@2"] == pytest.approx(belief.seper, abs=1e-6)
        assert training["questions"][0]["exact_match@2"] == pytest.approx(sum(matching), abs=1e-6)
    assert sum(matching) > 0


def test_answer_needs_a_reader_of_all_questions(tiny_scorer, tmp_path):
    asked = [{"id": "fine", "question": "Who saw it?"}, {"id": "long", "question": "Who " * 5000}]
    trained = write_trainings(tmp_path, [{**row, "answers": ["Ann"]} for row in asked])
    with pytest.raises(ValueError, match="too long ones: long"):
        answer(trained, Frame(tmp_path), tiny_scorer, 2)
