"""Labelers side by side: by hand with scripted labels, and the whole command."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from seper_reward.data.rows import BadRowError
from seper_reward.data.splits import split_of
from seper_reward.labels.labelers.base import PassageLabeler
from seper_reward.types import LabeledQuery, Passage, Query, UnscorableError
from tests.benchmarks.experiments import compare as module
from tests.benchmarks.experiments.compare import compare, main
from tests.helpers import OneByOne
from tests.helpers import evaluation_arguments as arguments

# by question: type and label of each passage, in order of the list; the reader's score without a passage and with two
LABELS = {
    "a": (("correct", 0.9), ("misinfo", -0.5), ("noise", 0.1)),
    "b": (("noise", 0.0), ("correct", 0.6)),
    "c": (("misinfo", -0.2), ("correct", 0.2), ("correct", 0.8)),
    "d": (("noise", 0.3),),
}
SCORES = {"a": (0.5, 0.6), "b": (0.0, 0.9), "c": (0.1, 0.2), "d": (0.3, 0.1)}
QUERIES = [
    Query(
        name,
        f"Who is {name}?",
        ("Ann",),
        tuple(
            Passage(f"{name}{at}", id=f"{name}{at}", metadata={"type": kind, "relevant": kind == "correct"})
            for at, (kind, _) in enumerate(row)
        ),
    )
    for name, row in LABELS.items()
]


class Scripted(PassageLabeler):
    name = "scripted"

    def __init__(self, failing=()):
        self.failing = failing

    def label(self, query):
        if query.id in self.failing:
            raise UnscorableError(f"no {query.id}")
        labels = {f"{query.id}{at}": label for at, (_, label) in enumerate(LABELS[query.id])}
        return LabeledQuery(query, tuple(labels[each.id] for each in query.passages), (0.0,) * len(labels))


class Answering:
    name = "erag_token_f1"
    scorer = OneByOne()

    def read(self, asked, batch_size):
        assert [list(map(len, each.contexts)) for each in asked] == [[0, 2], [0, 2], [0, 2], [0, 1]]
        return [[SimpleNamespace(mean=SimpleNamespace(value=v)) for v in SCORES[each.question[7]]] for each in asked]


class Backwards:
    def rerank(self, question, passages):
        return passages[::-1]


@pytest.fixture(autouse=True)
def backwards(monkeypatch):
    """The order by similarity is that of the list; the files have it backwards."""
    monkeypatch.setattr(module, "load_reranker", lambda name: {"minilm": Backwards()}[name])


FILED = [Query(query.id, query.question, query.answers, query.passages[::-1], query.metadata) for query in QUERIES]


def test_labelers_by_hand():
    result = compare(FILED, {"delta_seper": Scripted(), "gold": Scripted("d")}, Answering(), depth=2)
    assert (result["questions"], result["passages"], result["metric"]) == (4, 9, "token_f1")
    assert [row["mean"] for row in result["end_to_end"].values()] == pytest.approx([0.225, 0.45])
    found = result["labelers"]["delta_seper"]
    assert (found["needs_answers"], result["labelers"]["gold"]["needs_answers"]) == (True, False)
    labels = [label for row in LABELS.values() for _, label in row]
    marks = [kind == "correct" for row in LABELS.values() for kind, _ in row]
    assert found["marks"]["pearson"] == pytest.approx(np.corrcoef(labels, marks)[0, 1], abs=1e-4)
    means = [(0.9 - 0.5) / 2, 0.6 / 2, 0.0, 0.3 / 2]  # of the first two; the list of d is short
    for end, values in (("score", [0.6, 0.9, 0.2, 0.1]), ("gain", [0.1, 0.9, 0.1, -0.2])):
        expected = stats.kendalltau(means, values).statistic
        assert found[end]["kendall"]["value"] == pytest.approx(expected, abs=1e-4)
    types = found["types"]
    assert list(types) == ["correct", "noise", "misinfo"]
    assert types["correct"] == {"passages": 4, "label": pytest.approx(2.5 / 4)}
    assert types["noise"]["label"] == pytest.approx(0.4 / 3, abs=1e-4)
    against = [(label, mark) for label, mark in zip(labels, marks, strict=True) if mark or label in (-0.5, -0.2)]
    assert types["misinfo"]["pearson"] == pytest.approx(np.corrcoef(*zip(*against, strict=True))[0, 1], abs=1e-4)
    assert found["per_label"]["calls"] == 0.0
    some = result["labelers"]["gold"]
    assert (some["questions"], some["left_out"]) == (3, ["no d"])
    assert some["types"]["noise"]["passages"] == 2


def test_marks_and_a_depth_are_needed():
    with pytest.raises(BadRowError, match="expected 'relevant': true, false or a grade in its passages, got none"):
        compare([Query("q", "Who?", ("Ann",), (Passage("x"),))], {}, Answering(), depth=2)
    with pytest.raises(ValueError, match="depth must be at least 1, got 0"):
        compare(FILED, {}, Answering(), depth=0)


@pytest.fixture
def words(tiny_reader, tiny_entailment, lane_questions, tmp_path):
    words = arguments(tiny_reader, tiny_entailment, lane_questions, "")
    del words[words.index("--file") : words.index("--file") + 2], words[-2:]
    data = [f"lane={lane_questions}", f"held_out={lane_questions}#test", f"other={tmp_path / 'absent.jsonl'}"]
    words += ["--data", *data, "--limit", "5", "--labelers", "delta_seper", "contains", "gold"]
    return [*words, "--output_dir", str(tmp_path / "run")]


@pytest.mark.slow
def test_the_command_goes_on(words, lane_questions, tmp_path, capsys, monkeypatch):
    assert main(words) == 0
    out, folder = capsys.readouterr().out, tmp_path / "run"
    results = json.loads((folder / "results.json").read_text())
    assert results["other"] == {
        "file": str(tmp_path / "absent.jsonl"),
        "skipped": f"{tmp_path / 'absent.jsonl'} is absent",
    }
    assert results["lane"]["questions"] == 5
    held_out = sum(split_of(f"q{number}") == "test" for number in range(24))
    assert results["held_out"]["questions"] == held_out < 5
    assert results["lane"]["labelers"]["contains"]["marks"]["pearson"] == 1.0
    found = results["lane"]["labelers"]["delta_seper"]
    assert found["per_label"]["calls"] > 1  # one with each passage, and one without
    assert "r with marks / τ with the reader's score" in out
    assert "`other` is skipped: " in out
    assert (folder / "results.md").read_text() == out
    assert (folder / "results.svg").read_text().startswith("<?xml")
    (folder / "data" / "held_out.json").unlink()
    used = []
    original = module.compare
    monkeypatch.setattr(module, "compare", lambda *given, **more: used.append(1) or original(*given, **more))
    assert main(words) == 0
    assert len(used) == 1  # the other one was finished
    again = json.loads((folder / "results.json").read_text())
    assert again["lane"] == results["lane"]
    assert again["held_out"]["labelers"]["gold"] == results["held_out"]["labelers"]["gold"] | {
        "per_label": again["held_out"]["labelers"]["gold"]["per_label"]
    }
    whole = lane_questions.read_text()
    lane_questions.write_text(whole.replace("blue", "red"))
    assert main(words) == 2
    assert "other questions or with other models" in capsys.readouterr().err
    lane_questions.write_text(whole)
    assert main([*words, "--depth", "1"]) == 2
    assert "depth was 2, is 1" in capsys.readouterr().err
    swapped = [word.replace("lane=", "held_out=") if word.startswith("lane=") else word for word in words]
    assert main([word for word in swapped if "#test" not in word]) == 2
    assert "name the data set otherwise" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["--data", "demo"], "data must be NAME=FILE or NAME=FILE#SPLIT, got demo="),
        (["--data", "a=demo#half"], "got a=demo#half"),
        (["--data", "../a=demo"], "got ../a=demo"),
        (["--data", "a=demo", "a=demo"], "data sets with names of their own"),
        (["--data", "a=absent.jsonl"], "absent.jsonl is absent"),
        (["--labelers", "clicks"], "labeler must be one of"),
        (["--limit", "0"], "limit must be at least 1, got 0"),
    ],
)
def test_settings_are_checked(words, changes, message, capsys):
    assert main([*words, *changes]) == 2
    assert message in capsys.readouterr().err
