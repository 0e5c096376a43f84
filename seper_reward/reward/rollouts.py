"""What a policy did with a question, read from TRL's completions, environments and columns, and its score."""

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

from seper_reward.data.answers import is_list, read_answers
from seper_reward.data.rows import is_unicode
from seper_reward.data.stated import compile_answer_pattern, stated_answer
from seper_reward.reward.tools import Result, SearchTools, as_messages, read_calls, read_results, text_of
from seper_reward.reward.turns import NO_MORE, Turn, read_tool_message
from seper_reward.types import Answers, Belief, Passage, UnscorableError

OTHERS = "a row of another environment"  # the ``problem`` of a rollout that somebody else is to score


@dataclass(frozen=True)
class Rollout:
    """What a policy did with one question.

    Attributes:
        question: The question.
        answers: Aliases of its gold answer or, where that is a list, those of each of its items.
        turns: The searches, in order.
        answer: The answer that the policy states last (``stated_answer``); empty if it was cut off before one, or does
            not match the ``answer_pattern``.
        problem: Why it cannot be scored, of a rollout whose row is unusable; its other fields are empty then.
        calls: How many of the searches each message of the policy asked for, in order; empty where the completion does
            not show that, as when its passages come from a column.
        failed: How many calls failed: searches with an error as their result, and calls of tools that do not exist.
        failed_calls: How many calls of each message failed, in order; empty where ``calls`` is.
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
        beliefs: The reader's beliefs without passages, then after each search, as far as the weights need them.
        cost: Price of the searches and of failed calls, in units of belief, >= 0.
        answer: How surely the policy's own answer states a gold answer, in [0, 1]; ``None`` if answers are not paid.
        search_rewards: The weighted gain of each search, less its price.
        answer_reward: What the answer earned, less the price of failed calls. The sum of ``search_rewards`` and this
            is ``reward``, to the bit.
        fine: Price of the failed calls, which ``answer_reward`` is less by.
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


def read_rollouts(
    question: Sequence[str | None] | None = None,
    answers: Sequence[Answers | None] | None = None,
    completions: Sequence[Any] | None = None,
    passages: Sequence[Sequence[Any] | None] | None = None,
    environments: Sequence[Any] | None = None,
    passage_tag: str | None = None,
    others: Sequence[bool] | None = None,
    *,
    answer_pattern: str | None = None,
    search_tools: SearchTools | Sequence[str] | None = None,
) -> list[Rollout]:
    """Return one rollout per row; a row that is unusable becomes a rollout that says so in ``problem``.

    A rollout's searches come from the ``turns`` of its environment (as many as the completion has results of its
    tools, since TRL rolls back results that are too long), else from the column ``passages`` (one search), else from
    the completion's messages of search tools (``read_tool_message``), and from what stands between passage tags. The
    error of a failed call is no result. Numbers are read as texts.

    Args:
        question: Column of questions; where there is none, or ``None`` in it, the environment's attribute counts.
        answers: Column of gold answers: of each its aliases or, where it is a list, the aliases of each item; where
            there is none, the environment's attribute counts.
        completions: TRL's completions, texts or lists of messages; ``None`` stands for ones that nobody has seen:
            without an answer, and with all searches of the environment.
        passages: Column of the passages that one search found; ``None`` if there is no such column.
        environments: TRL's environments; ``None`` if the trainer has none.
        passage_tag: Name of the tag that stands around what a search found in a policy's text, such as
            ``information``; ``None`` if there is none.
        others: Whether each row is of another environment; ``None`` takes those for others whose environment keeps no
            record of searches (``turns``).
        answer_pattern: Regular expression whose last match's first group, or the whole match if it has no group, is
            the answer; a completion without a match states nothing. ``None`` reads the usual marks
            (``stated_answer``).
        search_tools: Names of the tools whose results are searches; ``None`` if there is only one. Results and errors
            of other tools are ignored. In an environment that records its searches, only its own tools count.

    Raises:
        ValueError: A column has another type than these: ``question`` is one text, or no row of ``answers`` or
            ``passages`` is a list. Or there are no columns, and no environments to ask; or the pattern is no regular
            expression. Or (``SeveralToolsError``) several tools have results, and none is named.
        RuntimeError: The retriever of an environment failed (``failure``), which is no fault of the policy.
    """
    for environment in environments or ():
        if (failure := getattr(environment, "failure", None)) is not None:
            raise RuntimeError(
                f"the search tool failed, so that its rollouts cannot be scored: {failure}"
            ) from failure
    if isinstance(question, str):
        raise ValueError(f"question must be a list of texts, got the text {question[:80]!r}; wrap it in a list")
    for name, column in (("answers", answers), ("passages", passages)):
        given = [row for row in column or () if row is not None]
        if given and not any(map(is_list, given)):
            kind = "text" if isinstance(given[0], str) else type(given[0]).__name__
            raise ValueError(f"{name} must be a list per row, got the {kind} {given[0]!r:.80}; wrap it in a list")
    if environments is None and (question is None or answers is None):
        raise ValueError(
            "question and answers must be columns of the data set, or attributes of TRL's environments, got neither; "
            "AsyncGRPOTrainer hands over no environments: add the columns, or give the environment a get_reward"
        )
    count = next(len(column) for column in (question, environments) if column is not None)
    others = others if others is not None else [_is_other(each) for each in environments or [None] * count]
    columns = (question, answers, completions, environments, passages)
    rows = list(zip(*([None] * count if column is None else column for column in columns), strict=True))
    tools = search_tools if isinstance(search_tools, SearchTools) else SearchTools(search_tools)
    own = [not other and not _records(row[3]) and row[4] is None for other, row in zip(others, rows, strict=True)]
    tools.see(row[2] for row in itertools.compress(rows, own))  # the others show by themselves what was searched
    pattern = None if answer_pattern is None else compile_answer_pattern(answer_pattern)
    return [
        _unusable(OTHERS) if other else _rollout(row, passage_tag, pattern, tools)
        for other, row in zip(others, rows, strict=True)
    ]


def rows_of_others(
    name: str | None, names: Sequence[str | None] | None, environments: Sequence[Any] | None
) -> list[bool] | None:
    """Return which rows belong to other environments than the one with this name.

    Args:
        name: Name of the environment whose rows are scored; ``None`` if no name is given.
        names: Column ``environment`` of the data set.
        environments: TRL's environments.

    Returns:
        One value per row; ``None`` if only the environments themselves show it.

    Raises:
        ValueError: The column is missing, or no environment keeps a record of its searches.
    """
    if name is not None:
        if names is None:
            raise ValueError(
                f"environment={name!r} needs a column environment in the data set, with the name of "
                "each row's environment; add it, or leave environment out"
            )
        return [each != name for each in names]
    if names is None and environments and not any(hasattr(each, "turns") for each in environments):
        raise ValueError(
            f"{type(environments[0]).__name__} keeps no record of its searches; give it a list turns of "
            "seper_reward.reward.turns.Turn, or take environment_factory"
        )
    return None


def _is_other(environment: Any) -> bool:
    return environment is not None and not _records(environment)


def _records(environment: Any) -> bool:
    """Return whether an environment keeps a record of its searches."""
    return hasattr(environment, "turns")


def tagged_block(tag: str) -> re.Pattern[str]:
    """Return the pattern of what stands between ``<tag>`` and ``</tag>``, tags included."""
    return re.compile(rf"<{re.escape(tag)}>(.*?)</{re.escape(tag)}>", re.DOTALL)


def _rollout(
    row: Sequence[Any], passage_tag: str | None, pattern: re.Pattern[str] | None, tools: SearchTools
) -> Rollout:
    question, answers, completion, environment, passages = row
    question, answers = _known(question, environment, "question"), _known(answers, environment, "answers")
    if not _records(environment):
        environment = None
    try:
        if not is_list(answers):
            raise UnscorableError(f"answers must be a list of texts, got {type(answers).__name__}")
        messages = _messages("" if completion is None else completion, passage_tag)
        found, failed = _searches(messages, environment, tools)
        seen = None if completion is None else list(itertools.chain.from_iterable(found))
        turns = _turns(seen, environment, passages)
        before, *calls = map(len, found)
        shown = before == 0 and sum(calls) == len(turns)
        rollout = Rollout(
            _text(question, "question"),
            read_answers(answers, _text),
            turns,
            _last_answer(messages, pattern),
            calls=tuple(calls) if shown else (),
            failed=sum(failed),
            failed_calls=tuple(failed[1:]) if shown and not failed[0] else (),
        )
        texts = (rollout.answer, *(passage.full_text for passage in rollout.passages))
        return rollout if all(map(is_unicode, texts)) else _unusable("the rollout holds half a surrogate pair")
    except UnscorableError as error:
        return _unusable(str(error))


def _known(value: Any, environment: Any, name: str) -> Any:
    """Return what the column says, else what the environment knows."""
    return getattr(environment, name, None) if value is None else value


def _unusable(problem: str) -> Rollout:
    return Rollout("", (), (), "", problem)


def _text(value: Any, name: str) -> str:
    """Return a text or a number as a stripped text that is not empty."""
    if isinstance(value, Integral) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, Real) and not isinstance(value, Integral) and math.isfinite(value):
        return f"{float(value):.15g}"  # 1912.0, as a column with gaps holds it, is the answer 1912
    if not isinstance(value, str):
        raise UnscorableError(f"{name} must be a text, got {type(value).__name__}")
    if not value.strip():
        raise UnscorableError(f"{name} must be a text, got an empty one")
    if not is_unicode(value):
        raise UnscorableError(f"{name} holds half a surrogate pair")
    return value.strip()


def _messages(completion: Any, passage_tag: str | None) -> list[Any]:
    """Return a completion as messages; tagged passages within the policy's texts become messages of a tool."""
    messages = (
        [{"role": "assistant", "content": completion}] if isinstance(completion, str) else as_messages(completion)
    )
    if passage_tag is None:
        return messages
    block = tagged_block(passage_tag)
    return [part for message in messages for part in _split(message, block)]


def _split(message: Any, block: re.Pattern[str]) -> Iterator[Any]:
    content = message.get("content")
    if message.get("role") != "assistant" or not isinstance(content, str) or not block.search(content):
        yield message
        return
    for place, text in enumerate(block.split(content)):  # text and passages by turns
        if place % 2:
            yield {"role": "tool", "content": text.strip()}
        elif text.strip():
            yield {"role": "assistant", "content": text}


def _searches(messages: Sequence[Any], environment: Any, tools: SearchTools) -> tuple[list[list[Result]], list[int]]:
    """Return the searches before the policy's first message and after each of its messages, and how many calls failed.

    Errors of failed calls, and the answer that there are no more searches, are left out; of an environment, only its
    own tools count. A result without a name is a search unless the policy calls another tool. A call that fails counts
    if it was to search, or if it names a tool that does not exist.
    """
    results = read_results(messages)
    chosen = tools.chosen()
    called = {call.tool for message in messages if message.get("role") == "assistant" for call in read_calls(message)}

    def searches(result: Result) -> bool:
        if environment is not None:
            own = hasattr(environment, result.tool or "search")
            return own and (tools.names is None or result.tool is None or result.tool in tools.names)
        if chosen is None:
            return True
        return result.tool in chosen if result.tool else called <= {None, *chosen}

    found = [
        [each for each in group if not each.failed and each.text != NO_MORE and searches(each)] for group in results
    ]
    failed = [sum(each.failed and (each.lacks_tool or searches(each)) for each in group) for group in results]
    return found, failed


def _turns(found: Sequence[Result] | None, environment: Any, passages: Any) -> tuple[Turn, ...]:
    if environment is not None:
        # of what TRL rolls back, only the end of a rollout, the environment knows nothing
        return tuple(environment.turns if found is None else environment.turns[: len(found)])
    if passages is not None:
        if not is_list(passages):
            raise UnscorableError(f"passages must be a list, got {type(passages).__name__}")
        given = tuple(_passage(passage, f"passages[{place}]") for place, passage in enumerate(passages))
        return (Turn("", given),) if given else ()
    return tuple(Turn(each.query, read_tool_message(each.text)) for each in found or ())


def _passage(value: Any, name: str) -> Passage:
    if isinstance(value, Passage):
        return value
    if isinstance(value, Mapping):
        title = value.get("title")
        text = _text(value.get("text"), f"{name}.text")
        return Passage(text, _text(title, f"{name}.title") if title else "", str(value.get("id", "")))
    return Passage(_text(value, name))


def _last_answer(messages: Sequence[Any], pattern: re.Pattern[str] | None) -> str:
    last = messages[-1] if messages else {}
    # a completion that was cut off after a search has no answer
    cut = last.get("role") != "assistant" or last.get("tool_calls")
    return "" if cut else stated_answer(text_of(last), pattern)
