"""Votes against the best single retriever, and win ratios: by hand with scripted candidates, and the whole command."""

from dataclasses import asdict
from types import SimpleNamespace

import numpy as np
import pytest

from seper_reward.baselines import eor as module
from seper_reward.baselines.consistency import consistency
from seper_reward.baselines.eor import eor
from seper_reward.baselines.options import EoROptions
from seper_reward.baselines.pool import Candidates
from seper_reward.baselines.voting import SIMILARITIES
from seper_reward.cli import main
from seper_reward.data.answers import exact_match
from seper_reward.data.splits import fold_of
from seper_reward.runtime.json_files import read_json, read_lines, write_lines
from seper_reward.scorer import SePerScorer
from seper_reward.types import Passage, Query, UnscorableError

# what each of three retrievers leads to, by kind of question; R is right
SAID = {"a": "RRw", "b": "RRw", "c": "wvR", "d": "vwx", "e": "u u"}
KINDS = "accbccdce"
QUERIES = [Query(f"{number}{KINDS[number % 9]}", "Who?", ("R",)) for number in range(36)]
SOURCES = dict.fromkeys(("one", "two", "three"), [()] * len(QUERIES))


class Asking:
    """Answers as the script says; equal answers are alike in all ways."""

    def __init__(self):
        self.asked, self.expected = iter(QUERIES), 0

    def expect(self, question, shown):
        assert shown == [(), (), ()]
        self.expected += 1

    def candidates(self, question, shown):
        assert self.expected == len(QUERIES)
        query = next(self.asked)
        if query.id == "5c":
            raise UnscorableError("too long")
        texts = [letter.replace("u", "unknown").strip() for letter in SAID[query.id[-1]]]
        alike = np.array([[float(one == other != "") for one in texts] for other in texts])
        silent = np.array([text in ("", "unknown") for text in texts])
        return Candidates(tuple(texts), silent, np.repeat(alike[None], len(SIMILARITIES), axis=0))


def test_eor_by_hand():
    result = asdict(eor(Asking(), QUERIES, SOURCES, folds=3))
    assert (result["questions"], result["folds"]) == (35, 3)
    kinds = [query.id[-1] for query in QUERIES if query.id != "5c"]
    share = {kind: kinds.count(kind) / 35 for kind in "abcde"}
    accuracies = {name: row["accuracy"]["value"] for name, row in result["consistency"]["sources"].items()}
    assert accuracies["one"] == accuracies["two"] == pytest.approx(share["a"] + share["b"], abs=1e-4)
    assert accuracies["three"] == pytest.approx(share["c"], abs=1e-4)
    assert result["best_single"]["value"] == accuracies["three"]
    assert result["chosen"] == {"three": 3}
    consistent = result["consistency"]
    assert consistent["upper_bound"]["value"] == pytest.approx(share["a"] + share["b"] + share["c"], abs=1e-4)
    # where the first two agree they win, and where none do the weight of the third decides: all can be right
    for name in ("eor_paper", "eor_official", "eor_default"):
        found = result["voters"][name]
        assert found["accuracy"]["value"] == consistent["upper_bound"]["value"], name
        assert found["lead"]["value"] == pytest.approx(share["a"] + share["b"], abs=1e-4)
        assert found["mrlr"] == 0.0
    assert (consistent["questions"], consistent["left_out"]) == (35, 1)
    assert consistent["win_ratio"]["three"]["one"] == pytest.approx(
        share["c"] / (1 - share["a"] - share["b"]), abs=1e-4
    )
    assert consistent["win_ratio"]["two"]["one"] == 0.0
    assert set(result["voters"]["eor_paper"]["weights"]["similarities"]) == {"exact_match", "bertscore", "entailment"}


def test_eor_learns_from_other_folds():
    """A question decides about others only: with all of one kind in one fold, nothing is learned of it."""
    own = {str(number): "c" if fold_of(str(number), 2) else "a" for number in range(12)}
    assert list(own.values()).count("a") == 5
    queries = [Query(name, "Who?", ("R",)) for name in own]

    class Half(Asking):
        def candidates(self, question, shown):
            query = next(self.asked)
            texts = tuple(SAID[own[query.id]])
            alike = np.repeat((np.array(texts)[:, None] == np.array(texts))[None].astype(float), 5, axis=0)
            return Candidates(texts, np.zeros(3, bool), alike)

    asking = Half()
    asking.asked = iter(queries)
    result = asdict(eor(asking, queries, {name: rows[:12] for name, rows in SOURCES.items()}, folds=2))
    assert result["best_single"]["value"] == 0.0  # what is best on the one half is wrong on the other
    assert result["chosen"] == {"one": 1, "three": 1}
    assert result["consistency"]["upper_bound"]["value"] == 1.0
    # so are the votes; of their 12 errors the first two retrievers have the 5 of a right, the third the 7 of c
    assert list(result["voters"]) == ["eor_paper", "eor_official", "eor_default"]
    for name, row in result["voters"].items():
        assert (row["accuracy"]["value"], row["mrlr"]) == (0.0, pytest.approx((5 + 5 + 7) / 36, abs=1e-4)), name


def test_eor_needs_two_folds():
    with pytest.raises(ValueError, match=r"at least two sources, got \['bm25@1', 'bm25@1'\]"):
        EoROptions(file="questions.jsonl", sources=["bm25@1", "bm25@1"])
    with pytest.raises(ValueError, match="expected questions in at least two folds, got 0 that the reader can read"):
        eor(Asking(), [], {name: [] for name in SOURCES})


LANE = [
    Query("a", "Who built it?", ("Ann Lee",)),
    Query("b", "Who owns it?", ("Bob",)),
    Query("c", "Who lists it?", ("Eve", "Ann")),
]
ANSWERED = [  # with the answers without a passage and with one
    # wrong; a part of the answer that the passage holds
    (LANE[0], [(), (Passage("Ann Lee did."),)], ("Carl", "Lee")),
    # a lucky guess; an abstention
    (LANE[1], [(), (Passage("Corn."),)], ("Bob", "Unknown.")),
    (LANE[2], [(), (Passage("Ann does."),)], ("Eva", "Ann")),
]


def compared(names, answered, left_out=0):
    """Compare sources whose right answers are exact matches."""
    right = np.array([[exact_match(text, query.answers) == 1 for text in texts] for query, _, texts in answered]).T
    return consistency(names, answered, left_out, right)


def test_consistency_by_hand():
    result = asdict(compared(["none", "one"], ANSWERED, left_out=1))
    assert (result["questions"], result["left_out"]) == (3, 1)
    none, one = result["sources"]["none"], result["sources"]["one"]
    # without a passage only b is right, with one only c
    assert none["accuracy"]["value"] == one["accuracy"]["value"] == pytest.approx(1 / 3, abs=1e-4)
    assert result["win_ratio"] == {"none": {"none": None, "one": 0.5}, "one": {"none": 0.5, "one": None}}
    assert none["mrwr"]["value"] == none["mrlr"]["value"] == 0.5
    low, high = asdict(compared(["none", "one"], ANSWERED * 4))["sources"]["one"]["mrwr"]["interval"]
    assert 0 <= low < 0.5 < high <= 1
    assert result["upper_bound"]["value"] == pytest.approx(2 / 3, abs=1e-4)
    third = pytest.approx(1 / 3, abs=1e-4)
    assert none["errors"] == {
        "wrong": pytest.approx(2 / 3, abs=1e-4), "retriever": 1.0, "hallucination": 0.0, "extraction": 0.0,
        "ungrounded": 1.0, "lucky": third,
    }  # fmt: skip
    assert one["errors"] == {
        "wrong": pytest.approx(2 / 3, abs=1e-4), "retriever": third, "hallucination": 0.0, "extraction": 0.5,
        "ungrounded": 1.0, "lucky": 0.0,
    }  # fmt: skip
    assert (none["abstained"], one["abstained"]) == (0.0, third)
    # a pool of one is right as often as the mean source; a pool of both is right about b and c
    assert [each["value"] for each in result["upper_bound_by_size"]] == [third, pytest.approx(2 / 3, abs=1e-4)]
    # no passage holds no answer, one passage holds two of three
    two_thirds, errors = pytest.approx(2 / 3, abs=1e-4), result["error_win_ratio"]
    assert errors["retriever error"] == {"none": {"none": None, "one": 0.0}, "one": {"none": two_thirds, "one": None}}
    nobody = {"none": {"none": None, "one": None}, "one": {"none": None, "one": None}}
    assert errors["extraction error"] == nobody  # the passages of both have to hold the answer
    # in b the passages of both lack it: the first guesses right, and the second does not
    assert errors["lucky guess"] == {**nobody, "one": {"none": 1.0, "one": None}}
    # no response is in no passage; two of three are in one
    assert errors["hallucination"] == {"none": {"none": None, "one": 0.0}, "one": {"none": two_thirds, "one": None}}


def test_consistency_of_answers_right_by_meaning():
    answered = [(Query("q", "Who?", ("Ann Lee",)), [(), (Passage("A. Lee did."),)], ("Ms Lee", "Lee"))]
    exact = compared(["none", "one"], answered)
    assert (exact.upper_bound.value, exact.sources["one"].errors["retriever"]) == (0.0, 1.0)
    found = consistency(["none", "one"], answered, 0, np.array([[True], [True]]))
    # a passage that holds a right response holds the answer
    assert (found.sources["none"].errors["retriever"], found.sources["one"].errors["retriever"]) == (1.0, 0.0)
    assert found.sources["one"].errors["wrong"] == 0.0


@pytest.fixture
def lane(monkeypatch, tmp_path):
    """A file of the scripted questions, whose sources and answers the command takes from the script."""
    monkeypatch.setattr(SePerScorer, "from_pretrained", lambda config: SimpleNamespace(reader=None, judge=None))
    monkeypatch.setattr(module, "retrieve_sources", lambda *arguments: SOURCES)
    monkeypatch.setattr(module, "Ensemble", lambda scorer: Asking())
    row = {"question": "Who?", "passages": [{"id": "p", "text": "Corn."}]}
    write_lines(tmp_path / "lane.jsonl", [{**row, "id": query.id, "answers": ["R"]} for query in QUERIES])
    write_lines(tmp_path / "new.jsonl", [{**row, "id": query.id} for query in QUERIES])
    return tmp_path


def test_eor_command_answers_with_saved_weights(lane, capsys):
    words = ["baseline", "eor", "--sources", *SOURCES]
    assert main([*words, "--file", str(lane / "lane.jsonl"), "--save", str(lane / "eor")]) == 0
    assert f"next: seper-reward baseline eor --load {lane / 'eor'} --file" in capsys.readouterr().err
    saved = read_json(lane / "eor" / "eor.json")
    assert saved["settings"]["sources"] == ["one", "two", "three"]
    assert list(saved["weights"]["eor_paper"]["retrievers"]) == ["one", "two", "three"]
    words = ["baseline", "eor", "--load", str(lane / "eor"), "--json", str(lane / "out.json")]
    words += ["--answers", str(lane / "answers.jsonl"), "--file"]
    assert main([*words, str(lane / "lane.jsonl")]) == 0
    rows = list(read_lines(lane / "answers.jsonl"))
    assert len(rows) == 35
    # the weights of all questions: where the first two agree they win, else the third
    assert [row["right"] for row in rows] == [row["question_id"][-1] in "abc" for row in rows]
    by_kind = {row["question_id"][-1]: row for row in rows}
    assert (by_kind["a"]["answer"], by_kind["c"]["answer"], by_kind["c"]["source"]) == ("R", "R", "three")
    assert by_kind["a"]["scores"][by_kind["a"]["source"]] == max(filter(None, by_kind["a"]["scores"].values()))
    result = read_json(lane / "out.json")
    assert (result["questions"], result["left_out"]) == (35, 1)
    assert result["accuracy"]["value"] == pytest.approx(sum(row["right"] for row in rows) / 35, abs=1e-4)
    # the third is right where the first two are not: in c, and they are right in a and b
    alone = {name: row["value"] for name, row in result["sources"].items()}
    assert max(alone.values()) < result["accuracy"]["value"]
    # new questions need no gold answers, and have the same answers
    assert main([*words, str(lane / "new.jsonl")]) == 0
    new = list(read_lines(lane / "answers.jsonl"))
    assert new == [{name: value for name, value in row.items() if name != "right"} for row in rows]
    result = read_json(lane / "out.json")
    assert result["accuracy"]["value"] is None
    assert {row["value"] for row in result["sources"].values()} == {None}
    assert main([*words, str(lane / "new.jsonl"), "--save", "b"]) == 2
    assert "set only one of them" in capsys.readouterr().err
