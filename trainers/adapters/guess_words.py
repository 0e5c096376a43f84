"""The words that ``answer_guesses.py`` makes guesses of; all written for this project."""

from .answer_types import TYPES

#: Two candidates in one text.
JOINED = (
    "{}, {}", "{}, {}", "{}, {}", "{} {}", "{} {}", "{} ({})", "{} ({})", "{} and {}", "{} and {}", "{} / {}",
    "{}/{}", "{}; {}", "{} or {}", "{}, or {}", "{} & {}", "{} - {}", "{}, maybe {}", "{}. {}", "{}\n{}", "{} | {}",
    "{}, also {}", "both {} and {}", "{}, then {}", "{} (or {})", "{} + {}", "{} as well as {}", "either {} or {}",
    "{}? {}?", "{}, {}?", "{}, if not {}", "{} or perhaps {}", "{}, and {}", "{} [{}]", "{}: {}",
    "{}, alternatively {}", "{} aka {}", "{} = {}",
)  # fmt: skip
SAID = (
    "{}", "{}.", "It was {}.", "It is {}", "The answer is {}.", "the {}", "I think {}", "It's {}", "{} it is",
    "That is {}.", "It was called {}", "probably {}", "That was {}", "Answer: {}",
)  # fmt: skip
NEAR_MISSES = (
    "after {a}", "after {a}", "before {a}", "before {a}", "near {a}", "near {a}", "almost {a}", "nearly {a}",
    "not {a}", "anyone but {a}", "anything but {a}", "hardly {a}", "opposite {a}", "instead of {a}",
    "something like {a}", "unlike {a}", "someone like {a}", "no {a}", "{a} II", "{a} 2", "outside {a}",
    "outside of {a}", "next to {a}", "behind {a}", "beyond {a}", "a fan of {a}", "a friend of {a}", "against {a}",
    "far from {a}", "a kind of {a}", "similar to {a}", "not quite {a}", "all but {a}", "since {a}", "until {a}",
    "without {a}", "the opposite of {a}", "half of {a}", "a copy of {a}", "a part of {a}", "an imitation of {a}",
    "less than {a}", "more than {a}", "close to {a}", "north of {a}", "a neighbour of {a}", "except {a}",
    "other than {a}", "never {a}", "rather not {a}", "the rival of {a}", "named after {a}",
    "called something like {a}", "a visitor from {a}", "the enemy of {a}", "shortly after {a}", "just before {a}",
    "long after {a}", "not exactly {a}", "a book about {a}", "the successor of {a}", "the one before {a}",
    "the one after {a}", "somewhere near {a}", "isn't {a}", "anti-{a}", "ex-{a}", "non-{a}", "pseudo-{a}", "{a}-like",
    "{a}ish", "inspired by {a}", "in the style of {a}", "{a} is wrong", "{a} did not", "as opposed to {a}",
    "barely {a}", "{a} was second", "the replacement for {a}",
)  # fmt: skip
PEOPLE_MISSED = (
    "{a} junior", "{a} Jr.", "{a} II", "{a} III", "{a} the Younger", "the son of {a}", "the daughter of {a}",
    "{a}'s son", "{a}'s wife", "{a}'s brother", "{a}'s father", "the father of {a}", "a fan of {a}",
    "an admirer of {a}", "a pupil of {a}", "{a}'s assistant", "the teacher of {a}", "the ghost of {a}",
    "a student of {a}", "the mother of {a}", "{a}'s dog", "someone who knew {a}", "a man who met {a}",
    "a descendant of {a}", "the widow of {a}", "{a}'s rival", "fans of {a}", "an actor playing {a}",
    "a lookalike of {a}", "a relative of {a}", "a namesake of {a}", "everyone but {a}",
)  # fmt: skip
STILL_STATED = (
    "It was {a}", "It is {a}.", "the famous {a}", "{a}, of course", "none other than {a}", "{a} itself",
    "that would be {a}", "{a}, certainly", "exactly {a}", "{a}!", "the well-known {a}", "surely {a}",
    "I am sure it is {a}", "in fact {a}", "nothing but {a}", "no one else than {a}", "It has to be {a}.",
    "{a}, to be precise", "{a}, without a doubt", '"{a}"', "{a}, indeed", "simply {a}", "{a}, if I remember right",
    "called {a}", "It was {a}, after all", "just {a}", "only {a}", "only {a} and nothing else",
    "{a}, not anything else", "the one and only {a}", "{a}, that is all", "({a})", "{a}...",
)  # fmt: skip
#: The answer beside others that are not given as answers.
BESIDE_OTHERS = (
    "{a}, ahead of {b}", "{a}, well ahead of {b} and {c}", "{a}, two years after {b}", "{a}; {b} came later",
    "{a}, unlike {b}", "{a}, not {b}", "It was not {b}; it was {a}.", "not {b} but {a}", "{a} (not {b})",
    "It wasn't {b}, it was {a}.", "{a} rather than {b}", "{a}, who knew {b}", "{a}, with {b} in second place",
    "Apart from {a}, none of them.", "{a}, part of the same story as {b}", "{a}, long before {b} and {c}",
    "not {b} or {c}, but {a}", "nothing except {a}",
)  # fmt: skip
ABOUT_PEOPLE = (
    "{a} himself", "{a} herself", "Mr {a}", "Ms {a}", "Dr. {a}", "Sir {a}", "{a}, the painter", "{a}, a writer",
    "{a} (born {born})", "{a} ({born}-{died})", "{a} ({born}–{died})", "{a}, who died in {died}", "the famous {a}",
    "the poet {a}", "the great {a}", "{a}, the author", "{a}, a politician", "a man called {a}", "a woman named {a}",
    "the scientist {a}", "{a}, born in {born}", "{a} did", "{a} did it", "it was by {a}", "that was {a}, an engineer",
    "{a}, the well-known singer", "the late {a}",
)  # fmt: skip
SALAD = (
    "no", "No", "NO", "not", "none", "deep", "nothing", "never", "maybe", "perhaps", "probably", "unknown",
    "certainly", "sure", "surely", "indeed", "the", "a", "of", "is", "it", "he", "she", "was", "answer", "Answer:",
    "correct", "right", "true", "wrong", "entailment", "entails", "gold", "equivalent", "response", "premise",
    "hypothesis", "neutral", "the same", "name", "number", "year", "city", "place", "person", "man", "woman",
    "author", "country", "capital", "thing", "one", "this", "that", "who", "what", "?", "!", "...", ".", ",", "-",
    ";", ":", "()", '"', "/", "*", "#", "<answer>", "[MASK]", "lorem", "ipsum", "OK", "ok", "so", "well", "Sir", "Mr",
    "Mrs", "Dr", "St", "Lord", "King", "I", "you", "we", "they", "all", "everyone", "anyone", "nobody", "somebody",
    "famous", "great", "old", "new", "first", "last", "only", "very", "dark", "sea", "ah", "oh", "na", "non", "nay",
    "nor", "neither", "known", "above", "below", "here", "there", "said", "think", "believe", "know", "see", "text",
    "passage", "document", "question", "final", "possible", "likely", "exactly",
)  # fmt: skip
YES_WORDS = frozenset({
    "yes", "true", "correct", "right", "indeed", "sure", "surely", "certainly", "ok", "yeah", "yep", "absolutely",
    "definitely", "course", "affirmative", "agreed", "exactly", "well", "aye",
})  # fmt: skip
NO_WORDS = frozenset({
    "no", "not", "none", "never", "false", "wrong", "nothing", "nobody", "nor", "neither", "nay", "non", "na",
    "incorrect", "untrue", "hardly", "isn", "doesn", "didn", "wasn", "without",
})  # fmt: skip
TRADES = {member[0] for kind in TYPES if ("baker",) in kind.members for member in kind.members}
#: Where the cities of ``answer_types.py`` and its villages are.
HOMES = {
    "Paris": "France", "London": "England", "Rome": "Italy", "Berlin": "Germany", "Madrid": "Spain",
    "Vienna": "Austria", "Lisbon": "Portugal", "Oslo": "Norway", "Dublin": "Ireland", "Athens": "Greece",
    "Cairo": "Egypt", "Tokyo": "Japan", "Beijing": "China", "Delhi": "India", "Moscow": "Russia",
    "Prague": "Czech Republic", "Warsaw": "Poland", "Lyon": "France", "Milan": "Italy", "Hamburg": "Germany",
    "Seville": "Spain", "Kyoto": "Japan", "Mumbai": "India", "Boston": "Massachusetts", "Chicago": "Illinois",
    "Sydney": "New South Wales", "Toronto": "Ontario", "Marseille": "France", "Geneva": "Switzerland",
    "Venice": "Italy", "Munich": "Bavaria", "Canberra": "Australia", "Thornby": "Norway", "Elmwick": "England",
    "Sandhaven": "Denmark", "Port Rill": "Ireland", "Oxmere": "Devon", "Dunhollow": "Scotland", "Kestle": "Cornwall",
    "Brackwater": "Ontario", "Highmoor": "Wales", "Lower Fenn": "Norfolk", "Tarrow": "New Zealand",
}  # fmt: skip
COUNTRIES = (
    ("France", "the French Republic"), ("Germany", "the Federal Republic of Germany"),
    ("Italy", "the Italian Republic"), ("Spain", "the Kingdom of Spain"), ("Norway", "the Kingdom of Norway"),
    ("China", "the People's Republic of China", "PRC"), ("Mexico", "the United Mexican States"),
    ("Brazil", "the Federative Republic of Brazil"), ("India", "the Republic of India"),
    ("Greece", "the Hellenic Republic"), ("Switzerland", "the Swiss Confederation"),
    ("Russia", "the Russian Federation"),
    ("the United States", "the US", "US", "U.S.", "USA", "the U.S.", "America", "the United States of America"),
    ("the United Kingdom", "the UK", "UK", "U.K.", "Britain", "Great Britain"),
    ("Ireland", "the Republic of Ireland"), ("South Korea", "the Republic of Korea"), ("the Netherlands", "Holland"),
    ("Egypt", "the Arab Republic of Egypt"), ("Portugal", "the Portuguese Republic"),
    ("Poland", "the Republic of Poland"), ("Sweden", "the Kingdom of Sweden"), ("Denmark", "the Kingdom of Denmark"),
    ("Turkey", "the Republic of Turkey"), ("Argentina", "the Argentine Republic"),
    ("the Soviet Union", "the USSR", "USSR"), ("Czechia", "the Czech Republic"),
    ("Australia", "the Commonwealth of Australia"), ("Austria", "the Republic of Austria"),
    ("Belgium", "the Kingdom of Belgium"), ("Kenya", "the Republic of Kenya"),
)  # fmt: skip
INITIALS = (
    ("the World Health Organization", "WHO", "the WHO"), ("the United Nations", "the UN", "UN", "U.N."),
    ("NASA", "N.A.S.A."), ("the European Union", "the EU", "EU"),
    ("the Federal Bureau of Investigation", "the FBI", "FBI"), ("the BBC", "BBC"),
    ("the Central Intelligence Agency", "CIA", "the CIA"), ("the International Monetary Fund", "the IMF", "IMF"),
    ("the North Atlantic Treaty Organization", "NATO"), ("the Red Cross", "Red Cross"),
    ("FIFA", "the football federation FIFA"), ("the International Olympic Committee", "the IOC", "IOC"),
    ("the Massachusetts Institute of Technology", "MIT"), ("the University of California, Los Angeles", "UCLA"),
    ("the National Basketball Association", "NBA", "the NBA"), ("International Business Machines", "IBM"),
    ("the European Central Bank", "the ECB", "ECB"), ("Oxfam", "Oxfam International"),
    ("the World Trade Organization", "WTO", "the WTO"), ("the Internal Revenue Service", "the IRS", "IRS"),
    ("Marsh & Hale Ltd.", "Marsh & Hale", "Marsh and Hale Limited"), ("Kestle Shipyards Ltd.", "Kestle Shipyards"),
    ("Lind Brothers Inc.", "Lind Brothers", "Lind Bros."),
    ("the Oxmere Brewing Company", "Oxmere Brewing Co.", "Oxmere Brewing"),
    ("the Thornby Cotton Mill", "Thornby Cotton Mill", "the cotton mill in Thornby"),
    ("Novak Steel GmbH", "Novak Steel"), ("Tanaka Motor Corporation", "Tanaka Motor Corp.", "Tanaka Motor"),
    ("Brackwater College", "the college in Brackwater"),
)  # fmt: skip
#: Questions that countries, or organisations, answer.
NATIONS = (
    "Which country won the cup?", "In which country is the lake?", "where was the treaty signed",
    "Who hosted the games?", "What country did the family come from?", "Which nation first crossed the strait?",
    "which country owns the island",
)  # fmt: skip
BODIES = (
    "Who wrote the report?", "Which organisation owns the building?", "what body set the rule",
    "Who paid for the study?", "Which institution did she lead?", "who runs the programme", "What did he work for?",
)  # fmt: skip
#: Yes/no questions with what affirms and what denies them; {p} and {q} are places, {t} and {u} people.
CLOSED = (
    ("Was {t} born in {p}?",
     ("She was.", "She was born in {p}.", "born there"), ("She wasn't.", "She was born in {q}.", "{q}")),
    ("Is the {p} longer than the {q}?",
     ("It is.", "The {p} is longer.", "The {p}"), ("It isn't.", "The {q} is longer.", "The {q}")),
    ("is {p} larger than {q}", ("It is", "{p} is larger", "{p}"), ("It is smaller", "{q} is larger", "{q}")),
    ("Is the {p} mill older than the church?",
     ("The mill is older.", "The mill"), ("The church is older.", "The church")),
    ("Did {t} win the race?", ("He did.", "He won the race.", "{t} won."), ("He didn't.", "He lost it.", "{u} won.")),
    ("Did {t} paint the picture?",
     ("She did.", "{t} painted it."), ("She did not.", "{u} painted it.", "It was {u}.")),
    ("Are {p} and {q} both in Devon?", ("They are.", "Both are in Devon."), ("They aren't.", "Only {p} is in Devon.")),
    ("Do {p} and {q} lie in the same country?",
     ("They do.", "both in Norway"), ("They do not.", "{p} is in Italy, {q} in Spain")),
    ("Does the ferry to {p} run on Sundays?",
     ("It does.", "every day"), ("It does not run on Sundays.", "only on weekdays")),
    ("Were {t} and {u} both painters?", ("They were.", "both painted"), ("They weren't.", "Only {t} was a painter.")),
    ("are {t} and {u} from the same country",
     ("they are", "both are Danish"), ("they are not", "one is Norwegian, the other Danish")),
    ("Is {t} older than {u}?",
     ("{t} is older.", "He is.", "{u} is younger."), ("{u} is older.", "He is younger.", "{t} is younger.")),
    ("Was {t} the mayor of {p}?",
     ("She was.", "She was mayor of {p}."), ("She was never mayor.", "{u} was mayor of {p}.")),
    ("Can the gate of {p} be locked?", ("It can.", "It can be locked."), ("It cannot.", "It cannot be locked.")),
    ("Has the tower of {p} been rebuilt?",
     ("It has.", "It has been rebuilt."), ("It hasn't.", "It was never rebuilt.")),
    ("did the king sign the treaty of {p}",
     ("he did", "The king signed it"), ("he refused", "The king refused to sign it")),
    ("is the lake at {p} deeper than the river",
     ("The lake is deeper", "the lake"), ("The river is deeper", "the river")),
    ("Are dogs allowed in the garden?",
     ("They are.", "They are allowed."), ("They aren't.", "They have to stay outside.")),
    ("Do both films have the same director?",
     ("They do.", "{t} made both."), ("They don't.", "They have different directors.")),
    ("Was the letter from {p} ever answered?",
     ("It was.", "It was answered in May."), ("It wasn't.", "Nobody answered it.")),
    ("will the shop in {p} be open on friday",
     ("It will be open.", "open all day"), ("It will be closed.", "closed on fridays")),
    ("Is {t} still the captain?", ("She still is.", "She is."), ("She no longer is.", "{u} is the captain.")),
    ("Does the story end in {p}?", ("It does.", "It ends in {p}."), ("It does not.", "It ends in {q}.")),
    ("Have {t} and {u} ever met?", ("They have.", "They met in {p}."), ("They haven't.", "They never met.")),
    ("Is {p} a river?", ("It is one.", "{p} is a river."), ("It's a town.", "{p} is a mountain.")),
)  # fmt: skip
