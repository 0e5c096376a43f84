"""Workflows that search, reason and refuse: each is the loop of its paper around a reader of short answers.

A workflow decides when to search, with which query, and when not to use the passages found. The papers' trained parts
are left out.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from seper_reward.baselines.compressors import split_sentences
from seper_reward.baselines.options import SearchOptions
from seper_reward.options import check_least
from seper_reward.reader.sampler import GREEDY, Request
from seper_reward.reader.writer import Turn, Writer
from seper_reward.retrieval import Retriever
from seper_reward.runtime.token_ids import token_ids
from seper_reward.scorer import SePerScorer
from seper_reward.types import Pair, Passage, unwrap

ANSWER_MARK = "the answer is"  # in a thought that ends the reasoning, as in IRCoT


class WorkflowOptions(SearchOptions):
    """Options of the workflows; ``ValueError`` for a number out of range."""

    refuse_below: float = 0.5  # ret_robust drops passages if no entailment of the answer by a passage reaches this
    sure_from: float = 0.8  # flare searches if a token of the draft has a lower probability
    mask_below: float = 0.4  # flare leaves tokens of the draft with a lower probability out of the query
    max_thought_tokens: int = 48  # of ircot

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(self, max_thought_tokens=1)
        for name in ("refuse_below", "sure_from", "mask_below"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} must be in [0, 1], got {getattr(self, name)}")


class Draft(NamedTuple):
    """The reader's answer at temperature 0."""

    text: str
    least_prob: float  # of its least likely token, including the end; 0 for an empty draft
    sure_text: str  # tokens with a probability of at least `mask_below`; the whole draft if a server returns no tokens


@dataclass(frozen=True)
class Step:
    """One change of the reader's context."""

    did: Literal["search", "refuse"]  # a refusal removes all passages
    query: str  # empty for a refusal
    passages: tuple[Passage, ...]  # the context from here on


@dataclass(frozen=True)
class Trace:
    """The steps of a workflow to its answer."""

    answer: str
    steps: tuple[Step, ...]
    thoughts: tuple[str, ...]  # sentences of the reader's reasoning
    searches: int
    tokens: int  # of all prompts and all texts of the reader, including cached ones

    @property
    def contexts(self) -> list[tuple[Passage, ...]]:
        """The reader's context before the first step (empty) and after each step."""
        return [(), *(step.passages for step in self.steps)]


class Tools:
    """Tools of all workflows: the retriever, the reader at temperature 0, and the entailment model."""

    def __init__(
        self, scorer: SePerScorer, retriever: Retriever, options: WorkflowOptions = WorkflowOptions()
    ) -> None:
        self.retriever, self.options, self.entailment = retriever, options, scorer.entailment
        self.reader = scorer.with_sampling(**GREEDY).reader
        self.writer = Writer(scorer.reader, options.max_thought_tokens)


class Session:
    """State of one question while a workflow answers it."""

    def __init__(self, tools: Tools, question: str) -> None:
        self.question, self.options, self._tools = question, tools.options, tools
        self.context: tuple[Passage, ...] = ()  # passages in the reader's context
        self.thoughts: list[str] = []  # sentences that the reader has written so far
        self.searches = 0
        self._steps: list[Step] = []
        self._tokens = 0

    def search(self, query: str, *, keep: Sequence[Passage] = ()) -> None:
        """Search, and show the reader the passages after those in ``keep``."""
        (passages,) = self._tools.retriever.retrieve([query], self.options.top_k)
        self.searches += 1
        self._show(Step("search", query, (*keep, *(passage for passage in passages if passage not in keep))))

    def refuse(self) -> None:
        """Remove all passages from the context."""
        self._show(Step("refuse", "", ()))

    def draft(self) -> Draft:
        """Return the reader's answer in the current context."""
        reader = self._tools.reader
        prompt = reader.prompts.build(self.question, self.context)
        sampled = unwrap(reader.sample([Request(prompt)], closed_book=not self.context)[0])
        probs = list(map(math.exp, sampled.token_log_probs[0].tolist()))
        self._spend(prompt, len(probs))
        text, least_prob = sampled.texts[0], min(probs, default=0.0)
        if not sampled.token_ids:
            return Draft(text, least_prob, text)
        tokens = zip(sampled.token_ids[0], probs, strict=True)
        sure = [token for token, prob in tokens if prob >= self.options.mask_below]
        return Draft(text, least_prob, reader.sampler.tokenizer.decode(sure, skip_special_tokens=True).strip())

    def think(self) -> str:
        """Return and record the next sentence of the reader's reasoning in the current context; may be blank."""
        writer = self._tools.writer
        question, so_far = writer.as_data(self.question), writer.as_data(" ".join(self.thoughts))
        prompt = writer.prompt(self.context, lambda texts: _reasoning(question, texts, so_far or "none"))
        text = unwrap(writer.write([prompt])[0])
        self._spend(prompt, self._length(text))
        thought = next(iter(split_sentences(text.strip().partition("\n")[0])), "")
        self.thoughts.append(thought)
        return thought

    def support(self, answer: str) -> float:
        """Return the greatest probability, in [0, 1], that a passage in the context entails the answer, or 0."""
        if not self.context:
            return 0.0
        pairs = list(dict.fromkeys(Pair(self.question, passage.full_text, answer) for passage in self.context))
        return float(self._tools.entailment.probs(pairs)[:, 0].max())

    def trace(self, answer: str) -> Trace:
        """Return the trace of the question with this answer."""
        return Trace(answer, tuple(self._steps), tuple(self.thoughts), self.searches, self._tokens)

    def _show(self, step: Step) -> None:
        self._steps.append(step)
        self.context = step.passages

    def _spend(self, prompt: str, written: int) -> None:
        self._tokens += self._length(prompt) + written

    def _length(self, text: str) -> int:
        return len(token_ids(self._tools.reader.sampler.tokenizer, text))


def _reasoning(question: str, passages: Sequence[str], so_far: str) -> list[Turn]:
    """Return the conversation that asks for the next sentence of a chain of thought."""
    shown = [f"[{number}] {text}" for number, text in enumerate(passages, 1) if text]
    lines = [
        *(["Passages:", *shown] if shown else []),
        f"Question: {question}",
        f"Thoughts so far: {so_far}",
        "Write the next thought that leads to the answer, in one sentence. If you know the answer, write: So "
        f"{ANSWER_MARK}: ...",
    ]
    return [{"role": "user", "content": "\n".join(lines)}]


def closed_book(session: Session) -> str:
    """Answer without a search."""
    return session.draft().text


def retrieve_once(session: Session) -> str:
    """Search for the question and answer with the passages found."""
    session.search(session.question)
    return session.draft().text


def ret_robust(session: Session) -> str:
    """Search, answer, and drop the passages if none of them entails that answer (RetRobust, arXiv:2310.01558).

    This is the paper's refusal by an entailment model, for one question instead of each of its parts. After a refusal,
    the reader answers without passages, as in the paper.
    """
    session.search(session.question)
    answer = session.draft().text
    if session.support(answer) >= session.options.refuse_below:
        return answer
    session.refuse()
    return session.draft().text


def flare(session: Session) -> str:
    """Look ahead: search as long as a token of the draft is unlikely, and draft again (FLARE, arXiv:2305.06983).

    The query is the question followed by the draft without its unlikely tokens (FLARE's implicit query): a draft of a
    few words would not suffice as a query. The reader sees only the passages of the last search. A draft is a whole
    answer, whereas the paper looks ahead sentence by sentence.
    """
    draft = session.draft()
    while draft.least_prob < session.options.sure_from and session.searches < session.options.max_searches:
        session.search(f"{session.question} {draft.sure_text}".strip())
        draft = session.draft()
    return draft.text


def ircot(session: Session) -> str:
    """Reason and search in turns: each thought is the next query (IRCoT, arXiv:2212.10509).

    Passages are collected. The chain ends with a thought that states the answer, is blank or repeats an earlier one,
    or with the last search. As in the paper, the reader then answers with all passages and without the thoughts.
    """
    session.search(session.question)
    while session.searches < session.options.max_searches:
        thought = session.think()
        if not thought or thought in session.thoughts[:-1] or ANSWER_MARK in thought.casefold():
            break
        session.search(thought, keep=session.context)
    return session.draft().text


def iter_retgen(session: Session) -> str:
    """Answer, and search again with question and answer, a fixed number of times (Iter-RetGen, arXiv:2305.15294).

    The reader sees only the passages of the last search, as in the paper. It answers in a few words instead of the
    paper's chain of thought.
    """
    answer = ""
    while session.searches < session.options.max_searches:
        session.search(f"{session.question} {answer}".strip())
        answer = session.draft().text
    return answer


#: Workflows by name: functions that answer the question of a session.
WORKFLOWS: Mapping[str, Callable[[Session], str]] = {
    "closed_book": closed_book,
    "retrieve": retrieve_once,
    "ret_robust": ret_robust,
    "flare": flare,
    "ircot": ircot,
    "iter_retgen": iter_retgen,
}


def run_workflow(name: str, tools: Tools, question: str) -> Trace:
    """Answer a question by a workflow, given its name in ``WORKFLOWS``."""
    session = Session(tools, question)
    return session.trace(WORKFLOWS[name](session))
