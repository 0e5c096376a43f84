"""The demo corpus keeps its promises, and the embedded models tell its passages apart."""

import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from seper_reward.cli import main
from seper_reward.data.demo import CORPUS, QUESTIONS
from seper_reward.data.queries import read_corpus, read_queries

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def corpus():
    return read_corpus(CORPUS)


@pytest.fixture(scope="module")
def queries(corpus):
    examples = read_queries(QUESTIONS, corpus)
    assert not examples.rejected
    return examples.queries


def roles(query):
    return Counter(passage.metadata["role"] for passage in query.passages)


def states(text, answers):
    return any(re.search(rf"(?<!\w){re.escape(answer)}(?!\w)", text, re.IGNORECASE) for answer in answers)


def test_size(queries, corpus):
    groups = Counter(query.metadata["group"] for query in queries)
    assert len(queries) >= 120
    assert len(corpus) >= 400
    assert groups["two_hop"] >= 30
    assert min(groups["known"], groups["fiction"]) >= 40
    assert len({passage.text for passage in corpus.values()}) == len(corpus)


def test_every_question_has_every_role(queries):
    for query in queries:
        found = roles(query)
        assert found["supporting"] == (2 if query.metadata["group"] == "two_hop" else 1), query.id
        assert found["misleading"] >= 1, query.id
        assert found["unrelated"] >= 2, query.id


def test_passages_say_what_their_role_claims(queries):
    for query in queries:
        if set(query.answers) & {"yes", "no", "Yes", "No"}:
            continue  # any passage may hold these words
        for passage in query.passages:
            told = states(passage.text, query.answers)
            if passage.metadata["role"] != "supporting":
                assert not told, (query.id, passage.id)
            elif passage.metadata.get("hop", 2) == 2:
                assert told, (query.id, passage.id)


def test_text_is_clean():
    for path in (CORPUS, QUESTIONS):
        for line in path.read_text(encoding="utf-8").splitlines():
            assert json.loads(line)
            assert "  " not in line


def mean(values):
    return sum(values) / len(values)


def first_of(query, role):
    """Return the first passage of a role; of two hops, the one with the answer."""
    of_role = (each for each in query.passages if each.metadata["role"] == role)
    return next(each for each in of_role if each.metadata.get("hop", 2) == 2)


@pytest.mark.slow
def test_the_embedded_models_tell_supporting_passages(queries, embedded_scorer):
    """A few questions of each group; the whole slice is the slow test below."""
    baselines = {}
    for group in ("known", "fiction", "two_hop"):
        some = [query for query in queries if query.metadata["group"] == group][::17][:2]
        moved = {"supporting": [], "unrelated": []}
        pairs = [replace(query, passages=tuple(first_of(query, role) for role in moved)) for query in some]
        for utilities in embedded_scorer.utilities(pairs):
            baselines.setdefault(group, []).append(utilities[0].baseline_seper)
            for role, judged in zip(moved, utilities, strict=True):
                moved[role].append(judged.delta_seper)
        if group != "known":  # a reader that knows has nothing to gain
            assert mean(moved["supporting"]) > mean(moved["unrelated"]) + 0.1, group
    assert mean(baselines["known"]) > mean(baselines["fiction"]) + 0.4


@pytest.mark.slow
def test_make_demo_tells_the_roles_apart(tmp_path):
    assert main(["label", "--config", str(ROOT / "configs/label/demo.yaml"), "--output_dir", str(tmp_path)]) == 0
    groups = json.loads((tmp_path / "summary.json").read_text())["groups"]
    for group in ("fiction", "two_hop"):
        delta = groups[group]["delta_seper"]
        assert delta["supporting"] > 0.3, group
        assert max(map(abs, (delta["unrelated"], delta["misleading"]))) < 0.1, group  # a reader that knows nothing
    known = groups["known"]["delta_seper"]
    assert known["supporting"] > known["unrelated"] > known["misleading"] + 0.3
    assert groups["known"]["baseline_seper"] > groups["fiction"]["baseline_seper"] + 0.5
