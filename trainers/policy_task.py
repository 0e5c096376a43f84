"""The task of a policy and of its warm-up: settings, reader, questions, messages and search tool."""

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from pprint import pformat
from typing import Any

from transformers.utils import get_json_schema

from seper_reward.data.answers import normalize_answer
from seper_reward.data.queries import pool_passages
from seper_reward.data.rows import read_valid_rows
from seper_reward.data.splits import names_in, split_of, spread
from seper_reward.evaluate.measuring import measured
from seper_reward.options import (
    INPUT_HELP,
    CommandOptions,
    FormatOptions,
    LimitOptions,
    RetrieverOptions,
    ScorerOptions,
    SplitByOptions,
    setting,
)
from seper_reward.reader.loading import load_tokenizer
from seper_reward.reader.prompts import PromptStyle
from seper_reward.retrieval import Retriever
from seper_reward.reward.environment import RetrievalEnvironment, search_environment
from seper_reward.reward.policy_reader import Weights
from seper_reward.reward.reward import SePerReward
from seper_reward.reward.turns import Turn
from seper_reward.runtime.cache import trainer_cache
from seper_reward.runtime.parser import parse_options
from seper_reward.runtime.pretrained import EMBEDDED, LoadedModel
from seper_reward.scorer import SePerScorer, load_scorer
from seper_reward.types import Belief, Passage, Query

from .ranking.data import Questions, read_source, split_questions

#: Training facts of the embedded reader's adapter, rows of ``{question, answers}``.
COMMON_FACTS = Path(__file__).with_name("common_facts.jsonl")
# prefixes of the field ``source`` of its other training sets
_SOURCES = ("nq-open oracle", "hotpotqa", "2wikimultihopqa")


@dataclass(frozen=True)
class PolicyTaskConfig(FormatOptions, RetrieverOptions, LimitOptions, SplitByOptions):
    """The task of a policy: its questions, its search tool, and the reader that measures the value of a search."""

    model: str = setting(EMBEDDED, "Policy to train, before its adapter: 'embedded', 'plain', a hub id or a folder.")
    input: list[str] = setting(
        ["demo"],
        f"{INPUT_HELP} Several inputs are joined; 'unseen_facts' are bundled facts that the embedded reader has not "
        "been trained on.",
    )
    groups: list[str] = setting(
        [],
        "Groups of questions to use, by their field group (or the name of their file, without the field) (default: "
        "all questions).",
    )
    unseen: bool = setting(
        False,
        "Whether to leave out training questions of the embedded reader's adapter: train splits of NQ, HotpotQA and "
        "2WikiMultihopQA as in ../shared/data, and the common facts.",
    )
    limit_each: int | None = setting(
        None, "Number of questions to use from each input, evenly spread over it (default: all)."
    )
    eval_limit: int | None = setting(None, "Number of held-out questions, evenly spread (default: all).")
    test_share: float = setting(0.25, "Share of held-out questions, chosen by SHA-1 of their ids, above 0.")
    dev_share: float = setting(
        0.125, "Share of questions for tuning the thresholds of the rules; 0 uses the training questions instead."
    )
    max_turns: int = setting(1, "Maximum number of searches per question, >= 1.")
    max_passage_tokens: int = setting(64, "Maximum length of a passage in the policy's tokens, >= 1; the rest is cut.")
    reader: Weights = setting(
        "separate", "Weights of the reader: separate, policy-base (the policy's without its adapter) or policy."
    )
    scorer: str | None = setting(
        None, "YAML file with settings of the reader and the entailment model, as for `seper-reward label`."
    )
    cache: str | None = setting(
        None,
        "SQLite file that caches responses and entailment scores, also to resume a killed run; runs on this machine "
        "can share it (default: the cache of the scorer's file, else one in output_dir).",
    )


def read_policy_task(path: str) -> PolicyTaskConfig:
    """Read the task from a YAML file of ``trainers.policy``."""
    task: PolicyTaskConfig
    (task,) = parse_options((PolicyTaskConfig,), ["--config", path], path, others=True)
    return task


def read_scorer_config(path: str | None) -> CommandOptions:
    """Read the settings of the reader from a YAML file (default: default settings)."""
    settings: CommandOptions
    (settings,) = parse_options((CommandOptions,), ["--config", path] if path else [], "scorer")
    return settings


def load_task_scorer(task: PolicyTaskConfig, output_dir: Path, loaded: LoadedModel) -> SePerScorer:
    """Load the reader and the entailment model, with a cache; all processes must call this together.

    The policy's loaded model is the reader unless ``task.reader`` is ``"separate"``; a scorer's file that names
    another reader then raises ``ValueError``.
    """
    settings = read_scorer_config(task.scorer)
    if task.reader != "separate" and (settings.engine or settings.reader not in (ScorerOptions().reader, task.model)):
        raise ValueError(
            f"reader={task.reader!r} uses the policy's weights, but {task.scorer} names "
            f"{settings.engine or settings.reader}; set --reader separate, or remove the reader from the file"
        )
    settings = replace(settings, cache=task.cache or settings.cache or trainer_cache(output_dir))
    return load_scorer(settings, settings.seed, None if task.reader == "separate" else loaded)


def closed_book_beliefs(scorer: SePerScorer, queries: Sequence[Query]) -> list[Belief | None]:
    """Return the reader's belief in each answer without a passage; ``None``, with a message, if it cannot be scored.

    All processes must call this together; they share the work. With a cache, measurements of a killed run are reused.
    """
    found = measured(scorer, queries, [[()]] * len(queries), title="closed-book beliefs")
    return [None if beliefs is None else beliefs[()] for beliefs in found]


def read_policy_questions(task: PolicyTaskConfig) -> Questions:
    """Read the questions of a policy from all inputs, and split them by SHA-1 of their ids.

    ``train`` is for training, ``dev`` for thresholds, ``test`` for evaluation. The metadata have ``group``, by default
    the name of the file. Two inputs with the same id raise ``ValueError``.
    """
    queries: dict[str, Query] = {}
    corpus: dict[str, Passage] = {}
    for source in task.input:
        found, passages = _read(source, task)
        taken = [f"question id {query.id!r}" for query in found if query.id in queries]
        taken += [f"passage id {name!r}" for name, each in passages.items() if corpus.get(name, each) != each]
        if taken:
            raise ValueError(f"{source}: {taken[0]} is used in an earlier input; rename one")
        queries |= {query.id: query for query in found}
        corpus |= passages
    sources = ", ".join(task.input)
    if not queries:
        raise ValueError(f"{sources}: expected questions, got none with groups={task.groups}, unseen={task.unseen}")
    split = split_questions(
        list(queries.values()),
        task.split_by,
        source=sources,
        test_share=task.test_share,
        dev_share=task.dev_share,
        salt="unseen " if task.unseen else "",  # without salt it is the hash that chose the reader's own train split
    )
    return Questions(corpus, spread(split["train"], task.limit), split["dev"], spread(split["test"], task.eval_limit))


def _read(source: str, task: PolicyTaskConfig) -> tuple[list[Query], dict[str, Passage]]:
    """Return the questions of one input selected by the task, and its corpus."""
    queries, corpus = read_source(source, task.corpus, task)
    if corpus is None:  # also of unused questions, which must not make searching easier
        corpus, queries = pool_passages(queries)
    name = Path(source).name.partition(".")[0]
    queries = [replace(query, metadata={"group": name, **query.metadata}) for query in queries]
    wanted = [
        query
        for query in queries
        if (not task.groups or query.metadata["group"] in task.groups) and not (task.unseen and trained_on(query))
    ]
    return spread(wanted, task.limit_each), corpus


def trained_on(query: Query) -> bool:
    """Return whether the bundled adapter was trained on a question of ``../shared/data/qa`` or of our facts.

    A set is recognised by the field ``source`` of its rows, and a question by its id in the set.
    """
    of_set = str(query.metadata.get("source", "")).startswith(_SOURCES)
    return (of_set and split_of(query.id) == "train") or normalize_answer(query.question) in _asked_facts()


@functools.cache
def _asked_facts() -> frozenset[str]:
    return frozenset(normalize_answer(fact["question"]) for _, fact in read_valid_rows(COMMON_FACTS))


class SearchTool:
    """The search tool of one rollout, whose results have the wording of the reader's prompts with passages.

    So a policy initialised from the reader answers after a search like the reader. After several searches, a result
    contains the passages of all of them.
    """

    def __init__(self, environment: RetrievalEnvironment, style: PromptStyle) -> None:
        self._environment, self._style, self._question = environment, style, ""

    @property
    def turns(self) -> list[Turn]:
        """The searches so far."""
        return self._environment.turns

    @property
    def failure(self) -> Exception | None:
        """The retriever's error, if any."""
        return self._environment.failure

    def reset(self, question: str, **row: object) -> None:
        """Clear the searches of the previous rollout; TRL calls this with the row of the dataset."""
        self._environment.reset(question=question, **row)
        self._question = question

    def search(self, query: str) -> str:
        """Search for passages.

        Args:
            query: What to look for.

        Returns:
            The passages found.
        """
        before = len(self.turns)
        message = self._environment.search(query)
        if len(self.turns) == before or not self.turns[-1].passages:  # too many searches, or no passages found
            return message
        found = dict.fromkeys(passage.text for turn in self.turns for passage in turn.passages)
        return self._style.ask(self._question, list(found))


SEARCH = get_json_schema(SearchTool.search)


def new_tool(
    task: PolicyTaskConfig, retriever: Retriever, style: PromptStyle, reward: SePerReward | None = None
) -> Callable[[], SearchTool]:
    """Return the function that creates the policy's search tool, one for each rollout.

    With a ``reward``, its beliefs are prefetched.
    """
    environment = search_environment(
        retriever,
        top_k=1,
        max_turns=task.max_turns,
        max_passage_tokens=task.max_passage_tokens,
        tokenizer=load_tokenizer(task.model),
        reward=reward,
    )
    return lambda: SearchTool(environment(), style)


def messages_of(question: str, style: PromptStyle) -> list[dict[str, Any]]:
    """Return the conversation with a question in the reader's wording, which the policy was trained on."""
    return [{"role": "user", "content": style.ask(question)}]


def prompt_code(style: PromptStyle) -> str:
    """Return the code of a model card that encodes a prompt of a policy."""
    messages = messages_of("Who runs the mill in Hallow?", style)
    return (
        f"messages = {messages}\nSEARCH = {pformat(SEARCH, width=100, sort_dicts=False)}\n"
        "prompt = tokenizer.apply_chat_template(\n    messages, tools=[SEARCH], add_generation_prompt=True, "
        'return_dict=True, return_tensors="pt"\n)\n'
    )


def simple_searches(tool: SearchTool, question: str, max_turns: int) -> Iterator[tuple[str, str]]:
    """Reset the tool and search as often as allowed with ``simple_query``; yield each query and the tool's result."""
    tool.reset(question)
    for _ in range(max_turns):
        found = [passage for turn in tool.turns for passage in turn.passages]
        query = simple_query(question, found, max_turns)
        yield query, tool.search(query)


def simple_query(question: str, found: Sequence[Passage], max_turns: int) -> str:
    """Return a query built from the question and the passages found so far, for fixed rules and the warm-up.

    With a single search it is the question. With several, the first query consists of the names in the question; later
    ones are the question with its names replaced by the names in the last passage, if there are any.

    >>> simple_query("Where was the keeper of the Gannet Light born?", [], 2)
    'Gannet Light'
    >>> simple_query("Where was the keeper of the Gannet Light born?", [Passage("It was kept by Dorrin Pask.")], 2)
    'Where was the keeper of the born? Dorrin Pask'
    """
    names = names_in(question)
    if max_turns == 1 or (not found and not names):
        return question
    if not found:
        return " ".join(names)
    rest = question
    for name in names:
        rest = rest.replace(name, "")
    new = [name for name in names_in(found[-1].text) if name not in question]
    return " ".join([*rest.split(), *new])
