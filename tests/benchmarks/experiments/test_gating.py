"""The gate's recipe on tiny models, and its rules by hand."""

import json
import math

import pytest
import torch
from sentence_transformers import CrossEncoder

from seper_reward.types import Belief, Estimate, LabeledQuery, Passage, Query
from tests.benchmarks.experiments import gating
from tests.benchmarks.experiments.gates import (
    Decided,
    Gate,
    answered,
    compare_rules,
    decide,
    gates,
    gating_results,
    over_folds,
    thresholds,
)
from tests.benchmarks.experiments.gating import GatingConfig, of_groups
from tests.benchmarks.experiments.regression import PassageRegression
from trainers.models import load_encoder
from trainers.ranking.data import Questions

A, B = Passage("Ann built it.", id="a"), Passage("Bob built it.", id="b")
QUERIES = [Query(f"q{number}", "Who built the mill?", ("Ann",), (B, A)) for number in range(3)]

UNSURE = Belief(Estimate(0.7, 0.1, 0.5, 0.9), Estimate(0.7, 0.1, 0.5, 0.9), entropy=1.5, semantic_entropy=0.4)


def decided(**scores):
    choices = {"none": [()] * 3, "retrieved": [(B,)] * 3, "reranked": [(A,)] * 3, "measured": [(A,)] * 3}
    return Decided(QUERIES, choices, scores)


def values(none, retrieved, reranked):
    row = {"none": none, "retrieved": retrieved, "reranked": reranked, "measured": reranked}
    return {"seper": row, "exact_match": {name: [each / 2 for each in column] for name, column in row.items()}}


def test_rules_by_hand():
    """The threshold of dev, .25, gives the first two test questions the reranker's passage."""
    gates = {"delta_seper": Gate("reranked", "predicted"), "above_0": Gate("reranked", "predicted", 0.0)}
    dev = decided(predicted=[0.5, 0.0, -0.9])
    limits = thresholds(gates, dev, values([0.2, 0.8, 0.9], [0.0] * 3, [0.7, 0.6, 0.1]))
    assert limits == {"delta_seper": 0.25, "above_0": 0.0}
    test = decided(predicted=[0.3, 0.9, 0.1])
    found = compare_rules(gates, limits, test, values([0.1, 0.2, 0.9], [0.3, 0.0, 0.6], [0.9, 0.8, 0.4]))
    assert found["never"]["seper"] == pytest.approx(0.4)
    assert found["always"]["seper"] == pytest.approx(0.3)
    assert found["always_reranked"]["seper"] == pytest.approx(0.7)
    gate = found["delta_seper"]
    assert gate["by_question"] == [0.9, 0.8, 0.9]
    assert (gate["seper"], gate["exact_match"]) == (pytest.approx(0.8667, abs=1e-4), pytest.approx(0.4333, abs=1e-4))
    assert gate["share_with_passage"] == pytest.approx(0.6667, abs=1e-4)
    # coverage 0, 1/3, 2/3, 1 in the order second, first, third: 1.2, 1.8, 2.6, 2.1 of 3
    assert gate["area"] == pytest.approx((1.2 + 1.8 + 1.8 + 2.6 + 2.6 + 2.1) / 18, abs=1e-4)
    assert gate["curves"]["seper"] == pytest.approx([0.4, 0.6, 0.8667, 0.7], abs=1e-4)
    assert found["above_0"]["by_question"] == [0.9, 0.8, 0.4]
    assert found["never"]["area"] is None


def test_a_gate_that_dev_closes_has_no_number_as_threshold():
    gates = {"delta_seper": Gate("reranked", "predicted")}
    row = values([0.9] * 3, [0.1] * 3, [0.1] * 3)
    test = decided(predicted=[0.1, 0.2, 0.3])
    limits = thresholds(gates, test, row)
    assert limits == {"delta_seper": math.inf}
    found = compare_rules(gates, limits, test, row)["delta_seper"]
    assert (found["threshold"], found["share_with_passage"], found["seper"]) == (None, 0.0, 0.9)


def test_what_is_decided_on():
    without = [UNSURE]
    # the retriever's first is B, the model prefers A, and so do the labels
    labeled = [LabeledQuery(QUERIES[0], (-0.5, 0.2), (0.0, 0.0))]
    found = decide(lambda queries, beliefs: [[-0.6, 0.3] for _ in beliefs], labeled, without)
    assert found.passages == {"none": [()], "retrieved": [(B,)], "reranked": [(A,)], "measured": [(A,)]}
    assert found.scores == {
        "entropy": [1.5], "semantic_entropy": [0.4], "baseline_seper": [-0.7], "predicted_of_retrieved": [-0.6],
        "predicted": [0.3], "measured": [0.2],
    }  # fmt: skip
    # of a harmful retrieved passage alone, the label below 0 is what is measured
    assert decide(lambda queries, _: [[0.1]], [labeled[0].keep([0])], without).scores["measured"] == [-0.5]


def test_questions_that_a_reader_cannot_be_asked_are_left_out_for_all():
    first = values([0.1, 0.2, 0.3], [0.4, 0.5, 0.6], [0.7, 0.8, 0.9])
    other = values([0.1, math.nan, 0.3], [0.4, 0.5, 0.6], [0.7, 0.8, 0.9])
    kept, found = answered(decided(predicted=[1.0, 2.0, 3.0]), {"one": first, "two": other})
    assert kept.scores == {"predicted": [1.0, 3.0]}
    assert [query.id for query in kept.queries] == ["q0", "q2"]
    assert found["one"]["seper"]["retrieved"] == [0.4, 0.6]


def test_readers_that_made_no_labels_have_numbers_of_their_own():
    names = ("entropy", "semantic_entropy", "baseline_seper", "predicted_of_retrieved", "predicted", "measured")
    test = decided(**{name: [0.3, 0.2, 0.1] for name in names})
    limits = dict.fromkeys(gates("delta_seper"), 0.15)
    first, plain = values([0.1, 0.2, 0.9], [0.3, 0.0, 0.6], [0.9, 0.8, 0.4]), values([0.0] * 3, [0.3] * 3, [0.6] * 3)
    found = gating_results("delta_seper", limits, test, {"embedded": first, "plain": plain})
    gate = found["gating"]["delta_seper"]
    assert (gate["seper"], gate["seper_plain"]) == (pytest.approx(0.8667, abs=1e-4), 0.4)
    assert found["leads"]["embedded"]["never"]["lead"] == pytest.approx(1.4 / 3, abs=1e-4)
    assert found["leads"]["plain"]["always"]["lead"] == pytest.approx(0.1)
    assert "delta_seper" not in found["leads"]["plain"]
    assert set(found["curves"]) == set(limits)


def test_folds_by_hand():
    """Two questions of one fold and one of another: means over questions, leads over all three."""

    def fold(gate, always, area, curve):
        row = {"seper": sum(gate) / len(gate), "area": area, "threshold": 0.1}
        none = {"seper": sum(always) / len(always), "area": None, "threshold": None}
        return {
            "gating": {"delta_seper": row, "always": none},
            "by_question": {"embedded": {"delta_seper": gate, "always": always}},
            "curves": {"delta_seper": {"coverage": curve[0], "seper": curve[1], "exact_match": curve[1]}},
            "questions": {"train": 4, "test": len(gate)},
        }

    first = fold([0.9, 0.6], [0.4, 0.5], 0.6, ([0.0, 0.5, 1.0], [0.0, 0.4, 0.6]))
    found = over_folds([first, fold([0.3], [0.6], 0.3, ([0.0, 1.0], [0.6, 0.0]))], "delta_seper")
    assert found["gating"] == {
        "delta_seper": {"seper": pytest.approx(0.6), "area": pytest.approx(0.5)},
        "always": {"seper": pytest.approx(0.5), "area": None},
    }
    assert found["leads"]["embedded"]["always"]["lead"] == pytest.approx((0.5 + 0.1 - 0.3) / 3)
    assert found["questions"] == {"train": 8, "test": 3}
    curve = found["curves"]["delta_seper"]
    assert curve["coverage"] == [0.0, 0.5, 1.0]
    assert curve["seper"] == pytest.approx([0.2, (2 * 0.4 + 0.3) / 3, 0.4], abs=1e-4)


def test_groups():
    def of(*groups):
        return [Query(group, "?", ("a",), (A,), metadata={"group": group}) for group in groups]

    questions = Questions({"a": A}, of("known", "two_hop"), of("fiction"), of("known", "fiction"))
    found = of_groups(questions, ["known", "fiction"])
    assert [[query.id for query in rows] for rows in found[1:]] == [["known"], ["fiction"], ["known", "fiction"]]
    assert of_groups(questions, []) == questions
    with pytest.raises(ValueError, match=r"groups=\['known'\] for dev, got none"):
        of_groups(questions, ["known"])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"labeler": "gold"}, "labeler must be delta_seper, whose labels have a zero, got 'gold'"),
        ({"dev_share": 0.0}, "dev_share must be above 0"),
        ({"folds": 0}, "folds must be at least 1, got 0"),
        ({"hops": 2}, "decides on single passages, got sets=none and hops=2"),
        (
            {"sets": "conditional", "learn_from": "paths"},
            "decides on single passages, got sets=conditional and hops=1",
        ),
    ],
)
def test_settings_that_have_no_zero_or_no_dev(settings, message):
    with pytest.raises(ValueError, match=message):
        GatingConfig(**{"dev_share": 0.1, **settings})


@pytest.mark.slow
@pytest.mark.parametrize("student", ["ridge", "cross_encoder"])
def test_command(student, lane_questions, tmp_path, tiny_reader, tiny_entailment, tiny_encoder, capsys):
    (tmp_path / "held_out").symlink_to(tiny_reader)
    settings = [
        "--input", str(lane_questions), "--model", str(tiny_encoder), "--retriever", str(tiny_encoder),
        "--reader", str(tiny_reader), "--entailment", str(tiny_entailment),
        "--set", "reader.dtype=float32", "--set", "reader.device=cpu", "--prompt", "brief",
        "--num_samples", "3", "--max_new_tokens", "4",
        "--eval_readers", str(tmp_path / "held_out"), "--test_share", "0.3", "--dev_share", "0.2", "--top_k", "2",
        "--bf16", "false", "--num_train_epochs", "1", "--logging_steps", "1", "--student", student,
        "--output_dir", str(tmp_path / "run"),
    ]  # fmt: skip
    assert gating.main(settings) == 0
    folder = tmp_path / "run"
    results = json.loads((folder / "results.json").read_text())
    assert set(results["gating"]) == {"never", "always", "always_reranked", *gates("delta_seper")}
    never, gate = results["gating"]["never"], results["gating"]["delta_seper"]
    assert set(gate) >= {"seper", "exact_match", "share_with_passage", "area", "threshold", "seper_held_out"}
    assert (never["share_with_passage"], results["gating"]["always"]["share_with_passage"]) == (0.0, 1.0)
    assert (folder / "results.svg").is_file()
    page = (folder / "results.md").read_text()
    assert page in capsys.readouterr().out
    assert "- over `never`" in page
    if student == "ridge":
        encoder = load_encoder(str(tiny_encoder))
        loaded = PassageRegression.load(folder / "model" / gating.REGRESSION, encoder)
        assert loaded(QUERIES[:1], [UNSURE])[0] != [0.0, 0.0]
    else:
        assert isinstance(CrossEncoder(str(folder / "model"), device="cpu").activation_fn, torch.nn.Identity)

    labels = (folder / "labels.jsonl").read_bytes()
    assert gating.main(settings) == 0  # again: from labels, cache and checkpoint
    assert (folder / "labels.jsonl").read_bytes() == labels
    again = json.loads((folder / "results.json").read_text())
    assert again["gating"] == results["gating"]
    if student == "ridge":
        folds = [*settings, "--folds", "2", "--dev_share", "0.25", "--output_dir", str(tmp_path / "folds")]
        assert gating.main(folds) == 0
        parts = [json.loads((tmp_path / "folds" / f"fold-{fold}" / "results.json").read_text()) for fold in range(2)]
        pooled = json.loads((tmp_path / "folds" / "results.json").read_text())
        assert pooled["questions"]["test"] == sum(part["questions"]["test"] for part in parts) == 24
        assert (tmp_path / "folds" / "results.svg").is_file()
    with pytest.raises(ValueError, match="judging_seed must differ from seed"):
        gating.main([*settings, "--judging_seed", "42"])
