"""Rules before the entailment model: equal texts, values, and texts that state more than one answer."""

import random

import pytest
from seper_reward.estimators.rules import decide, normal_form, same, settle, states_another

CAPITAL = "What is the capital of Tarvia?"
WHO = "Who wrote The Salt Road?"
WHEN = "In what year did the Hall of Oxmere burn down?"

EQUAL = [
    ("São Paulo", "sao paulo"),
    ("**Elmwick**", "Elmwick"),
    ("the city of Elmwick", "Elmwick"),
    ("U.S.", "the United States of America"),
    ("JPY", "Japanese yen"),
    ("Kestle & Sons Ltd.", "Kestle and Sons Limited"),
    ("Mrs. Ruth Okoro", "Ruth Okoro"),
    ("St. Hale", "Saint Hale"),
    ("World War II", "the Second World War"),
]
DIFFERENT = [("IV", "Ida Voss"), ("Norway", "no"), ("The Who", "who's who"), ("Vitamin A", "Vitamin D"), ("C", "C++")]


@pytest.mark.parametrize(("one", "other"), EQUAL)
def test_equal_after_normalisation(one, other):
    assert same(one, other)
    assert same(other, one)
    assert decide(one, other, "Which is meant?") is True


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_different_after_normalisation(one, other):
    assert not same(one, other)


def test_normal_form_is_its_own_normal_form():
    assert all(normal_form(normal_form(text)) == normal_form(text) for pair in EQUAL + DIFFERENT for text in pair)


@pytest.mark.parametrize(
    ("premise", "hypothesis", "question", "verdict"),
    [
        ("1877", "1879", WHEN, False),
        ("It burnt down in 1877.", "1879", WHEN, False),
        ("eighteen seventy-nine", "1879", WHEN, True),
        ("3 May 1879", "1879", WHEN, True),
        ("nobody knows", "1879", WHEN, False),
        ("the Hall of Oxmere", "1879", WHEN, False),
        ("Elmwick is the capital of Tarvia.", "Elmwick", CAPITAL, True),
        ("The capital is Elmwick", "Elmwick", CAPITAL, True),
        ("the capital of Tarvia", "Elmwick", CAPITAL, False),
        ("Okoro, Ruth", "Ruth Okoro", WHO, True),
        ("Yes, it is.", "yes", "Is Elmwick large?", True),
        ("No, it is not.", "yes", "Is Elmwick large?", False),
        ("No.", "no", "Is Elmwick large?", True),
        ("", "yes", "Is Elmwick large?", False),
        ("WHO", "World Health Organization", "Which agency is it?", True),
        ("Ottawa, here", "Canberra", "Where do they meet?", False),
        ("in Buenos Aires", "Canberra", "Where do they meet?", False),
        ("Peking", "Beijing", "Where do they meet?", True),
        ("the W.H.O.", "World Health Organization", "Which agency is it?", True),
        ("412 votes", "412 %", "What share?", False),
        ("about 412 feet high", "412 ft", "How high is it?", True),
        ("The agency in Kestle", "WHO", "Which agency in Kestle?", None),
        ("Town: Elmwick", "Elmwick", CAPITAL, True),
        ("Okoro", "Ruth Okoro", WHO, True),
        ("R. Okoro", "Ruth Okoro", WHO, True),
        ("Anna Okoro", "Ruth Okoro", WHO, False),
        ("Ruth Nkem Okoro", "Ruth Okoro", WHO, None),
        ("M. Okoro", "Ruth Okoro", WHO, False),
        ("Not sure", "no", "Are bats mammals?", None),
        ("No idea", "no", "Are bats mammals?", None),
        ("no one knows", "no", "Are bats mammals?", None),
        ("Is that true", "yes", "Are bats mammals?", None),
        ("he was born", "yes", "Was he born in Oslo?", None),
        ("No, it is not", "no", "Are bats birds?", True),
        ("Oslo to Bergen", "Bergen to Oslo", "Which line is it?", None),
        ("C", "C++", "Which language is it?", None),
        ("Nell Quill, Ruth Okoro", "Ruth Okoro", WHO, None),
        ("Bill Okoro", "William Okoro", WHO, None),
        ("It did not; it was rebuilt.", "no", "Did the hall burn down?", True),
        ("Bats are mammals, the only ones that fly.", "yes", "Are bats mammals?", True),
        ("Are bats mammals?", "yes", "Are bats mammals?", None),
        ("the Tern longer", "yes", "Is the Tern longer than the Osk?", None),
        ("The Tern is longer.", "yes", "Is the Tern longer than the Osk?", True),
        ("Jon win Hallow", "yes", "Did Jon Sayer win the race in Hallow?", None),
        ("He was never married.", "no", "Was the painter Aldo Renn ever married?", True),
        ("the Elbe and the Rhine", "the Rhine", "Which is longer, the Elbe or the Rhine?", None),
    ],
)
def test_rules_decide_or_leave_to_the_model(premise, hypothesis, question, verdict):
    decided = decide(premise, hypothesis, question)
    assert decided is verdict if verdict is not None else not isinstance(decided, bool)


def test_values_beside_other_words_are_put_in_one_spelling():
    assert settle("about 2340 m high", "2,340 metres") == ("about 2,340 metres high", "2,340 metres")
    assert settle("Apollo Eleven landed", "Apollo 11") == ("Apollo 11 landed", "Apollo 11")
    assert settle("It was in the 1870s", "1879") == ("It was in the 1870s", "1879")  # less precise: for the model
    assert settle("Joseph Heller III", "Catch-22") == ("Joseph Heller III", "Catch-22")
    assert settle("Elizabeth I", "Elizabeth II") is None


def test_no_near_number_entails_a_number():
    rng = random.Random(0)
    for _ in range(500):
        number = rng.randint(2, 3000)
        other = number + rng.choice([-10, -2, -1, 1, 2, 10])
        asked, said = "How many were there?", rng.choice(["{}", "There were {}.", "{} in all"]).format(other)
        assert decide(said, str(number), asked) is False
        assert decide(rng.choice(["{}", "There were {}."]).format(f"{number:,}"), str(number), asked) is True


@pytest.mark.parametrize(
    "text",
    [
        "Elmwick, Oxmere", "Oxmere, Elmwick", "Elmwick (Oxmere)", "Elmwick and Oxmere", "Oxmere or Elmwick",
        "oxmere, elmwick", "Elmwick / Oxmere", "Oxmere; Elmwick; Kestle", "Oxmere. Elmwick", "Elmwick, maybe Oxmere",
        "not Elmwick", "It isn't Elmwick.", "near Elmwick", "after Elmwick", "almost Elmwick", "the mayor of Elmwick",
        "Elmwick's mayor", "a town bordering Elmwick", "Elmwick, or possibly Oxmere", "Elmwick, it might be Oxmere",
        "Elmwick II", "anything but Elmwick", "old old old old", "sheet. coins",
        "a long row of plain words about no town", "oxmere elmwick", "elmwick oxmere kestle", "OXMERE ELMWICK",
        "Oxmere • Elmwick", "Oxmere = Elmwick", "Oxmere... Elmwick", "Oxmere—Elmwick",
        "{Oxmere} <Elmwick>", "Elmwick followed by Oxmere", "Oxmere as well as Elmwick", "Oxmere -> Elmwick",
    ],
)  # fmt: skip
def test_texts_that_state_another_or_no_answer(text):
    assert states_another(text, CAPITAL, "Elmwick")


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("Who was older, Ann Voss or Bob Hale?", True),
        ("who was older ann voss or bob hale", True),
        ("older, Ann Voss or Bob Hale", True),
        ("Ann Voss or Bob Hale", True),
        ("Bob Hale, Ann Voss", True),
        ("ann voss bob hale", True),
        ("Bob Hale was older than Ann Voss.", True),
        ("Ann Voss", False),
        ("Ann Voss was older.", False),
        ("Ann Voss was older than Bob Hale.", False),
        ("It is Ann Voss, not Bob Hale", False),
        ("Ann Voss is older than Bob Hale. Actually no, Bob Hale.", True),
    ],
)
def test_a_question_that_names_its_candidates(text, other):
    assert states_another(text, "Who was older, Ann Voss or Bob Hale?", "Ann Voss") is other


@pytest.mark.parametrize("text", ["ruth okoro", "RUTH OKORO", "mary ruth okoro"])
def test_more_of_a_persons_names(text):
    assert not states_another(text, WHO, "Okoro")


@pytest.mark.parametrize(
    ("text", "other"), [("coldplay song i will try to fix you", True), ("try to fix you", False), ("Fix You", False)]
)
def test_a_question_that_quotes_its_answer(text, other):
    assert states_another(text, "coldplay song i will try to fix you", "Fix You") is other


@pytest.mark.parametrize(
    "text",
    [
        "Elmwick", "It is Elmwick.", "Elmwick, Norway", "Elmwick, the capital", "the city of Elmwick", "Elmwik",
        "The capital of Tarvia is Elmwick", "Elmwick, of course", "Elmwick, on the coast, since 1702",
        "Elmwick (where Ruth Okoro was born)", "Elmwick, an arm of the Oxmere estate", "Elmwick (not Oxmere)",
        "Probably Elmwick", "The Tarvian town Elmwick", "I think it is Elmwick", "the city of elmwick",
        "elmwick australia", "the capital is elmwick", "the small town of elmwick",
    ],
)  # fmt: skip
def test_texts_that_state_the_answer_alone(text):
    assert not states_another(text, CAPITAL, "Elmwick")


@pytest.mark.parametrize(
    ("text", "answer", "other"),
    [
        ("1879 or 1881", "1879", True),
        ("1879, 1881", "1879", True),
        ("1879 to 1881", "1881", True),
        ("1879–1881", "1879–1881", False),
        ("70 to 80", "75", True),
        ("9 November 1879", "1879", False),
        ("In 1879, after 28 years", "1879", False),
        ("red, blue", "red", True),
        ('The chemical symbol for mercury is "H".', "Hg", True),
        ("The chemical symbol is Hg", "Hg", False),
        ("artificial intelligence", "AI", False),
        ("1990 (aired 1990–1995)", "1990", False),
        ("1990–present", "1990", False),
        ("2-3 May 1999", "1999", False),
        ("The monarch was King George VI", "King George VI", False),
        ("the author and novelist", "novelist", False),
        ("politician actor", "politician", True),
        ("American politician", "politician", False),
        ("The man is a politician.", "politician", False),
        ("jazz singer", "singer", False),
        ('the song "Fix You" by Coldplay', "Fix You", False),
        ("singer-songwriter", "singer-songwriter", False),
        ("It is red", "red", False),
        ("Ruth Okoro, Nell Quill", "Ruth Okoro", True),
        ("Ruth Okoro, the English novelist", "Ruth Okoro", False),
        ("The English novelist Ruth Okoro", "Ruth Okoro", False),
        ("Ruth Okoro (1775-1817)", "Ruth Okoro", False),
        ("the sister of Ruth Okoro", "Ruth Okoro", True),
        ("Ruth Okoro junior", "Ruth Okoro", True),
        ("The novel is by Ruth Okoro.", "Ruth Okoro", False),
        ("412 metres or 500", "412 metres", True),
        ("R. Okoro", "Ruth Okoro", False),
        ("Mt. Elmwick", "Elmwick", False),
        ("the planet next to Elmwick", "Elmwick", True),
        ("The prize went to Ruth Okoro.", "Ruth Okoro", False),
        ("206 (babies have some 300)", "206", False),
        ("Janacek, Dvorak", "Janáček", True),
        ("Tarkov's The Nutbrown Maid", "The Nutbrown Maid", False),
        ("The Nutbrown Maid The Salt Road", "The Nutbrown Maid", True),
    ],
)
def test_other_values_names_and_items(text, answer, other):
    assert states_another(text, "Which is meant?", answer) is other
