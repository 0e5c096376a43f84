"""What the passages of a search are compared with where that is not "no passage"."""

import random
from collections.abc import Sequence

from seper_reward.data.answers import contains_answer
from seper_reward.types import Answers, Passage

_DRAWS = 20  # before a passage with the answer in it is taken after all


def random_passage(passages: Sequence[Passage], question: str, answers: Answers) -> Passage:
    """Draw a passage that does not hold the answer, the same one whenever the question is asked.

    It is the counterfactual of IG-Search (arXiv:2604.15148): a gain over it is owed to what was searched for, and not
    to the mere presence of a passage.

    Args:
        passages: Passages to draw from, such as those of the corpus; at least one.
        question: The question, which decides the draw.
        answers: Its gold answer.

    >>> random_passage([Passage("Ida Voss runs it."), Passage("Rain fell.")], "Who runs it?", ["Ida Voss"]).text
    'Rain fell.'
    """
    draw = random.Random(question)
    for _ in range(_DRAWS):
        passage = draw.choice(passages)
        if not contains_answer(passage.full_text, answers):
            break
    return passage
