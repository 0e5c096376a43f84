"""The judge on answers that are lists, by hand: an entailment model that says yes to equal texts only."""

import pytest
import torch
from seper_reward.estimators.judge import BeliefJudge, SampledQuestion

from seper_reward.data.answers import normalize_answer
from seper_reward.estimators.seper import Estimator
from seper_reward.types import Responses

QUESTION = "Who runs the mill and the ferry?"
ANSWERS = (("Ida", "Ida Voss"), ("Bob",))


class Equal:
    """An entailment model that remembers what it was asked."""

    name, weights_hash = "equal", "0"

    def __init__(self):
        self.asked = set()

    def class_probs(self, pairs, questions=None, **_):
        self.asked |= set(pairs)
        same = [float(normalize_answer(one) == normalize_answer(other)) for one, other in pairs]
        return torch.tensor([[each, 1 - each, 0.0] for each in same]).view(-1, 3)


def sampled(*texts):
    return Responses(texts, (torch.zeros(1),) * len(texts))


def judged(answers, *texts, **options):
    model = Equal()
    question = SampledQuestion(QUESTION, answers, [sampled(*texts)])
    ((belief,),) = BeliefJudge(model, Estimator(weighting="uniform", **options), None).beliefs([question])
    return belief, model


def test_the_belief_in_a_list_by_hand():
    belief, model = judged(ANSWERS, "Ida Voss and Bob", "Bob, Cy", "Ann", "Bob; Ida Voss")
    assert belief.best_support == (1.0, 0.5, 0.0, 1.0)
    assert belief.support[0] == (0.0, 1.0, 1.0)  # of each alias
    assert belief.cluster_ids == (0, 1, 2, 0)  # one list in two orders
    assert belief.seper == pytest.approx((1 + 0.5 + 0 + 1) / 4)
    assert belief.seper_hard == pytest.approx((1 + 0.5 + 0 + 1) / 4)  # a cluster counts by the share of items
    assert not any(" and " in text or "," in text for pair in model.asked for text in pair)


@pytest.mark.parametrize(("aliases", "expected"), [("any", 1.0), ("mean", 0.75), ("max", 1.0)])
def test_how_the_aliases_of_an_item_are_joined(aliases, expected):
    belief, _ = judged(ANSWERS, "Ida and Bob", aliases=aliases)
    assert belief.seper == belief.seper_hard == pytest.approx(expected)


def test_order_of_items_and_aliases_does_not_matter():
    texts = ("Bob and Ida", "Ida Voss", "Cy")
    one, other = (judged(answers, *texts)[0] for answers in (ANSWERS, (("Bob",), ("Ida Voss", "Ida"))))
    assert (one.soft, one.hard, one.best_support) == (other.soft, other.hard, other.best_support)


def test_a_list_of_one_item_is_no_list():
    texts = ("Bob and Ida", "Ida Voss", "Ida")
    nested, model = judged((("Ida", "Ida Voss"),), *texts)
    flat, other = judged(("Ida", "Ida Voss"), *texts)
    assert nested == flat
    assert model.asked == other.asked
    assert flat.best_support == (0.0, 1.0, 1.0)  # a response of more than the answer is judged whole


def test_verbatim_texts_are_not_cut():
    belief, model = judged(ANSWERS, "Ida and Bob", judged_texts="verbatim")
    assert belief.seper == 0
    assert ("Ida and Bob", "Bob") in model.asked


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Ida Voss and Bob", 1.0),
        ("Bob, Ida", 1.0),
        ("Bob", 1 / 2),
        ("Bob and Cy", 1 / 2),
        ("Ida, Bob or Cy", 2 / 3),  # more parts than items: the share of parts
        ("Ann, Bob, Cy, Dan, Ida, Eve", 2 / 6),
        ("Bob, Bob, Bob", 1 / 3),
        ("Ida, Ida Voss", 1 / 2),  # one item cannot be stated twice
        ("Ida Bob", 0.0),
        ("", 0.0),
    ],
)
def test_what_a_stated_list_earns(text, expected):
    judge = BeliefJudge(Equal(), Estimator(), None)
    assert judge.mutual_support(QUESTION, text, ANSWERS) == pytest.approx(expected)
    assert judge.mutual_support(QUESTION, text, [["Bob"], ["Ida Voss", "Ida"]]) == pytest.approx(expected)


def test_parts_and_items_are_paired_for_the_greatest_sum(monkeypatch):
    agreement = {("Ina", "Ida"): 1.0, ("Ben", "Ida"): 0.95, ("Bob", "Ina"): 0.9, ("Ben", "Bob"): 0.5}
    both_ways = agreement | {(other, one): value for (one, other), value in agreement.items()}

    def class_probs(self, pairs, questions=None, **_):
        return torch.tensor([[both_ways[pair], 1 - both_ways[pair], 0.0] for pair in pairs])

    monkeypatch.setattr(Equal, "class_probs", class_probs)
    judge = BeliefJudge(Equal(), Estimator(), None)
    # Ida for Ina and Bob for Ben: 1 + 0; Ida for Ben and Bob for Ina: 4 · .95 - 3 + 4 · .9 - 3
    assert judge.mutual_support(QUESTION, "Ida, Bob", [["Ina"], ["Ben"]]) == pytest.approx((0.8 + 0.6) / 2)


def test_the_second_direction_is_judged_only_where_the_first_entails(monkeypatch):
    entailed = {("Ida Voss", "Ida"): 0.9, ("Ida", "Ida Voss"): 0.7, ("Bob", "Ida"): 0.8, ("Ida", "Bob"): 0.1}
    asked = []

    def class_probs(self, pairs, questions=None, **_):
        asked.extend(zip(pairs, questions, strict=True))
        return torch.tensor([[entailed.get(pair, float(pair[0] == pair[1])), 1.0, 0.0] for pair in pairs])

    monkeypatch.setattr(Equal, "class_probs", class_probs)
    judge = BeliefJudge(Equal(), Estimator(weighting="uniform"), None)
    ((belief,),) = judge.beliefs([SampledQuestion(QUESTION, ("Eve",), [sampled("Bob", "Ida Voss", "Ida", "Bob")])])
    assert belief.cluster_ids == (0, 1, 1)
    assert {question for _, question in asked} == {QUESTION}
    assert [pair for pair, _ in asked if set(pair) == {"Ida", "Bob"}] == [("Bob", "Ida"), ("Ida", "Bob")]
    assert ("Ida Voss", "Bob") not in dict(asked)
    found = judge.entailment("", {("Ida Voss", "Ida"), ("Ida", "Bob")})
    assert found == pytest.approx({("Ida Voss", "Ida"): 0.9, ("Ida", "Bob"): 0.1})
    assert asked[-1][1] == ""


def test_a_long_list_is_judged_in_as_many_parts_as_its_answer_can_pay_for(monkeypatch):
    asked = []
    class_probs = Equal.class_probs

    def counted(self, pairs, questions=None, **options):
        asked.extend(pairs)
        return class_probs(self, pairs, questions, **options)

    monkeypatch.setattr(Equal, "class_probs", counted)
    items = [[f"item {at}"] for at in range(10)]
    text = ", ".join(f"item {at}" for at in range(170))
    paid = BeliefJudge(Equal(), Estimator(), None).mutual_support("Which?", text, items)
    assert paid == pytest.approx(10 / 170)
    assert len(asked) <= 2 * 30 * 10
