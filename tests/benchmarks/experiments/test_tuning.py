"""Tuning trains each setting once, resumes, and chooses by the dev questions."""

import json
import math
import statistics
from pathlib import Path

import pytest
from sentence_transformers import SentenceTransformer

from seper_reward.retrieval import DenseRetriever
from tests.benchmarks.experiments.tuning import seper_on_dev, settings_grid, tune
from trainers.ranking.data import read_questions
from trainers.ranking.evaluation import rank_by
from trainers.retriever import RetrieverArguments, RetrieverConfig, RetrieverRun

GRID = settings_grid({"teacher_temperature": [0.2, 1.0], "learning_rate": [1e-4, 3e-4]})
SCORES = {(0.2, 1e-4): 0.3, (0.2, 3e-4): 0.5, (1.0, 1e-4): 0.5, (1.0, 3e-4): -0.1}


class Trials:
    """Trains and scores by a table; fails at the n-th score."""

    def __init__(self, dies_at=math.inf):
        self.trained, self.scored, self.dies_at = [], [], dies_at

    def train(self, config, arguments):
        self.trained.append((config.teacher_temperature, arguments.learning_rate, Path(arguments.output_dir).name))
        return (config.teacher_temperature, arguments.learning_rate)

    def score(self, model):
        if len(self.scored) == self.dies_at:
            raise KeyboardInterrupt
        self.scored.append(model)
        return SCORES[model]


@pytest.fixture
def given(tmp_path):
    return RetrieverConfig(labeler="erag"), RetrieverArguments(output_dir=str(tmp_path), learning_rate=7e-5)


def test_the_first_of_the_best_is_chosen_and_a_killed_tuning_resumes(given, tmp_path):
    config, arguments = given
    first = Trials(dies_at=2)
    with pytest.raises(KeyboardInterrupt):
        tune(config, arguments, GRID, first.train, first.score, {"top_k": 1})
    again = Trials()
    best, chosen, scores = tune(config, arguments, GRID, again.train, again.score, {"top_k": 1})
    assert first.scored + again.scored == list(SCORES)  # nothing twice
    assert len(again.trained) == 4  # each may refuse its folder
    assert len({folder for _, _, folder in again.trained}) == 4
    assert (best.teacher_temperature, best.labeler) == (0.2, "erag")
    trial = tmp_path / "tuning" / "teacher_temperature=0.2,learning_rate=0.0003"
    assert (chosen.learning_rate, chosen.output_dir) == (3e-4, str(trial))
    assert list(scores.values()) == list(SCORES.values())
    assert json.loads((tmp_path / "tuning" / "scores.json").read_text()) == scores
    assert scores["teacher_temperature=0.2,learning_rate=0.0003"] == 0.5
    assert arguments.learning_rate == 7e-5
    otherwise = Trials()
    tune(config, arguments, GRID, otherwise.train, otherwise.score, {"top_k": 5})
    assert otherwise.scored == list(SCORES)  # those by another measure are no comparison


def test_what_cannot_be_tuned_is_refused(given):
    for grid in ([], [*GRID, GRID[0]]):
        with pytest.raises(ValueError, match="grid must have 1 to 4 settings, got"):
            tune(*given, grid, None, None, {})
    with pytest.raises(
        ValueError, match=r"expected names of settings or training arguments in the grid, got \['lr'\]"
    ):
        tune(*given, [{"lr": 1.0}], None, None, {})
    with pytest.raises(
        ValueError, match=r"got \['temperature', 'top_p'\], which decide the questions or their labels"
    ):
        tune(*given, [{"temperature": 0.5, "top_p": 0.9, "learning_rate": 1e-4}], None, None, {})
    for name in ("limit", "top_k", "seed"):
        with pytest.raises(ValueError, match=rf"got \['{name}'\], which decide"):
            tune(*given, [{name: 3}], None, None, {})
    with pytest.raises(ValueError, match=r"no dev question can be scored; give a dev_share above 0"):
        tune(*given, GRID, lambda *_: None, lambda _: None, {})


@pytest.mark.slow
def test_retrievers_are_tuned_by_what_the_reader_believes(lane_questions, tiny_encoder, tiny_scorer, tmp_path):
    config = RetrieverConfig(
        input=str(lane_questions), model=str(tiny_encoder), labeler="gold", test_share=0.25, dev_share=0.25,
        candidates="given",
    )  # fmt: skip
    arguments = RetrieverArguments(
        output_dir=str(tmp_path / "run"),
        max_steps=2,
        warmup_steps=0,
        eval_strategy="no",
        bf16=False,
        disable_tqdm=True,
    )
    questions = read_questions(config)
    trained = []

    def train(settings, own):
        trained.append(RetrieverRun(settings, own, questions, tiny_scorer).train())
        return trained[-1]

    grid = settings_grid({"learning_rate": [1e-3, 1e-2]})
    best, chosen, scores = tune(
        config,
        arguments,
        grid,
        train,
        lambda model: seper_on_dev(DenseRetriever(model, questions.corpus), questions, tiny_scorer, 2),
        {},
    )
    by_hand = [
        statistics.fmean(
            tiny_scorer.beliefs(query.question, query.answers, [found[:2]])[0].seper
            for query, found in zip(questions.dev, rank_by(retriever, questions.dev), strict=True)
        )
        for retriever in (DenseRetriever(model, questions.corpus) for model in trained)
    ]
    assert list(scores.values()) == pytest.approx(by_hand, abs=1e-6)
    assert chosen.learning_rate == grid[by_hand.index(max(by_hand))]["learning_rate"]
    assert chosen.output_dir == str(tmp_path / "run" / "tuning" / list(scores)[by_hand.index(max(by_hand))])
    assert best == config
    weights = [model.state_dict() for model in trained]
    assert any(not weights[0][name].equal(weights[1][name]) for name in weights[0])


def test_nothing_to_score_is_none(lane_questions, tiny_encoder, tiny_scorer):
    questions = read_questions(RetrieverConfig(input=str(lane_questions), dev_share=0.0))
    retriever = DenseRetriever(SentenceTransformer(str(tiny_encoder), device="cpu"), questions.corpus)
    assert seper_on_dev(retriever, questions, tiny_scorer, 1) is None
