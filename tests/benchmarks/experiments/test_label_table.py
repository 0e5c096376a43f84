"""What labels choose and what it is worth: by hand with stubs, then the command on tiny models."""

import json
from dataclasses import replace

import pytest
from sentence_transformers import SentenceTransformer

from seper_reward.labels.labelers import DeltaSePerLabeler, PassageLabeler
from seper_reward.scorer import SePerScorer
from seper_reward.types import Belief, Estimate, LabeledQuery, Passage, Query, Responses, SetLabel, UnscorableError
from tests.benchmarks.experiments import compare_labelers
from tests.benchmarks.experiments.compare_labelers import CompareConfig
from tests.benchmarks.experiments.label_table import (
    as_ranked,
    ceiling_lines,
    choose,
    chosen,
    label_table,
    measure_choices,
    questions_needed,
    seed_lines,
    table_lines,
)
from tests.benchmarks.experiments.questions import as_known
from tests.benchmarks.experiments.sample_sizes import questions_for_lead
from tests.helpers import OneByOne
from trainers.ranking.evaluation import RankingReaders
from trainers.ranking.label_store import LabelStore

QUESTIONS = [
    Query(
        name,
        f"Who is {name}?",
        ("Ann",),
        tuple(Passage(f"{name} {at}", id=f"{name}{at}", metadata={"relevant": at in marked}) for at in range(3)),
    )
    for name, marked in {"q": {0, 2}, "r": {1}, "s": set(), "bad": {0}}.items()
]
# what each labeler says of the three passages of a question
LABELS = {
    "first": {"q": (0.1, 0.2, 0.9), "r": (0.0, 0.5, 0.5), "s": (0.3, 0.2, 0.1)},
    "other": {"q": (0.9, 0.2, 0.1), "r": (0.0, 0.5, 0.6), "s": (0.3, 0.2, 0.1)},
}


class Says(PassageLabeler):
    """A labeler that knows its labels, and of some questions those of sets."""

    def __init__(self, name, sets=None):
        self.name, self.labels, self.sets = name, LABELS[name], sets or {}

    def label(self, query):
        if query.id not in self.labels:
            raise UnscorableError("too long")
        labels = tuple(self.labels[query.id][int(passage.id[-1])] for passage in query.passages)
        return LabeledQuery(query, labels, (0.0,) * len(labels))


class Keeps:
    """A store that hands over what its labeler says."""

    def __init__(self, labeler):
        self.labeler = labeler

    def label(self, queries):
        found = self.labeler.label_batch(queries)
        known = [row for row in found if isinstance(row, LabeledQuery)]
        return [replace(row, sets=self.labeler.sets.get(row.query.id, ())) for row in known]


class Reads(OneByOne):
    """A reader whose belief is read off the passages that it sees; it answers right above .5."""

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


def stores(tmp_path):
    return {name: LabelStore(tmp_path / f"{name}.jsonl", Says(name)) for name in LABELS}


def test_what_labelers_choose(tmp_path):
    found = choose(QUESTIONS, stores(tmp_path), 1)
    assert [query.id for query in found.queries] == ["q", "r", "s"]  # nobody could label the last
    ids = {name: ["".join(each.id for each in row) for row in rows] for name, rows in found.passages.items()}
    assert ids == {"untrained": ["q0", "r0", "s0"], "first": ["q2", "r1", "s0"], "other": ["q0", "r2", "s0"]}


def test_a_labeler_of_sets_chooses_the_set_that_helps_most():
    value = Estimate(0.4, 0.0, 0.4, 0.4)
    sets = tuple(SetLabel(shown, shown[1], value, replace(value, value=utility), value)
                 for shown, utility in (((2, 1), 0.5), ((1, 0), 0.8)))  # fmt: skip
    found = choose(QUESTIONS[:2], {"first": Keeps(Says("first", {"q": sets}))}, 2)
    assert [[each.id for each in row] for row in found.passages["first"]] == [["q1", "q0"], ["r1", "r2"]]


def test_the_table_by_hand(tmp_path):
    worth = {"q0": 0.2, "q2": 0.9, "r0": 0.1, "r1": 0.4, "r2": 0.6, "s0": 0.3}
    judges = RankingReaders({"one": Reads(worth), "a/two": Reads({**worth, "s0": None})}, None, 1)
    table = label_table(QUESTIONS, QUESTIONS, stores(tmp_path), judges)
    assert table["questions"] == 3
    means = {
        name: {measure: row["mean"] for measure, row in measures.items()}
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
    assert lead["lead"] == pytest.approx((0.7 - 0.2 + 0.0) / 3, abs=1e-4)
    assert lead["interval"] == [-0.2, 0.7]
    assert lead["sd"] == pytest.approx(0.4726, abs=1e-4)
    assert questions_needed(table, "seper@1", 0.1)["other"] == questions_for_lead(0.4726, 0.1)
    header, _, *rows = table_lines(table)
    assert header.split("|")[1].strip() == "chosen by"
    assert [row.split("|")[1].strip() for row in rows] == ["untrained", "first", "other"]
    assert "0.533 [0.300, 0.900]" in rows[1]


def test_labels_know_less_than_judges(tmp_path):
    """Where one alias is known, labels choose by it alone, and readers judge the choice by all."""
    heard: dict[str, set] = {"labels": set(), "judges": set()}

    class Tells(Says):
        def label(self, query):
            heard["labels"].add(query.answers)
            return super().label(query)

    class Hears(Reads):
        def beliefs(self, question, answers, passage_sets):
            heard["judges"].add(answers)
            return super().beliefs(question, answers, passage_sets)

    full = [replace(query, answers=("Ann", "Mrs Lee")) for query in QUESTIONS]
    store = LabelStore(tmp_path / "labels.jsonl", Tells("first"))
    known = as_known(full, CompareConfig(known_aliases="last"))
    judges = RankingReaders({"one": Hears(dict.fromkeys(("q0", "q2", "r0", "r1", "s0"), 0.5))}, None, 1)
    label_table(full, known, {"first": store}, judges)
    assert heard == {"labels": {("Mrs Lee",)}, "judges": {("Ann", "Mrs Lee")}}
    assert as_known(full, CompareConfig()) == full


def test_recall_counts_marked_passages_that_are_no_candidates(tmp_path):
    pools = [replace(QUESTIONS[0], passages=QUESTIONS[0].passages[1:])]
    judges = RankingReaders({"one": Reads({"q1": 0.5, "q2": 0.5, "q2q1": 0.5, "q1q2": 0.5})}, None, 2)
    choices = choose(pools, stores(tmp_path), 2)
    found = measure_choices(choices, {"q": {"q0": 1, "q1": 0, "q2": 1}}, judges)
    assert found["first"]["recall@2"] == [0.5]
    assert measure_choices(choices, {"q": {"q0": 0}}, judges)["first"]["recall@2"] == [None]


def test_it_says_what_training_can_not_be_expected_to_tell():
    row = {"lead": 0.2, "interval": [0.1, 0.3], "sd": 0.3}
    leads = {
        "untrained": {"seper@1": {"lead": 0.01, "interval": [-0.02, 0.04], "sd": 0.1}},
        "erag": {"seper@1": row},
        "likelihood": {"seper@1": {"lead": -0.02, "interval": [-0.03, -0.01], "sd": 0.05}},
        "gold": {"seper@1": {"lead": 0.0, "interval": None, "sd": 0.0}},
        "none": {"seper@1": {"lead": None, "interval": None, "sd": None}},
    }
    untrained, erag, likelihood, gold, none, _, plan = ceiling_lines(
        {"questions": 82, "leads": leads}, "delta_seper", "seper@1", 0.03
    )
    assert "no difference seen: +0.010 [-0.020, 0.040]. Less than 0.03: there is hardly room above" in untrained
    needed = questions_for_lead(0.3, 0.03)
    assert erag == (
        f"- over `erag`: +0.200 [0.100, 0.300]. To see a lead of 0.03 needs {needed} test questions (sd 0.300)."
    )
    assert plan.endswith(f"to see a lead of 0.03 needs {needed} test questions; this comparison has 82.")
    alike = ceiling_lines({"questions": 82, "leads": {"gold": leads["gold"]}}, "delta_seper", "seper@1", 0.03)
    assert alike == [gold]
    assert "training cannot be expected to separate `delta_seper` and `likelihood` here" in likelihood
    assert gold.endswith("The choices never differed, so that nothing tells how many questions a lead needs.")
    assert none == "- over `none`: no question could be scored"
    (seeds,) = seed_lines(2, 0.02, 0.03)
    assert "2 seeds show no lead below 0.086 however many questions there are; a lead of 0.03 needs 5." in seeds
    assert (
        "with one seed, chance in training is in no interval; a lead of 0.03 needs 5 seeds"
        in seed_lines(1, 0.02, 0.03)[0]
    )


def test_equal_labels_choose_what_the_retriever_ranks_first(tiny_encoder):
    encoder = SentenceTransformer(str(tiny_encoder), device="cpu")
    marked = Passage("Sheep graze on the hill.", id="m", metadata={"relevant": True})
    others = [Passage(f"House {at} was blue, and Ann saw it.", id=str(at)) for at in range(3)]
    queries = [
        Query("q", "Who saw the house?", ("Ann",), (marked, *others)),
        Query("r", "Who?", ("Ann",), (others[1],)),
    ]
    ordered = as_ranked(encoder, queries)
    scores = encoder.encode_document([passage.full_text for passage in queries[0].passages])
    near = encoder.similarity(encoder.encode_query(["Who saw the house?"]), scores)[0]
    by_hand = [queries[0].passages[at].id for at in near.argsort(descending=True)]
    assert by_hand != ["m", "0", "1", "2"]
    assert [passage.id for passage in ordered[0].passages] == by_hand
    assert [passage.id for passage in ordered[1].passages] == ["1"]
    assert next(each for each in ordered[0].passages if each.id == "m").metadata == {"relevant": True}


@pytest.fixture
def settings(retriever_settings):
    """Arguments of the command, as a list."""
    words = "--dev_share 0 --eval_gains false --labelers delta_seper --seeds 3 4 --table_only true --table_train 5"
    return [*retriever_settings, *words.split()]


@pytest.mark.slow
def test_the_table_alone_trains_nothing_and_resumes(settings, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(compare_labelers, "HeadRun", None)
    asked, seeds = [], {"label": set(), "judge": set()}
    label, measure = DeltaSePerLabeler.label_batch, SePerScorer.measure

    def labels(self, queries):
        asked.extend(query.id for query in queries)
        seeds["label"].add(self.scorer.sampler.options.seed)
        return label(self, queries)

    def judges(self, questions, batch_size=None):
        if any(each.contexts != ((),) and len(each.contexts) == 1 for each in questions):
            seeds["judge"].add((self.sampler.name, self.sampler.options.seed))
        return measure(self, questions, batch_size)

    monkeypatch.setattr(DeltaSePerLabeler, "label_batch", labels)
    monkeypatch.setattr(SePerScorer, "measure", judges)
    assert compare_labelers.main(settings) == 0
    folder = tmp_path / "run"
    found = json.loads((folder / "label_table.json").read_text())
    assert set(found["test"]["measures"]) == {"untrained", "delta_seper", "gold"}  # people's marks without being asked
    assert found["train"]["questions"] == 5
    assert found["power"]["questions"] == found["test"]["questions"]
    assert found["power"]["needed"].keys() == {"untrained", "gold"}
    assert found["test"]["measures"]["gold"]["recall@1"]["mean"] == 1.0
    shown = capsys.readouterr().out
    assert (folder / "label_table.md").read_text() in shown
    assert "Primary measure, fixed beforehand: `seper@1_held_out`" in shown
    assert not (folder / "results.json").exists()
    assert len(asked) == len(set(asked)) == 5 + found["test"]["questions"]
    # labels by the first of the seeds, judged by another
    assert seeds["label"] == {3}
    assert {seed for _, seed in seeds["judge"]} == {777}
    asked.clear()
    assert compare_labelers.main(settings) == 0
    assert asked == []
    assert json.loads((folder / "label_table.json").read_text()) == found


def test_labels_of_sets_have_the_scale_of_their_labeler():
    config = CompareConfig(teacher_temperatures=["likelihood=1.0", "conditional_erag=0.5"], teacher_temperature=0.3)
    names = ("likelihood", "conditional_likelihood", "conditional_erag", "erag")
    assert [config.of(name).teacher_temperature for name in names] == [1.0, 1.0, 0.5, 0.3]


def test_what_a_retriever_learns_from_labels_of_sets():
    names = ("conditional_erag", "erag", "gold")
    two_hops = CompareConfig(hops=2)
    assert [two_hops.of(name).learn_from for name in names] == ["paths", "singles", "paths"]
    once = CompareConfig()  # marks of single passages need no hops; labels of sets teach nothing else
    assert [once.of(name).learn_from for name in names] == ["paths", "singles", "singles"]
    assert [once.of(name).sets for name in names] == ["conditional", "none", "none"]


@pytest.mark.parametrize("own", [{"labeler": "erag"}, {"sets": "conditional", "learn_from": "paths"}])
def test_what_labelers_decide_is_no_setting_of_its_own(own):
    with pytest.raises(ValueError, match="labelers says what is compared"):
        CompareConfig(**own)


def test_what_labels_were_measured_on_does_not_judge_them():
    with pytest.raises(ValueError, match="judge_seed must be none of seeds, got 1"):
        CompareConfig(judge_seed=1)
    for seeds in (["0", "00"], ["1", "1"]):
        with pytest.raises(ValueError, match="expected each seed once, without leading zeros"):
            CompareConfig(seeds=seeds)
    with pytest.raises(ValueError, match=r"expected lead in \(0, 1\]"):
        CompareConfig(lead=0.0)
    with pytest.raises(ValueError, match=r"expected .* seed_sd > 0"):
        CompareConfig(seed_sd=0.0)
    with pytest.raises(ValueError, match="grid must have 1 to 4 settings, got 5"):
        CompareConfig(tune=["learning_rate=1,2,3,4,5"])
    with pytest.raises(ValueError, match=r"names of settings or training arguments in the grid, got \['lr'\]"):
        CompareConfig(tune=["lr=1e-5"])
    assert CompareConfig(eval_readers=["plain", "other"]).primary_reader == "plain"
    assert CompareConfig(eval_readers=["none"]).primary_reader == "embedded"


def judged(labels):
    passages = tuple(Passage(f"text {at}", id=str(at)) for at, _ in enumerate(labels))
    return LabeledQuery(Query("q", "Who?", ("Ann",), passages), tuple(labels), (0.0,) * len(labels))


def of_set(shown, utility, gain=0.0):
    gain, utility, interaction = (Estimate(value, 0.1, value - 0.2, value + 0.2) for value in (gain, utility, 0.0))
    return SetLabel(shown, shown[-1], gain, utility, interaction)


def test_the_best_labels_are_chosen_and_equal_ones_in_the_order_of_the_query():
    row = judged([0.2, 0.7, -0.1, 0.7, 0.2])
    assert [chosen(row, k) for k in (1, 2, 3, 9)] == [[1], [1, 3], [1, 3, 0], [1, 3, 0, 4, 2]]
    assert chosen(judged([]), 2) == []
    with pytest.raises(ValueError, match="k must be at least 1, got 0"):
        chosen(row, 0)


def test_the_best_measured_set_is_chosen_as_it_was_shown():
    sets = (of_set((0, 1), 0.3, gain=0.9), of_set((3, 2), 0.8, gain=0.1), of_set((2, 3), 0.8), of_set((3, 0, 1), 0.9))
    row = replace(judged([0.9, 0.7, -0.1, 0.0]), sets=sets)
    assert [chosen(row, k) for k in (1, 2, 3, 4)] == [[0], [3, 2], [3, 0, 1], [0, 1, 2, 3]]
    assert chosen(row.keep([2, 0, 3]), 2) == [2, 0]  # places move with the passages


def test_without_a_set_of_so_many_the_passages_that_add_most_somewhere_are_chosen():
    all_three = (of_set((1, 2, 0), 0.9, gain=0.2), of_set((0, 2, 1), 0.9, gain=0.0), of_set((0, 1, 2), 0.9, gain=0.6))
    row = replace(judged([0.1, 0.3, -0.1]), sets=all_three)
    assert [chosen(row, k) for k in (1, 2)] == [[1], [2, 1]]
