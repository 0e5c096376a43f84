"""The demo corpus keeps its promises, and the embedded models tell its passages apart."""

import json
import re
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
    return read_queries(QUESTIONS, corpus).queries


def states(text, answers):
    return any(re.search(rf"(?<!\w){re.escape(answer)}(?!\w)", text, re.IGNORECASE) for answer in answers)


def test_demo_passages_say_what_their_role_claims(queries):
    for query in queries:
        if set(query.answers) & {"yes", "no", "Yes", "No"}:
            continue  # any passage may hold these words
        for passage in query.passages:
            told = states(passage.text, query.answers)
            if passage.metadata["role"] != "supporting":
                assert not told, (query.id, passage.id)
            elif passage.metadata.get("hop", 2) == 2:
                assert told, (query.id, passage.id)


@pytest.mark.slow
def test_label_command_tells_the_roles_of_the_demo_apart(tmp_path):
    assert main(["label", "--config", str(ROOT / "configs/label/demo.yaml"), "--output_dir", str(tmp_path)]) == 0
    groups = json.loads((tmp_path / "summary.json").read_text())["groups"]
    for group in ("fiction", "two_hop"):
        delta = groups[group]["delta_seper"]
        assert delta["supporting"] > 0.3, group
        assert max(map(abs, (delta["unrelated"], delta["misleading"]))) < 0.1, group  # a reader that knows nothing
    known = groups["known"]["delta_seper"]
    assert known["supporting"] > known["unrelated"] > known["misleading"] + 0.3
    assert groups["known"]["baseline_seper"] > groups["fiction"]["baseline_seper"] + 0.5
