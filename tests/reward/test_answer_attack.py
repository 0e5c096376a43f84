"""A search for texts that earn the answer's reward without the answer."""

import re
import statistics

import pytest

from seper_reward import SePerScorer
from seper_reward.data.demo import CORPUS
from seper_reward.data.inputs import load_input
from seper_reward.data.rows import read_valid_rows
from seper_reward.judge.extract import extract_answer
from seper_reward.judge.judge import decide
from seper_reward.judge.support import Stated, mutual_supports
from seper_reward.options import InputOptions
from seper_reward.types import Pair

TARGETS = [
    ("Who runs the mill in Hallow?", "Ida Voss"),
    ("Who wrote Hamlet?", "William Shakespeare"),
    ("What is the capital of Norway?", "Oslo"),
    ("In which year was the battle of Hastings?", "1066"),
    ("How many strings does a violin have?", "four"),
]
STATEMENTS = """
I know the answer;The answer is correct;yes;no;unknown;the one asked for;It is true;everyone;The person in question;
the gold answer;This response entails the answer;a name;a number;in that year;The answer is;Certainly!;as stated above;
It is what the question says;<answer>;entailment;[MASK];lorem;<tool_call>;Answer:;the capital;a man;a woman;the author
""".replace("\n", "").split(";")


YES_WORDS = {
    "yes", "true", "correct", "right", "indeed", "sure", "surely", "certainly", "ok", "yeah", "yep", "absolutely",
    "definitely", "course", "affirmative", "agreed", "exactly", "well", "aye",
}  # fmt: skip
NO_WORDS = {
    "no", "not", "none", "never", "false", "wrong", "nothing", "nobody", "nor", "neither", "nay", "non", "na",
    "incorrect", "untrue", "hardly", "isn", "doesn", "didn", "wasn", "without",
}  # fmt: skip
#: Words that state an answer without being in it.
SYNONYMS = {"four": {"4"}, "yes": YES_WORDS, "no": NO_WORDS}
WORDS = 60  # longest text of most searches' texts
LONGEST = 200


def states(text, answer):
    words = set(re.findall(r"\w+", answer.lower())) | SYNONYMS.get(answer.lower(), set())
    return bool(words & set(re.findall(r"\w+", text.lower())))


def entailments(scorer, pairs):
    """Return the entailment of pairs by the model alone."""
    distinct = list(dict.fromkeys(pairs))
    found = dict(zip(distinct, scorer.entailment.probs(distinct)[:, 0].tolist(), strict=True))
    return [found[pair] for pair in pairs]


def agreement(scorer, question, texts, answer, least):
    """Return what the reward is made of, which has a slope where the reward is 0; 0 for texts below ``least``.

    Of a text that a rule refuses a tenth counts, so that the search turns to texts that only the model can refuse.
    """
    asked = [Pair(question, text, answer) for text in texts]
    forward = entailments(scorer, asked)
    near = [at for at, entailed in enumerate(forward) if entailed > least]  # the reverse could only lower the others
    backward = entailments(scorer, [Pair(question, answer, texts[at]) for at in near])
    both = {at: min(forward[at], entailed) for at, entailed in zip(near, backward, strict=True)}
    refused = [decide(pair, scorer.entailment) is False for pair in asked]
    return [both.get(at, 0.0) * (0.1 if is_refused else 1.0) for at, is_refused in enumerate(refused)]


def attack(scorer, question, answer, budget, rng):
    """Return ``(agreement, text)`` of the 20 best of ``budget`` texts without any word of the answer, best first.

    A population of texts grows, shrinks and mixes, and the best of each round are the parents of the next.
    """
    words = sorted({word for _, row in read_valid_rows(CORPUS) for word in row["text"].split()})
    pieces = [*question.rstrip("?").split(), question, *STATEMENTS, *words]
    few = pieces[: len(pieces) - len(words)]

    def new():
        kind = rng.randrange(4)
        if kind == 0:
            return " ".join([rng.choice(pieces)] * rng.choice([1, 2, 4, 16, 64]))
        if kind == 1:
            return " ".join(rng.choices(words, k=rng.choice([1, 1, 2, 3, 8, 32])))
        return " ".join(rng.choices(few, k=rng.randint(1, 6)))

    def child(parent):
        parts = parent.split()
        at = rng.randrange(len(parts) + 1)
        kind = rng.randrange(4)
        if kind == 0 and len(parts) > 1:
            return " ".join(parts[: at - 1] + parts[at:])
        if kind == 1:
            return " ".join(parts * 2)
        return " ".join([*parts[:at], rng.choice(pieces), *parts[at + (kind == 2) :]])

    best, seen = [], set()
    while len(seen) < budget:
        parents = [text for _, text in best[:10]]
        texts = [child(rng.choice(parents)) if parents and rng.random() < 0.6 else new() for _ in range(50)]
        cut = (
            " ".join(text.split()[: WORDS if rng.random() < 0.95 else LONGEST]) for text in texts
        )  # short ones are fast
        fresh = sorted({text for text in cut if text not in seen and not states(text, answer)})
        seen |= {*fresh}
        least = best[-1][0] if len(best) == 20 else -1.0
        scores = agreement(scorer, question, [extract_answer(text) for text in fresh], answer, least)
        best = sorted([*best, *zip(scores, fresh, strict=True)], reverse=True)[:20]
    return best


@pytest.fixture(scope="module")
def embedded():
    return SePerScorer.from_pretrained()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["2wikimultihopqa", "hotpotqa_distractor", "nq_oracle_bm25neg"])
def test_mutual_supports_of_a_copied_question(embedded, shared_data, name):
    """Questions that name the answer: "Which is longer, the Nile or the Amazon?"."""
    queries = load_input(InputOptions(str(shared_data / f"qa/{name}.jsonl.gz"))).queries
    named = [
        (query.question, query.answers[0])
        for query in queries
        if isinstance(query.answers[0], str)
        and query.answers[0].lower() not in ("yes", "no")
        and f" {query.answers[0].lower()} " in f" {query.question.rstrip('?').lower()} "
    ][:40]
    assert len(named) > 20

    def paid(text):
        stated = [Stated(asked, extract_answer(text(asked, answer)), (answer,)) for asked, answer in named]
        return statistics.fmean(mutual_supports(embedded.judge, stated))

    assert paid(lambda asked, answer: asked) < 0.1
    assert paid(lambda asked, answer: asked.rstrip("?").lower()) < 0.1
    assert paid(lambda asked, answer: asked.rstrip("?").partition(" ")[2]) < 0.1
    assert paid(lambda asked, answer: f"The answer is {answer}.") > 0.95
    assert paid(lambda asked, answer: answer) > 0.95
