"""What TRL's trainers train on in tests: a street of houses, three types of environments, and a policy with a script.

TRL's child process of AsyncGRPOTrainer imports it, too.
"""

import re
from collections import Counter

from seper_reward.reward import RetrievalEnvironment, SePerReward
from seper_reward.types import Passage

HOUSES = {
    f"{at}{kind}": Passage(text, "Lane", id=f"{at}{kind}")
    for at in range(4)
    for kind, text in (("a", f"House {at} belongs to Owner {at}."), ("b", f"House {at}\nwas painted blue."))
}
# no column prompt: environments say what is asked
ROWS = [
    {"environment": "search", "question": f"Who owns house {at}?", "answers": [f"Owner {at}"], "house": at}
    for at in range(2)
]
ROWS += [{"environment": name, "question": None, "answers": None, "house": 2} for name in ("library", "game")]
# what a policy says turn by turn: it searches for a house by its number, else it answers
SCRIPTS = [
    ["Owner {house}"],
    [{"query": "house {house}"}, "Owner {house}"],
    [{"query": "house {other}"}, {"query": "blue house {house}"}, "Owner {other}"],
    [{"query": "ferry"}, {"words": "house"}, "Owner {house}"],  # finds nothing, then calls the tool wrongly
]


class ScriptedPolicy:
    """Says the n-th script in the n-th rollout of a question, whatever came before it in the prompt."""

    def __init__(self, tokenizer):
        self.tokenizer, self.begun = tokenizer, Counter()

    def ids(self, prompt_ids):
        prompt = self.tokenizer.decode(prompt_ids)
        question, house = re.search(r"(\w+ \w+ (?:is )?house (\d))\?", prompt).groups()
        turn = prompt.count("<tool_response>")
        if turn == 0:
            script = self.begun[question] % len(SCRIPTS)
            self.begun[question] += 1
        else:  # the first thing that it said
            said = {prompt.find(self.said(lines[0], house)): at for at, lines in enumerate(SCRIPTS) if at}
            script = said[min(set(said) - {-1})]
        return [*self.tokenizer(self.said(SCRIPTS[script][turn], house)).input_ids, self.tokenizer.eos_token_id]

    def said(self, line, house):
        numbers = {"house": house, "other": (int(house) + 1) % 4}
        if isinstance(line, str):
            return line.format(**numbers)
        ((name, text),) = line.items()
        arguments = f'{{"{name}": "{text.format(**numbers)}"}}'
        return f'<tool_call>\n{{"name": "search", "arguments": {arguments}}}\n</tool_call>'


class Counting:
    """A retriever that writes down what it is asked at once."""

    def __init__(self, retriever):
        self.retriever, self.asked = retriever, []

    def retrieve(self, questions, top_k):
        self.asked.append(list(questions))
        return self.retriever.retrieve(questions, top_k)


class Game:
    """An environment without searches, which owns its reward."""

    def reset(self, **row):
        return "How tall is house 3?"

    def get_reward(self):
        return 0.25


class Library(RetrievalEnvironment):
    """An environment that owns its questions, and scores itself from its own state."""

    reward: SePerReward

    def reset(self, house, **row):
        super().reset()
        self.question, self.answers = f"Who owns house {house}?", [f"Owner {house}"]
        return self.question

    def get_reward(self):
        (reward,) = self.reward(environments=[self])
        return reward


class NewLibrary:
    """Makes libraries: an object, which another process can have, in place of a lambda."""

    def __init__(self, make, reward):
        self.make, self.reward = make, reward

    def __call__(self):
        library = Library(*self.make.args)
        library.reward = self.reward
        return library


def environments(make, scorer):
    """Return factories by name; the library scores itself by ``scorer``."""
    return {
        "search": make,
        "library": NewLibrary(make, SePerReward(scorer, answer_weight=0.0, price=0.1)),
        "game": Game,
    }


def delta(scorer, kind=SePerReward):
    return kind(scorer, answer_weight=0.0, price=0.1, environment="search")


def both(scorer, kind=SePerReward, name="both"):
    reward = kind(scorer, price=0.1, environment="search")
    reward.__name__ = name
    return reward
