"""Labelers compared on tiny models: seeds, labels that teach nothing, sets, hops, and the numbers of a comparison."""

import json
from dataclasses import replace

import pytest
from scipy.stats import ttest_1samp
from sentence_transformers import SentenceTransformer

from seper_reward.labels.rows import read_labels
from seper_reward.types import Passage, Query
from tests.benchmarks.experiments import compare_labelers
from tests.benchmarks.experiments.compare_labelers import CompareConfig, aggregate, leads, rank_for_test
from tests.benchmarks.experiments.only_head import HeadConfig
from trainers.ranking.data import Questions


@pytest.fixture
def settings(retriever_settings):
    return retriever_settings


def test_means_and_leads_by_hand():
    before, after = (
        [
            {"id": at, "question": "Who?", "passages": [], "seper": value, "exact_match": value}
            for at, value in enumerate(values)
        ]
        for values in ((0.1, 0.5, 0.9, 0.5, 0.3), (0.9, 0.52, 0.1, 0.6, None))
    )
    found = aggregate({"untrained": {"mrr": 0.5}, "gold-0": {"mrr": 0.6}, "gold-1": {"mrr": 0.8}})
    assert found["gold"]["mrr"] == {"mean": 0.7, "sd": 0.1414}
    assert found["untrained"]["mrr"] == {"mean": 0.5, "sd": 0.0}
    lead = leads({"untrained": before, "gold-0": after, "gold-1": before}, "gold")["untrained"]
    assert lead["lead"] == pytest.approx((0.8 + 0.02 - 0.8 + 0.1) / 2 / 4, abs=1e-4)
    assert lead["interval"][0] < 0 < lead["interval"][1]
    one_seed = leads({"untrained": before, "gold-0": after}, "gold")["untrained"]["interval"]
    assert one_seed == pytest.approx(ttest_1samp([0.8, 0.02, -0.8, 0.1], 0).confidence_interval(), abs=1e-4)


@pytest.mark.slow
def test_each_seed_of_a_comparison_draws_labels_of_its_own(settings, tmp_path):
    settings = [*settings, "--eval_gains", "false", "--eval_strategy", "no", "--max_steps", "1", "--dev_share", "0"]
    settings += ["--labelers", "delta_seper", "--seeds", "0", "1"]
    assert compare_labelers.main(settings) == 0
    folder = tmp_path / "run"
    first, second = (read_labels(folder / f"delta_seper-{seed}") for seed in (0, 1))
    assert [row.query for row in first] == [row.query for row in second]
    assert [row.labels for row in first] != [row.labels for row in second]
    for others in json.loads((folder / "results.json").read_text())["comparison"].values():
        assert set(others["untrained"]) == {"lead", "interval"}
    results = json.loads((folder / "results.json").read_text())
    assert set(results) == {"untrained", "delta_seper", "comparison", "primary", "tuned", "untaught", "label_table"}
    assert results["primary"] == "seper@1_held_out"
    assert results["label_table"] == {
        key: value for key, value in json.loads((folder / "label_table.json").read_text()).items() if key != "primary"
    }
    text = (folder / "results.md").read_text()
    assert "with its 95 % interval over questions and seeds" in text
    assert text.index("Primary measure (`seper@1_held_out`)") < text.index("SePer@1 of `" + settings[5] + "`")
    assert (folder / "label_table.md").read_text() in text


@pytest.mark.slow
def test_labels_that_teach_nothing_leave_the_retriever_untrained(settings, tmp_path, capsys):
    settings = [*settings, "--eval_gains", "false", "--eval_strategy", "no", "--max_steps", "1", "--dev_share", "0.2"]
    settings += ["--seeds", "0", "1", "--tune", "learning_rate=1e-4,1e-3"]
    settings += ["--labelers", "delta_seper", "erag"]  # the tiny reader never answers as the reference does
    assert compare_labelers.main(settings) == 0
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert results["untaught"] == {"erag": [0, 1]}
    assert results["erag"] == results["untrained"]
    assert all(row["erag"]["lead"] == row["untrained"]["lead"] for row in results["comparison"].values())
    assert "Labels by `erag` of seeds 0, 1 differ for no question" in (tmp_path / "run" / "results.md").read_text()
    assert capsys.readouterr().err.count("its retriever is the untrained one") == 2  # once a seed
    assert compare_labelers.main(settings) == 0  # and resumes


def test_a_label_of_delta_seper_is_compared_by_its_name():
    config = CompareConfig(labelers=["delta_belief", "conditional_delta_seper", "likelihood"], seeds=["0"])
    own = [config.of(name) for name in config.labelers]
    assert [(each.labeler, each.label, each.sets) for each in own] == [
        ("delta_seper", "delta_belief", "none"),
        ("delta_seper", "delta_seper", "conditional:given_top=3"),
        ("likelihood", None, "none"),
    ]


@pytest.mark.slow
def test_labels_of_sets_are_compared_with_those_of_single_passages(settings, tmp_path):
    settings = [*settings, "--eval_gains", "false", "--eval_strategy", "no", "--max_steps", "2", "--dev_share", "0.2"]
    settings += ["--labelers", "conditional_delta_seper", "gold", "--seeds", "0", "--hops", "2", "--eval_top_k", "2"]
    settings += ["--given_top", "1", "--min_spread", "0", "--heterogeneity", "1"]
    settings += ["--tune", "learning_rate=1e-5,1e-3"]
    assert compare_labelers.main(settings) == 0
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    runs = {"untrained", "untrained_in_hops", "conditional_delta_seper", "gold"}  # gold learns hops, too
    assert set(results) == {*runs, "comparison", "primary", "tuned", "untaught", "label_table"}
    assert {"seper@2", "recall@2"} <= set(results["conditional_delta_seper"])
    assert {"conditional_delta_seper", "gold", "untrained"} == set(results["label_table"]["test"]["measures"])
    trials = {"learning_rate=1e-05", "learning_rate=0.001"}
    assert set(results["tuned"]) == {"conditional_delta_seper", "gold"}
    assert all(set(scores) == trials for scores in results["tuned"].values())
    # all trials learn from one file of labels, and the best of them is the run of the first seed
    (labels,) = (tmp_path / "run" / "conditional_delta_seper-tuning").rglob("labels*.jsonl")
    rows = labels.read_text().splitlines()
    assert not (tmp_path / "run" / "conditional_delta_seper-0").exists()
    assert all(json.loads(row)["sets"] for row in rows)


def test_who_learned_hops_retrieves_in_hops_and_others_do_both(tiny_encoder):
    model = SentenceTransformer(str(tiny_encoder), device="cpu")
    passage = Passage("Ann.", id="a")
    query = Query("q", "Who?", ("Ann",), (passage,))
    questions = Questions({"a": passage}, [query], [], [query])
    once = HeadConfig(hops=2)
    hops = replace(once, sets="conditional", learn_from="paths")

    def ways(*options):
        return set(rank_for_test(model, *options, questions))

    assert ways("erag", "-0", once) == {"erag-0", "erag_in_hops-0"}
    assert ways("model", "-0", hops) == {"model-0"}  # a reranker's folder goes by its last part
    assert ways("untrained", "", hops) == {"untrained", "untrained_in_hops"}
    assert ways("erag", "-0", replace(once, hops=1)) == {"erag-0"}
