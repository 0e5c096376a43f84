"""ITEM: the reader judges which passages are useful, without a gold answer (arXiv:2406.11290)."""

import operator
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from seper_reward.data.answers import rouge_l
from seper_reward.labels.judgment_prompts import JudgmentPrompts
from seper_reward.labels.judgments import Ask, Judgment, JudgmentOptions, Reply, Similarity, judge
from seper_reward.labels.labelers.base import PassageLabeler
from seper_reward.labels.replies import chosen_numbers, ordered_numbers, text_and_numbers, yes_or_no
from seper_reward.reader.sampler import GREEDY
from seper_reward.reader.writer import Turn, Writer, first_text
from seper_reward.scorer import SePerScorer
from seper_reward.types import LabeledQuery, Passage, Query, UnscorableError

_RETRIES = 2  # times, after a reply that cannot be parsed
_YES_OR_NO_TOKENS = 16


class ItemLabeler(PassageLabeler):
    """Labels a passage 1 if the reader judges it useful among the others, else 0; standard errors are 0.

    The reader is queried at temperature 0: for answers with its prompt for questions, for judgments in a conversation.
    A reply that cannot be parsed is never guessed at: the reader is asked again, twice at most, and then the question
    has no labels.

    Args:
        scorer: Scorer whose reader judges.
        options: How passages are judged.
        prompts: Prompts for the reader; ``None`` for the defaults.
        max_new_tokens: Longest reply in tokens, >= 1; 16 for yes or no.
        name: Name of the labels in rows and logs.

    Raises:
        OSError: Pseudo-answers are compared, and rouge-score is not installed.
        ValueError: ``max_new_tokens`` is below 1.
    """

    whole = True
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
        self.similarity = operator.eq if options.same_answer is None else _rouge_l()

    @property
    def fingerprint(self) -> dict[str, Any]:
        """Everything that affects a label, JSON-able."""
        judged = {"options": asdict(self.options), "prompts": asdict(self.prompts), "writing": self.writer.sampling}
        return {**super().fingerprint, "judgments": judged}

    def label_batch(self, queries: Sequence[Query]) -> list[LabeledQuery | UnscorableError]:
        """Label several queries; their next requests to the reader are one batch."""
        questions = [_Question(self, query) for query in queries]
        while wanted := [_Conversation(each, ask) for each in questions for ask in each.wanted]:
            self._converse(wanted)
            waiting = iter(wanted)
            for each in questions:
                each.after([next(waiting) for _ in each.wanted])
        return [each.labeled() for each in questions]

    def writer_for(self, ask: Ask) -> Writer | None:
        """Return the writer of the reply; ``None`` for an answer, which uses the reader's prompt for questions."""
        if ask.task == "answer":
            return None
        return self.deciding if ask.task == "point" else self.writer

    def _converse(self, wanted: Sequence["_Conversation"]) -> None:
        """Repeat requests until each conversation has a reply or an error, or no retries are left."""
        for _ in range(1 + _RETRIES):
            for writer in (None, self.writer, self.deciding):
                asked = [each for each in wanted if each.open and each.writer is writer]
                texts = self._texts(writer, [each.prompt for each in asked])
                for each, text in zip(asked, texts, strict=True):
                    each.take(text)

    def _texts(self, writer: Writer | None, prompts: Sequence[str]) -> list[str | UnscorableError]:
        """Return the reader's text after each prompt, or its error."""
        if writer is not None:
            return writer.write(prompts)
        sampled = self.answering.sample(sorted(set(prompts)))
        return [first_text(sampled[prompt]) for prompt in prompts]


@dataclass(frozen=True)
class _Replied:
    """The reply to one ``Ask``, and the number of earlier texts that could not be parsed."""

    reply: Reply
    unclear: int


class _Conversation:
    """One ``Ask`` of a question, until it has a reply or an error (``found``).

    It is ``open`` if the reader is to be asked (again). ``writer`` continues the conversation; it is ``None`` for
    answers, which use the prompt for questions.
    """

    def __init__(self, question: "_Question", ask: Ask) -> None:
        self._labeler, self._question, self._ask = question.labeler, question.query.question, ask
        self._passages = [question.query.passages[place] for place in ask.shown]
        self._more: list[Turn] = []
        self._unclear = 0
        self.writer, self.prompt = question.labeler.writer_for(ask), ""
        self.found: _Replied | UnscorableError = _Replied(None, 0)
        self.open = True
        self._prepare()

    def take(self, text: str | UnscorableError) -> None:
        """Parse the reader's text; if it is not a valid reply, prepare the next request."""
        if isinstance(text, UnscorableError):
            self.found, self.open = text, False
            return
        reply = self._read(text)
        self._unclear += reply is None
        self.found, self.open = _Replied(reply, self._unclear), reply is None
        if self.open:
            said = {"role": "assistant", "content": self._labeler.writer.as_data(text)}
            self._more = [said, self._labeler.prompts.again(self._ask)]
            self._prepare()

    def _prepare(self) -> None:
        try:
            self.prompt = self._answer_prompt() if self.writer is None else self._judgment_prompt(self.writer)
        except UnscorableError as error:
            self.found, self.open = error, False

    def _answer_prompt(self) -> str:
        return self._labeler.answering.prompts.build(self._question, self._passages)

    def _judgment_prompt(self, writer: Writer) -> str:
        prompts, kind = self._labeler.prompts, self._labeler.options.kind
        question = writer.as_data(self._question)
        ask = Ask(self._ask.task, self._ask.shown, writer.as_data(self._ask.pseudo_answer))

        def turns(texts: Sequence[str]) -> list[Turn]:
            return [*prompts.turns(ask, question, kind, texts), *self._more]

        return writer.prompt(self._passages, turns)

    def _read(self, text: str) -> Reply:
        """Return the parsed reply, with positions of the question's passages; ``None`` if it is not valid."""
        if self._ask.task in ("answer", "information"):
            return text
        if self._ask.task == "point":
            return yes_or_no(text)
        if self._ask.task.endswith("_set"):
            both = text_and_numbers(text, len(self._ask.shown))
            return None if both is None else (both[0], self._places(both[1]))
        read = chosen_numbers if self._ask.task == "set" else ordered_numbers
        numbers = read(text, len(self._ask.shown))
        return None if numbers is None else self._places(numbers)

    def _places(self, numbers: Sequence[int]) -> tuple[int, ...]:
        return tuple(self._ask.shown[number - 1] for number in numbers)


class _Question:
    """State of one question while it is judged; ``wanted`` are the next requests, empty at the end."""

    def __init__(self, labeler: ItemLabeler, query: Query) -> None:
        self.labeler, self.query = labeler, query
        self._unclear = 0
        self._judged: Judgment | UnscorableError = Judgment((), ())
        self._plan = judge(labeler.options, len(query.passages), seed=query.id, similarity=labeler.similarity)
        self.wanted: list[Ask] = next(self._plan) if query.passages else []

    def after(self, asked: Sequence[_Conversation]) -> None:
        """Pass the replies to the plan, and prepare its next requests."""
        if not self.wanted:
            return
        self.wanted, replies = [], []
        for each in asked:
            if isinstance(each.found, UnscorableError):
                self._judged = each.found
                return
            self._unclear += each.found.unclear
            replies.append(each.found.reply)
        try:
            self.wanted = self._plan.send(replies)
        except StopIteration as end:
            self._judged = end.value
        except UnscorableError as error:
            self._judged = error

    def labeled(self) -> LabeledQuery | UnscorableError:
        """Return the labels, or the error that prevents them."""
        judged, passages = self._judged, self.query.passages
        if isinstance(judged, UnscorableError):
            return judged
        places = range(len(passages))
        return LabeledQuery(
            self.query,
            labels=tuple(float(place in judged.chosen) for place in places),
            std_errors=(0.0,) * len(passages),
            fields={"judgment": {**_judgment_row(judged, passages), "not_understood": self._unclear}},
            details=tuple(
                {name: 1 + order.index(place) for name, order in _orders(judged).items()} for place in places
            ),
        )


def _orders(judged: Judgment) -> dict[str, Sequence[int]]:
    return {"judged_rank": judged.order, **({"relevance_rank": judged.relevance} if judged.relevance else {})}


def _judgment_row(judged: Judgment, passages: Sequence[Passage]) -> dict[str, Any]:
    def ids(places: Sequence[int]) -> list[str]:
        return [passages[place].id for place in places]

    rounds = [{"pseudo_answer": each.pseudo_answer, "chosen": ids(each.chosen)} for each in judged.rounds]
    return {"chosen": ids(judged.chosen), "rounds": rounds, "stopped_by": judged.stopped_by}


def _rouge_l() -> Similarity:
    metric = rouge_l()
    return lambda one, other: metric(one, [other])
