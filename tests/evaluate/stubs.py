"""A scorer and a retriever that do as a script says, for evaluations of whole systems."""

import copy
from types import SimpleNamespace

from seper_reward.types import Belief, Estimate, Measured, Responses, UnscorableError, attempt
from tests.helpers import OneByOne


class Given:
    """Finds for each question what a mapping says, else nothing."""

    def __init__(self, found):
        self.found = found

    def retrieve(self, questions, top_k):
        return [tuple(self.found.get(question, ()))[:top_k] for question in questions]


class StubScorer(OneByOne):
    """Believes and answers as functions of the question and the ids of its passages say; it samples nothing.

    Args:
        tokenizer: Tokenizer of its reader.
        seper: Function of a question and ids; ``None`` of it is a question that cannot be scored.
        says: Function of a question and ids that returns the reader's answer.
        std_error: Half of how far the interval of a belief reaches to either side.
        resampled: ``seper`` by other samples; the same by default.
    """

    def __init__(self, tokenizer, seper, says=lambda question, ids: "", std_error=0.0, resampled=None):
        self.seper, self.says, self.half, self.contexts = seper, says, 2 * std_error, []
        self.resampled = resampled or seper
        self.sampler = SimpleNamespace(tokenizer=tokenizer, prompts_ahead=0, options=SimpleNamespace(seed=0))
        self.reader = SimpleNamespace(
            sampler=self.sampler, responses=self.responses, expect=lambda asked, known=None: None
        )

    def with_sampling(self, seed=None, **changes):
        other = copy.copy(self)
        other.seper = self.seper if seed is None else self.resampled
        return other

    def measure(self, requests, batch_size=None):
        def measured(request):
            supports = tuple(float(text in request.answers) for text in request.texts)
            return Measured(tuple(self.beliefs(request.question, request.answers, request.contexts)), supports)

        return [attempt(lambda request=request: measured(request)) for request in requests]

    def responses(self, asked):
        return [
            [Responses((self.says(each.question, ids_of(context)),), ()) for context in each.contexts]
            for each in asked
        ]

    def beliefs(self, question, answers, contexts):
        self.contexts.append((question, [ids_of(context) for context in contexts]))
        if contexts and self.seper(question, ()) is None:
            raise UnscorableError("too long")
        return [self.belief(question, ids_of(context)) for context in contexts]

    def belief(self, question, ids):
        value = self.seper(question, ids)
        estimate = Estimate(value, self.half / 2, value - self.half, value + self.half)
        said = Responses((self.says(question, ids),), ())
        return Belief(estimate, estimate, sampled=said, weights=(1.0,))


def ids_of(context):
    return tuple(passage.id for passage in context)
