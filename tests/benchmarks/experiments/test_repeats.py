"""Repeats against a slow reference on the same draws, which draws they share, and the whole command."""

import json
import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from seper_reward import Estimator, SePerScorer
from seper_reward.data.queries import as_query
from seper_reward.judge.judge import Judge
from seper_reward.reader.in_process.response_sampler import ResponseSampler
from seper_reward.scorer import beliefs_of
from seper_reward.types import Leaf, Responses
from tests.benchmarks.experiments.repeats import main, repeats
from tests.helpers import ScriptedModel, ScriptedSampler
from tests.helpers import evaluation_arguments as arguments

RECORDS = [
    {
        "id": f"q{n}",
        "question": f"Who owns house {n}?",
        "answers": ["Ann", "Bob"],
        "passages": [{"id": str(p), "text": f"House {n}: {p}", "relevant": p == 1} for p in range(3)],
    }
    for n in range(2)
]
QUERIES = [as_query(record) for record in RECORDS]


@pytest.fixture(scope="module")
def scorer(tiny_scorer):
    """A reader that is sure enough to give responses more than once."""
    return tiny_scorer.with_sampling(temperature=0.05)


def soft(model, options, query, responses, kind="soft"):
    """The slow reference: whole beliefs, clusters and all."""
    (belief,) = beliefs_of(Judge(model), options, [(query.question, query.answers, responses)])
    return getattr(belief, kind).value


@pytest.mark.parametrize("way", ["official", "paper", "uniform", "mass"])
def test_repeats_are_beliefs_on_parts_of_one_pool(scorer, tiny_judge, way):
    options = Estimator.preset(way) if way in ("official", "paper") else Estimator(weighting=way)
    limit = replace(options, weighting="mass")
    count, times = 2, 3
    values, hard, truth, marks = [], [], [], []
    for query in QUERIES:
        pooled = scorer.with_sampling(num_samples=4 * times)
        (pools,) = pooled.responses([query])
        truth.append([soft(tiny_judge, limit, query, pool) for pool in pools])
        for kind, rows in (("soft", values), ("hard", hard)):
            rows.append(
                [
                    [
                        soft(tiny_judge, options, query, _without_leaves(pool.at(range(first, first + count))), kind)
                        for first in range(0, count * times, count)
                    ]
                    for pool in pools
                ]
            )
        marks += [float(passage.metadata["relevant"]) for passage in query.passages]
    values, hard, truth = np.array(values), np.array(hard), np.array(truth)  # (Q, C, R) twice, and (Q, C)
    found = repeats(scorer, QUERIES, [way], counts=[count, 4], times=times)
    row = found.ways[way]["2"]
    gains = (values[:, 1:] - values[:, :1]).reshape(-1, times)
    pearson = [np.corrcoef(gains[:, repeat], marks)[0, 1] for repeat in range(times)]
    assert row["pearson"] == pytest.approx(np.mean(pearson), abs=1e-3)
    assert row["pearson_sd"] == pytest.approx(np.std(pearson, ddof=1), abs=1e-3)
    assert row["seper_sd"] == pytest.approx(math.sqrt(values.var(axis=-1, ddof=1).mean()), abs=1e-3)
    assert row["seper_cv"] == pytest.approx(math.sqrt(values.var(axis=-1, ddof=1).mean()) / values.mean(), abs=1e-3)
    if hard.any():
        expected = math.sqrt(hard.var(axis=-1, ddof=1).mean()) / hard.mean()
        assert row["seper_hard_cv"] == pytest.approx(expected, abs=1e-3)
    else:
        assert row["seper_hard_cv"] is None
    errors = values - truth[..., None]
    assert row["rmse"] == pytest.approx(math.sqrt((errors**2).mean()), abs=1e-3)
    assert row["bias"] == pytest.approx(errors.mean(), abs=1e-3)
    assert (found.pool, found.contexts, found.questions, found.left_out) == (12, 8, 2, 0)
    assert 0 < found.unseen_mass < 0.99
    assert found.truth_std_error > 0


def _without_leaves(responses):
    return type(responses)(**{**vars(responses), "known_leaves": ()})


def test_the_default_uses_what_is_known_of_the_answers():
    """Draws are given: Ann, Bob, Bob, Ann, of probability .6 and .4."""
    probs = {"Ann": math.log(0.6), "Bob": math.log(0.4)}
    texts = ("Ann", "Bob", "Bob", "Ann")
    pool = Responses(
        texts,
        tuple(torch.tensor([probs[text]]) for text in texts),
        tuple((("Ann", "Bob").index(text), 9) for text in texts),
        (True,) * 4,
        tuple(probs[text] for text in texts),
        known_leaves=(Leaf("Ann", (0,), probs["Ann"], probs["Ann"], probs["Ann"]),),
    )
    scorer = SimpleNamespace(
        with_sampling=lambda **changes: scorer,
        responses=lambda asked: [[pool] * len(each.contexts) for each in asked],
        judge=Judge(ScriptedModel(lambda pair: float(pair.premise == pair.hypothesis))),
        sampler=SimpleNamespace(device=None),
        cache=None,
    )
    queries = [replace(query, answers=("Ann",)) for query in QUERIES]
    found = repeats(scorer, queries, ["mass", "default"], counts=[1], times=4)
    rows = {name: row["1"] for name, row in found.ways.items()}
    # each draw stands for all: 1, 0, 0, 1, and the truth is .6
    assert rows["mass"]["rmse"] == pytest.approx(math.sqrt((2 * 0.4**2 + 2 * 0.6**2) / 4), abs=1e-4)
    assert rows["mass"]["bias"] == pytest.approx(-0.1)
    assert rows["mass"]["seper_sd"] == pytest.approx(math.sqrt(1 / 3), abs=1e-4)
    # that Ann has .6 is known: where Bob is drawn, everything is
    assert rows["default"]["rmse"] == pytest.approx(math.sqrt(2 * 0.4**2 / 4), abs=1e-4)
    assert rows["default"]["bias"] == pytest.approx(0.2)
    assert rows["default"]["pearson"] is None  # no passage changes anything
    assert found.unseen_mass == pytest.approx(0, abs=1e-9)


def test_a_reader_that_tells_no_probabilities_is_refused(tiny_sampler, tiny_judge):
    silent = SePerScorer(ScriptedSampler(tiny_sampler.tokenizer, lambda prompt: "Ann"), tiny_judge, prompt="brief")
    with pytest.raises(ValueError, match="needs the probability of each response"):
        repeats(silent, QUERIES, ["uniform"], counts=[1], times=2)
    with pytest.raises(ValueError, match="estimators must be one of official, paper, uniform, mass"):
        repeats(silent, QUERIES, ["best"])
    with pytest.raises(ValueError, match="expected estimators to compare"):
        repeats(silent, QUERIES, [])


@pytest.mark.slow
def test_the_command_goes_on_from_the_cache(tiny_reader, tiny_entailment, tmp_path, capsys, monkeypatch):
    (tmp_path / "qa.jsonl").write_text("".join(json.dumps(record) + "\n" for record in RECORDS))
    words = ["--counts", "1", "2", "--repeats", "2", "--cache", str(tmp_path / "cache.sqlite")]
    words += ["--estimators", "paper", "default", "--plot", str(tmp_path / "plot.svg")]
    words += arguments(tiny_reader, tiny_entailment, tmp_path / "qa.jsonl", tmp_path / "out.json")
    assert main(words) == 0
    before = (tmp_path / "out.json").read_text()
    assert set(json.loads(before)["ways"]) == {"paper", "default"}
    table = capsys.readouterr().out
    assert "| sd of SePer over repeats " in table
    assert (tmp_path / "plot.svg").stat().st_size > 1000
    monkeypatch.setattr(ResponseSampler, "sample", None)  # would fail
    assert main(words) == 0
    assert (tmp_path / "out.json").read_text() == before
