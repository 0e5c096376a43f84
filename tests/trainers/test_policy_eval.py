"""Episodes, rules and summaries of policies: by hand, against slow loops, and with a scripted reader."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from transformers import AutoTokenizer

from seper_reward.reader.loading import embedded_reader_folder
from seper_reward.reader.prompts import STYLES
from seper_reward.reports.tables import lead_text
from seper_reward.reward.environment import search_environment
from seper_reward.reward.reward import SePerReward
from seper_reward.reward.rollouts import Rollout
from seper_reward.reward.turns import Turn
from seper_reward.types import Belief, Estimate, Measured, Passage, Query, Responses, UnscorableError
from tests.helpers import VARIANTS
from trainers.policy_eval import leads_list, policy_table, results_of, summarize, tradeoff
from trainers.policy_play import Bench, Episode, as_often, fixed_rules, measure, read_by_reader
from trainers.policy_task import SearchTool


def episode(name, group, needed, searches, accuracy, seper, reward, tokens=10.0, failed=0):
    return Episode(name, group, needed, ("x",) * searches, "", accuracy, seper, reward, tokens, failed)


EPISODES = [
    episode("1", "fiction", True, 2, 1.0, 0.9, 0.5, 30),
    episode("2", "fiction", True, 0, 0.0, 0.1, 0.0, failed=1),
    episode("3", "known", True, 1, 0.0, 0.2, -0.2),
    episode("4", "known", False, 0, 1.0, 0.8, 0.1),
]


def test_summary_by_hand():
    found = summarize([*EPISODES, None])
    intervals = found.pop("intervals")
    assert found == {
        "search_rate_needed": 0.6667, "search_rate_not_needed": 0.0, "search_rate_fiction": 0.5,
        "search_rate_known": 0.5, "decision_f1": 0.8, "accuracy": 0.5, "seper": 0.5, "reward": 0.1,
        "searches_per_question": 0.75, "failed_calls_per_question": 0.25, "tokens_per_question": 15.0, "unscored": 0.2,
    }  # fmt: skip
    assert intervals.keys() == found.keys() - {"unscored"}
    assert intervals["search_rate_not_needed"] is None  # it never varies
    low, high = intervals["accuracy"]
    assert 0 <= low < 0.5 < high <= 1
    judged = [each._replace(answer_score=score) for each, score in zip(EPISODES, (0.9, 0.2, 0.1, 0.8), strict=True)]
    assert summarize(judged)["answer_score"] == 0.5
    assert "answer_score" not in found
    alone = summarize(EPISODES[:3])
    assert f"| 0.500 [{low:.3f}, {high:.3f}] " in policy_table({"after": {**found, "intervals": intervals}})
    assert "search_rate_not_needed" not in alone  # no such question


def test_episodes_of_a_question_are_resampled_together():
    """Two episodes each of two questions: every mean is of one question or of both."""
    twice = [episode(name, None, True, 0, accuracy, 0, 0) for name in "ab" for accuracy in (0.0, float(name == "a"))]
    assert summarize(twice)["intervals"]["accuracy"] == [0.0, 0.5]
    apart = [each._replace(id=str(at)) for at, each in enumerate(twice)]
    assert summarize(apart)["intervals"]["accuracy"][1] > 0.5


def test_interval_of_the_f1_against_a_slow_loop():
    draws = np.random.default_rng(1)
    episodes = [episode(str(at), None, bool(need), int(hit), 0, 0, 0) for at, (need, hit) in
                enumerate(draws.integers(0, 2, (12, 2)))]  # fmt: skip
    values = []
    for _ in range(4000):
        chosen = [episodes[at] for at in draws.integers(0, 12, 12)]
        both = sum(each.needed and each.searched for each in chosen)
        out_of = sum(each.needed + each.searched for each in chosen)
        values.append(2 * both / out_of if out_of else math.nan)
    low, high = summarize(episodes)["intervals"]["decision_f1"]
    assert (low, high) == pytest.approx(np.nanpercentile(values, (2.5, 97.5)), abs=0.05)


KNOWN, NEEDED = (
    Query("k", "Capital of France?", ("Paris",), metadata={"group": "known"}),
    Query("n", "Miller?", ("Ann",)),
)
LOST = Query("l", "Lost?", ("Ann",))
PASSAGE = Passage("Ann runs it.", id="a")


def belief(seper, responses, weights, entropy):
    value = Estimate(seper, 0.0, seper, seper)
    return Belief(
        value, value, sampled=Responses(responses, ()), weights=weights, entropy=entropy, semantic_entropy=2 - entropy
    )


class ScriptedReader:
    """Knows Paris, unless a passage confuses it; reads who the miller is. Of several of them, the entropy tells."""

    def measure(self, asked):
        return [self._measured(each) for each in asked]

    def _measured(self, asked):
        if asked.question == LOST.question:
            return UnscorableError("question has no room")
        supports = tuple(float(text in asked.answers) for text in asked.texts)
        return Measured(tuple(self._belief(asked.question, context) for context in asked.contexts), supports)

    def _belief(self, question, passages):
        if question == KNOWN.question:
            return (
                belief(0.9, ("Paris", "Lyon"), (0.8, 0.2), 0.3) if not passages else belief(0.6, ("Paris",), (1,), 0)
            )
        return belief(0.7, ("Ann", "Bob"), (0.75, 0.25), 0) if passages else belief(0.1, ("Bob",), (1.0,), 1.5)


@pytest.fixture(scope="module")
def tokenizer():
    return AutoTokenizer.from_pretrained(embedded_reader_folder())


def bench(tokenizer, name="delta"):
    retriever = SimpleNamespace(retrieve=lambda questions, top_k: [(PASSAGE,) for _ in questions])
    make = search_environment(retriever)
    reward, judge = (SePerReward(ScriptedReader(), **VARIANTS[each], price=0.2) for each in (name, "delta"))
    return Bench(reward, judge, lambda: SearchTool(make(), STYLES["brief"]), tokenizer, max_turns=1)


def test_rules_by_hand(tokenizer):
    rules = fixed_rules(bench(tokenizer), [KNOWN, NEEDED, LOST], [KNOWN, NEEDED])
    assert rules.thresholds == {
        "threshold_entropy": pytest.approx(0.9),  # between 0.3 and 1.5: a search pays for the needed one
        "threshold_semantic_entropy": math.inf,  # the wrong way round here: rather never
    }
    chosen = {name: [each and len(each.queries) for each in row] for name, row in rules.played.items()}
    assert chosen == {
        "never_search": [0, 0, None], "always_search": [1, 1, None], "threshold": [0, 1, None],
        "threshold_entropy": [0, 1, None], "threshold_semantic_entropy": [0, 0, None],
    }  # fmt: skip
    known, needed, _ = rules.played["always_search"]
    assert (known.id, known.group, known.needed, known.queries) == ("k", "known", False, (KNOWN.question,))
    assert (known.accuracy, known.seper, known.reward) == (1.0, 0.6, pytest.approx(0.6 - 0.9 - 0.2))
    assert (needed.needed, needed.accuracy, needed.reward) == (True, 0.75, pytest.approx(0.7 - 0.1 - 0.2))
    length = {text: len(tokenizer(text).input_ids) for text in ("Miller?", "Ann runs it.", "Ann", "Bob")}
    assert needed.tokens == length["Miller?"] + length["Ann runs it."] + 0.75 * length["Ann"] + 0.25 * length["Bob"]
    results = results_of({"after": rules.played["threshold"]}, rules, "after")
    assert results["threshold"]["accuracy"] == pytest.approx((0.8 + 0.75) / 2)
    assert results["threshold_entropy"]["threshold"] == 0.9
    assert results["threshold_semantic_entropy"]["threshold"] == "never"
    leads = results["after"]["accuracy_leads"]
    assert leads["threshold"]["lead"] == 0
    assert leads["always_search"]["lead"] == pytest.approx(((0.8 + 0.75) - (1 + 0.75)) / 2)
    assert results["after"]["reward_leads"]["always_search"]["lead"] > 0  # it does not pay for searching the known one
    assert "before" not in leads
    assert (
        f"- accuracy of `after` over `always_search`: {lead_text(leads['always_search'])}"
        in leads_list(results, "after").splitlines()
    )
    trained = results_of({"before": rules.played["never_search"], "after": rules.played["threshold"]}, rules, "after")
    assert trained["after"]["accuracy_leads"]["before"] == leads["never_search"]
    assert results["threshold"]["unscored"] == 0.3333


def test_the_reward_of_a_rule_is_that_of_the_policy(tokenizer):
    """Paid for the answer alone, the mean over the reader's responses of what each would be paid."""
    searches = (Turn("q", (PASSAGE,)),)
    found, clumsy = read_by_reader(bench(tokenizer, "answer"), [(NEEDED, searches, 0), (NEEDED, searches, 1)])
    assert found.reward == pytest.approx(0.75 * 1 + 0.25 * 0 - 0.2)
    assert (found.seper, found.failed) == (0.7, 0)
    assert clumsy.reward == pytest.approx(found.reward - 0.2)  # a failed call costs as much as a search


def test_a_policy_is_measured_by_its_own_answers_and_by_the_readers(tokenizer):
    with_search = (Turn("who?", (PASSAGE,)),)
    plays = [
        Rollout(NEEDED.question, NEEDED.answers, with_search, "Bob"),
        Rollout(NEEDED.question, NEEDED.answers, with_search, "Ann"),
        Rollout(KNOWN.question, KNOWN.answers, (), "Paris"),
        Rollout(LOST.question, LOST.answers, (), "Ann"),
        Rollout(NEEDED.question, NEEDED.answers, (), "Bob"),  # of a process that had a question too many
    ]
    made = bench(tokenizer)

    class Trainer:
        num_generations_eval = 2
        model, model_wrapped = object(), None  # wrapped already

        def evaluate(self):
            rows = [[getattr(play, name) for play in plays] for name in ("question", "answers")]
            environments = [SimpleNamespace(turns=play.turns, search=None) for play in plays]
            found = [[{"role": "tool", "content": "found"}] * len(play.turns) for play in plays]
            said = [{"role": "assistant", "content": play.answer} for play in plays]
            completions = [[*before, answer] for before, answer in zip(found, said, strict=True)]
            made.reward(completions=completions, question=rows[0], answers=rows[1], environments=environments)

    played = measure(Trainer(), made, [KNOWN, NEEDED, LOST], "after")
    assert list(played) == ["after", "after_reader_answers"]
    own = played["after"]
    assert [each and (each.id, each.answer, each.accuracy, len(each.queries)) for each in own] == [
        ("n", "Bob", 0.0, 1), ("n", "Ann", 1.0, 1), ("k", "Paris", 1.0, 0), None,
    ]  # fmt: skip
    assert (own[0].seper, own[0].needed, own[0].reward) == (0.7, True, pytest.approx(0.4))
    read = played["after_reader_answers"]
    assert [each and each.accuracy for each in read] == [0.75, 0.75, 0.8, None]
    assert summarize(own)["unscored"] == 0.25


def test_questions_repeated_by_processes_count_once():
    rows = [(question, at) for at, question in enumerate("xxyyxx")]
    assert as_often(rows, 2) == [("x", 0), ("x", 1), ("y", 2), ("y", 3)]


def test_path_by_hand():
    ends = {name: {"searches_per_question": at, "accuracy": at / 2} for name, at in [("before", 0.4), ("after", 0.6)]}
    rules = dict.fromkeys(("never_search", "always_search", "threshold", "threshold_entropy"), ends["before"])
    log = [{"seper/searches": 0.1 * at, "seper/exact_match": 0.5} for at in range(3)] + [{"loss": 1.0}]
    found_rules, path = tradeoff({**ends, **rules, "after_reader_answers": ends["after"]}, log, block=2)
    assert sum(path, ()) == pytest.approx((0.4, 0.2, 0.05, 0.5, 0.2, 0.5, 0.6, 0.3))
    assert found_rules == dict.fromkeys(rules, (0.4, 0.2))
