"""Questions of experiments: filters, one known alias, and another domain."""

import json
from dataclasses import replace

import pytest

from tests.benchmarks.experiments.questions import ExperimentConfig, read_questions


def test_questions_with_few_aliases_are_left_out(tmp_path):
    answers = {"q1": ["Ann"], "q26": ["Ann", "Anna"], "q3": ["Ann", "Anna", "Bob"], "q4": ["Ann", "ann."]}
    path = tmp_path / "questions.jsonl"
    rows = [{"id": name, "question": "Who?", "answers": own, "passages": [name]} for name, own in answers.items()]
    path.write_text("\n".join(map(json.dumps, rows)))
    config = ExperimentConfig(input=str(path), test_share=0.5, dev_share=0.0, least_aliases=2)
    assert sorted(query.id for split in read_questions(config)[1:] for query in split) == ["q26", "q3"]
    with pytest.raises(ValueError, match="least_aliases must be at least 1, got 0"):
        replace(config, least_aliases=0)


def test_training_may_know_one_alias_only(tmp_path):
    answers = {"q3": ["Ann Lee", "Ann", "Mrs Lee"], "q26": ["Bob"], "q1": ["Ann", "Mrs Lee"]}
    rows = [
        {"id": name, "question": "Who?", "answers": own, "passages": [f"Fog {name}."]} for name, own in answers.items()
    ]
    path = tmp_path / "questions.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    config = ExperimentConfig(input=str(path))
    everything = [query.answers for split in read_questions(config)[1:] for query in split]
    assert everything == [("Ann Lee", "Ann", "Mrs Lee"), ("Bob",), ("Ann", "Mrs Lee")]
    last = [query.answers for split in read_questions(replace(config, known_aliases="last"))[1:] for query in split]
    assert last == [("Mrs Lee",), ("Bob",), ("Ann", "Mrs Lee")]  # the test question keeps all


def test_questions_of_another_file_test_out_of_domain(tmp_path):
    for name in ("one", "two"):
        rows = [
            {
                "id": f"{name}{at}",
                "question": "Who?",
                "answers": ["Ann"],
                "passages": [f"{name} {at}"],
            }
            for at in range(40)
        ]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    own = ExperimentConfig(input=str(tmp_path / "one.jsonl"), test_share=0.5)
    questions = read_questions(replace(own, test_input=str(tmp_path / "two.jsonl")))
    assert questions.train == read_questions(own).train
    assert questions.test == read_questions(replace(own, input=str(tmp_path / "two.jsonl"))).test
    assert {query.id[:3] for query in questions.test} == {"two"}
    assert len(questions.corpus) == 80
