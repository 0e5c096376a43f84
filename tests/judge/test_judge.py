"""The judge by hand: which pairs a rule decides, which the model is asked, once each, and how they are returned."""

import pytest
import torch

from seper_reward.judge.judge import Judge, decide
from seper_reward.runtime.cache import Cache
from seper_reward.types import Pair
from tests.helpers import ScriptedModel

SPLIT = [(1.0, 0.0), (-0.9, 0.9), (-0.1, 0.1)]  # of the rest, nine tenths are neutral
CREDULOUS = ScriptedModel(lambda pair: 0.99)
QUESTION = "How many of the 120 sheep were lost?"


@pytest.mark.parametrize(
    ("premise", "hypothesis", "expected"),
    [
        ("**The Tern.**", "tern", True),
        ("", "  ", True),
        ("", "Paris", False),
        ("Paris", " ", False),
        ("F", "F#", False),
        ("F#", "F", False),
        ("(2, 8)", "[2, 8)", False),
        ("2,340", "two thousand three hundred and forty", True),
        ("2 km", "2000 m", True),
        ("9 November 1989", "1989", True),
        ("87", "85", False),
        ("412 metres", "412 kg", False),
        ("SW1A 2AA", "SW1A 1AA", False),
        ("They lost 87 of them", "85", False),
        ("They paid 85 pounds", "$85", False),  # the same number of another unit
        ("It weighs 412 kg", "412 metres", False),
        ("20 C", "20 °C", True),  # an equal value, whatever its signs
        ("They lost 120 of them", "85", False),  # the question's number is no other answer, and 85 is missing
        ("Platform nine", "Platform 10", False),
        ("Louis XIV of France", "Louis XVI", False),
        ("Platform nine", "Platform 9¾", False),
        ("It is in the key of F", "F#", False),
        ("World War II", "World War I", False),
        ("It was World War I", "World War II", False),
        ("Henry the Second", "Henry I", False),
        ("Henry IV, Part II", "Part I", False),
        ("B51", "B-52", False),
        ("World War II", "First World War", False),
        ("5 MW", "5 mW", False),
        ("7 PM", "7 pm", True),
        ("3D", "3d", True),
        ("5 KM", "5 km", True),
        ("1/0", "1/0", True),
    ],
)
def test_a_pair_that_a_rule_decides(premise, hypothesis, expected):
    assert decide(Pair(QUESTION, premise, hypothesis), CREDULOUS) is expected


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
def test_a_pair_for_the_model_has_the_spelling_of_the_hypothesis(premise, hypothesis, asked):
    assert decide(Pair(QUESTION, premise, hypothesis), CREDULOUS) == Pair(QUESTION, *asked)


def test_values_that_are_stated_or_less_precise_are_for_the_model():
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


def test_each_distinct_pair_is_asked_once_and_never_again_with_a_cache():
    model = ScriptedModel(lambda pair: {"Rome": 0.7, "Bern": 0.2}[pair.premise])
    pairs = [
        Pair("Where?", "Rome", "Paris"),
        Pair("Where?", "PARIS!", "Paris"),
        Pair("Where?", "Bern", "Paris"),
        Pair("Where?", "Rome", "Paris"),
        Pair("Where?", "Rome", "Oslo"),
        Pair("Where?", "", "Oslo"),
    ]
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


def test_two_spellings_of_a_value_are_one_pair_for_the_model():
    model = ScriptedModel(lambda pair: 0.6)
    pairs = [Pair("", f"It took {number} men", "12") for number in ("twelve", "12", "dozen")]
    judged = Judge(model).probs(pairs)
    assert model.asked == [[Pair("", "It took 12 men", "12")]]
    assert [judged[pair] for pair in pairs] == pytest.approx([0.6] * 3)


def test_verbatim_pairs_know_no_rule_and_have_their_own_entries_in_a_cache():
    model, cache = ScriptedModel(lambda pair: 0.6), Cache(":memory:")
    pairs = [Pair("", "87", "85"), Pair("", "", "Paris"), Pair("", "Paris.", "Paris"), Pair("", "Rome", "Paris")]
    judged = Judge(model, cache).probs(pairs, verbatim=True)
    assert model.asked == [pairs]
    assert [judged[pair] for pair in pairs] == pytest.approx([0.6] * 4)
    Judge(model, cache).probs(pairs)
    assert model.asked[1:] == [pairs[3:]]


def test_a_table_of_premises_and_hypotheses():
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


def test_no_pairs():
    assert Judge(CREDULOUS).probs([]).rows([]).shape == (0, 3)


@pytest.mark.parametrize(
    ("premise", "hypothesis"),
    [
        ("3 wins and 5 losses", "5 wins and 3 losses"),
        ("It was 3 wins and 5 losses.", "5 wins and 3 losses"),
        ("row 3, seat 5", "row 5, seat 3"),
        ("y = 3x + 5", "y = 5x + 3"),
        ("(3, 5)", "(5, 3)"),
        ("six for and forty-four against", "44 for and 6 against"),
    ],
)
def test_numbers_that_changed_places_are_another_answer(premise, hypothesis):
    assert decide(Pair("", premise, hypothesis), CREDULOUS) is False
    assert decide(Pair("", hypothesis, hypothesis), CREDULOUS) is True


@pytest.mark.parametrize(
    ("premise", "hypothesis"),
    [
        ("5 and 3", "3 and 5"),
        ("3 losses and 5 wins", "5 wins and 3 losses"),
        ("5 wins, 3 losses", "5 wins and 3 losses"),
    ],
)
def test_numbers_in_a_list_or_with_their_words_may_change_places(premise, hypothesis):
    assert decide(Pair("", premise, hypothesis), CREDULOUS) is not False


def test_the_letter_of_an_option_is_the_option():
    for text in (
        "B",
        "(B)",
        "[B]",
        "b.",
        "Option B",
        "Choice B",
        "The answer is B.",
        "B) argon",
        "(B) argon",
        "B: argon",
    ):
        assert decide(Pair("", text, "B"), CREDULOUS) is True, text
    for text in ("D", "(D)", "B or D", "D) argon", "argon", "Bern", ""):
        assert decide(Pair("", text, "B"), CREDULOUS) is False, text
    assert decide(Pair("", "B) argon", "argon"), CREDULOUS) is True
    assert decide(Pair("", "B. Stevenson", "A. Stevenson"), CREDULOUS) == Pair("", "B. Stevenson", "A. Stevenson")


@pytest.mark.parametrize("symbol", ["✓", "😀", "👍🏽", "✅", "★", "❤️", "\u200e", "\u00ad"])
def test_symbols_are_nothing(symbol):
    for name in ("Ida Voss", "1912", "5 kg"):
        for text in (f"{name} {symbol}", f"{symbol} {name}"):
            assert decide(Pair("", text, name), CREDULOUS) is True
    assert decide(Pair("", "B♭", "B major"), CREDULOUS) != decide(Pair("", "B", "B major"), CREDULOUS)
    assert decide(Pair("", symbol, "☃"), CREDULOUS) is not True
