"""Answers that say more than was asked: nouns with modifiers, and places with the region that they are in.

A reader asked for an occupation answers "an American actress", and states "actress"; a model that learned that cities
and colours exclude each other takes it for another answer. Beside these stand what only looks so: another noun with
the same modifier, words that take the noun back ("would-be actress"), people near the noun ("the actress's brother"),
and names that become others by a word ("New Orleans"). All are generated, for this project.
"""

import random
from collections.abc import Iterator

from tests.benchmarks.adapters.answer_forms import Form

OCCUPATIONS = (
    "actor", "actress", "politician", "journalist", "painter", "singer", "composer", "novelist", "poet", "physicist",
    "chemist", "lawyer", "judge", "footballer", "tennis player", "film director", "screenwriter", "photographer",
    "sculptor", "historian", "economist", "philosopher", "engineer", "physician", "surgeon", "nurse",
    "businesswoman", "priest", "bishop", "missionary", "explorer", "cyclist", "boxer", "wrestler", "jockey",
    "racing driver", "swimmer", "pianist", "violinist", "guitarist", "drummer", "rapper", "songwriter",
    "record producer", "dancer", "choreographer", "comedian", "television presenter", "radio host", "chef", "farmer",
    "carpenter", "blacksmith", "tailor", "printer", "publisher", "translator", "linguist", "biologist", "botanist",
    "zoologist", "geologist", "mathematician", "statistician", "computer scientist", "programmer", "pilot", "sailor",
    "fisherman", "miner", "spy", "fashion designer", "illustrator", "cartoonist", "animator", "magician",
    "playwright", "librarian", "archaeologist", "anthropologist", "sociologist", "psychologist", "pharmacist",
    "dentist", "rabbi", "monk", "trade unionist", "civil servant", "police officer", "firefighter",
    "basketball player", "cricketer", "golfer",
)  # fmt: skip
#: Several spellings of one occupation, any of which states any other.
_SAME = (
    ("film director", "movie director"), ("physician", "medical doctor", "doctor"), ("lawyer", "attorney"),
    ("footballer", "football player", "soccer player"), ("businessman", "businessperson"),
    ("novelist", "writer of novels"), ("television presenter", "TV presenter", "TV host"),
    ("screenwriter", "scriptwriter"), ("cricketer", "cricket player"), ("songwriter", "song writer"),
    ("police officer", "policeman"), ("fashion designer", "designer of fashion"),
)  # fmt: skip
_DEMONYMS = (
    "American", "British", "English", "Scottish", "Irish", "Welsh", "French", "German", "Italian", "Spanish",
    "Portuguese", "Dutch", "Belgian", "Swiss", "Austrian", "Polish", "Czech", "Hungarian", "Romanian", "Bulgarian",
    "Greek", "Turkish", "Russian", "Ukrainian", "Swedish", "Norwegian", "Danish", "Finnish", "Estonian", "Serbian",
    "Croatian", "Bosnian", "Albanian", "Israeli", "Egyptian", "Tunisian", "Nigerian", "Ghanaian", "Ethiopian",
    "South African", "Indian", "Pakistani", "Bengali", "Chinese", "Japanese", "Korean", "South Korean", "Vietnamese",
    "Thai", "Indonesian", "Filipino", "Australian", "New Zealand", "Canadian", "Mexican", "Cuban", "Brazilian",
    "Argentine", "Chilean", "Peruvian", "Colombian", "Jewish", "Persian", "Iranian", "Armenian", "Georgian",
    "African-American", "Anglo-Irish", "Turkish-Belgian", "French-Canadian", "Russian-born American",
    "German-born British", "Soviet", "Byzantine",
)  # fmt: skip
_QUALITIES = (
    "famous", "well-known", "young", "old", "retired", "senior", "leading", "professional", "award-winning", "local",
    "prominent", "self-taught", "successful", "popular", "influential", "contemporary", "nineteenth-century",
    "19th-century", "20th-century", "medieval", "celebrated", "noted", "veteran", "career", "liberal",
    "conservative",
)  # fmt: skip
_AFTER = (
    "from {land}", "born in {land}", "who lived in {land}", "of the {age} century", "by profession",
    "known for several works", "and {other}", "and later {other}", "as well as {other}", "of great renown",
    "active in {land}", "who later taught",
)  # fmt: skip
_TAKEN_BACK = (
    "would-be {n}", "the {n}'s wife", "the son of a {n}", "the daughter of a {n}", "a {n}'s assistant", "not a {n}",
    "{n}'s apprentice", "a friend of the {n}", "who played a {n} in a film", "an admirer of the {n}",
    "no {n} at all", "a {other} whose father was a {n}", "a {other}, though his brother was a {n}",
    "{other} and the husband of a {n}", "refused to become a {n}", "wanted to be a {n} but became a {other}",
    "a {other}, often taken for a {n}",
)  # fmt: skip
_ASKED = (
    "What is {p}'s occupation?", "What was {p}'s occupation?", "What is the occupation of {p}?",
    "What did {p} do for a living?", "what is {p}'s job", "What was {p}'s profession?", "What does {p} do?",
    "What is {p} known as?", "What was {p}?", "What profession did {p} have?", "what is the profession of {p}",
)  # fmt: skip
_SAID = (
    "{r}", "{r}", "{r}", "{r}", "{article} {r}", "{article} {r}.", "{p} was {article} {r}.", "{p} is {article} {r}.",
    "He was {article} {r}", "She is {article} {r}.", "{p} worked as {article} {r}.", "{article} {r}, and a good one",
    "The occupation of {p} is {r}.", "{p}'s occupation is {r}.", "It is {r}",
)  # fmt: skip
_PEOPLE = (
    "Ruth Marsh", "Tomas Lind", "Ida Kovac", "Karl Okoro", "Nell Bauer", "Owen Quill", "Vera Rossi", "Hugo Tanaka",
    "Mina Grove", "Saul Silva", "Edith Hale", "Rolf Novak", "Clara Brandt", "Jon Sayer", "Amina Dell",
    "Petr Havel Stone",
)  # fmt: skip
_LANDS = (
    "France", "Italy", "Ontario", "Bavaria", "Japan", "Scotland", "Peru", "Kenya", "New South Wales", "Ohio",
    "Devon", "East Java", "Brittany", "West Bengal", "Normandy", "Ontario, Canada", "the north of Spain",
    "Lower Austria",
)  # fmt: skip
_PLACES = (
    "Orleans", "Hampton", "Dover", "Lincoln", "Milford", "Ashby", "Haven", "Kirk", "Marlow", "Bremen", "Salem",
    "Delhi", "Cambridge", "Perth", "Elba", "York", "Thornby", "Elmwick", "Oxmere", "Kestle", "Tarrow", "Rabat",
    "Lecce", "Tambov", "Troyes", "Gera", "Nara", "Cusco", "Mombasa", "Osijek", "Bergen", "Aarhus", "Lugano", "Brno",
    "Split", "Varna", "Pskov", "Hemel", "Stafford", "Linz", "Nagoya", "Sucre", "Tartu", "Vaasa", "Umbra Vale",
    "Port Rill", "Saint Hale",
)  # fmt: skip
_BORN = (
    "Where was {p} born?", "In what city was {p} born?", "where is {p} from", "What is the birthplace of {p}?",
    "In which town did {p} grow up?", "Where does {p} live?", "Where did the meeting take place?",
)  # fmt: skip
_PLACED = (
    "{a}, {land}", "{a}, {land}", "{a} in {land}", "{a} ({land})", "the city of {a}", "the town of {a}, {land}",
    "in {a}, {land}", "{p} was born in {a}, {land}.", "{a}, a town in {land}", "near the river in {a}, {land}",
)  # fmt: skip
_OTHER_PLACES = ("New {a}", "East {a}", "Lower {a}", "Port {a}", "{a} Falls", "{a} Heights", "Little {a}", "Fort {a}")


def modified_forms(count: int, rng: random.Random) -> Iterator[Form]:
    """Yield occupations with modifiers, and places with their regions, that state the answer or another.

    Args:
        count: Number of forms; two thirds are occupations.
        rng: Source of every choice.
    """
    for _ in range(count):
        yield _occupation(rng) if rng.random() < 2 / 3 else _place(rng)


def _occupation(rng: random.Random) -> Form:
    person = rng.choice(_PEOPLE)
    names = rng.choice(_SAME) if rng.random() < 0.15 else (rng.choice(OCCUPATIONS),)
    gold, said = rng.choice(names), rng.choice(names)
    other = rng.choice([each for each in OCCUPATIONS if each not in names and not _related(each, gold)])
    question = rng.choice(_ASKED).format(p=person)
    chance = rng.random()
    if chance < 0.5:
        response, entailed = _modified(said, other, rng), True
    elif chance < 0.8:
        response, entailed = _modified(other, other, rng), False
    elif chance < 0.92:
        return Form(question, rng.choice(_TAKEN_BACK).format(n=said, other=other), gold, False)
    else:  # a plain noun does not say what the gold answer says
        gold, response, entailed = f"{rng.choice(_DEMONYMS)} {gold}", said, False
    sentence = rng.choice(_SAID).format(r=response, p=person, article="an" if response[0].lower() in "aeiou" else "a")
    return Form(question, sentence[0].upper() + sentence[1:] if rng.random() < 0.5 else sentence, gold, entailed)


def _modified(noun: str, other: str, rng: random.Random) -> str:
    """Return a noun with modifiers, mostly nationalities; ``other`` is a second occupation that may be named."""
    chance = rng.random()
    before = f"{rng.choice(_DEMONYMS)} " if chance < 0.7 else ""
    if chance > 0.55:
        before = f"{rng.choice(_QUALITIES)} {before}"
    after = ""
    if rng.random() < 0.25:
        century = rng.choice(["12th", "17th", "18th", "19th", "20th"])
        after = " " + rng.choice(_AFTER).format(land=rng.choice(_LANDS), age=century, other=other)
    return f"{before}{noun}{after}"


def _related(one: str, other: str) -> bool:
    """Tell whether two occupations share a word, or are one for a man and a woman."""
    return bool(set(one.split()) & set(other.split())) or {one, other} == {"actor", "actress"}


def _place(rng: random.Random) -> Form:
    person, land = rng.choice(_PEOPLE), rng.choice(_LANDS)
    gold, other = rng.sample(_PLACES, 2)
    question, entailed = rng.choice(_BORN).format(p=person), rng.random() < 0.5
    if entailed:
        return Form(question, rng.choice(_PLACED).format(a=gold, land=land, p=person), gold, True)
    if rng.random() < 0.6:
        return Form(question, rng.choice(_PLACED).format(a=other, land=land, p=person), gold, False)
    return Form(question, rng.choice(_OTHER_PLACES).format(a=gold), gold, False)
