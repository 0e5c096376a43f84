"""Labelers are compared: what each chooses, the retrievers that their labels train, and the questions of both."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import ttest_1samp
from sentence_transformers import SentenceTransformer

from seper_reward import load_labels
from seper_reward.reader.in_process.response_sampler import ResponseSampler
from seper_reward.types import Estimate, LabeledQuery, Passage, Query, SetLabel
from tests.benchmarks.experiments import compare_labelers
from tests.benchmarks.experiments.compare_labelers import (
    CompareConfig,
    aggregate,
    as_ranked,
    best,
    halves,
    leads,
    rank_for_test,
    read_questions,
)
from tests.helpers import write_rows
from trainers.ranking.data import Questions
from trainers.ranking.run import RankingRun


def of_set(shown, utility, gain=0.0):
    gain, utility, interaction = (Estimate(value, 0.1, value - 0.2, value + 0.2) for value in (gain, utility, 0.0))
    return SetLabel(shown, shown[-1], gain, utility, interaction)


def test_the_best_passages_or_the_best_measured_set_are_chosen():
    passages = tuple(Passage(f"text {at}", id=str(at)) for at in range(5))
    row = LabeledQuery(Query("q", "Who?", ("Ann",), passages), (0.2, 0.7, -0.1, 0.7, 0.2), (0.0,) * 5)
    assert [best(row, k) for k in (1, 2, 3, 9)] == [[1], [1, 3], [1, 3, 0], [1, 3, 0, 4, 2]]
    sets = (of_set((0, 1), 0.3, gain=0.9), of_set((3, 2), 0.8, gain=0.1), of_set((2, 3), 0.8), of_set((3, 0, 1), 0.9))
    assert [best(replace(row, sets=sets), k) for k in (1, 2, 3)] == [[1], [3, 2], [3, 0, 1]]
    # without a set of two, a passage counts with its largest gain in any set
    longer = (of_set((1, 2, 0), 0.9, gain=0.2), of_set((0, 1, 2), 0.9, gain=0.75))
    assert best(replace(row, sets=longer), 2) == [2, 1]


def test_equal_labels_choose_the_first_one_of_the_retriever(tiny_encoder):
    encoder = SentenceTransformer(str(tiny_encoder), device="cpu")
    marked = Passage("Sheep graze on the hill.", id="m", metadata={"relevant": True})
    others = [Passage(f"House {at} was blue, and Ann saw it.", id=str(at)) for at in range(3)]
    (ordered,) = as_ranked(encoder, [Query("q", "Who saw the house?", ("Ann",), (marked, *others))])
    vectors = encoder.encode_document([passage.full_text for passage in (marked, *others)])
    near = encoder.similarity(encoder.encode_query(["Who saw the house?"]), vectors)[0]
    by_hand = [(marked, *others)[at].id for at in near.argsort(descending=True)]
    assert by_hand != ["m", "0", "1", "2"]
    assert [passage.id for passage in ordered.passages] == by_hand


def test_means_and_leads_by_hand():
    before, after = (
        [{"seper": value} for value in values] for values in ((0.1, 0.5, 0.9, 0.5, 0.3), (0.9, 0.52, 0.1, 0.6, None))
    )
    found = aggregate({"untrained": {"mrr": 0.5}, "gold-0": {"mrr": 0.6}, "gold-1": {"mrr": 0.8}})
    assert found["gold"]["mrr"] == {"mean": 0.7, "sd": 0.1414}
    assert found["untrained"]["mrr"] == {"mean": 0.5, "sd": 0.0}
    lead = leads({"untrained": before, "gold-0": after, "gold-1": before}, "gold")["untrained"]
    assert lead["value"] == pytest.approx((0.8 + 0.02 - 0.8 + 0.1) / 2 / 4, abs=1e-4)
    assert lead["interval"][0] < 0 < lead["interval"][1]
    one_seed = leads({"untrained": before, "gold-0": after}, "gold")["untrained"]["interval"]
    assert one_seed == pytest.approx(ttest_1samp([0.8, 0.02, -0.8, 0.1], 0).confidence_interval(), abs=1e-4)


def test_settings_of_each_labeler():
    names = ["delta_belief", "conditional_delta_seper", "likelihood", "conditional_likelihood", "gold"]
    config = CompareConfig(labelers=names, seeds=[0], teacher_temperature=0.3)
    own = [config.of(name) for name in names]
    assert [(each.labeler, each.label, each.sets, each.learn_from, each.teacher_temperature) for each in own] == [
        ("delta_seper", "delta_belief", "none", "singles", 0.3),
        ("delta_seper", "delta_seper", "conditional:given_top=3", "paths", 0.3),
        ("likelihood", None, "none", "singles", 1.0),
        ("likelihood", None, "conditional:given_top=3", "paths", 1.0),
        ("gold", None, "none", "singles", 0.3),
    ]
    assert replace(config, hops=2).of("gold").learn_from == "paths"
    for wrong, message in (
        ({"labeler": "erag"}, "labelers says what is compared"),
        ({"judge_seed": 1}, "judge_seed must be none of seeds, got 1"),
        ({"seeds": [0, 0]}, "expected labelers, and each seed once"),
    ):
        with pytest.raises(ValueError, match=message):
            CompareConfig(**wrong)


def test_labels_may_know_one_alias_only(tmp_path):
    answers = {"q3": ["Ann Lee", "Ann", "Mrs Lee"], "q26": ["Bob"], "q1": ["Ann", "Mrs Lee"], "q4": ["No"]}
    rows = [
        {"id": name, "question": "Who?", "answers": own, "passages": [f"Fog {name}."]} for name, own in answers.items()
    ]
    config = CompareConfig(input=str(write_rows(tmp_path / "questions.jsonl", rows)), yes_no=False)
    last = [query.answers for split in read_questions(replace(config, known_aliases="last"))[1:] for query in split]
    assert last == [("Mrs Lee",), ("Bob",), ("Ann", "Mrs Lee")]  # the test question keeps all


def test_each_question_is_tested_after_training_on_the_other_half():
    queries = [Query(f"q{number}", "Who?", ("Ann",), metadata={"train_only": number < 5}) for number in range(40)]
    first, second = (halves(queries, {}, half) for half in ("first", "second"))
    tested = [query.id for questions in (first, second) for query in questions.test]
    assert sorted(tested) == sorted(query.id for query in queries[5:])
    for questions in (first, second):
        assert {*queries[:5]} <= {*questions.train}
        assert len(questions.train) + len(questions.test) == 40
        assert len(questions.test) > 10
        assert not questions.dev


def test_retrievers_that_learned_hops_retrieve_in_hops_and_others_do_both(tiny_encoder, tmp_path):
    model = SentenceTransformer(str(tiny_encoder), device="cpu")
    passage = Passage("Ann.", id="a")
    query = Query("q", "Who?", ("Ann",), (passage,))
    run = RankingRun(tmp_path, tmp_path / "embeddings", Questions({"a": passage}, [query], [], [query]), None, None)
    once = CompareConfig(hops=2)
    hops = once.of("conditional_delta_seper")

    def ways(*options):
        return set(rank_for_test(model, *options, run))

    assert ways("erag", "-0", once) == {"erag-0", "erag_in_hops-0"}
    assert ways("model", "-0", hops) == {"model-0"}
    assert ways("untrained", "", hops) == {"untrained", "untrained_in_hops"}
    assert ways("erag", "-0", replace(once, hops=1)) == {"erag-0"}


@pytest.mark.slow
def test_the_command_compares_labelers_and_resumes(retriever_settings, tmp_path, capsys, monkeypatch):
    asked = []
    sample = ResponseSampler.sample
    monkeypatch.setattr(
        ResponseSampler, "sample", lambda self, requests: asked.extend(requests) or sample(self, requests)
    )
    words = "--eval_strategy no --max_steps 1 --dev_share 0 --seeds 0 1 --labelers delta_seper erag"
    words += " --new_head 8 --warmup_steps 0"
    settings = [*retriever_settings, *words.split()]  # the tiny reader never answers as the reference does
    folder = tmp_path / "run"
    assert compare_labelers.main([*settings, "--table_only", "true"]) == 0
    table = json.loads((folder / "choices.json").read_text())
    assert set(table["measures"]) == {"untrained", "delta_seper", "erag", "gold"}
    assert table["measures"]["gold"]["recall@1"]["mean"] == 1.0
    assert not (folder / "results.json").exists()
    assert compare_labelers.main(settings) == 0
    first, second = (load_labels(folder / f"delta_seper-{seed}").labeled() for seed in (0, 1))
    assert [row.query for row in first] == [row.query for row in second]
    assert [row.labels for row in first] != [row.labels for row in second]
    results = json.loads((folder / "results.json").read_text())
    assert results["choices"] == table
    assert results["untaught"] == {"erag": [0, 1]}
    assert results["measures"]["erag"] == results["measures"]["untrained"]
    assert all(row["erag"]["value"] == row["untrained"]["value"] for row in results["leads"].values())
    text = (folder / "results.md").read_text()
    assert "Labels by `erag` of seeds [0, 1] differ for no question" in text
    assert "with its 95 % interval over questions and seeds" in text
    assert capsys.readouterr().err.count("its retriever is the untrained one") == 2
    before, after = (
        SentenceTransformer(str(each), device="cpu").state_dict()
        for each in (folder / "start", folder / "delta_seper-0/round-1/model")
    )
    (changed,) = [name for name in before if not torch.equal(before[name], after[name])]  # the new layer alone learns
    assert np.shape(after[changed])[0] == 8
    asked.clear()
    assert compare_labelers.main(settings) == 0
    assert asked == []


@pytest.mark.slow
def test_labels_of_sets_are_compared_with_those_of_single_passages(retriever_settings, tmp_path):
    words = "--eval_strategy no --max_steps 2 --dev_share 0 --seeds 0 --hops 2 --eval_top_k 2"
    words += " --labelers conditional_delta_seper gold --given_top 1"
    assert compare_labelers.main([*retriever_settings, *words.split()]) == 0
    measures = json.loads((tmp_path / "run" / "results.json").read_text())["measures"]
    # gold learns hops, too
    assert set(measures) == {"untrained", "untrained_in_hops", "conditional_delta_seper", "gold"}
    assert {"seper@2", "recall@2"} <= set(measures["conditional_delta_seper"])
