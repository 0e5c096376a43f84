"""Answers of one type that are easily confused, written for this project.

NLI sets and EVOUNA have few of them; an entailment model trained on those alone takes London for Paris.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass

Member = tuple[str, ...]  # the spellings of one answer


@dataclass(frozen=True)
class AnswerType:
    """Answers that exclude each other, and questions that each of them could answer."""

    members: tuple[Member, ...]
    questions: tuple[str, ...]


def _each(names: str) -> tuple[Member, ...]:
    """Split ``"a, b = c, d"`` into members and their spellings."""
    return tuple(tuple(name.strip() for name in member.split("=")) for member in names.split(","))


def _people(first: str, last: str) -> tuple[Member, ...]:
    """Combine each first name with three last names."""
    firsts, lasts = first.split(), last.split()
    return tuple(
        (f"{one} {lasts[(7 * number + 3 * row) % len(lasts)]}",)
        for number, one in enumerate(firsts)
        for row in range(3)
    )


_WORDS = [
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
]

TYPES = (
    AnswerType(
        _each("red, blue, green, yellow, black, white, purple, orange, brown, pink, grey = gray, silver, gold, violet"),
        ("What colour was the winner's scarf?", "What color is the old tram?", "Which colour do the nurses wear?",
         "The roof tiles are painted in what colour?", "What is the colour of the club's flag?"),
    ),
    AnswerType(
        _each("Monday, Tuesday, Wednesday, Thursday, Friday, Saturday, Sunday"),
        ("On which day does the choir rehearse?", "When is the library closed?", "What day was the treaty signed?",
         "Which weekday is pay day?"),
    ),
    AnswerType(
        _each("January, February, March, April, May, June, July, August, September, October, November, December"),
        ("In which month do the storks return?", "When does the school year start?", "What month is the regatta held?",
         "In which month was she born?"),
    ),
    AnswerType(
        _each("spring, summer, autumn = fall, winter"),
        ("In which season is the pass closed?", "When do the geese arrive?", "What season is best for the walk?"),
    ),
    AnswerType(
        _each("north, south, east, west, north-east = northeast, south-west = southwest"),
        ("In which direction does the river flow?", "Which way do the windows face?", "Where does the wind come from?"),
    ),
    AnswerType(
        _each("gold, silver, copper, iron, tin, lead, bronze, brass, steel, zinc, platinum, aluminium = aluminum"),
        ("Which metal is the crown made of?", "What is the statue cast in?", "Of what metal are the coins?"),
    ),
    AnswerType(
        _each("wood = timber, stone, glass, brick, clay, paper, leather, wool, cotton, silk, slate, straw, concrete"),
        ("What is the barn built of?", "What material are the gloves made from?", "Of what is the roof made?"),
    ),
    AnswerType(
        _each("dog, cat, horse, cow, sheep, goat, pig, goose, duck, fox, wolf, bear, otter, hare, rabbit, owl, swan, "
              "pigeon, crow, mouse, seal"),
        ("Which animal is on the town's coat of arms?", "What kind of animal guards the farm?",
         "What animal did the boy draw?", "Which creature is the team named after?"),
    ),
    AnswerType(
        _each("apple, pear, plum, cherry, fig, grape, lemon, orange, quince, peach, strawberry, blackberry, melon"),
        ("Which fruit goes into the cake?", "What fruit grows by the wall?", "What is the jam made from?"),
    ),
    AnswerType(
        _each("tea, coffee, milk, beer, wine, cider, water, cocoa = hot chocolate, lemonade, juice, rum"),
        ("What do the miners drink at noon?", "Which drink is served at the wedding?", "What was in the flask?"),
    ),
    AnswerType(
        tuple((word, str(number)) for number, word in enumerate(_WORDS, 1)) + _each("20 = twenty, 30 = thirty, 100"),
        ("How many bells hang in the tower?", "How many players are in a team?", "How many children did she have?",
         "At what age did he leave school?", "How many floors does the house have?"),
    ),
    AnswerType(
        tuple((str(year),) for year in range(1780, 2020, 7)),
        ("In which year was the canal opened?", "When was the song recorded?", "When did the firm close?",
         "What year did the dam break?"),
    ),
    AnswerType(
        _each("Paris, London, Rome, Berlin, Madrid, Vienna, Lisbon, Oslo, Dublin, Athens, Cairo, Tokyo, Beijing, Delhi, "
              "Moscow, Prague, Warsaw, Lyon, Milan, Hamburg, Seville, Kyoto, Mumbai, Boston, Chicago, Sydney, Toronto, "
              "New York = New York City, Marseille, Geneva, Venice, Munich"),
        ("What is the capital of the country?", "In which city does the story begin?", "Where was the painter born?",
         "Which city hosted the fair?", "Where is the head office?", "What is the capital of that kingdom?"),
    ),
    AnswerType(
        _each("France, Italy, Spain, Germany, Portugal, Poland, Norway, Sweden, Greece, Egypt, Japan, China, India, "
              "Brazil, Mexico, Canada, Kenya, Peru, Chile, Austria, the United States = the USA = America, "
              "the United Kingdom = the UK, the Netherlands = Holland"),
        ("Which country won the cup?", "Where does the train start?", "In which country is the lake?",
         "What country did the family come from?"),
    ),
    AnswerType(
        _each("French, Italian, Spanish, German, Portuguese, Polish, English, Greek, Arabic, Japanese, Chinese, Hindi, "
              "Latin, Dutch, Russian, Turkish"),
        ("What language is the letter written in?", "Which language do they speak at home?"),
    ),
    AnswerType(
        _each("euro, dollar, pound, yen, peso, rupee, franc, krona, yuan, real"),
        ("What currency is used there?", "In which money is the price given?"),
    ),
    AnswerType(
        _each("Mercury, Venus, Earth, Mars, Jupiter, Saturn, Uranus, Neptune"),
        ("Which planet did the probe visit?", "What is the name of the planet in the film?"),
    ),
    AnswerType(
        _each("H2O, CO2, NaCl, O2, Fe, Au, Ag, Na, K, Pb, Cu, He"),
        ("What is the chemical symbol?", "Which formula stands on the label?"),
    ),
    AnswerType(
        _each("oxygen, nitrogen, hydrogen, carbon, helium, sulphur = sulfur, sodium, chlorine, calcium, carbon dioxide"),
        ("Which element is meant?", "What gas is in the bottle?", "What does the plant give off?"),
    ),
    AnswerType(
        _each("heart, brain, liver, lungs, stomach, skin, kidney, eye, ear, hand, foot, knee"),
        ("Which part of the body was hurt?", "What organ is shown in the picture?"),
    ),
    AnswerType(
        _each("baker, smith = blacksmith, teacher, doctor = physician, sailor, farmer, judge, tailor, miner, priest, "
              "nurse, painter, weaver, potter, cook, fisherman"),
        ("What was her father's trade?", "What did he do for a living?", "Who found the ring?"),
    ),
    AnswerType(
        _each("violin = fiddle, piano, flute, drum, trumpet, guitar, harp, organ, cello, accordion"),
        ("Which instrument did she play?", "What is heard at the start of the piece?"),
    ),
    AnswerType(
        _each("football = soccer, tennis, cricket, rowing, chess, golf, rugby, swimming, basketball, hockey"),
        ("Which sport is he known for?", "What game is played on the green?"),
    ),
    AnswerType(
        _each("Atlantic, Pacific, Indian Ocean, Arctic Ocean, Mediterranean, Baltic Sea, North Sea, Black Sea"),
        ("Into which sea did the plane fall?", "What body of water lies off the coast?"),
    ),
    AnswerType(
        _each("Shakespeare = William Shakespeare, Dickens = Charles Dickens, Tolstoy = Leo Tolstoy, Jane Austen, Orwell = "
              "George Orwell, Hemingway, Homer, Goethe, Cervantes, Mark Twain, Newton = Isaac Newton, Einstein = Albert "
              "Einstein, Darwin = Charles Darwin, Galileo, Edison = Thomas Edison, Alexander Graham Bell, Mozart, "
              "Beethoven, Bach, Picasso, Van Gogh = Vincent van Gogh, Leonardo da Vinci, Columbus, Washington = George "
              "Washington, Lincoln = Abraham Lincoln, Napoleon, Neil Armstrong, Marie Curie"),
        ("Who wrote it?", "Who is shown on the stamp?", "Who made the discovery?", "Who was the first?",
         "Whose house is now a museum?"),
    ),
    AnswerType(
        _people("Anna Peter Ruth Tomas Ida Karl Nell Owen Vera Hugo Mina Saul Edith Rolf Clara",
                "Marsh Kovac Lind Okoro Bauer Quill Rossi Tanaka Grove Silva Hale Novak Brandt"),
        ("Who founded the school?", "Who won the race?", "Who is the captain?", "Who built the organ?",
         "Who was the first mayor?"),
    ),
    AnswerType(
        _each("Thornby, Elmwick, Sandhaven, Port Rill, Oxmere, Dunhollow, Kestle, Brackwater, Highmoor, Lower Fenn, Tarrow"),
        ("In which village was it found?", "Where does the ferry land?", "Which town has the oldest mill?"),
    ),
    AnswerType(
        _each("yes, no"),
        ("Is the bridge open to carts?", "Did the ship return?", "Are visitors allowed?", "Does the path cross the river?",
         "Was the letter ever answered?", "Can the gate be locked?"),
    ),
    AnswerType(_each("left, right"), ("On which side is the door?", "Which hand holds the lamp?")),
)  # fmt: skip

_FORMS = (
    "{a}",
    "{a}",
    "{a}",
    "It is {a}",
    "It was {a}",
    "The answer is {a}",
    "{a}, as the guide says",
    "Probably {a}",
)
_EVASIONS = (
    "I do not know", "The passage does not say", "It is not mentioned", "unknown", "That is a good question",
    "The question", "Nobody knows",
)  # fmt: skip


def confusable_pairs(count: int, rng: random.Random) -> Iterator[tuple[str, str, str, bool]]:
    """Yield (question, premise, hypothesis, entailed): two forms of one answer, or answers that differ.

    Args:
        count: Number of pairs.
        rng: Source of every choice.
    """
    for _ in range(count):
        kind = rng.choice(TYPES)
        question, gold = rng.choice(kind.questions), rng.choice(kind.members)
        chance = rng.random()
        if chance < 0.4:
            response, entailed = rng.choice(_FORMS[3:] if len(gold) == 1 else _FORMS).format(a=rng.choice(gold)), True
        elif chance < 0.92:
            other = rng.choice([member for member in kind.members if member != gold])
            response, entailed = rng.choice(_FORMS).format(a=rng.choice(other)), False
        else:
            response, entailed = rng.choice(_EVASIONS), False
        response = response[0].upper() + response[1:] if rng.random() < 0.5 else response
        pair = [response, rng.choice(gold)]
        if rng.random() < 0.3:
            pair.reverse()
        yield question, pair[0], pair[1], entailed
