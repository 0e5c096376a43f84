"""Credit per turn: by hand, against a slow loop and the exact gradient, and inside TRL's trainer on a tiny policy."""

import itertools
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import trl
from datasets import Dataset
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM, AutoTokenizer

from seper_reward.reward import SePerReward, TurnCreditGRPOTrainer
from seper_reward.reward.credit import (
    Credit,
    advantages_over_reader,
    credit_of,
    turn_rewards,
)
from seper_reward.reward.environment import search_environment
from seper_reward.reward.formula import RewardWeights
from seper_reward.reward.rollouts import Rollout, read_rollouts
from seper_reward.reward.trainer import messages_by_mask, refuse_credit
from seper_reward.reward.turns import Turn
from seper_reward.types import Belief, Estimate, Measured, Passage, UnscorableError
from tests.helpers import launch
from tests.tiny_models import make_reader


def test_turn_rewards_charge_the_failed_call():
    measured = Measured(estimates(0.5), (1.0,))
    weights = RewardWeights(price=0.2)
    said = {"role": "assistant", "content": "Ann"}
    call = [{"role": "assistant", "tool_calls": [{}]}, {"role": "tool", "content": "{'error': 'no tool'}"}]
    rollouts = read_rollouts(["Who?"] * 2, [["Ann"]] * 2, [[said], [*call, said]])
    assert [each.failed_calls for each in rollouts] == [(0,), (1, 0)]
    scores = [weights.score(each, measured) for each in rollouts]
    at_once, clumsy = (credit_of(*pair) for pair in zip(rollouts, scores, strict=True))
    assert turn_rewards(clumsy) == pytest.approx([-0.2, 1.0])
    assert sum(turn_rewards(clumsy)) == scores[1].reward
    assert advantages_over_reader(at_once, [0.5]) == pytest.approx([0.5])
    assert advantages_over_reader(clumsy, [0.5]) == pytest.approx([0.3, 0.5])  # the answer does not pay for the call


def slowly(credit, beliefs):
    """Every pair of message and later message: the sum of all that followed, less the belief before the message."""
    searches, others, found = list(credit.searches), credit.others or [0.0] * len(credit.calls), []
    for at in range(len(credit.calls)):
        total = 0.0
        for later in range(at, len(credit.calls)):
            done = sum(credit.calls[:later])
            total += sum(searches[done : done + credit.calls[later]]) + others[later]
        found.append(total + credit.answer - beliefs[sum(credit.calls[:at])])
    return found


numbers = st.floats(-1, 1)


@st.composite
def credits_of_a_policy(draw):
    calls = draw(st.lists(st.integers(0, 2), min_size=1, max_size=4))
    searches = draw(st.lists(numbers, min_size=sum(calls), max_size=sum(calls)))
    others = draw(st.one_of(st.just([]), st.lists(numbers, min_size=len(calls), max_size=len(calls))))
    return Credit(tuple(calls), tuple(searches), draw(numbers), tuple(others))


@given(credits_of_a_policy(), st.lists(numbers, min_size=9, max_size=9))
def test_advantages_over_reader_are_the_slow_loops(credit, beliefs):
    assert advantages_over_reader(credit, beliefs) == pytest.approx(slowly(credit, beliefs), abs=1e-9)


def every_rollout(logits):
    """Return each rollout of a policy that may search, once or twice, and answers: chances of its messages, credit."""
    search, again, right = torch.sigmoid(logits[0]), torch.sigmoid(logits[1]), torch.sigmoid(logits[2:])
    rollouts = []  # the probability of each message, and what the parts earned
    for count, answered in itertools.product(range(3), (True, False)):
        said = right[count] if answered else 1 - right[count]
        asked = [[(1 - search) * said], [search, (1 - again) * said], [search, again, said]][count]
        earned = ((), (0.5,), (0.5, -0.3))[count]
        rollouts.append((asked, Credit((*[1] * count, 0), earned, float(answered))))
    return rollouts


def test_advantages_over_reader_keep_the_gradient():
    logits = torch.tensor([0.3, -0.5, 0.2, -0.4, 0.6], dtype=torch.float64, requires_grad=True)
    rollouts = every_rollout(logits)
    chances = [torch.stack(asked).prod() for asked, _ in rollouts]
    expected = sum(chance * sum(turn_rewards(credit)) for chance, (_, credit) in zip(chances, rollouts, strict=True))
    (gradient,) = torch.autograd.grad(expected, logits, retain_graph=True)
    objective = 0.0
    for chance, (asked, credit) in zip(chances, rollouts, strict=True):
        advantages = advantages_over_reader(credit, [0.4, 0.9, 0.1])
        logs = torch.stack(asked).log()
        objective = objective + chance.detach() * (logs * torch.tensor(advantages, dtype=torch.float64)).sum()
    (found,) = torch.autograd.grad(objective, logits)
    assert torch.allclose(found, gradient, atol=1e-12)


def test_advantages_over_reader_are_free_of_closed_book():
    rollout = Rollout("q", ("a",), (Turn("a", (Passage("x"),)),), "a", calls=(1, 0))
    measured = Measured(estimates(0.25, 0.75), (1.0,))
    for closed_book in (False, True):
        weights = RewardWeights(price=0.5, closed_book=closed_book)
        score = weights.score(rollout, measured)
        found = advantages_over_reader(credit_of(rollout, score), weights.answer_values(score))
        assert found == [0.75, 0.25]  # .5 - .5 + 1 - .25, and 1 - .75


def estimates(*sepers):
    return tuple(Belief(Estimate(each, 0.0, each, each), Estimate(each, 0.0, each, each)) for each in sepers)


def test_turn_rewards_sum_up_to_the_bit(tiny_scorer):
    texts = ["Ida Voss runs Hallow's mill.", "Sheep graze on the hill.", "Rain fell on Hallow."]
    completion = []
    for text in texts:
        completion += [{"role": "assistant", "tool_calls": [{}]}, {"role": "tool", "content": text}]
    completion.append({"role": "assistant", "content": "Ida Voss"})
    (rollout,) = read_rollouts(["Who runs the mill?"], [["Ida Voss"]], [completion])
    for answer_weight, weight in ((0.0, 1.0), (1.0, 0.7)):
        reward = SePerReward(tiny_scorer, answer_weight=answer_weight, gain_weight=weight, price=0.1)
        (score,) = reward.score([rollout])
        found = reward.turn_rewards(rollout)
        assert len(found) == 4
        assert sum(found) == sum(reversed(found)) == score.reward
        gains = [after.seper - before.seper for before, after in itertools.pairwise(score.beliefs)]
        assert found[:3] == pytest.approx([weight * gain - 0.1 for gain in gains], abs=1e-9)
        assert found[3] == (score.answer if answer_weight else 0)


@pytest.mark.parametrize(
    ("rollout", "reason"),
    [
        (Rollout("q", ("a",), (), "a"), "does not show which message"),
        (Rollout("q", (), (), "a", calls=(0,)), "not scored"),
    ],
)
def test_turn_rewards_may_be_unknown(tiny_scorer, rollout, reason):
    with pytest.raises(UnscorableError, match=reason):
        SePerReward(tiny_scorer, price=0.0).turn_rewards(rollout)


HOUSES = {str(at): Passage(f"House {at} belongs to Owner {at}.", id=str(at)) for at in range(4)}
QUESTIONS = [
    {"prompt": [{"role": "user", "content": text}], "question": text, "answers": [f"Owner {at}"]}
    for at, text in enumerate(f"Who owns house {at}?" for at in range(4))
]


class Finds:
    """A retriever that finds the house with the number that the query ends in."""

    def retrieve(self, questions, top_k):
        return [(HOUSES[question[-1]],) for question in questions]


class Spying(TurnCreditGRPOTrainer):
    """Keeps the batches, whose rollouts follow each other as TRL made them; the policy says a few tokens at a time."""

    def __init__(self, *args, **kwargs):
        self.batches = []
        super().__init__(*args, **kwargs)

    def _generate_and_score_completions(self, inputs):
        self.batches.append(super()._generate_and_score_completions(inputs))
        return self.batches[-1]

    def _generate_single_turn(self, prompt_ids, *_, **__):
        end = self.processing_class.eos_token_id
        return [[*range(20, 22 + place % 3), end] for place in range(len(prompt_ids))], None


def trainer_of(folder, reader, rewards, kind=Spying, questions=QUESTIONS[:2], **changes):
    tokenizer = AutoTokenizer.from_pretrained(reader)
    tokenizer.chat_template = (Path(trl.__file__).parent / "chat_templates" / "qwen2_5.jinja").read_text()
    options = {
        "output_dir": str(folder), "max_steps": 1, "per_device_train_batch_size": 8, "num_generations": 4,
        "report_to": "none", "max_completion_length": 200, "learning_rate": 1e-2, "use_cpu": True, "bf16": False,
        "save_strategy": "no", "disable_tqdm": True, "max_tool_calling_iterations": 2, "logging_steps": 1, "seed": 3,
        "scale_rewards": "none",
    }  # fmt: skip
    parts = ("environment_factory", "rollout_func", "peft_config", "processing_class")
    made = {"processing_class": tokenizer} | {name: changes.pop(name) for name in parts if name in changes}
    torch.manual_seed(0)
    return kind(
        model=AutoModelForCausalLM.from_pretrained(reader), reward_funcs=rewards,
        args=trl.GRPOConfig(**{**options, **changes}), train_dataset=Dataset.from_list(questions),
        **made,
    )  # fmt: skip


def scripted(monkeypatch):
    """Let rollout i of a group search i % 3 times, for houses 0 and 1, whatever tokens its policy says."""
    begun = itertools.count()
    wanted = []  # searches of the rollouts, in the order in which these begin

    def parse(tokenizer, ids, prefix, **_):
        done = tokenizer.decode(prefix).count("<tool_response>\n")
        if not done:
            wanted.append(next(begun) % 4 % 3)
            asks = wanted[-1] > 0
        else:
            asks = done == 1 and waiting.pop(0) == 2
        if not asks:
            return {"role": "assistant", "content": "Owner 0"}
        if not done:
            waiting.append(wanted[-1])
        call = {"type": "function", "function": {"name": "search", "arguments": {"query": f"house {done}"}}}
        return {"role": "assistant", "content": "", "tool_calls": [call]}

    waiting = []  # of those that have searched once
    monkeypatch.setattr(trl.trainer.grpo_trainer, "parse_response", parse)


def test_credit_trainer_with_trls_tools(tmp_path, tiny_reader, tiny_scorer, monkeypatch):
    """Tokens of each message have its advantage, beside another reward that counts for all of them."""
    scripted(monkeypatch)
    reward = SePerReward(tiny_scorer, price=0.1)

    def length(completion_ids, **_):
        return [len(ids) / 100 for ids in completion_ids]

    make = search_environment(Finds(), max_turns=2)
    trainer = trainer_of(tmp_path, tiny_reader, [length, reward], environment_factory=make, reward_weights=[1.0, 2.0])
    before = {name: weight.detach().clone() for name, weight in trainer.model.named_parameters()}
    with reward.recording() as recorded:
        trainer.train()
    assert any(not torch.equal(before[name], weight) for name, weight in trainer.model.named_parameters())
    (batch,) = trainer.batches
    advantages, mask = batch["advantages"], (batch["completion_mask"] * batch["tool_mask"]).bool()
    assert advantages.shape == mask.shape
    assert not advantages[~mask].any()
    assert sorted({rollout.calls for rollout, _ in recorded}) == [(0,), (1, 0), (1, 1, 0)]
    assert trainer.undivided == {}
    (log,) = [row for row in trainer.state.log_history if "credit/whole_rollouts" in row]
    assert log["credit/whole_rollouts"] == 0.0
    lengths = (batch["completion_mask"].sum(1) / 100).tolist()
    for start in (0, 4):
        rows = range(start, start + 4)
        group = [credit_of(*recorded[row]) for row in rows]
        # what followed, less what the reader believed when the message was written
        believed = [[belief.seper for belief in recorded[row][1].beliefs] for row in rows]
        for row, values in zip(rows, map(slowly, group, believed), strict=True):
            beside = lengths[row] - sum(lengths[start : start + 4]) / 4
            by_token = torch.tensor(values)[messages_by_mask(mask[row])[mask[row]]]
            assert torch.allclose(advantages[row][mask[row]], beside + 2 * by_token, atol=1e-5)


class Pretending(Spying):
    """Says that the second rollout of each group searched, though no token of it shows that."""

    def _calculate_rewards(self, inputs, prompts, completions, completion_ids_list):
        for place, world in enumerate(self.environments):
            if place % 4 == 1:
                call = {"role": "assistant", "tool_calls": [{"function": {"name": "search", "arguments": {}}}]}
                said = {"role": "tool", "name": "search", "content": world.search("house 0")}
                completions[place] = [call, said, {"role": "assistant", "content": "Owner 0"}]
        return super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)


def test_credit_trainer_keeps_undivided_rollouts_whole(tmp_path, tiny_reader, tiny_scorer):
    reward = SePerReward(tiny_scorer, price=0.1)
    make = search_environment(Finds())
    questions = [QUESTIONS[0], {**QUESTIONS[1], "answers": []}]  # the second cannot be scored
    trainer = trainer_of(
        tmp_path, tiny_reader, [reward], Pretending, questions, environment_factory=make, max_completion_length=8
    )
    trainer.train()
    assert trainer.undivided == {"the completion's tokens do not show the policy's messages": 1, "not scored": 4}
    whole, (batch,) = list(trainer._logs["advantages"]), trainer.batches
    mask = batch["completion_mask"].bool()
    (pretended,) = [row for row in range(8) if row % 4 == 1 and whole[row]]
    assert batch["advantages"][pretended][mask[pretended]].tolist() == pytest.approx(
        [whole[pretended]] * int(mask[pretended].sum())
    )
    (log,) = [row for row in trainer.state.log_history if "credit/whole_rollouts" in row]
    assert log["credit/whole_rollouts"] == 5 / 8


SAID = "<search>house 0</search><information>House 0 belongs to Owner 0.</information>Owner 0"


def passage_mask(tokenizer):
    """Return for each token of ``SAID`` and the end whether the policy wrote it: no token that overlaps a passage."""
    start, end = SAID.index("<information>"), SAID.index("</information>") + len("</information>")
    offsets = tokenizer(SAID, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
    return [*(int(last <= start or first >= end) for first, last in offsets), 1]


@pytest.mark.parametrize("masked", [False, True])
def test_credit_trainer_with_passage_tags(tmp_path, tiny_scorer, masked):
    """Texts of a rollout function, as Search-R1's; without a mask of what the policy wrote they are not divided."""
    reader = make_reader(tmp_path / "reader", whole=True)  # one of its tokens is the end of a tag and the next start

    def rollouts(prompts, trainer):
        tokenizer = trainer.processing_class
        texts = [SAID if place % 2 else "Owner 1" for place in range(len(prompts))]
        ids = [[*tokenizer(text, add_special_tokens=False).input_ids, tokenizer.eos_token_id] for text in texts]
        made = {"prompt_ids": [tokenizer(prompt).input_ids for prompt in prompts], "completion_ids": ids}
        if masked:
            made["env_mask"] = [passage_mask(tokenizer) if at % 2 else [1] * len(row) for at, row in enumerate(ids)]
        return {**made, "logprobs": [[0.0] * len(row) for row in ids]}

    reward = SePerReward(tiny_scorer, price=0.1, passage_tag="information")
    questions = [{**row, "prompt": row["question"]} for row in QUESTIONS[:2]]
    trainer = trainer_of(tmp_path, reader, [reward], questions=questions, rollout_func=rollouts)
    with reward.recording() as recorded:
        trainer.train()
    assert [rollout.calls for rollout, _ in recorded] == [(0,), (1, 0)] * 4
    assert {rollout.passages for rollout, _ in recorded[1::2]} == {(Passage("House 0 belongs to Owner 0."),)}
    if not masked:
        assert trainer.undivided == {"the completion's tokens do not show the policy's messages": 4}
        return
    assert not trainer.undivided
    (batch,) = trainer.batches
    rollout, score = recorded[1]
    decode, ids = trainer.processing_class.decode, batch["completion_ids"][1]
    of_text = {}
    for value in batch["advantages"][1].unique().tolist():
        kept = (batch["advantages"][1] == value) & batch["completion_mask"][1].bool()
        of_text[decode(ids[kept], skip_special_tokens=True)] = value
    query, answer = slowly(credit_of(rollout, score), [belief.seper for belief in score.beliefs])
    assert of_text == {
        "<search>house 0</search": pytest.approx(query, abs=1e-5),
        "><information>House 0 belongs to Owner 0.</information>": 0.0,
        "Owner 0": pytest.approx(answer, abs=1e-5),
    }


@pytest.mark.parametrize(
    ("weights", "options", "message"),
    [
        ([RewardWeights(answer_weight=0.0)], {}, "answer_weight and gain_weight above 0"),
        ([RewardWeights(gain_weight=0.0)], {}, "answer_weight and gain_weight above 0"),
        ([RewardWeights()], {"scale_rewards": "group"}, "needs scale_rewards='none' in GRPOConfig, got 'group'"),
        ([RewardWeights()], {"multi_objective_aggregation": "x"}, "needs multi_objective_aggregation='sum_then_norm"),
    ],
)
def test_refuse_credit(weights, options, message):
    fine = {"scale_rewards": "none", "multi_objective_aggregation": "sum_then_normalize"}
    with pytest.raises(ValueError, match=message):
        refuse_credit(weights, SimpleNamespace(**{**fine, **options}))


def test_credit_trainer_needs_a_reward_of_ours(tmp_path, tiny_reader):
    with pytest.raises(ValueError, match="must contain a SePerReward, got none"):
        trainer_of(tmp_path, tiny_reader, [lambda completion_ids, **_: [0.0] * len(completion_ids)])


@pytest.mark.slow
def test_credit_trainer_on_two_ranks(tmp_path, tiny_reader, tiny_scorer, monkeypatch):
    """Each rank has two of the four rollouts of a group."""
    scripted(monkeypatch)
    make = search_environment(Finds(), max_turns=2)

    def rank():
        reward = SePerReward(tiny_scorer, price=0.1)
        batches = {"per_device_train_batch_size": 2, "environment_factory": make}
        trainer = trainer_of(tmp_path / "run", tiny_reader, [reward], **batches)
        with reward.recording() as recorded:
            trainer.train()
        (batch,) = trainer.batches
        assert [credit_of(*row).calls for row in recorded] == [(0,), (1, 0)]
        for row, (rollout, score) in enumerate(recorded):
            (first, *_) = slowly(credit_of(rollout, score), [belief.seper for belief in score.beliefs])
            assert batch["advantages"][row, 0].item() == pytest.approx(first, abs=1e-5)

    launch(rank, tmp_path)
