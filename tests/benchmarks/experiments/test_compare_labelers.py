"""Labels compared by the retrievers that they train: what labels choose and the leads by hand, then the command."""

import json
from dataclasses import replace

import pytest
from scipy.stats import ttest_1samp
from sentence_transformers import SentenceTransformer

from seper_reward import load_labels
from seper_reward.labels.labelers import PassageLabeler
from seper_reward.reader.in_process.response_sampler import ResponseSampler
from seper_reward.types import Belief, Estimate, LabeledQuery, Passage, Query, Responses, SetLabel, UnscorableError
from tests.benchmarks.experiments import compare_labelers
from tests.benchmarks.experiments.compare_labelers import CompareConfig, aggregate, leads, rank_for_test
from tests.benchmarks.experiments.label_table import as_ranked, choose, chosen, label_table, table_lines
from tests.benchmarks.experiments.only_head import HeadConfig
from tests.helpers import OneByOne
from trainers.ranking.data import Questions
from trainers.ranking.evaluation import RankingReaders

QUESTIONS = [
    Query(
        name,
        f"Who is {name}?",
        ("Ann",),
        tuple(Passage(f"{name} {at}", id=f"{name}{at}", metadata={"relevant": at in marked}) for at in range(3)),
    )
    for name, marked in {"q": {0, 2}, "r": {1}, "s": set(), "bad": {0}}.items()
]
# the labels of each labeler for the three passages of a question
LABELS = {
    "first": {"q": (0.1, 0.2, 0.9), "r": (0.0, 0.5, 0.5), "s": (0.3, 0.2, 0.1)},
    "other": {"q": (0.9, 0.2, 0.1), "r": (0.0, 0.5, 0.6), "s": (0.3, 0.2, 0.1)},
}


class Says(PassageLabeler):
    """A labeler with given labels."""

    def __init__(self, name):
        self.name, self.labels = name, LABELS[name]

    def label(self, query):
        if query.id not in self.labels:
            raise UnscorableError("too long")
        labels = tuple(self.labels[query.id][int(passage.id[-1])] for passage in query.passages)
        return LabeledQuery(query, labels, (0.0,) * len(labels))


class Reads(OneByOne):
    """A reader with a given belief for each passage; it answers right above .5."""

    def __init__(self, worth):
        self.worth = worth

    def beliefs(self, question, answers, passage_sets):
        (passages,) = passage_sets
        value = self.worth["".join(passage.id for passage in passages)]
        if value is None:
            raise UnscorableError("too long")
        soft = Estimate(value, 0.0, value, value)
        said = Responses(("Ann" if value > 0.5 else "Bob",), ())
        return [Belief(soft, soft, sampled=said, counts=(1,), weights=(1.0,))]


def labelers():
    return {name: Says(name) for name in LABELS}


def test_the_choice_of_each_labeler():
    found = choose(QUESTIONS, labelers(), 1)
    assert [query.id for query in found.queries] == ["q", "r", "s"]  # the last one has no labels
    ids = {name: ["".join(each.id for each in row) for row in rows] for name, rows in found.passages.items()}
    assert ids == {"untrained": ["q0", "r0", "s0"], "first": ["q2", "r1", "s0"], "other": ["q0", "r2", "s0"]}


def test_the_label_table_by_hand():
    worth = {"q0": 0.2, "q2": 0.9, "r0": 0.1, "r1": 0.4, "r2": 0.6, "s0": 0.3}
    judges = RankingReaders({"one": Reads(worth), "a/two": Reads({**worth, "s0": None})}, 1)
    table = label_table(QUESTIONS, QUESTIONS, labelers(), judges)
    assert table["questions"] == 3
    means = {
        name: {measure: row["value"] for measure, row in measures.items()}
        for name, measures in table["measures"].items()
    }
    assert means["untrained"] == {
        "seper@1": 0.2, "exact_match@1": 0.0, "seper@1_two": 0.15, "exact_match@1_two": 0.0, "recall@1": 0.25,
    }  # fmt: skip
    assert means["first"] == {
        "seper@1": 0.5333, "exact_match@1": 0.3333, "seper@1_two": 0.65, "exact_match@1_two": 0.5, "recall@1": 0.75,
    }  # fmt: skip
    assert set(table["leads"]) == {"untrained", "other"}
    lead = table["leads"]["other"]["seper@1"]
    assert lead["value"] == pytest.approx((0.7 - 0.2 + 0.0) / 3, abs=1e-4)
    assert lead["interval"] == [-0.2, 0.7]
    header, _, *rows = table_lines(table)
    assert [row.split("|")[1].strip() for row in (header, *rows)] == ["chosen by", "untrained", "first", "other"]
    assert "0.533 [0.300, 0.900]" in rows[1]


def of_set(shown, utility, gain=0.0):
    gain, utility, interaction = (Estimate(value, 0.1, value - 0.2, value + 0.2) for value in (gain, utility, 0.0))
    return SetLabel(shown, shown[-1], gain, utility, interaction)


def test_the_best_passages_or_the_best_measured_set_are_chosen():
    passages = tuple(Passage(f"text {at}", id=str(at)) for at in range(5))
    row = LabeledQuery(Query("q", "Who?", ("Ann",), passages), (0.2, 0.7, -0.1, 0.7, 0.2), (0.0,) * 5)
    assert [chosen(row, k) for k in (1, 2, 3, 9)] == [[1], [1, 3], [1, 3, 0], [1, 3, 0, 4, 2]]
    sets = (of_set((0, 1), 0.3, gain=0.9), of_set((3, 2), 0.8, gain=0.1), of_set((2, 3), 0.8), of_set((3, 0, 1), 0.9))
    assert [chosen(replace(row, sets=sets), k) for k in (1, 2, 3)] == [[1], [3, 2], [3, 0, 1]]
    # without a set of two, a passage counts with its largest gain in any set
    longer = (of_set((1, 2, 0), 0.9, gain=0.2), of_set((0, 1, 2), 0.9, gain=0.75))
    assert chosen(replace(row, sets=longer), 2) == [2, 1]


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
    assert lead["value"] == pytest.approx((0.8 + 0.02 - 0.8 + 0.1) / 2 / 4, abs=1e-4)
    assert lead["interval"][0] < 0 < lead["interval"][1]
    one_seed = leads({"untrained": before, "gold-0": after}, "gold")["untrained"]["interval"]
    assert one_seed == pytest.approx(ttest_1samp([0.8, 0.02, -0.8, 0.1], 0).confidence_interval(), abs=1e-4)


def test_settings_of_each_labeler():
    names = ["delta_belief", "conditional_delta_seper", "likelihood", "conditional_likelihood", "gold"]
    config = CompareConfig(labelers=names, seeds=["0"], teacher_temperature=0.3)
    own = [config.of(name) for name in names]
    assert [(each.labeler, each.label, each.sets, each.learn_from, each.teacher_temperature) for each in own] == [
        ("delta_seper", "delta_belief", "none", "singles", 0.3),
        ("delta_seper", "delta_seper", "conditional:given_top=3", "paths", 0.3),
        ("likelihood", None, "none", "singles", 1.0),
        ("likelihood", None, "conditional:given_top=3", "paths", 1.0),
        ("gold", None, "none", "singles", 0.3),
    ]
    assert replace(config, hops=2).of("gold").learn_from == "paths"


def test_settings_that_cannot_be_compared():
    with pytest.raises(ValueError, match="labelers says what is compared"):
        CompareConfig(labeler="erag")
    with pytest.raises(ValueError, match="judge_seed must be none of seeds, got 1"):
        CompareConfig(judge_seed=1)
    with pytest.raises(ValueError, match="expected each seed once, without leading zeros"):
        CompareConfig(seeds=["0", "00"])


def test_retrievers_that_learned_hops_retrieve_in_hops_and_others_do_both(tiny_encoder, tmp_path):
    model = SentenceTransformer(str(tiny_encoder), device="cpu")
    passage = Passage("Ann.", id="a")
    query = Query("q", "Who?", ("Ann",), (passage,))
    questions = Questions({"a": passage}, [query], [], [query])
    once = HeadConfig(hops=2)
    hops = replace(once, sets="conditional", learn_from="paths")

    def ways(*options):
        return set(rank_for_test(model, *options, questions, tmp_path))

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
    settings = [*retriever_settings, *words.split()]  # the tiny reader never answers as the reference does
    folder = tmp_path / "run"
    assert compare_labelers.main([*settings, "--table_only", "true"]) == 0
    table = json.loads((folder / "label_table.json").read_text())
    assert set(table["measures"]) == {"untrained", "delta_seper", "erag", "gold"}
    assert table["measures"]["gold"]["recall@1"]["value"] == 1.0
    assert not (folder / "results.json").exists()
    assert compare_labelers.main(settings) == 0
    first, second = (load_labels(folder / f"delta_seper-{seed}").labeled() for seed in (0, 1))
    assert [row.query for row in first] == [row.query for row in second]
    assert [row.labels for row in first] != [row.labels for row in second]
    results = json.loads((folder / "results.json").read_text())
    assert results["primary"] == table.pop("primary") == "seper@1_held_out"
    assert results["label_table"] == table
    assert results["untaught"] == {"erag": [0, 1]}
    assert results["erag"] == results["untrained"]
    assert all(row["erag"]["value"] == row["untrained"]["value"] for row in results["comparison"].values())
    text = (folder / "results.md").read_text()
    assert "Labels by `erag` of seeds 0, 1 differ for no question" in text
    assert "with its 95 % interval over questions and seeds" in text
    assert (folder / "label_table.md").read_text() in text
    assert capsys.readouterr().err.count("its retriever is the untrained one") == 2
    asked.clear()
    assert compare_labelers.main(settings) == 0
    assert asked == []


@pytest.mark.slow
def test_labels_of_sets_are_compared_with_those_of_single_passages(retriever_settings, tmp_path):
    words = "--eval_strategy no --max_steps 2 --dev_share 0 --seeds 0 --hops 2 --eval_top_k 2"
    words += " --labelers conditional_delta_seper gold --given_top 1"
    assert compare_labelers.main([*retriever_settings, *words.split()]) == 0
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    runs = {"untrained", "untrained_in_hops", "conditional_delta_seper", "gold"}  # gold learns hops, too
    assert set(results) == {*runs, "comparison", "primary", "untaught", "label_table"}
    assert {"seper@2", "recall@2"} <= set(results["conditional_delta_seper"])
