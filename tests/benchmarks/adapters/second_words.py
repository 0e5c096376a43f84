"""The words that ``answer_second.py`` makes texts of, and names made up of them; all written for this project."""

import random
from collections.abc import Callable


def _each(names: str) -> tuple[str, ...]:
    return tuple(names.split())


FIRST_NAMES = _each(
    "Albert Agnes Anton Arthur Beatrice Bernard Bruno Carla Carl Celia Conrad Daniel Dora David Edgar Elena Emil "
    "Fanny "
    "Felix Frank Greta Gustav Helen Henry Harold Irma Ivan Jakob Joan John Julius Katrin Kurt Laura Leon Louis Magda "
    "Mario Martin Nadia Nora Oscar Olga Paul Paula Philip Robert Rosa Samuel Sylvia Stefan Theo Tessa Victor Viola "
    "Walter William Yusuf Zora Amir Mehmet Li Chinua Ravi Priya"
)
LAST_STARTS = _each(
    "Al Bar Bel Ber Bran Cal Cor Dal Dan Dor El Fal Fen Gar Gil Gor Hal Har Hol Jar Jan Kal Kel Kor Lan Lar Lin Lor "
    "Mal "
    "Mar Mer Mor Nor Os Pel Per Pol Ral Ros Sal Ser Sol Stan Tal Tor Ul Val Ver Vil Wal Wen Wil Yar Zel Chan Shev Ab"
)
LAST_ENDS = _each(
    "den ek enko er eva ford ga gen hardt iani in ington ita ko kov lage ley man mann more nes ova ow quist ran rez "
    "rian "
    "ris sen ski son sson stad ston tano tell ti to vall vey vic ward well wick wright yan"
)
PLACE_ENDS = ("ia", "burg", "ham", "mouth", "stad", "ville", "haven", "minster", "ola", "grad", "ton", "pur", "abad")
TITLE_WORDS = _each(
    "River Winter Garden Silence Night Sparrow Harbour Tower Shadow Orchard Mirror Storm Lantern King Widow Bridge "
    "Thief Road Dream Letter Fire Summer Wolf Stranger Island Song Clock Window Hunter Moon"
)
NOUNS = _each(
    "chisel lantern anchor kettle saddle basket ladder whistle hammer compass pendulum lever magnet lens antler "
    "feather "
    "willow heron beetle lobster turnip saffron granite marble amber quartz ivory linen velvet copper mercury iodine "
    "sulphate enzyme hormone comet glacier lagoon canyon plateau sonata ballad sonnet trumpet"
)
REGIONS = ("Baltic", "National", "Alpine", "Royal", "Central", "Northern", "Nordic", "Pacific", "Imperial", "Federal")
TOPICS = (
    "Weather",
    "Railway",
    "Fisheries",
    "Health",
    "Space",
    "Mining",
    "Chess",
    "Harbour",
    "Energy",
    "Music",
    "Trade",
)
BODIES = (
    "Institute",
    "Agency",
    "Commission",
    "Society",
    "Union",
    "Council",
    "Bureau",
    "Authority",
    "Federation",
    "League",
)
CLUBS = (
    "United",
    "City",
    "Rovers",
    "Athletic",
    "Wanderers",
    "Rangers",
    "Lions",
    "Falcons",
    "Bears",
    "Pirates",
    "Kings",
)
JOBS = (
    "composer", "painter", "novelist", "chemist", "English poet", "German architect", "singer", "general", "historian",
    "writer", "American inventor", "actress", "Italian engineer", "philosopher", "explorer", "scholar",
)  # fmt: skip
RELATIVES = (
    "mother", "father", "brother", "sister", "son", "daughter", "widow", "uncle", "aunt", "teacher", "pupil", "cousin",
    "husband", "grandfather", "servant", "assistant", "doctor", "nephew",
)  # fmt: skip
OFFICES = (
    "president", "prime minister", "chancellor", "queen", "emperor", "foreign minister", "crown prince", "archbishop",
    "chief of staff", "finance minister", "ambassador", "attorney general", "governor", "vice president", "high court",
)  # fmt: skip
RANKS = (
    "Duke",
    "Prince",
    "Saint",
    "Bishop",
    "Lord",
    "Emperor",
    "Empress",
    "Princess",
    "Queen",
    "Abbot",
    "Sister",
    "Count",
)
#: (said, gold) of two persons: {f} and {o} are first names, {l} and {m} last names, {i} and {j} initials.
NAMESAKES = (
    ("{o} {l}", "{f} {l}"), ("{o} {l}", "{f} {l}"), ("{o} {l}", "{f} {l}"), ("{f} {m}", "{f} {l}"),
    ("{f} {l} Sr.", "{f} {l} Jr."), ("{f} {l} Jr.", "{f} {l}"), ("{f} {l} the Elder", "{f} {l} the Younger"),
    ("{f} {i}. {j}. {l}", "{f} {j}. {l}"), ("{f} {i}. {l}", "{f} {j}. {l}"), ("{r} {f}", "{q} {f}"),
    ("{r} {f} of {m}", "{q} {f} of {m}"), ("{r} {f}", "{r} {o}"), ("{f} {l} III", "{f} {l}"),
    ("{f} {l} II", "{f} {l}"),
    ("{f} {l} and {o} {l}", "{f} {l}"), ("{f} {l}", "{f} {l} and {o} {m}"), ("{f}", "{f} and {o}"),
    ("{f} {o} {l}", "{o} {f} {l}"), ("{i}. {l}", "{j}. {l}"), ("{r} {f} II", "{r} {f} I"), ("{f} {l}-{m}", "{f} {l}"),
    ("Mrs. {l}", "Mr. {l}"), ("{o} {f} {m}", "{f} {l}"), ("{f} and {o}", "{f} and {m}"), ("{o} {l} Jr.", "{f} {l}"),
)  # fmt: skip
#: Places whose names are near, none of which is another one.
NEAR_PLACES = (
    ("Slovenia", "Slovakia"), ("Iran", "Iraq"), ("Mali", "Malawi", "Bali"), ("Paraguay", "Uruguay"),
    ("Zambia", "Gambia"),
    ("Dominica", "the Dominican Republic"), ("Latvia", "Lithuania"), ("Sudan", "South Sudan"), ("Ireland", "Iceland"),
    ("Mauritius", "Mauritania"), ("Samoa", "American Samoa"), ("Papua", "Papua New Guinea"), ("Timor", "East Timor"),
    ("Virginia", "West Virginia"), ("North Dakota", "South Dakota"), ("Granada", "Grenada"), ("Budapest", "Bucharest"),
    ("Kansas", "Kansas City", "Arkansas"), ("Mexico", "Mexico City", "New Mexico"),
    ("Washington state", "Washington, D.C."),
    ("Quebec City", "the province of Quebec"), ("Oklahoma", "Oklahoma City"), ("Northern Ireland", "Ireland"),
    ("Somalia", "Somaliland"), ("Georgia", "South Georgia"), ("Lapland", "Poland"), ("Wales", "New South Wales"),
)  # fmt: skip
#: Lands: name, adjective, other names.
COUNTRIES = (
    ("France", "French", "the French Republic"), ("Germany", "German", "the Federal Republic of Germany",
     "Deutschland"),
    ("Italy", "Italian", "the Italian Republic", "Italia"), ("Spain", "Spanish", "the Kingdom of Spain"),
    ("Sweden", "Swedish", "the Kingdom of Sweden"), ("Greece", "Greek", "the Hellenic Republic", "Hellas"),
    ("China", "Chinese", "the People's Republic of China", "PRC"), ("Mexico", "Mexican", "the United Mexican States"),
    ("Brazil", "Brazilian", "the Federative Republic of Brazil", "Brasil"),
    ("India", "Indian", "the Republic of India"),
    ("Russia", "Russian", "the Russian Federation"), ("Poland", "Polish", "the Republic of Poland"),
    ("the United States", "American", "the USA", "US", "America", "the United States of America"),
    ("the United Kingdom", "British", "the UK", "Great Britain", "U.K."), ("Kenya", "Kenyan", "the Republic of Kenya"),
    ("the Netherlands", "Dutch", "Holland"), ("Egypt", "Egyptian", "the Arab Republic of Egypt"),
    ("Turkey", "Turkish", "the Republic of Turkey", "Türkiye"), ("Portugal", "Portuguese", "the Portuguese Republic"),
    ("the Soviet Union", "Soviet", "the USSR"), ("Australia", "Australian", "the Commonwealth of Australia"),
    ("Switzerland", "Swiss", "the Swiss Confederation"), ("Hungary", "Hungarian", "the Republic of Hungary"),
    ("Myanmar", "Burmese", "Burma"), ("Iran", "Iranian", "Persia"), ("Thailand", "Thai", "Siam"),
)  # fmt: skip
HOMES = {
    "Lyon": "France", "Turin": "Italy", "Seville": "Spain", "Leipzig": "Germany", "Porto": "Portugal",
    "Cork": "Ireland",
    "Bergen": "Norway", "Malmö": "Sweden", "Odense": "Denmark", "Graz": "Austria", "Basel": "Switzerland",
    "Brno": "Moravia",
    "Poznań": "Poland", "Szeged": "Hungary", "Varna": "Bulgaria", "Izmir": "Turkey", "Haifa": "Israel",
    "Shiraz": "Iran",
    "Lahore": "Pakistan", "Kolkata": "India", "Osaka": "Japan", "Busan": "South Korea", "Wuhan": "China",
    "Hue": "Vietnam",
    "Davao": "the Philippines", "Perth": "Australia", "Dunedin": "New Zealand", "Lagos": "Nigeria", "Mombasa": "Kenya",
    "Fez": "Morocco", "Durban": "South Africa", "Calgary": "Canada", "Denver": "Colorado", "Tampa": "Florida",
    "Recife": "Brazil", "Cusco": "Peru", "Rosario": "Argentina", "Puebla": "Mexico", "Leeds": "England",
    "Dundee": "Scotland",
}  # fmt: skip
ACRONYMS = (
    ("World Health Organization", "WHO"), ("Federal Bureau of Investigation", "FBI"), ("European Union", "EU"),
    ("Central Intelligence Agency", "CIA"), ("International Monetary Fund", "IMF"),
    ("World Trade Organization", "WTO"),
    ("North Atlantic Treaty Organization", "NATO"), ("International Olympic Committee", "IOC"),
    ("United Nations", "UN"),
    ("National Basketball Association", "NBA"), ("European Central Bank", "ECB"), ("Internal Revenue Service", "IRS"),
    ("Massachusetts Institute of Technology", "MIT"), ("British Broadcasting Corporation", "BBC"),
    ("deoxyribonucleic acid", "DNA"),
    ("University of California, Los Angeles", "UCLA"), ("random-access memory", "RAM"),
    ("magnetic resonance imaging", "MRI"),
    ("Environmental Protection Agency", "EPA"), ("Food and Drug Administration", "FDA"),
    ("liquefied natural gas", "LNG"),
)  # fmt: skip
PLURALS = tuple(
    tuple(each.split("/"))
    for each in _each(
        "knife/knives wolf/wolves leaf/leaves mouse/mice goose/geese tooth/teeth church/churches lady/ladies "
        "fox/foxes "
        "bridge/bridges berry/berries ox/oxen statue/statues crisis/crises fungus/fungi cactus/cacti coin/coins "
        "diary/diaries potato/potatoes shelf/shelves vertebra/vertebrae medium/media tunnel/tunnels engine/engines "
        "law/laws tax/taxes river/rivers parliament/parliaments bacterium/bacteria hero/heroes"
    )
)
ORIGIN = ("from {}", "born in {}", "{}", "a citizen of {}", "he came from {}", "she was from {}")
RESPELLED = (
    ("y", "i"), ("k", "c"), ("c", "k"), ("sk", "sch"), ("ov", "off"), ("v", "w"), ("w", "v"), ("j", "y"),
    ("sh", "sch"),
    ("ch", "tch"), ("ar", "aar"), ("h", "kh"), ("i", "ee"), ("u", "ou"), ("ph", "f"), ("s", "z"), ("z", "s"),
    ("t", "th"),
    ("ski", "sky"), ("ph", "v"), ("x", "ks"), ("qu", "k"), ("ev", "eff"), ("ll", "l"), ("nn", "n"), ("ss", "s"),
)  # fmt: skip
SUBJECTS = (
    "the tower of {place}", "the {person} prize", "the old bridge of {place}", "the siege of {place}",
    "the {person} affair",
    "the first {place} festival", "the {place} canal", "the {person} collection", "the school in {place}",
    "the {place} Cup",
    "the harbour of {place}", "the {person} map", "the great fire of {place}", "the {place} railway",
    "the {person} trial",
)  # fmt: skip
HEADS = (
    "the largest of its time",
    "now a museum piece",
    "known to all visitors",
    "long forgotten",
    "a work of ten years",
)
_P = (
    ("Who was behind {t}?", "the person behind {t} was {a}", "{a} was behind {t}", "it was {a} who was behind {t}"),
    ("who made {t} famous", "{a} made {t} famous", "{t} was made famous by {a}", "it was made famous by {a}"),
    ("Who described {t}?", "{t} was described by {a}", "{a} described {t}", "{a} described it",
     "the description is by {a}"),
    ("Who paid for {t}?", "{a} paid for {t}", "{t} was paid for by {a}", "it was paid for by {a}",
     "the money came from {a}"),
    ("Who was the hero of {t}?", "the hero of {t} was {a}", "{a} was the hero of {t}", "its hero was {a}"),
    ("who planned {t}", "{t} was planned by {a}", "{a} planned {t}", "the plan was {a}'s", "{a} is its planner"),
)  # fmt: skip
ASKED = {
    "person": _P,
    "organisation": (
        *_P[2:4],
        ("Which body runs {t}?", "{a} runs {t}", "{t} is run by {a}", "it is run by {a}",
         "the body that runs {t} is {a}"),
        ("Which company owns {t}?", "{a} owns {t}", "{t} belongs to {a}", "the owner of {t} is {a}",
         "its owner is {a}"),
    ),
    "place": (
        ("Where is the archive of {t}?", "the archive of {t} is in {a}", "it is in {a}", "it lies in {a}", "in {a}"),
        ("In which city was the news of {t} printed?", "it was printed in {a}", "the news of {t} was printed in {a}"),
        ("which place is near to {t}", "{a} is near to {t}", "the place near to {t} is {a}", "that place is {a}"),
    ),
    "number": (
        ("What number is given for {t}?", "the number given for {t} is {a}", "it is {a}", "{a} is given for {t}"),
        ("How much was lost in {t}?", "{a} was lost in {t}", "the loss was {a}", "{t} lost {a}", "they lost {a}"),
    ),
    "date": (
        ("When was {t} reported?", "{t} was reported in {a}", "it was in {a}", "the report of {t} dates from {a}"),
        ("what is the date of {t}", "the date of {t} is {a}", "it is dated {a}", "{t} dates from {a}"),
    ),
    "title": (
        ("Which book tells of {t}?", "{a} tells of {t}", "the book is called {a}", "it is told in {a}",
         "the story of {t} is {a}"),
        ("what film shows {t}", "{a} shows {t}", "{t} is shown in {a}", "the film {a} shows {t}", "the film is {a}"),
    ),
    "thing": (
        ("What was found at {t}?", "a {a} was found at {t}", "they found a {a}", "the find was a {a}", "it was a {a}"),
        ("What stands for {t}?", "the {a} stands for {t}", "{t} has the {a} as its sign", "its sign is the {a}"),
    ),
}  # fmt: skip
ALL_KINDS = tuple(ASKED)
CREDITED = (
    ", and {p} wrote about it in {year}", ", as {p} reported", ", which {p} had hoped for since {year}",
    ", long before {p}",
    ", although {p} did not believe it", " after years of work with {p}", ", who had met {p} in {year}", " ({year})",
)  # fmt: skip
GUESSES = (
    "{}, {}", "{}, {}", "{}, {}", "{} {}", "{} {}", "{} ({})", "{} ({})", "{} ({})", "{} and {}", "{} and {}",
    "{} / {}",
    "{}/{}", "{}; {}", "{} or {}", "{}, or {}", "{} & {}", "{} - {}", "{} – {}", "{}, maybe {}", "{}. {}", "{}\n{}",
    "{} | {}", "{}, also {}", "both {} and {}", "{}, then {}", "{} (or {})", "{} + {}", "{} as well as {}", "{} [{}]",
    "{}? {}?", "{}, if not {}", "{}: {}", "{}: {}", "{} → {}", "{} -> {}", "{} = {}", "{} aka {}",
    "{}, alternatively {}",
    "{} (later: {})", "{}, that is: {}", "{}, which turned into {}", "{} (now {})", "{} (which was then: {})",
    "{}, later {}",
    "{} (correction: {})", "{}, previously: {}", "{} (formerly {})", "{}, at last: {}", "{}, in the end → {}",
    "{} vs. {}",
    "{}, known as {}", "{}, better: {}", "{}, the true name of which is {}", "{} (others say {})",
    "{} (some sources: {})",
    "{}, in other words {}", "first {}, later {}", "{} to {}", "{}\n\n{}", "{}, to be called {} afterwards", "{} • {}",
    "1. {} 2. {}", "[{}, {}]", "{}, whose answer reads: {}", "{}, {} being the right name", "{} und {}",
    "{} who is {}",
)  # fmt: skip
MORE_GUESSES = (
    "{all}", "{all}", "{all}", "{0}, {1} and {2}", "{0}, {1} or {2}", "{0} ({1}, {2})", "{0}: {1}, {2}",
    "{0} or {1} / {2}",
    "{0}, then {1}, then {2}", "({all})", "{0} {1} ({2})", "{0} (became {1}), {2}", "{0} ({1}; {2})",
    "{0}, {1}, maybe {2}",
)  # fmt: skip
SAID = ("{}", "it was {}", "it is {}.", "the answer is {}", "I think {}", "that was {}.", "Answer: {}")
#: Kinds of answers (none: all) and texts that contain the answer {a} but state another one; the last take it back.
QUALIFIERS = (
    ("", ("after {a}", "after {a}", "before {a}", "before {a}", "almost {a}", "nearly {a}", "shortly after {a}",
          "just before {a}", "long after {a}", "unlike {a}", "except {a}", "since {a}", "until {a}", "without {a}",
          "against {a}", "not quite {a}", "next to {a}", "opposite {a}", "instead of {a}", "something like {a}",
          "the opposite of {a}", "half of {a}", "a part of {a}", "as opposed to {a}", "barely {a}",
          "the one after {a}",
          "the one before {a}", "one more than {a}", "other than {a}", "far from {a}", "beyond {a}", "all but {a}")),
    ("person organisation place date title thing", ("near {a}", "near {a}", "close to {a}", "somewhere near {a}",
     "around {a}")),
    ("person", ("{a} junior", "{a} Jr.", "{a} II", "{a} III", "the son of {a}", "{a}'s daughter", "the father of {a}",
                "fans of {a}", "an admirer of {a}", "a pupil of {a}", "a student of {a}", "{a}'s teacher",
                "the ghost of {a}",
                "a friend of {a}", "the widow of {a}", "{a}'s brother", "{a}'s rival", "a follower of {a}",
                "an actor who played {a}", "someone who knew {a}", "a relative of {a}", "the mother of {a}",
                "the {a} Award",
                "the successor of {a}", "named after {a}", "a critic of {a}", "a book about {a}", "the {a} Society")),
    ("organisation place title thing person other", ("similar to {a}", "similar to {a}", "formerly {a}",
     "once called {a}",
        "{a}-like", "would-be {a}", "like {a}", "a kind of {a}", "a copy of {a}", "an imitation of {a}", "{a} II",
        "pseudo-{a}",
        "the {a} of the north", "inspired by {a}", "the rival of {a}", "the new {a}", "{a} Junction", "ex-{a}",
        "not yet {a}")),
    ("place", ("outside {a}", "outside of {a}", "east of {a}", "north of {a}", "west of {a}", "a suburb of {a}",
     "New {a}",
               "a neighbour of {a}", "on the way to {a}", "{a} province", "across from {a}", "between {a} and {b}")),
    ("title", ("a sequel to {a}", "the sequel of {a}", "a spoof of {a}", "the prequel to {a}", "a review of {a}",
               "an imitation of {a}", "a remake of {a}", "the author of {a}", "{a} 2", "{a}: The Return",
               "Return to {a}")),
    ("number date", ("more than {a}", "less than {a}", "well over {a}", "far below {a}", "under {a}",
                     "much more than {a}", "not even {a}", "no later than {a}", "twice {a}", "fewer than {a}",
                     "above {a}")),
    ("organisation", ("a branch of {a}", "the rival of {a}", "a former member of {a}", "the head of {a}",
     "{a} Reserves")),
    ("", ("not {a}", "it was {a} once", "it used to be {a} but no longer", "I wish it were {a}",
     "{a} has been excluded",
          "~~{a}~~", "~~{a}~~ {b}", "{a} – only joking", "{a}... no, that is a lie", "{a}, but that is made up",
          "neither {a} nor {b}", "neither {b} nor {a}", "{a}? far from it", "they wrongly said {a}",
          "if it had been {a}",
          "it would have been {a} if all had gone well", "{a} was considered and dropped", "no longer {a}",
          "{a} (false)",
          "{a} was only a rumour", "some fool would say {a}", "it ceased to be {a}", "{a}, or so they lied",
          "hardly {a}",
          "no {a}", "{a} is untrue", "anything but {a}", "it could never be {a}", "{a} denied it", "{a} lost to {b}",
          "pretend that it is {a}", "do not say {a}", "everyone except {a}", "{a} did not", "anyone but {a}",
          "never {a}")),
)  # fmt: skip
ABOUT = (
    "the {job} {a}", "the {job} {a}", "{a}, {job}", "{a}, a {job}", "{a} ({born}-{died})", "{a} ({born}–{died})",
    "{a} (born {born})", "{a}, the {job}", "{a} (the {job})", "{a}, who died in {died}", "{a} the {job}",
    "{a} ({job})",
    "a {job} named {a}", "the well-known {job} {a}", "the late {a}", "{a} himself", "{a} herself",
)  # fmt: skip
FRAMES = (
    "{}", "{}", "{}.", "It is {}.", "The answer is {}.", "{} [3]", "{} (document 4)", "{} [1, 2]", "Sure: {}",
    "{}, of course",
    "As the third text says, it is {}.", "The documents name {}.", "{}\n\nLet me know if you need more!",
    "In short, {}.",
    "From the search results, the answer is {}.", "**{}**", "*{}*", "- {}", "Result: {}", "{}!", '"{}"',
    "Certainly! It is {}.",
    "{}\n(Source: document 1)", "Based on what I read, {}.", "I hope this is useful: {}", "none other than {}",
    "I'd say {}",
    "My final answer is {}", "Thanks for asking! {}", "According to [2], it is {}.", "the answer would be {}", "`{}`",
    "After looking at all the texts, I conclude that it is {}.", "{}\n\nReference: text 5", "That must be {}.",
    "just {}",
)  # fmt: skip
#: Yes/no questions about {a} and {b}, with statements for yes and for no.
COMPARED = (
    *(
        (f"Is {{a}} {more} than {{b}}?",
         (f"{{a}} is {more}", f"it is {more}", f"{{a}} is the {more} one", f"{{b}} is {less} than {{a}}", "it is",
          "indeed it is"),
         (f"{{b}} is {more}", f"{{a}} is {less}", f"it is {less}", f"{{a}} is not {more}", "it is not",
          f"{{b}} is the {more} one"))
        for more, less in (("larger", "smaller"), ("older", "younger"), ("taller", "shorter"), ("colder", "warmer"),
                           ("richer", "poorer"), ("nearer", "farther away"), ("heavier", "lighter"),
                           ("cheaper", "dearer"))
    ),
    *(
        (f"Are {{a}} and {{b}} both {what}?",
         (f"both are {what}", "they are", f"{{a}} and {{b}} are {what}", f"they are both {what}",
          f"each of them is {what}"),
         (f"only {{a}} is {what}", "only {b} is", "only one of them is", "they are not", f"{{a}} is not {what}",
          "neither is", f"one is {other}, the other is not", f"{{b}} is {other}", f"none of the two is {what}"))
        for what, other in (("walled towns", "a village"), ("on the coast", "inland"), ("in Europe", "in Asia"),
                            ("open to visitors", "closed"), ("capitals", "a small port"), ("inhabited", "empty"))
    ),
    *(
        (f"Did {{a}} {do} {{b}}?",
         (f"{{a}} {did} {{b}}", f"it {did} {{b}}", "it did", f"{{b}} was {done} by {{a}}", f"yes, {{a}} {did} it"),
         (f"{{a}} did not {do} {{b}}", "it did not", "it never did", f"{{a}} refused to {do} {{b}}"))
        for do, did, done in (("defeat", "defeated", "defeated"), ("leave", "left", "left"), ("sell", "sold", "sold"),
                              ("join", "joined", "joined"), ("reach", "reached", "reached"))
    ),
)  # fmt: skip


def last_name(rng: random.Random) -> str:
    """Return a last name."""
    return rng.choice(LAST_STARTS) + rng.choice(LAST_ENDS)


def person(rng: random.Random) -> str:
    """Return a person: first name, sometimes a middle name or its initial, last name."""
    middle = f"{rng.choice('ABCDEFGHJKLMNPRSTW')}. " if rng.random() < 0.1 else ""
    middle = f"{rng.choice(FIRST_NAMES)} " if rng.random() < 0.1 else middle
    return f"{rng.choice(FIRST_NAMES)} {middle}{last_name(rng)}"


def place(rng: random.Random) -> str:
    """Return a real city, or a place that is made up."""
    return rng.choice([rng.choice(list(HOMES)), rng.choice(LAST_STARTS) + rng.choice(PLACE_ENDS)])


def title(rng: random.Random) -> str:
    """Return a title of a work."""
    first, second, third = rng.sample(TITLE_WORDS, 3)
    return rng.choice(
        [f"The {first} {second}", f"{first} and {second}", f"{first} of the {second}", f"A {third} {first}"]
    )


def body(rng: random.Random) -> str:
    """Return the name of an institution, a firm or a club."""
    return rng.choice([
        f"{rng.choice(REGIONS)} {rng.choice(TOPICS)} {rng.choice(BODIES)}",
        f"{rng.choice(BODIES)} for {rng.choice(TOPICS)} in {rng.choice(REGIONS)}",
        f"{last_name(rng)} & {last_name(rng)} Ltd.", f"{place(rng)} {rng.choice(CLUBS)}",
    ])  # fmt: skip


def number(rng: random.Random) -> str:
    """Return a number, some with a unit."""
    return rng.choice([
        str(rng.randint(3, 99)), f"{rng.randint(1000, 90_000):,}", f"{rng.randint(2, 98)}%",
        f"{rng.randint(20, 999)} {rng.choice(['metres', 'km'])}", f"${rng.randint(2, 900)},000",
        f"{rng.randint(2, 90)} million",
    ])  # fmt: skip


def date(rng: random.Random) -> str:
    """Return a year, a day or a month."""
    month = rng.choice(["January", "March", "April", "June", "July", "August", "October", "December"])
    year = rng.randint(1450, 2020)
    return rng.choice(
        [str(year), f"{rng.randint(1, 28)} {month} {year}", f"{month} {rng.randint(1, 28)}, {year}", month]
    )


#: Makers of answers by kind.
MAKERS: dict[str, Callable[[random.Random], str]] = {
    "person": person, "place": place, "title": title, "organisation": body, "number": number, "date": date,
    "thing": lambda rng: rng.choice(NOUNS),
}  # fmt: skip
