"""Trainings of rerankers: their questions, rankings and files."""

from seper_reward.runtime.json_files import read_json
from tests.benchmarks.experiments import rerankers
from tests.benchmarks.experiments.query_side import UNTRAINED


def test_other_questions_of_the_sets_are_ordered_and_finished_trainings_kept(frame, tmp_path, capsys):
    rerankers.train_all(frame, tmp_path, ["human labels"])
    before, after = (
        read_json(tmp_path / rerankers.TRAINED / f"{name}-0.json")["questions"] for name in (UNTRAINED, "human labels")
    )
    first = frame.rank(rerankers.load_encoder("embedded", 128), ["Who saw it?"], rerankers.FIRST)
    assert [question["id"] for question in (*before, *after)] == ["tested"] * 2
    assert before[0]["passages"] == [passage.id for passage in first[0]]
    assert sorted(after[0]["passages"]) == ["0", "1", "2", "3"]
    assert after[0]["mrr"] == 1 / (after[0]["passages"].index("1") + 1)
    capsys.readouterr()
    rerankers.train_all(frame, tmp_path, ["human labels"])
    assert capsys.readouterr().out == ""
