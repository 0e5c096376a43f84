"""Ranks share the work of a reward: cut by cost, measured once, the same rewards, and nobody waits for who failed."""

import asyncio

import pytest
import torch
from transformers import TrainerState

from seper_reward.reward.beliefs import BeliefMemory, size_in_bytes
from seper_reward.reward.reward import AsyncSePerReward, SePerReward
from seper_reward.reward.rollouts import Rollout
from seper_reward.reward.shared import cut
from seper_reward.reward.turns import Turn
from seper_reward.runtime import distributed
from seper_reward.scorer import SePerScorer
from seper_reward.types import Asked, Belief, Estimate, Measured, Passage, UnscorableError
from tests.helpers import on_two_ranks

STATE = {"trainer_state": TrainerState()}  # TRL passes it if all ranks call their rewards together
CORPUS = [Passage(f"Ida Voss painted mill {number} of Hallow.") for number in range(6)]


def question(number, contexts, texts=()):
    return Asked(f"Who owns house {number}?", (f"Owner {number}",), contexts, texts)


def test_cut_between_contexts_and_before_texts():
    long = Passage("word " * 400)
    asked = [question(0, ((), (long,)), ("Owner 0",)), question(1, ((),)), question(2, (), ("Bob", "Ann"))]
    first, second = cut(asked, 2)
    assert first == {0: Asked(asked[0].question, asked[0].answers, ((), (long,)))}
    assert second == {0: Asked(asked[0].question, asked[0].answers, (), ("Owner 0",)), 1: asked[1], 2: asked[2]}
    assert cut(asked, 1) == [dict(enumerate(asked))]
    assert cut(asked[:1], 9).count({}) == 6  # more ranks than work


def test_cut_keeps_even_groups_whole():
    asked = [
        question(number, tuple((passage,) for passage in CORPUS[: 5 + number % 2]), ("a",)) for number in range(4)
    ]
    assert cut(asked, 2) == [{0: asked[0], 1: asked[1]}, {2: asked[2], 3: asked[3]}]
    assert cut(asked[:3], 2)[0].keys() & cut(asked[:3], 2)[1].keys() == {1}  # three questions for two ranks


def lengths(asked):
    """Measure by hand: a belief is the length of what is read, a support that of the text."""
    results = []
    for each in asked:
        reads = [sum(len(passage.text) for passage in context) for context in each.contexts]
        beliefs = tuple(Belief(Estimate(read, 0, read, read), Estimate(read, 0, read, read)) for read in reads)
        found = Measured(beliefs, tuple(float(len(text)) for text in each.texts))
        results.append(UnscorableError("no") if "x" * 7 in str(each.contexts) else found)
    return results


def through_memory(asked, measure):
    found = BeliefMemory().recall(asked)
    while found.missing:
        found.add(measure(found.missing))
    return list(map(found.of, asked))


def test_findings_keep_the_contexts_that_did_not_fail():
    asked, unread = Asked("Who?", ("Ann",), ((), (CORPUS[0],), (Passage("x" * 7),)), ("Ann",)), []

    def measure(rows):
        unread.extend(each for each in rows if "x" * 7 in str(each.contexts))
        return lengths(rows)

    rollouts = [Asked("Who?", ("Ann",), asked.contexts[:count], ("Ann",)) for count in (1, 2, 3)]
    without, good, bad = through_memory(rollouts, measure)
    assert [without, good] == lengths(rollouts[:2])
    assert isinstance(bad, UnscorableError)
    assert unread == [asked, Asked("Who?", ("Ann",), asked.contexts[2:])]  # with the others, and alone
    alone = [Asked("Who?", ("Ann",), asked.contexts[2:])]
    assert isinstance(through_memory(alone, measure)[0], UnscorableError)
    assert len(unread) == 3


def test_belief_memory_evicts_the_least_recent():
    (belief,) = lengths([question(0, ((),))])[0].beliefs

    def misses(memory, texts):
        for text in texts:
            findings = memory.recall([Asked("Who?", (), ((Passage(text),),))])
            yield bool(findings.missing)
            findings.add([Measured((belief,))] * len(findings.missing))
            memory.remember(findings)

    size = size_in_bytes(("Who?", (), ("A",)), belief)
    found = list(misses(BeliefMemory(int(2.5 * size)), "ABACAB"))
    assert found == [True, True, False, True, False, True]
    # long texts are whole in the keys: two of them fit
    texts = [letter * 100_000 for letter in "ABCBA"]
    assert list(misses(BeliefMemory(250_000), texts)) == [True, True, True, False, True]


class Counting(SePerScorer):
    """A scorer that counts the contexts it measures, and fails as it is told."""

    def __init__(self, scorer, fails=None):
        self.__dict__ |= scorer.__dict__
        self.asked, self.fails = [], fails

    def responses(self, asked):
        if isinstance(self.fails, UnscorableError):
            return [self.fails] * len(asked)
        if self.fails is not None:
            raise self.fails
        self.asked += [(each.question, tuple(shown)) for each in asked for shown in each.contexts]
        return super().responses(asked)


def columns_of(step, rows):
    """Return the columns of some of the 8 rollouts of a step: one group of one question, 6 passages among them."""
    found = [[CORPUS[(step + row) % 6].text] if row % 4 else [] for row in range(8)]
    columns = {
        "question": ["Who painted the mill?"] * 8,
        "answers": [["Ida Voss"]] * 8,
        "passages": found,
        "completions": [f"It was {name}." for name in ("Ida Voss", "Bob", "Ann", "Ida", "Cal", "Dan", "Ed", "Bob")],
    }
    return {name: column[rows] for name, column in columns.items()}


def test_reward_on_two_ranks_measures_each_context_once(tiny_scorer, tmp_path):
    """The rewards are those of one rank; alone, two ranks measure nearly all contexts twice."""

    def steps(share, rows):
        scorer = Counting(tiny_scorer)
        reward = SePerReward(scorer, price=0.1)
        state = STATE if share else {}
        return [reward(**columns_of(step, rows), **state) for step in range(3)], scorer.asked

    def rank(number):
        rows = slice(0, 4) if number == 0 else slice(4, 8)
        return steps(True, rows), steps(False, rows)

    one, measured_by_one = steps(False, slice(0, 8))
    (shared, alone), (other_shared, other_alone) = on_two_ranks(rank, tmp_path)
    for both in ((shared, other_shared), (alone, other_alone)):
        for expected, first, second in zip(one, both[0][0], both[1][0], strict=True):
            assert first + second == pytest.approx(expected, abs=1e-5)
    assert len(measured_by_one) == 7  # the baseline, and six passages
    assert sorted(shared[1] + other_shared[1], key=str) == sorted(measured_by_one, key=str)
    assert min(len(shared[1]), len(other_shared[1])) >= 2
    assert len(alone[1]) + len(other_alone[1]) == 12


def test_reward_fails_on_both_ranks(tiny_scorer, tmp_path):
    """An engine that is away, a column of another type, and a question that cannot be scored; then it goes on."""

    def rank(number):
        scorer = Counting(tiny_scorer, ConnectionError("no engine") if number == 1 else None)
        reward = SePerReward(scorer, answer_weight=0.0, price=0.0)
        problems = []
        columns = columns_of(0, slice(4 * number, 4 * number + 4)) | STATE
        for wrong in ({}, {"passages": ["Ida Voss"] * 4} if number == 1 else {}):
            try:
                reward(**columns | wrong)
            except Exception as error:
                problems.append(f"{type(error).__name__}: {error}")
            scorer.fails = None
        values = reward(**columns)
        scorer.fails = UnscorableError("it is too long") if number == 0 else None
        other = columns_of(3, slice(4, 8)) | {"question": ["Who?"] * 4}
        return problems, values, reward(**columns | other), reward.failures

    (problems, values, unscorable, failures), (others, _, also, other_failures) = on_two_ranks(rank, tmp_path)
    assert problems[0] == "RuntimeError: process 1 failed, so process 0 stops: ConnectionError: no engine"
    assert others[0] == "ConnectionError: no engine"
    assert "process 1 failed, so process 0 stops: ValueError: passages must be a list per row" in problems[1]
    assert others[1].startswith("ValueError: passages must be a list per row")
    alone = SePerReward(tiny_scorer, answer_weight=0.0, price=0.0)
    assert values == pytest.approx(alone(**columns_of(0, slice(0, 4))), abs=1e-5)
    assert unscorable == also == [None] * 4
    assert failures == other_failures == {"it is too long": 4}  # rollouts of each


def test_reward_on_ranks_with_different_memories(tiny_scorer, tmp_path):
    """One rank has seen the question by itself; the other one has it measured, and both have the same beliefs."""
    asked = "Who painted the mill?", ("Ida Voss",)
    rollout = Rollout(*asked, (Turn("mill", (CORPUS[1],)),), "")

    def rank(number):
        scorer = Counting(tiny_scorer)
        reward = SePerReward(scorer)
        reward.score([rollout] * number)  # nothing on rank 0
        scorer.asked.clear()
        with reward.recording() as recorded:
            reward(**columns_of(0, slice(1, 2)), **STATE)
            reward(**columns_of(0, slice(1, 2)), **STATE)
        return [[belief.seper for belief in score.beliefs] for _, score in recorded], len(scorer.asked)

    (first, by_one), (second, by_other) = on_two_ranks(rank, tmp_path)
    expected = [belief.seper for belief in tiny_scorer.beliefs(*asked, [(), (CORPUS[1],)])]
    assert first == second == [pytest.approx(expected, abs=1e-6)] * 2
    assert by_one + by_other == 2  # once, by either


def test_reward_meets_other_ranks_only_with_a_trainer(tiny_scorer, monkeypatch):
    """Neither those of AsyncGRPOTrainer, which passes none, nor those of threads or in front of a server."""

    class MeetingError(Exception):
        pass

    def meet():
        raise MeetingError

    monkeypatch.setattr(distributed, "agreement", meet)
    monkeypatch.setattr("seper_reward.client.SePerClient.measure", tiny_scorer.measure)
    columns = columns_of(0, slice(0, 4))
    SePerReward(tiny_scorer)(**columns)
    SePerReward("http://127.0.0.1:9")(**columns, **STATE)
    asyncio.run(AsyncSePerReward("http://127.0.0.1:9")(**columns, **STATE))
    with pytest.raises(MeetingError):
        SePerReward(tiny_scorer)(**columns, **STATE)


def test_reward_without_a_group_shares_with_nobody(tiny_scorer):
    """As the one that a trainer starts beside its ranks: it must not wait for them."""
    assert not torch.distributed.is_initialized()
    columns = columns_of(0, slice(0, 8))
    assert SePerReward(tiny_scorer)(**columns, **STATE) == pytest.approx(SePerReward(tiny_scorer)(**columns))
