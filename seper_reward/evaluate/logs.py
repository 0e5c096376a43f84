"""Reader of rollout logs of search agents, in the layouts of TRL, Search-R1, verifiers and prime-rl."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from seper_reward.data.formats import NAMES
from seper_reward.data.rows import BadRowError, read_valid_rows, shown
from seper_reward.options import CompletionOptions, compile_answer_pattern
from seper_reward.retrieval.service import LISTS, read_passage
from seper_reward.reward.rollouts import Rollout, read_rollouts, tagged_block, unusable
from seper_reward.reward.tools import SearchTools, SeveralToolsError, counted, text_of, unpacked
from seper_reward.reward.turns import Turn
from seper_reward.runtime.messages import plural, say_once
from seper_reward.types import Answers, Passage

#: Fields of a row for its question, its gold answers and the policy's text; the first field that exists is read.
QUESTION = tuple(name for name in NAMES["question"] if name != "input")  # which is verl's whole prompt
ANSWERS = NAMES["answers"]
COMPLETION = ("completion", "response", "messages", "trajectory", "output", "sequences_str")
_ASKED = ("question", "query", "anchor")  # fields of the question in files of answers
_PASSAGE_TAG = "information"  # of Search-R1's logs
# dicts that may contain questions and answers
_NESTED = ("info", "extra_info", "reward_model", "ground_truth", "metadata")
# a passage in the format of Search-R1's retriever: Doc 1(Title: "Mill") text
_DOCUMENT = re.compile(
    r'Doc(?:ument)?\s*\d+\s*\(Title:\s*(?:"(?P<quoted>[^\n]*?)"\)|(?P<plain>[^"\n][^\n]*?)\)(?!\)))\s*', re.IGNORECASE
)
_TURN_MARKS = re.compile(r"^\s*(?:<\|[^|>]*\|>\w*\s*)+")  # chat templates write such marks before a reply
_SEARCH = tagged_block("search")


class LoggedRollout(NamedTuple):
    """A rollout of a log, and the place of its row (``file:line``)."""

    where: str
    rollout: Rollout


def read_rollout_log(
    path: str | Path,
    *,
    answers: Mapping[str, Answers] | None = None,
    passage_tag: str = _PASSAGE_TAG,
    search_tools: SearchTools | Sequence[str] | None = None,
    answer_pattern: str | None = None,
) -> list[LoggedRollout]:
    """Read a log of rollouts (JSON, JSONL, CSV, Parquet); an unusable row has the reason in its rollout's ``problem``.

    Three layouts are recognised by their fields. *Searches*: ``{question, answers, searches: [{query?, passages}],
    answer?}``. *Messages* (TRL's tables of completions, verifiers, prime-rl): ``completion`` is a list of messages;
    the results of the search tool are the searches. *Text* (Search-R1): the completion is one text, with passages
    between ``<information>`` tags and the answer between ``<answer>`` tags. If no field contains the question, it is
    the user's last message in ``prompt`` or, if prompt and completion are one list of messages, the user's first
    message. A trace of verifiers 0.4 (``{task: {data}, nodes}``) is read as the messages of its last branch, with the
    fields of its task. Gold answers are texts or numbers, or lists of them, also inside ``reward_model``, ``info`` or
    ``ground_truth``; rows without any have those in ``answers``, by question. The other options, and errors, are those
    of ``read_rollouts``; a missing file raises ``OSError``, a row that is no object ``BadRowError``.
    """
    tools = search_tools if isinstance(search_tools, SearchTools) else SearchTools(search_tools)
    compile_answer_pattern(answer_pattern)  # fail early: otherwise each row would report the error
    rows = [(where, _as_row(row)) for where, row in read_valid_rows(path)]
    tools.see(_completion(row) for _, row in rows if row.get("searches") is None)
    options = {"passage_tag": passage_tag, "answer_pattern": answer_pattern, "search_tools": tools.chosen()}
    return [LoggedRollout(where, _rollout(row, answers or {}, options)) for where, row in rows]


def read_gold_answers(path: str | Path) -> dict[str, Any]:
    """Read gold answers by question, the first of each; ``BadRowError`` if a row has no question or no answers."""
    answers: dict[str, Any] = {}
    for where, row in read_valid_rows(path):
        question = next((row[name] for name in _ASKED if isinstance(row.get(name), str)), None)
        if question is None or row.get("answers") is None:
            lacking = f"a text in one of {', '.join(_ASKED)}" if question is None else "'answers'"
            raise BadRowError(f"{where}: expected {lacking}, got fields {', '.join(row)}; name the field, or add it")
        answers.setdefault(question.strip(), row["answers"])
    return answers


def read_usable_rollouts(
    path: str, options: CompletionOptions, answers: Mapping[str, Answers] | None
) -> list[Rollout]:
    """Read the usable rollouts of a log by ``read_rollout_log``; problems of other rows are printed."""
    tools = SearchTools(options.search_tools or None)
    try:
        logged = read_rollout_log(
            path, answers=answers, passage_tag=options.passage_tag or _PASSAGE_TAG, search_tools=tools,
            answer_pattern=options.answer_pattern,
        )  # fmt: skip
    except SeveralToolsError as error:
        most = max(tools.seen, key=lambda name: tools.seen[name])
        results = f"the log has results of tools {counted(tools.seen)}"
        raise ValueError(f"{path}: {results}: name the search tools, such as --search_tools {most}") from error
    for name in tools.names or ():
        if name not in tools.seen:
            others = counted(tools.seen) or "no tool results"
            say_once(f"--search_tools {name}: the log has no result of it; it has {others}")
    problems = Counter(entry.rollout.problem for entry in logged if entry.rollout.problem)
    for problem, count in problems.items():
        where = next(entry.where for entry in logged if entry.rollout.problem == problem)
        say_once(f"{plural(count, 'row')} cannot be used; {where}: {problem}")
    rollouts = [entry.rollout for entry in logged if not entry.rollout.problem]
    if not rollouts:
        raise ValueError(f"{path}: expected rollouts, got {len(logged)} rows that cannot be used")
    return rollouts


def _as_row(row: Mapping[str, object]) -> Mapping[str, object]:
    """Return a trace of verifiers 0.4 as a row of messages; return other rows unchanged."""
    nodes, task = unpacked(row.get("nodes")), unpacked(row.get("task"))
    if not isinstance(nodes, list) or not isinstance(task, Mapping):
        return row
    path: list[Mapping[str, object]] = []
    place = len(nodes) - 1 if nodes else None  # a node comes after its parent, and the last is the newest leaf
    while place is not None:
        path.insert(0, nodes[place])
        place = nodes[place].get("parent")
    data = task.get("data")
    start = next((at for at, node in enumerate(path) if node.get("sampled")), len(path))
    messages = [node.get("message") for node in path]
    return {**(data if isinstance(data, Mapping) else {}), "prompt": messages[:start], "completion": messages[start:]}


def _completion(row: Mapping[str, object]) -> Any:
    return unpacked(_first(row, COMPLETION))


def _rollout(row: Mapping[str, object], known: Mapping[str, Answers], options: Mapping[str, Any]) -> Rollout:
    completion = _completion(row)
    question = _first(row, QUESTION) or _last_question(unpacked(row.get("prompt")))
    if question is None and isinstance(completion, list):  # later messages of the user may be results of tools
        question = _last_question([message for message in completion if _is_user_message(message)][:1])
    searches = unpacked(row.get("searches"))
    # in rows with searches, the field ``answer`` is the policy's answer
    gold = _first(row, [name for name in ANSWERS if name != "answer" or searches is None])
    gold = unpacked(gold) if gold is not None else known.get(question) if isinstance(question, str) else None
    if isinstance(gold, str | int | float):
        gold = [gold]
    if searches is not None:
        completion = str(row.get("answer") or "")
    elif completion is None:
        expected = f"expected searches, or the policy's text in one of {', '.join(COMPLETION)}"
        return unusable(f"{expected}; got the fields {', '.join(row)}")
    elif isinstance(completion, str):
        completion = _strip_prompt(completion, row)
    try:
        (rollout,) = read_rollouts([question], [gold], [completion], **options)
        if rollout.problem:
            return rollout
        if searches is not None:
            return replace(rollout, turns=tuple(_turn(search) for search in searches), calls=())
        written = list(_SEARCH.finditer(completion)) if isinstance(completion, str) else []
        # without text after the last search, the rollout may have been cut off there
        if written and not rollout.turns and completion[written[-1].end() :].strip():
            return unusable(f"it searched, but there is no text between <{options['passage_tag']}> tags; name the tag")
        queries = [match[1].strip() for match in written]
        if len(queries) != len(rollout.turns):
            queries = [turn.query for turn in rollout.turns]
        lists = [tuple(part for whole in turn.passages for part in passages_of(whole.text)) for turn in rollout.turns]
        return replace(rollout, turns=tuple(map(Turn, queries, lists)))
    except (ValueError, AttributeError, TypeError) as error:
        return unusable(f"a row must be a rollout, got {shown(row)}: {error}")


def _strip_prompt(text: str, row: Mapping[str, object]) -> str:
    """Return a text without the prompt, which Search-R1's ``sequences_str`` includes, with examples of its tags."""
    prompt = row.get("prompt")
    if isinstance(prompt, str) and text.startswith(prompt):
        return text[len(prompt) :]
    if text == row.get("sequences_str") and "Question:" in text:
        behind = text.partition("Question:")[2]
        return _TURN_MARKS.sub("", behind.partition("\n")[2] or behind)
    return text


def _turn(search: Any) -> Turn:
    passages = unpacked(search.get("passages")) if isinstance(search, Mapping) else None
    if isinstance(passages, str):
        passages = [passages]
    if not isinstance(passages, Sequence):
        raise ValueError(f"a search must be {{query?, passages: [...]}}, got {shown(search)}")
    return Turn(str(search.get("query") or ""), tuple(map(read_passage, passages)))


def passages_of(text: str) -> tuple[Passage, ...]:
    r"""Return the passages in the text of a search tool: Search-R1's documents, a JSON list, else one passage.

    >>> [passage.title for passage in passages_of('Doc 1(Title: "Mill") It is old.\nDoc 2(Title: "Inn") It burnt.')]
    ['Mill', 'Inn']
    """
    heads = list(_DOCUMENT.finditer(text))
    if heads:
        ends = [*(head.start() for head in heads[1:]), len(text)]
        return tuple(
            Passage(text[head.end() : end].strip(), (head["quoted"] or head["plain"] or "").strip())
            for head, end in zip(heads, ends, strict=True)
        )
    data = unpacked(text)
    if isinstance(data, Mapping):
        data = next((data[name] for name in LISTS if name in data), data)
    if isinstance(data, list) and all(isinstance(document, str | Mapping) for document in data):
        return tuple(map(read_passage, data))
    return (Passage(text),) if text.strip() else ()


def _first(row: Mapping[str, object], names: Sequence[str]) -> Any:
    """Return the first of these fields that a row or one of its nested dicts contains."""
    for name in names:
        if row.get(name) not in (None, "", []) and not isinstance(row[name], Mapping):
            return row[name]
    for name in _NESTED:
        inner = unpacked(row.get(name))
        if isinstance(inner, Mapping) and (value := _first(inner, names)) is not None:
            return value
    return None


def _is_user_message(message: object) -> bool:
    return isinstance(message, Mapping) and message.get("role") == "user"


def _last_question(prompt: object) -> str | None:
    """Return the user's last message of a prompt, or the rest after the last ``Question:`` of a text."""
    if isinstance(prompt, list):
        messages = [text_of(message) for message in prompt if _is_user_message(message)]
        prompt = messages[-1] if messages else None
    if not isinstance(prompt, str):
        return None
    return re.split(r"\bquestion:", prompt, flags=re.IGNORECASE)[-1].strip() or None
