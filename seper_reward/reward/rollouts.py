"""Rollouts of a policy, read from TRL's completions, environments and columns, and their scores."""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from seper_reward.data.answers import as_answers, is_list
from seper_reward.data.rows import as_text, clean, is_empty_passage, is_missing, is_unicode, shown
from seper_reward.judge.extract import closes_thought, extract_answer, opens_thought
from seper_reward.options import compile_answer_pattern
from seper_reward.reward.tools import (
    ROLES,
    TRL_ERROR,
    Result,
    SearchTools,
    as_messages,
    read_calls,
    read_results,
    text_of,
)
from seper_reward.reward.turns import NO_MORE, Turn, read_tool_message
from seper_reward.types import Answers, Belief, Passage, UnscorableError

OTHERS = "a row of another environment"  # the ``problem`` of a rollout that another reward scores


@dataclass(frozen=True)
class Rollout:
    """The searches and the answer of a policy for one question.

    Attributes:
        question: The question.
        answers: Aliases of its gold answer.
        turns: The searches, in order.
        answer: The last answer of the policy (``extract_answer``); empty if the completion was cut off before an
            answer, or does not match the ``answer_pattern``.
        problem: Reason why an unusable row cannot be scored; the other fields are then empty. "" for usable rows.
        calls: Number of searches of each message of the policy, in order; empty if the completion does not show them,
            for example if the passages come from a column.
        failed: Number of failed calls: searches that returned an error, and calls of tools that do not exist.
        failed_calls: Number of failed calls of each message, in order; empty if ``calls`` is.
    """

    question: str
    answers: Answers
    turns: tuple[Turn, ...]
    answer: str
    problem: str = ""
    calls: tuple[int, ...] = ()
    failed: int = 0
    failed_calls: tuple[int, ...] = ()

    @property
    def passages(self) -> tuple[Passage, ...]:
        """The passages that all searches found, each once."""
        return self.found_by(len(self.turns))

    def found_by(self, searches: int) -> tuple[Passage, ...]:
        """Return the passages that the first ``searches`` searches found, each once."""
        return tuple(dict.fromkeys(passage for turn in self.turns[:searches] for passage in turn.passages))


@dataclass(frozen=True)
class Score:
    """A rollout's reward and its parts.

    Attributes:
        reward: The reward, by the formula in ``formula.py``.
        beliefs: The reader's beliefs without passages, then after each search; only those that the weights need.
        cost: Price of the searches and of failed calls, in units of belief, >= 0.
        answer: Support of a gold answer by the policy's answer (E in ``formula.py``), in [0, 1]; ``None`` if the
            weight of answers is 0.
        search_rewards: The weighted gain of each search, minus its price.
        answer_reward: Reward of the answer, minus the price of failed calls. The sum of ``search_rewards`` and
            ``answer_reward`` is exactly ``reward``.
        fine: Price of the failed calls, which is already subtracted from ``answer_reward``.
    """

    reward: float
    beliefs: tuple[Belief, ...]
    cost: float
    answer: float | None = None
    search_rewards: tuple[float, ...] = ()
    answer_reward: float = 0.0
    fine: float = 0.0

    @property
    def gains(self) -> tuple[float, ...]:
        """Change of SePer from each belief to the next, in [-1, 1]."""
        return tuple(after.seper - before.seper for before, after in itertools.pairwise(self.beliefs))


class _Entry(NamedTuple):
    """One entry of each column of ``read_rollouts``, ``None`` without the column, and whether it is of ``others``."""

    question: Any
    answers: Any
    completion: Any
    environment: Any
    passages: Any
    other: bool

    @property
    def is_read(self) -> bool:
        """Whether the searches are in the completion: neither recorded nor a column of passages."""
        return not (self.other or _records(self.environment) or self.passages is not None)


def read_rollouts(
    question: Sequence[str | None] | None = None,
    answers: Sequence[Answers | None] | None = None,
    completions: Sequence[object] | None = None,
    passages: Sequence[Sequence[object] | None] | None = None,
    environments: Sequence[object] | None = None,
    passage_tag: str | None = None,
    others: Sequence[bool] | None = None,
    *,
    answer_pattern: str | None = None,
    search_tools: SearchTools | Sequence[str] | None = None,
    thinking: bool = False,
) -> list[Rollout]:
    """Return one rollout per row; an unusable row becomes a rollout with the reason in ``problem``.

    A rollout's searches come from the ``turns`` of its environment, else from the column ``passages`` (one search),
    else from the completion: messages of search tools (``read_tool_message``) and text between passage tags. TRL rolls
    back results that are too long, so only as many ``turns`` count as the completion has results. The error of a
    failed call is no result. Numbers are read as texts.

    Columns and options are those of ``SePerReward``. If ``question`` or ``answers`` is missing or ``None``, the
    environment's attribute counts. Without ``completions``, rollouts have no answer, and all searches of the
    environment. ``others`` marks the rows of another environment (default: those whose environment does not record its
    searches, ``turns``). In an environment that records its searches, only its own tools count. With ``thinking``,
    completions begin in a thought that the prompt has opened, and state no answer before its closing tag.

    Raises:
        ValueError: A column has another type: ``question`` is one text, or no row of ``passages`` is a list. Or there
            are neither columns nor environments; or the pattern is no regular expression. Or (``SeveralToolsError``)
            several tools have results, and ``search_tools`` is ``None``.
        RuntimeError: The retriever of an environment failed (``failure``), which is not the policy's fault.
    """
    for environment in environments or ():
        if (failure := getattr(environment, "failure", None)) is not None:
            raise RuntimeError(f"the search tool failed, so its rollouts cannot be scored: {failure}") from failure
    if isinstance(question, str):
        raise ValueError(f"question must be a list of texts, got the text {question[:80]!r}; wrap it in a list")
    lists = [listed for listed in passages or () if listed is not None]
    if lists and not any(map(is_list, lists)):
        kind = "text" if isinstance(lists[0], str) else type(lists[0]).__name__
        raise ValueError(f"passages must be a list per row, got the {kind} {lists[0]!r:.80}; wrap it in a list")
    if environments is None and (question is None or answers is None):
        raise ValueError(
            "question and answers must be columns of the data set, or attributes of TRL's environments, got neither; "
            "AsyncGRPOTrainer does not pass environments: add the columns, or give the environment a get_reward"
        )
    count = next(len(column) for column in (question, environments) if column is not None)
    if others is None:
        others = [env is not None and not _records(env) for env in environments or [None] * count]
    columns = {"question": question, "answers": answers, "completions": completions}
    columns |= {"environments": environments, "passages": passages}
    lengths = {name: len(column) for name, column in columns.items() if column is not None}
    if len(set(lengths.values())) > 1:
        sizes = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise ValueError(f"columns must have one entry per rollout, got different lengths: {sizes}")
    full = ([None] * count if column is None else column for column in columns.values())
    entries = [_Entry(*values) for values in zip(*full, others, strict=True)]
    tools = search_tools if isinstance(search_tools, SearchTools) else SearchTools(search_tools)
    tools.see(entry.completion for entry in entries if entry.is_read)
    pattern = compile_answer_pattern(answer_pattern)

    def read(entry: _Entry) -> Rollout:
        if entry.other:
            return unusable(OTHERS)
        if completions is not None and entry.completion is None:
            return unusable("the completion is None")
        return _rollout(entry, passage_tag, pattern, tools, thinking)

    return list(map(read, entries))


def begins_in_thought(prompts: Sequence[object], completions: Sequence[object]) -> bool:
    """Return whether the chat template opens a thought: it ends a prompt, or completions only close it."""

    def text(value: Any, place: int) -> str:
        message = value[place] if is_list(value) and value else value
        return text_of(message) if isinstance(message, Mapping) else message if isinstance(message, str) else ""

    return any(opens_thought(text(prompt, -1)) for prompt in prompts) or any(
        closes_thought(text(completion, 0), opened=False) for completion in completions
    )


def rows_of_others(
    name: str | None, names: Sequence[str | None] | None, environments: Sequence[object] | None
) -> list[bool] | None:
    """Return which rows belong to another environment than the named one; ``None`` if there is no name to compare.

    ``names`` is the column ``environment`` of the data set. Raises ``ValueError`` if it is missing, or if no
    environment records its searches.
    """
    if name is not None:
        if names is None:
            raise ValueError(
                f"environment={name!r} needs a column environment in the data set, with the name of "
                "each row's environment; add it, or leave environment out"
            )
        return [row_name != name for row_name in names]
    if names is None and environments and not any(map(_records, environments)):
        raise ValueError(
            f"{type(environments[0]).__name__} does not record its searches; give it a list turns of "
            "seper_reward.reward.turns.Turn, or use search_environment"
        )
    return None


def _records(environment: object) -> bool:
    """Return whether an environment records its searches."""
    return hasattr(environment, "turns")


def tagged_block(tag: str) -> re.Pattern[str]:
    """Return the pattern of the text between ``<tag>`` and ``</tag>``, tags included."""
    return re.compile(rf"<{re.escape(tag)}>(.*?)</{re.escape(tag)}>", re.DOTALL)


def _rollout(
    entry: _Entry, passage_tag: str | None, pattern: re.Pattern[str] | None, tools: SearchTools, thinking: bool
) -> Rollout:
    question, answers, completion, environment, passages, _ = entry
    question = getattr(environment, "question", None) if question is None else question
    answers = getattr(environment, "answers", None) if answers is None else answers
    if not _records(environment):
        environment = None
    try:
        answers = as_answers(clean(answers), needed=False, distinct=False)
        if not answers:
            raise UnscorableError("no gold answer")
        messages = _messages("" if completion is None else completion, passage_tag)
        searches, failed = _searches(messages, environment, tools)
        seen = None if completion is None else list(itertools.chain.from_iterable(searches))
        turns = _turns(seen, environment, passages)
        before, *calls = map(len, searches)
        shown = before == 0 and sum(calls) == len(turns)
        last = messages[-1] if messages else {}
        # a completion that was cut off after a search has no answer
        cut = last.get("role") != "assistant" or last.get("tool_calls")
        cut = cut or (thinking and not closes_thought(text_of(last)))
        rollout = Rollout(
            as_text(question, "question"),
            answers,
            turns,
            "" if cut else extract_answer(text_of(last), pattern),
            calls=tuple(calls) if shown else (),
            failed=sum(failed),
            failed_calls=tuple(failed[1:]) if shown and not failed[0] else (),
        )
        texts = (rollout.answer, *(passage.full_text for passage in rollout.passages))
        return rollout if all(map(is_unicode, texts)) else unusable("the rollout contains half a surrogate pair")
    except UnscorableError as error:
        return unusable(str(error))


def unusable(problem: str) -> Rollout:
    """Return a rollout that cannot be scored, with the reason."""
    return Rollout("", (), (), "", problem)


def _messages(completion: Any, passage_tag: str | None) -> list[Any]:
    """Return a completion as messages; tagged passages in the policy's texts become messages of a tool."""
    if not isinstance(completion, str) and not is_list(completion):
        raise UnscorableError(f"completion must be a text or a list of messages, got {shown(completion)}")
    messages = (
        [{"role": "assistant", "content": completion}] if isinstance(completion, str) else as_messages(completion)
    )
    roles = [message.get("role") for message in messages if isinstance(message, Mapping)]
    if "assistant" not in roles and any(role not in ROLES for role in roles):
        role_names = ", ".join(dict.fromkeys(map(repr, roles)))
        raise UnscorableError(f"completion must have a message of the role 'assistant', got {role_names}")
    if passage_tag is None:
        return messages
    block = tagged_block(passage_tag)
    return [part for message in messages for part in _split(message, block)]


def _split(message: Any, block: re.Pattern[str]) -> Iterator[object]:
    content = message.get("content")
    if message.get("role") != "assistant" or not isinstance(content, str) or not block.search(content):
        yield message
        return
    for place, text in enumerate(block.split(content)):  # text and passages alternate
        if place % 2:
            yield {"role": "tool", "content": text.strip()}
        elif text.strip():
            yield {"role": "assistant", "content": text}


def _searches(
    messages: Sequence[Any], environment: object, tools: SearchTools
) -> tuple[list[list[Result]], list[int]]:
    """Return the searches before and after each message of the policy, and the number of failed calls."""
    results = read_results(messages)
    if environment is not None:  # TRL writes its errors in one form, and passages may begin like others
        results = [
            [result._replace(failed=result.text.startswith(TRL_ERROR)) for result in group] for group in results
        ]
    chosen = tools.chosen()
    called = {call.tool for message in messages if message.get("role") == "assistant" for call in read_calls(message)}

    def searches(result: Result) -> bool:
        if environment is not None:
            has_tool = hasattr(environment, result.tool or "search")
            return has_tool and (tools.names is None or result.tool is None or result.tool in tools.names)
        if chosen is None:
            return True
        return result.tool in chosen if result.tool else called <= {None, *chosen}

    groups = [
        [result for result in group if not result.failed and result.text != NO_MORE and searches(result)]
        for group in results
    ]
    failed = [sum(result.failed and (result.lacks_tool or searches(result)) for result in group) for group in results]
    return groups, failed


def _turns(results: Sequence[Result] | None, environment: Any, passages: Any) -> tuple[Turn, ...]:
    if environment is not None:
        # the environment still has the last searches, which TRL may have rolled back
        return tuple(environment.turns if results is None else environment.turns[: len(results)])
    if passages is not None:
        if not is_list(passages):
            raise UnscorableError(f"passages must be a list, got {type(passages).__name__}")
        row_passages = tuple(
            _passage(passage, f"passages[{place}]")
            for place, passage in enumerate(map(clean, passages))
            if not is_empty_passage(passage)
        )
        return (Turn("", row_passages),) if row_passages else ()
    return tuple(Turn(result.query, read_tool_message(result.text, result.query)) for result in results or ())


def _passage(value: object, name: str) -> Passage:
    if isinstance(value, Passage):
        return value
    if isinstance(value, Mapping):
        title = value.get("title")
        text = as_text(value.get("text"), f"{name}.text")
        return Passage(text, "" if is_missing(title) else as_text(title, f"{name}.title"), str(value.get("id", "")))
    return Passage(as_text(value, name))
