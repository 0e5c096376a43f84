"""Texts that an entailment model takes for an answer although they say nothing, and long texts that do answer.

They are unrelated prose and gibberish of all lengths, words of the question given back, lists of everything, denials,
phrases that could stand for any answer; beside them answers at any place of a long text, so that length decides
nothing. All are generated from questions with answers of one kind and from passages, for this project.
"""

import random
import string
from collections.abc import Callable, Iterator, Sequence

from tests.benchmarks.adapters.answer_forms import Fact, Form, any_of

LONGEST = 78  # words of a generated text: about the 96 tokens that the model is fed at most

_SAID = (
    "{a}", "{a}.", "It is {a}.", "The answer is {a}.", "So it must be {a}.", "That is why the answer is {a}.", "It was {a}.",
    "In short: {a}", "{a}, then.", "Answer: {a}", "Therefore {a}.", "I would say {a}.", "The right one is {a}.", "-> {a}",
)  # fmt: skip
_SAID_ALONE = (
    "It is {a}", "It was {a}", "The answer is {a}", "That is {a}", "Answer: {a}", "{a} is the answer", "It's {a}.",
    "I think it is {a}", "It must be {a}", "They are {a}", "The correct answer is {a}.", "{a}, of course", "**{a}**", '"{a}"',
)  # fmt: skip
_DENIED = (
    "not {a}", "Not {a}", "not {a}.", "It is not {a}", "It was not {a}.", "no, not {a}", "never {a}", "not at all {a}",
    "anything but {a}", "anyone but {a}", "certainly not {a}", "not {a}, that much is sure", "definitely not {a}",
    "it isn't {a}", "it wasn't {a}", "everything except {a}", "{a} it is not", "{a} is not the answer", "other than {a}",
    "{a} is false", "wrong: {a}", "not {a} but something else", "the opposite of {a}", "It cannot have been {a}.",
)  # fmt: skip
_NOTHING_SAID = (
    "I know the answer", "The answer is well known", "Everybody knows that", "That is a good question", "the answer",
    "The answer is as follows", "Here is the answer:", "The passage says it", "It is written in the text", "see above",
    "The correct answer", "It is the one that you mean", "the one asked for", "Sure, I can help with that", "Certainly!",
    "As an assistant I can tell you the answer", "yes", "no", "true", "It is what it is", "the same", "this", "that one",
    "He did", "She did it", "They were the first", "It was a long time ago", "a person", "somebody", "a place", "a number",
    "unknown", "I do not know", "I don't know.", "not mentioned", "The documents do not say.", "none", "N/A", "nothing",
    "The gold answer", "the correct one", "any of the aliases", "entailment", "this entails the answer", "equivalent",
    "The response states the right answer", "The answer is correct", "It is right", "I am sure that this is right",
    "Answer:", "Final answer:", "The final answer is", "Yes, that is correct, the answer is right", "...", "?", "!!!", "-",
)  # fmt: skip
_MARKS = (
    "<tool_call>", "</tool_call>", "<think>", "</think>", "<answer>", "</answer>", "<|im_start|>", "<|im_end|>", "{}", "[]",
    '{"name": "search"}', '{"query": ""}', "\\n", "```", "###", "**", "[SEP]", "[CLS]", "[MASK]", "[PAD]", "</s>", "<s>",
    "null", "0", "1", "42", "return", "def", "import", "lorem", "ipsum", "dolor", "sit", "amet", "foo", "bar", "asdf",
    "the", "a", "of", "is", "answer", "Answer:", "question", "yes", "ok", "so", "Ġ", "é", "中", "→", "•", "_", "=", "0x",
)  # fmt: skip
_LISTED = (
    "{}", "{}", "{}", "{}.", "Candidates: {}", "It is one of these: {}", "It could be {}", "Possible answers are {}",
    "My guesses: {}", "One of {}", "I name them all: {}", "{} - one of them is right", "Either {}", "Answer: {}", "Maybe {}",
)  # fmt: skip
_JOINED = (", ", ", ", "; ", " or ", ", or ", " / ", "\n", " and ", " | ", ". ", " ", ", maybe ", " - ")
_ASKED_KINDLY = (
    "Could you please tell me {}", "I would like to know {}", "Please tell me {}", "Can you tell me {}", "{}, please",
    "I have been wondering for weeks {}", "My son asks me {}", "If it is no trouble, would you kindly say {}",
    "I would be most grateful if you could find out for me {}", "{}, if I may ask", "Quick question: {}", "hi {}",
    "Our teacher wants to know by Monday {}", "Sorry to bother you again, but {}", "Excuse me, {}", "Hello! {}",
    "With all the respect that is due to you and your great knowledge, may I ask {}", "{}, and thank you in advance",
    "After a long talk with my neighbours, who never agree on anything, I want to know once and for all {}",
    "For a quiz that we prepare for the summer party of the rowing club, somebody asked {}", "So, {}", "Tell me, {}",
    "I hope this finds you well, and that the weather is as fine with you as it is here; would you tell me {}",
    "Being new to all this and rather slow, I beg your patience and ask {}", "Now then: {}", "Dear friend, {}",
)  # fmt: skip


def prose_forms(facts: Sequence[Fact], passages: Sequence[str], count: int, rng: random.Random) -> Iterator[Form]:
    """Yield prose that has nothing to do with the question, of all lengths; in some of it the answer is stated.

    Args:
        facts: Questions with their answers.
        passages: Texts about other things.
        count: Number of forms.
        rng: Source of every choice.
    """
    for _ in range(count):
        fact = rng.choice(facts)
        words = _prose(fact, passages, rng.randint(3, LONGEST), rng)
        chance = rng.random()
        if chance < 0.3:
            said = rng.choice(_SAID).format(a=rng.choice(fact.answers))
            yield Form(fact.question, _with(words[: LONGEST - 10], said, rng), rng.choice(fact.answers), True)
        elif chance < 0.4:
            said = rng.choice(_SAID).format(a=rng.choice(fact.others))
            yield Form(fact.question, _with(words[: LONGEST - 10], said, rng), rng.choice(fact.answers), False)
        elif chance < 0.5:
            yield Form(fact.question, rng.choice(fact.answers), " ".join(words), False)
        else:
            yield Form(fact.question, " ".join(words), rng.choice(fact.answers), False)


def _prose(fact: Fact, passages: Sequence[str], length: int, rng: random.Random) -> list[str]:
    """Return words of passages that do not hold the answer, from the start of a sentence or from anywhere."""
    pattern, words = any_of(fact.answers), list[str]()
    while len(words) < length:
        text = rng.choice(passages)
        if not pattern.search(text):
            words += text.split()[rng.randrange(12) if rng.random() < 0.3 else 0 :]
    return words[:length]


def _with(words: Sequence[str], said: str, rng: random.Random) -> str:
    """Put a sentence at the start, at the end, or between the sentences of a text."""
    ends = [at + 1 for at, word in enumerate(words) if word.endswith(".")]
    place = rng.choice([0, len(words), len(words), *ends])
    return " ".join([*words[:place], said, *words[place:]])


def gibberish_forms(facts: Sequence[Fact], passages: Sequence[str], count: int, rng: random.Random) -> Iterator[Form]:
    """Yield repeated words, random words, characters and markup of all lengths, as responses and as answers.

    Args:
        facts: Questions with their answers.
        passages: Texts that words are taken from.
        count: Number of forms.
        rng: Source of every choice.
    """
    vocabulary = sorted({word for text in passages for word in text.split()})

    def letters() -> str:
        return "".join(rng.choices(string.ascii_lowercase, k=rng.randint(2, 9)))

    def phrase(length: int) -> list[str]:
        return rng.choices(vocabulary, k=length)

    makers: Sequence[Callable[[Fact, int], list[str]]] = (
        lambda fact, length: [rng.choice(_MARKS)] * length,
        lambda fact, length: [rng.choice(vocabulary)] * length,
        lambda fact, length: phrase(length),
        lambda fact, length: rng.choices(_MARKS, k=length),
        lambda fact, length: [letters() for _ in range(length)],
        lambda fact, length: (phrase(rng.randint(2, 6)) * length)[:length],
        lambda fact, length: rng.choices([rng.choice(vocabulary), rng.choice(_MARKS), letters()], k=length),
        lambda fact, length: rng.choices(fact.question.split(), k=length),
        lambda fact, length: [str(rng.randint(0, 10 ** rng.randint(1, 6))) for _ in range(length)],
        lambda fact, length: (rng.choice(_NOTHING_SAID).split() * length)[:length],
    )
    for _ in range(count):
        fact = rng.choice(facts)
        length = rng.choice([rng.randint(1, 8), rng.randint(4, LONGEST), rng.randint(30, LONGEST)])
        said, answer = " ".join(rng.choice(makers)(fact, length)), rng.choice(fact.answers)
        if any_of(fact.answers).search(said):
            continue
        pair = (answer, said) if rng.random() < 0.15 else (said, answer)
        yield Form(fact.question, *pair, False)


def echo_forms(facts: Sequence[Fact], count: int, rng: random.Random) -> Iterator[Form]:
    """Yield words of the question given back as its answer, and phrases that would fit every question.

    Args:
        facts: Questions with their answers; those whose answer stands in the question are passed over.
        count: Most forms.
        rng: Source of every choice.
    """
    for _ in range(count):
        fact = rng.choice(facts)
        if any_of(fact.answers).search(fact.question):
            continue
        words, answer = fact.question.rstrip("?. ").split(), rng.choice(fact.answers)
        start = rng.randrange(len(words))
        rests = (
            words[-1:], words[-2:], words[-3:], words[start : start + rng.randint(1, 6)], words[1:], words[2:],
            words * rng.randint(1, 5), [*words[1:], "?"], [fact.question],
        )  # fmt: skip
        echo = " ".join(rng.choice(rests)[:LONGEST])
        chance = rng.random()
        if chance < 0.2:
            echo = rng.choice(_NOTHING_SAID)
        elif chance < 0.35:
            echo = rng.choice(_SAID_ALONE).format(a=echo)
        elif chance < 0.45:
            echo = f"{echo} {rng.choice(_NOTHING_SAID)}"
        echo = echo[:1].upper() + echo[1:] if rng.random() < 0.4 else echo
        if chance > 0.9:
            said = rng.choice(_SAID_ALONE).format(a=answer)
            yield Form(fact.question, f"{fact.question} {said}", answer, True)
        elif answer.lower() not in ("yes", "no", "true", "false"):
            pair = (answer, echo) if rng.random() < 0.15 else (echo, answer)
            yield Form(fact.question, *pair, False)


def shotgun_forms(facts: Sequence[Fact], count: int, rng: random.Random) -> Iterator[Form]:
    """Yield lists of many candidates, the answer among them or not: a list of everything states nothing.

    Args:
        facts: Questions with right and wrong answers.
        count: Number of forms.
        rng: Source of every choice.
    """
    for _ in range(count):
        fact = rng.choice(facts)
        answer = rng.choice(fact.answers)
        wrong = rng.sample(fact.others, min(len(fact.others), rng.choice([2, 3, 4, 6, 9, 13, 20, 25])))
        items = [*wrong]
        if rng.random() < 0.8:
            items.insert(rng.randint(0, len(items)), answer)
        said = rng.choice(_LISTED).format(rng.choice(_JOINED).join(items))
        yield Form(fact.question, *((answer, said) if rng.random() < 0.1 else (said, answer)), False)


def denied_forms(facts: Sequence[Fact], count: int, rng: random.Random) -> Iterator[Form]:
    """Yield denials of the answer, and the answer beside the denial of another, in both directions.

    Args:
        facts: Questions with right and wrong answers.
        count: Number of forms.
        rng: Source of every choice.
    """
    for _ in range(count):
        fact = rng.choice(facts)
        answer, other = rng.choice(fact.answers), rng.choice(fact.others)
        chance = rng.random()
        if chance < 0.45:
            yield Form(fact.question, rng.choice(_DENIED).format(a=answer), answer, False)
        elif chance < 0.55:
            yield Form(fact.question, answer, rng.choice(_DENIED).format(a=answer), False)
        elif chance < 0.65:
            yield Form(fact.question, rng.choice(_DENIED).format(a=other), answer, False)
        elif chance < 0.75:
            said = f"{rng.choice(_DENIED).format(a=other)}, it is {answer}"
            yield Form(fact.question, said, answer, True)
        elif chance < 0.9:
            yield Form(fact.question, answer, rng.choice(_SAID_ALONE).format(a=answer), True)
        else:
            yield Form(fact.question, answer, rng.choice(_SAID_ALONE).format(a=other), False)


def asked_kindly(question: str, rng: random.Random) -> str:
    """Return a question in a sentence of politeness, which changes nothing about its answer."""
    return rng.choice(_ASKED_KINDLY).format(question[:1].lower() + question[1:])
