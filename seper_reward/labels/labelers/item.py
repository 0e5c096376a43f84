"""ITEM: the reader judges which passages are useful, without a gold answer (arXiv:2406.11290)."""

import operator
from collections.abc import Generator, Sequence
from dataclasses import asdict, replace
from typing import NamedTuple

from seper_reward.data.answers import rouge_l
from seper_reward.labels.judgment_prompts import JudgmentPrompts
from seper_reward.labels.judgments import Ask, Judgment, JudgmentOptions, Reply, judge
from seper_reward.labels.labelers.base import PassageLabeler
from seper_reward.labels.plans import run_plans
from seper_reward.labels.replies import chosen_numbers, ordered_numbers, text_and_numbers, text_and_verdict, yes_or_no
from seper_reward.reader.sampler import GREEDY, Request
from seper_reward.reader.writer import Turn, Writer, first_text
from seper_reward.scorer import SePerScorer
from seper_reward.types import LabeledQuery, Query, UnscorableError

_RETRIES = 2  # times, after a reply that cannot be parsed
_YES_OR_NO_TOKENS = 16
_Request = tuple[Query, Ask]
_Prompt = tuple[Writer | None, str]


class _Replied(NamedTuple):
    """The reply to one ``Ask``, and the number of texts before it that could not be parsed."""

    reply: Reply
    unclear: int


class ItemLabeler(PassageLabeler):
    """Labels a passage 1 if the reader judges it useful among the others, else 0; standard errors are 0.

    The reader is queried at temperature 0. A reply that cannot be parsed is never guessed at: the reader is asked
    again, twice at most, and then the question has no labels. A reply has at most ``max_new_tokens``, or 16 for yes or
    no.
    """

    needs_answers = False

    def __init__(
        self,
        scorer: SePerScorer,
        options: JudgmentOptions = JudgmentOptions(),
        prompts: JudgmentPrompts | None = None,
        *,
        max_new_tokens: int = 128,
        name: str = "item",
    ) -> None:
        self.name, self.scorer, self.options = name, scorer, options
        self.prompts = prompts or JudgmentPrompts.load()
        self.writer = Writer(scorer.reader, max_new_tokens)
        self.deciding = Writer(scorer.reader, min(max_new_tokens, _YES_OR_NO_TOKENS))
        self.answering = scorer.with_sampling(**GREEDY).reader
        metric = None if options.same_answer is None else rouge_l()
        self.similarity = operator.eq if metric is None else lambda one, other: metric(one, [other])

    @property
    def fingerprint(self) -> dict[str, object]:
        """Everything that affects a label, JSON-able."""
        prompts = dict(self.prompts.templates)
        judged = {"options": asdict(self.options), "prompts": prompts, "writing": self.writer.sampling}
        return {**super().fingerprint, "judgments": judged}

    def label_batch(self, queries: Sequence[Query]) -> list[LabeledQuery | UnscorableError]:
        """Label several queries; their next requests to the reader are one batch."""

        def converse(requests: Sequence[_Request]) -> list[_Replied | UnscorableError]:
            return run_plans((self._conversation(*request) for request in requests), self._texts)

        return run_plans(map(self._judged, queries), converse)

    def _judged(self, query: Query) -> Generator[list[_Request], list[_Replied], LabeledQuery]:
        """Yield the requests that a question's judgment needs, and return its labels."""
        judged, unclear = Judgment((), ()), 0
        if query.passages:
            plan = judge(self.options, len(query.passages), seed=query.id, similarity=self.similarity)
            asks = next(plan)
            while asks:
                replied = yield [(query, ask) for ask in asks]
                unclear += sum(outcome.unclear for outcome in replied)
                try:
                    asks = plan.send([outcome.reply for outcome in replied])
                except StopIteration as end:
                    judged, asks = end.value, []
        orders = {"judged_rank": judged.order, **({"relevance_rank": judged.relevance} if judged.relevance else {})}
        places = range(len(query.passages))

        def ids(chosen: Sequence[int]) -> list[str]:
            return [query.passages[place].id for place in chosen]

        return LabeledQuery(
            query,
            labels=tuple(float(place in judged.chosen) for place in places),
            std_errors=(0.0,) * len(places),
            fields={
                "judgment": {
                    "chosen": ids(judged.chosen),
                    "rounds": [{"pseudo_answer": answer, "chosen": ids(chosen)} for answer, chosen in judged.rounds],
                    "stopped_by": judged.stopped_by,
                    "not_understood": unclear,
                }
            },
            details=tuple({name: 1 + order.index(place) for name, order in orders.items()} for place in places),
        )

    def _conversation(self, query: Query, ask: Ask) -> Generator[list[_Prompt], list[str], _Replied]:
        """Yield the prompt of a request, again after a text that cannot be parsed, and return the reply."""
        more: list[Turn] = []
        for unclear in range(1 + _RETRIES):
            (text,) = yield [self._prompt(query, ask, more)]
            reply = _parse_reply(ask, text)
            if reply is not None:
                return _Replied(reply, unclear)
            more = [{"role": "assistant", "content": self.writer.as_data(text)}, self.prompts.again(ask)]
        return _Replied(None, 1 + _RETRIES)

    def _prompt(self, query: Query, ask: Ask, more: Sequence[Turn]) -> _Prompt:
        """Return the prompt of a request and its writer; ``None`` for an answer, by the prompt for questions."""
        passages = [query.passages[place] for place in ask.shown]
        if ask.task == "answer":
            return None, self.answering.prompts.build(query.question, passages)
        writer = self.deciding if ask.task == "point" else self.writer
        question, kind = writer.as_data(query.question), self.options.kind
        safe = replace(ask, pseudo_answer=writer.as_data(ask.pseudo_answer))
        return writer, writer.prompt(passages, lambda texts: [*self.prompts.turns(safe, question, kind, texts), *more])

    def _texts(self, prompts: Sequence[_Prompt]) -> list[str | UnscorableError]:
        """Return the reader's text after each prompt, or its error; the prompts of a writer are one batch."""
        texts: dict[_Prompt, str | UnscorableError] = {}
        for writer in (None, self.writer, self.deciding):
            batch = [prompt for prompt_writer, prompt in prompts if prompt_writer is writer]
            if writer is None:
                sampled = self.answering.sample(list(map(Request, batch)))
                texts |= {(None, prompt): first_text(reply) for prompt, reply in zip(batch, sampled, strict=True)}
            else:
                texts |= {(writer, prompt): text for prompt, text in zip(batch, writer.write(batch), strict=True)}
        return [texts[prompt] for prompt in prompts]


def _parse_reply(ask: Ask, text: str) -> Reply:
    """Return the parsed reply, with positions of the question's passages; ``None`` if it is not valid."""
    if ask.task in ("answer", "information"):
        return text
    if ask.task.endswith("point"):
        return (yes_or_no if ask.task == "point" else text_and_verdict)(text)

    def places(numbers: Sequence[int]) -> tuple[int, ...]:
        return tuple(ask.shown[number - 1] for number in numbers)

    if ask.task.endswith("_set"):
        both = text_and_numbers(text, len(ask.shown))
        return None if both is None else (both[0], places(both[1]))
    numbers = (chosen_numbers if ask.task == "set" else ordered_numbers)(text, len(ask.shown))
    return None if numbers is None else places(numbers)
