"""Votes against the best single retriever: by hand with scripted candidates, and the whole command."""

import json

import numpy as np
import pytest

from seper_reward.baselines.ensemble import Candidates
from seper_reward.baselines.voting import SIMILARITIES
from seper_reward.cli import main
from seper_reward.data.splits import fold_of
from seper_reward.evaluate.neighbours.ensemble import ensemble
from seper_reward.types import Query, UnscorableError
from tests.helpers import evaluation_arguments as arguments

# what each of three retrievers leads to, by kind of question; R is right
SAID = {"a": "RRw", "b": "RRw", "c": "wvR", "d": "vwx", "e": "u u"}
KINDS = "accbccdce"
QUERIES = [Query(f"{number}{KINDS[number % 9]}", "Who?", ("R",)) for number in range(36)]
SOURCES = dict.fromkeys(("one", "two", "three"), [()] * len(QUERIES))


class Asking:
    """Answers as the script says; equal answers are alike in all ways, and beliefs are sure of the answers."""

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
        sampled = tuple(dict.fromkeys(text for text, quiet in zip(texts, silent, strict=True) if not quiet))
        masses = np.array([[float(text == said) for text in texts] for said in sampled]).reshape(len(sampled), 3)
        tables = np.repeat(alike[None], len(SIMILARITIES), axis=0)
        return Candidates(tuple(texts), silent, tables, sampled, masses, tuple(range(len(sampled))))


def test_votes_by_hand():
    result = ensemble(Asking(), QUERIES, SOURCES, folds=3)
    assert (result["questions"], result["left_out"], result["folds"]) == (35, 1, 3)
    kinds = [query.id[-1] for query in QUERIES if query.id != "5c"]
    share = {kind: kinds.count(kind) / 35 for kind in "abcde"}
    accuracies = {name: row["accuracy"]["mean"] for name, row in result["retrievers"].items()}
    assert accuracies["one"] == accuracies["two"] == pytest.approx(share["a"] + share["b"], abs=1e-4)
    assert accuracies["three"] == pytest.approx(share["c"], abs=1e-4)
    assert result["best_single"]["accuracy"]["mean"] == accuracies["three"]
    assert result["best_single"]["chosen"] == {"three": 3}
    assert result["upper_bound"]["mean"] == pytest.approx(share["a"] + share["b"] + share["c"], abs=1e-4)
    # where the first two agree they win, and where none do the weight of the third decides: all can be right
    for name in ("eor_paper", "eor_official", "eor_default", "belief_vote"):
        found = result["voters"][name]
        assert found["accuracy"]["mean"] == result["upper_bound"]["mean"], name
        assert found["lead"]["lead"] == pytest.approx(share["a"] + share["b"], abs=1e-4)
        assert found["mrlr"] == 0.0
    # without weights the first of three that disagree is taken
    equal = result["voters"]["belief_vote_equal"]
    assert equal["accuracy"]["mean"] == accuracies["one"]
    assert equal["weights"] == {"similarities": {}, "retrievers": {"one": 1.0, "two": 1.0, "three": 1.0}}
    # of its wrong answers, the first two retrievers have none right, and the third those of c
    assert equal["mrlr"] == pytest.approx(share["c"] / (share["c"] + share["d"] + share["e"]) / 3, abs=1e-4)
    assert set(result["voters"]["eor_paper"]["weights"]["similarities"]) == {"exact_match", "bertscore", "entailment"}


def test_weights_are_of_other_folds():
    """A question decides about others only: with all of one kind in one fold, nothing is learned of it."""
    numbers = iter(range(10**6))
    own = {}
    while len(own) < 12:
        name = str(next(numbers))
        kind = "c" if fold_of(name, 2) else "a"
        if sum(each.endswith(kind) for each in own) < 6:
            own[f"{name}"] = kind
    queries = [Query(name, "Who?", ("R",)) for name in own]

    class Half(Asking):
        def candidates(self, question, shown):
            query = next(self.asked)
            texts = tuple(SAID[own[query.id]])
            alike = np.repeat((np.array(texts)[:, None] == np.array(texts))[None].astype(float), 5, axis=0)
            masses = np.array([[float(text == said) for text in texts] for said in dict.fromkeys(texts)])
            sampled = tuple(dict.fromkeys(texts))
            return Candidates(texts, np.zeros(3, bool), alike, sampled, masses, tuple(range(len(sampled))))

    asking = Half()
    asking.asked = iter(queries)
    result = ensemble(asking, queries, {name: rows[:12] for name, rows in SOURCES.items()}, folds=2)
    assert result["best_single"] == {
        "accuracy": {"mean": 0.0, "interval": None},  # what is best on the one half is wrong on the other
        "chosen": {"one": 1, "three": 1},
    }
    assert result["upper_bound"]["mean"] == 1.0


def test_too_little_to_learn_from():
    with pytest.raises(ValueError, match="at least two retrievers and two folds, got 1 and 5"):
        ensemble(Asking(), QUERIES, {"one": SOURCES["one"]})
    with pytest.raises(ValueError, match="expected questions in at least two folds, got 0 that can be asked"):
        ensemble(Asking(), [], {name: [] for name in SOURCES})


def test_the_command(tiny_reader, tiny_entailment, lane_questions, tmp_path, capsys):
    words = arguments(tiny_reader, tiny_entailment, lane_questions, tmp_path / "out.json")
    words += ["--limit", "5", "--sources", "none", "bm25@1", "bm25@2@RR@1", "--folds", "3", "--pooling", "plurality"]
    assert main(["evaluate", "ensemble", *words]) == 0
    out = capsys.readouterr().out
    for line in (
        "retriever ",
        "best retriever of the other folds (",
        "vote ",
        "right by at least one: ",
        "mean weight",
    ):
        assert f"\n{line}" in f"\n{out}"
    result = json.loads((tmp_path / "out.json").read_text())
    assert (result["questions"], result["pooling"]) == (5, "plurality")
    assert list(result["voters"]) == ["eor_paper", "eor_official", "eor_default", "belief_vote", "belief_vote_equal"]
    for row in result["voters"].values():
        assert row["accuracy"]["mean"] == 0.0  # a random reader
        assert list(row["weights"]["retrievers"]) == ["none", "bm25@1", "bm25@2@RR@1"]
    assert main(["evaluate", "ensemble", *words, "--sources", "none"]) == 2
    assert "expected at least two folds and sources" in capsys.readouterr().err
