"""The judge by hand: which pairs a rule decides, which the model is asked, once each, and how they are returned."""

import pytest
import torch

from seper_reward.judge.judge import Judge, decide
from seper_reward.runtime.cache import Cache
from seper_reward.types import Pair
from tests.helpers import ScriptedModel

CREDULOUS = ScriptedModel(lambda pair: 0.99)
QUESTION = "How many of the 120 sheep were lost?"


RULED = {
    True: [
        ("**The Tern.**", "tern"), ("", "  "), ("2,340", "two thousand three hundred and forty"),
        ("9 November 1989", "1989"), ("20 C", "20 °C"), ("7 PM", "7 pm"), ("3D", "3d"), ("5 KM", "5 km"),
        ("1/0", "1/0"),
    ],
    # also the same number of another unit, and a number of the question
    False: [
        ("", "Paris"), ("Paris", " "), ("F#", "F"), ("SW1A 2AA", "SW1A 1AA"), ("They lost 87 of them", "85"),
        ("They paid 85 pounds", "$85"), ("It weighs 412 kg", "412 metres"), ("They lost 120 of them", "85"),
        ("Louis XIV of France", "Louis XVI"), ("Platform nine", "Platform 9¾"), ("It is in the key of F", "F#"),
        ("It was World War I", "World War II"), ("Henry the Second", "Henry I"), ("B51", "B-52"),
        ("World War II", "First World War"), ("5 MW", "5 mW"),
    ],
}  # fmt: skip


@pytest.mark.parametrize("expected", RULED)
def test_decide_by_rules(expected):
    assert [texts for texts in RULED[expected] if decide(Pair(QUESTION, *texts), CREDULOUS) is not expected] == []


@pytest.mark.parametrize(
    ("premise", "hypothesis", "asked"),
    [
        ("It is Paris", "Paris", ("It is Paris", "Paris")),
        ("They lost eighty-five of them", "85", ("They lost 85 of them", "85")),
        ("Of 120 sheep they lost 85", "85", ("Of 120 sheep they lost 85", "85")),  # 120 is of the question
        ("Two kilometres, as the crow flies", "2000 m", ("2000 m, as the crow flies", "2000 m")),
        ("On 9 November 1989 it fell", "in 1989", ("On 1989 it fell", "in 1989")),
        ("They paid $85 for 20 kg", "20 kg", ("They paid $85 for 20 kg", "20 kg")),
        ("Louis XIV of France", "Louis XIV", ("Louis 14 of France", "Louis 14")),
        ("85 kg", "85", ("85 kg", "85")),  # of other kinds: a number, and a quantity that may be something else
        ("85", "85 kg", ("85 kg", "85 kg")),  # a number may leave out its unit
        ("It is in F#", "F#", ("It is in F#", "F#")),
        ("B52", "B-52", ("B52", "B-52")),
        ("World War II", "Second World War", ("World War 2nd", "2nd World War")),
        ("Henry the First", "Henry I", ("Henry the 1st", "Henry 1")),
        ("Elizabeth I, not Elizabeth II", "Elizabeth I", ("Elizabeth 1, not Elizabeth 2", "Elizabeth 1")),
        ("So I think", "So", ("So I think", "So")),
        ("45 degrees", "45°", ("45°", "45°")),
    ],
)
def test_decide_gives_the_model_the_spelling_of_the_hypothesis(premise, hypothesis, asked):
    assert decide(Pair(QUESTION, premise, hypothesis), CREDULOUS) == Pair(QUESTION, *asked)


def test_decide_leaves_stated_and_less_precise_values_to_the_model():
    """Of people's verdicts, 203 right and 9 wrong responses state the gold value next to others."""
    for question, premise, hypothesis in (
        ("How many?", "Of 120 sheep they lost 85", "85"),
        ("When?", "1989", "9 November 1989"),
        ("When?", "It fell in 1989.", "9 November 1989"),
        ("Which law?", "the Exclusion Act", "Exclusion Act of 1882"),
        ("How many?", "sechs", "6"),  # no parser reads other languages
        ("When?", "1870 bis 1939", "1870 to 1939"),
    ):
        assert isinstance(decide(Pair(question, premise, hypothesis), CREDULOUS), Pair)
    for question, premise, hypothesis in (
        ("How many?", "Of 120 sheep they lost 84", "85"),
        ("When?", "It fell in 1988.", "9 November 1989"),
        ("Which law?", "the Exclusion Act of 1883", "Exclusion Act of 1882"),
        ("How many of the 120 sheep?", "all 120", "85"),
    ):
        assert decide(Pair(question, premise, hypothesis), CREDULOUS) is False


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
    for premise, hypothesis in (
        ("3 wins and 5 losses", "5 wins and 3 losses"),
        ("It was 3 wins and 5 losses.", "5 wins and 3 losses"),
        ("row 3, seat 5", "row 5, seat 3"),
        ("y = 3x + 5", "y = 5x + 3"),
        ("(3, 5)", "(5, 3)"),
        ("six for and forty-four against", "44 for and 6 against"),
    ):
        assert decide(Pair("", premise, hypothesis), CREDULOUS) is False, premise
        assert decide(Pair("", hypothesis, hypothesis), CREDULOUS) is True
    assert decide(Pair("", "5 and 3", "3 and 5"), CREDULOUS) is not False  # a list
    for premise in ("3 losses and 5 wins", "5 wins, 3 losses"):
        assert decide(Pair("", premise, "5 wins and 3 losses"), CREDULOUS) is not False, premise


def test_decide_takes_the_letter_of_an_option_for_it():
    options = ("B", "(B)", "[B]", "b.", "Option B", "Choice B", "The answer is B.", "B) argon", "(B) argon")
    for text in options:
        assert decide(Pair("", text, "B"), CREDULOUS) is True, text
    for text in ("D", "(D)", "B or D", "D) argon", "argon", "Bern", ""):
        assert decide(Pair("", text, "B"), CREDULOUS) is False, text
    assert decide(Pair("", "B) argon", "argon"), CREDULOUS) is True
    assert decide(Pair("", "B. Stevenson", "A. Stevenson"), CREDULOUS) == Pair("", "B. Stevenson", "A. Stevenson")


@pytest.mark.parametrize("symbol", ["✓", "😀", "👍🏽", "✅", "★", "❤️", "\u200e", "\u00ad"])
def test_decide_reads_symbols_as_nothing(symbol):
    for name in ("Ida Voss", "1912", "5 kg"):
        for text in (f"{name} {symbol}", f"{symbol} {name}"):
            assert decide(Pair("", text, name), CREDULOUS) is True
    assert decide(Pair("", "B♭", "B major"), CREDULOUS) != decide(Pair("", "B", "B major"), CREDULOUS)
    assert decide(Pair("", symbol, "☃"), CREDULOUS) is not True
