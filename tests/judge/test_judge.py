"""The judge by hand: which pairs a rule decides, which the model is asked, once each, and how they are returned."""

import pytest
import torch

from seper_reward.judge.judge import Judge, decide
from seper_reward.runtime.cache import Cache
from seper_reward.types import Pair
from tests.helpers import ScriptedModel, texts_of

CREDULOUS = ScriptedModel(lambda pair: 0.99)
QUESTION = "How many of the 120 sheep were lost?"
PAIRS = texts_of(__file__)


@pytest.mark.parametrize(("kind", "expected"), [("supported", True), ("refused", False)])
def test_decide_by_rules(kind, expected):
    assert [texts for texts in PAIRS[kind] if decide(Pair(QUESTION, *texts), CREDULOUS) is not expected] == []


@pytest.mark.parametrize(("premise", "hypothesis", "asked"), PAIRS["spelled"])
def test_decide_gives_the_model_the_spelling_of_the_hypothesis(premise, hypothesis, asked):
    assert decide(Pair(QUESTION, premise, hypothesis), CREDULOUS) == Pair(QUESTION, *asked)


def test_decide_leaves_stated_and_less_precise_values_to_the_model():
    """Of people's verdicts, 203 right and 9 wrong responses state the gold value next to others."""
    for texts in PAIRS["left to the model"]:
        assert isinstance(decide(Pair(*texts), CREDULOUS), Pair)
    for texts in PAIRS["less precise and refused"]:
        assert decide(Pair(*texts), CREDULOUS) is False


def test_judge_says_once_what_the_model_cannot_read(capsys):
    model = ScriptedModel(lambda pair: 0.99, unread=lambda text: {word for word in text.split() if not word.isascii()})
    model.name = "reads ASCII only"
    pairs = [
        Pair("", *texts) for texts in (("город Псков", "Псков"), ("Pskov", "Псков"), ("ПСКОВ.", "Псков"), ("87", "85"))
    ]
    assert [decide(pair, model) for pair in pairs] == [None, None, True, False]
    assert capsys.readouterr().err == ""
    judge = Judge(model)
    for _ in range(2):
        judged = judge.probs(pairs)
        assert [judged[pair] for pair in pairs] == [0, 0, 1, 0]
    message = capsys.readouterr().err
    assert message.startswith("the entailment model reads ASCII only cannot read 'город'")
    assert message.count("\n") == 1


def test_judge_asks_each_distinct_pair_once_with_a_cache():
    model = ScriptedModel(lambda pair: {"Rome": 0.7, "Bern": 0.2}[pair.premise])
    premises, hypotheses = ("Rome", "PARIS!", "Bern", "Rome", "Rome", ""), ("Paris",) * 4 + ("Oslo",) * 2
    pairs = [Pair("Where?", *texts) for texts in zip(premises, hypotheses, strict=True)]
    cache = Cache(":memory:")
    first = Judge(model, cache).probs(pairs)
    assert model.asked == [[pairs[0], pairs[2], pairs[4]]]
    again = Judge(model, cache).probs(pairs[::-1])
    assert len(model.asked) == 1
    expected = [0.7, 1.0, 0.2, 0.7, 0.7, 0.0]
    for found in (first, again):
        assert [found[pair] for pair in pairs] == pytest.approx(expected)
        assert found.rows(pairs)[:, 0].tolist() == pytest.approx(expected)
    # a rule that refuses says contradiction
    torch.testing.assert_close(first.rows(pairs[4:]), torch.tensor([[0.7, 0.3, 0.0], [0.0, 0.0, 1.0]]))
    # the same words to another question are another pair
    Judge(model, cache).probs([Pair("Why?", "Rome", "Paris")])
    assert model.asked[1:] == [[Pair("Why?", "Rome", "Paris")]]


def test_judge_asks_two_spellings_of_a_value_once():
    model = ScriptedModel(lambda pair: 0.6)
    pairs = [Pair("", f"It took {number} men", "12") for number in ("twelve", "12", "dozen")]
    judged = Judge(model).probs(pairs)
    assert model.asked == [[Pair("", "It took 12 men", "12")]]
    assert [judged[pair] for pair in pairs] == pytest.approx([0.6] * 3)


def test_judge_verbatim_pairs_know_no_rule_and_have_own_cache_entries():
    model, cache = ScriptedModel(lambda pair: 0.6), Cache(":memory:")
    pairs = [Pair("", "87", "85"), Pair("", "", "Paris"), Pair("", "Paris.", "Paris"), Pair("", "Rome", "Paris")]
    judged = Judge(model, cache).probs(pairs, verbatim=True)
    assert model.asked == [pairs]
    assert [judged[pair] for pair in pairs] == pytest.approx([0.6] * 4)
    Judge(model, cache).probs(pairs)
    assert model.asked[1:] == [pairs[3:]]


def test_judged_table_of_premises_and_hypotheses():
    chances = {("Rome", "Paris"): 0.1, ("Rome", "Oslo"): 0.2, ("Bern", "Paris"): 0.3, ("Bern", "Oslo"): 0.45}
    chances |= {("Lima", "Paris"): 0.55, ("Lima", "Oslo"): 0.6}
    model = ScriptedModel(
        lambda pair: (chances[pair[1:]], 0.9 * (1 - chances[pair[1:]]), 0.1 * (1 - chances[pair[1:]]))
    )
    judged = Judge(model).probs([Pair("Where?", *texts) for texts in reversed(chances)])
    table = judged.table("Where?", ["Rome", "Bern", "Lima", "Rome"], ["Oslo", "Paris"])
    assert table.shape == (4, 2, 3)
    torch.testing.assert_close(table[..., 0], torch.tensor([[0.2, 0.1], [0.45, 0.3], [0.6, 0.55], [0.2, 0.1]]))
    torch.testing.assert_close(table[1, 0], torch.tensor([0.45, 0.495, 0.055]))
    with pytest.raises(KeyError):
        judged.table("Why?", ["Rome"], ["Oslo"])


def test_judge_of_no_pairs():
    assert Judge(CREDULOUS).probs([]).rows([]).shape == (0, 3)


def test_decide_refuses_numbers_that_changed_places():
    for premise, hypothesis in PAIRS["changed places"]:
        assert decide(Pair("", premise, hypothesis), CREDULOUS) is False, premise
        assert decide(Pair("", hypothesis, hypothesis), CREDULOUS) is True
    assert decide(Pair("", "5 and 3", "3 and 5"), CREDULOUS) is not False  # a list
    for premise in ("3 losses and 5 wins", "5 wins, 3 losses"):
        assert decide(Pair("", premise, "5 wins and 3 losses"), CREDULOUS) is not False, premise


def test_decide_takes_the_letter_of_an_option_for_it():
    options = ("B", "(B)", "[B]", "b.", "Option B", "Choice B", "The answer is B.", "B) argon", "(B) argon")
    for text in options:
        assert decide(Pair("", text, "B"), CREDULOUS) is True, text
    for text in ("vitamin B", "Type B.", "the B language", "I think it is B!", '"B" is right', "a dog, so B"):
        assert decide(Pair("", text, "B"), CREDULOUS) == Pair("", text, "B")
    for text in ("D", "(D)", "B or D", "D) argon", "argon", "Bern", "B++", "vitamin b", ""):
        assert decide(Pair("", text, "B"), CREDULOUS) is False, text
    assert decide(Pair("", "A dog barked", "A"), CREDULOUS) is False
    assert decide(Pair("", "B) argon", "argon"), CREDULOUS) is True
    assert decide(Pair("", "B. Stevenson", "A. Stevenson"), CREDULOUS) == Pair("", "B. Stevenson", "A. Stevenson")


@pytest.mark.parametrize("symbol", ["✓", "😀", "👍🏽", "✅", "★", "❤️", "\u200e", "\u00ad"])
def test_decide_reads_symbols_as_nothing(symbol):
    for name in ("Ida Voss", "1912", "5 kg"):
        for text in (f"{name} {symbol}", f"{symbol} {name}"):
            assert decide(Pair("", text, name), CREDULOUS) is True
    assert decide(Pair("", "B♭", "B major"), CREDULOUS) != decide(Pair("", "B", "B major"), CREDULOUS)
    assert decide(Pair("", symbol, "☃"), CREDULOUS) is not True
