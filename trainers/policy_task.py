"""The task of a policy: settings, reader, questions, messages, search tool, and the examples of its warm-up."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from pprint import pformat
from typing import Any

from tqdm.auto import tqdm
from transformers import PreTrainedTokenizerBase, TrainingArguments
from transformers.utils import get_json_schema

from seper_reward.data.queries import pool_passages
from seper_reward.data.splits import spread
from seper_reward.evaluate.measuring import measured
from seper_reward.options import ScorerOptions
from seper_reward.reader.loading import load_tokenizer
from seper_reward.reader.prompts import PromptStyle
from seper_reward.retrieval import Retriever, load_retriever
from seper_reward.reward.environment import RetrievalEnvironment, search_environment
from seper_reward.reward.turns import Turn
from seper_reward.runtime.distributed import gather_in_order, process_state, shard
from seper_reward.runtime.parser import parse_options
from seper_reward.runtime.pretrained import LoadedModel
from seper_reward.scorer import SePerScorer
from seper_reward.types import KNOWN, Asked, Belief, Passage, Query, UnscorableError

from .options import PolicyTaskConfig
from .ranking.clusters import names_in
from .ranking.data import Questions, read_source, split_questions
from .runs import trainer_cache

CALL_END = "<|im_end|>"  # ends each message in ChatML
_RIGHT = 0.5  # minimum support of a right response


def read_policy_task(path: str) -> PolicyTaskConfig:
    """Read the task from a YAML file of ``trainers.policy``."""
    return parse_options((PolicyTaskConfig,), ["--config", path], path, others=True)[0]  # type: ignore[no-any-return]


def read_scorer_config(path: str | None) -> ScorerOptions:
    """Read the settings of the reader from a YAML file (default: default settings)."""
    words = ["--config", path] if path else []
    return parse_options((ScorerOptions,), words, "scorer")[0]  # type: ignore[no-any-return]


def load_task_scorer(task: PolicyTaskConfig, output_dir: Path, loaded: LoadedModel) -> SePerScorer:
    """Load the scorer, by the policy's loaded model unless ``reader="separate"``; all processes must call this."""
    settings = read_scorer_config(task.scorer)
    if task.reader != "separate" and (settings.engine or settings.reader not in (ScorerOptions().reader, task.model)):
        raise ValueError(
            f"reader={task.reader!r} uses the policy's weights, but {task.scorer} names "
            f"{settings.engine or settings.reader}; set --reader separate, or remove the reader from the file"
        )
    cache = task.cache or settings.cache or trainer_cache(output_dir)
    return SePerScorer.from_pretrained(settings, None if task.reader == "separate" else loaded, cache=cache)


def closed_book_beliefs(scorer: SePerScorer, queries: Sequence[Query]) -> list[Belief | None]:
    """Return the reader's belief in each answer without a passage as ``measured``."""
    results = measured(scorer, queries, [[()]] * len(queries), title="closed-book beliefs")
    return [None if beliefs is None else beliefs[()] for beliefs in results]


def read_policy_questions(task: PolicyTaskConfig) -> Questions:
    """Read and split the questions of all inputs, with ``group`` in the metadata, by default the name of the file."""
    queries: dict[str, Query] = {}
    corpus: dict[str, Passage] = {}
    for source in task.input:
        questions, passages = read_source(source, task.corpus, task)
        if passages is None:  # also of unused questions, which must not make searching easier
            passages, questions = pool_passages(questions)
        name = Path(source).name.partition(".")[0]
        questions = [replace(query, metadata={"group": name, **query.metadata}) for query in questions]
        questions = [query for query in questions if not task.groups or query.metadata["group"] in task.groups]
        questions = spread(questions, task.limit_each)
        taken = [f"question id {query.id!r}" for query in questions if query.id in queries]
        taken += [f"passage id {name!r}" for name, passage in passages.items() if corpus.get(name, passage) != passage]
        if taken:
            raise ValueError(f"{source}: {taken[0]} is used in an earlier input; rename one")
        queries |= {query.id: query for query in questions}
        corpus |= passages
    sources = ", ".join(task.input)
    if not queries:
        raise ValueError(f"{sources}: expected questions, got none with groups={task.groups}")
    split = split_questions(list(queries.values()), task, sources)
    return Questions(corpus, spread(split["train"], task.limit), split["dev"], spread(split["test"], task.eval_limit))


class SearchTool:
    """The search tool of one rollout, whose results are the reader's prompt with the passages of all searches.

    So a policy initialised from the reader answers after a search like the reader.
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

    def reset(self, question: str, **columns: object) -> None:
        """Clear the searches of the previous rollout; TRL calls this with the row of the dataset."""
        self._environment.reset(question=question, **columns)
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
        texts = dict.fromkeys(passage.text for turn in self.turns for passage in turn.passages)
        return self._style.ask(self._question, list(texts))


SEARCH = get_json_schema(SearchTool.search)


def new_tool(task: PolicyTaskConfig, retriever: Retriever, style: PromptStyle) -> Callable[[], SearchTool]:
    """Return the function that creates each rollout's search tool."""
    environment = search_environment(
        retriever,
        top_k=1,
        max_turns=task.max_turns,
        max_passage_tokens=task.max_passage_tokens,
        tokenizer=load_tokenizer(task.model),
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
        passages = [passage for turn in tool.turns for passage in turn.passages]
        query = simple_query(question, passages, max_turns)
        yield query, tool.search(query)


def simple_query(question: str, passages: Sequence[Passage], max_turns: int) -> str:
    """Return a query built from the question and the passages found so far, for fixed rules and the warm-up.

    With a single search it is the question. With several, the first query consists of the names in the question; later
    ones are the question with its names replaced by the names in the last passage, if there are any.

    >>> simple_query("Where was the keeper of the Gannet Light born?", [], 2)
    'Gannet Light'
    >>> simple_query("Where was the keeper of the Gannet Light born?", [Passage("It was kept by Dorrin Pask.")], 2)
    'Where was the keeper of the born? Dorrin Pask'
    """
    names = names_in(question)
    if max_turns == 1 or (not passages and not names):
        return question
    if not passages:
        return " ".join(names)
    rest = question
    for name in names:
        rest = rest.replace(name, "")
    new = [name for name in names_in(passages[-1].text) if name not in question]
    return " ".join([*rest.split(), *new])


def policy_rows(
    path: str,
    limit: int | None,
    arguments: TrainingArguments,
    loaded: LoadedModel,
    tokenizer: PreTrainedTokenizerBase,
) -> list[dict[str, Any]]:
    """Return the warm-up rows of the policy in a YAML file; all processes must call this together."""
    task = read_policy_task(path)
    scorer, questions = load_task_scorer(task, Path(arguments.output_dir), loaded), read_policy_questions(task)
    tool = new_tool(task, load_retriever(task.retriever, questions.corpus), scorer.reader.prompts.style)
    queries = spread(questions.train, limit)
    return warm_up_rows(queries, scorer, tool, tokenizer, max_turns=task.max_turns, seed=arguments.seed)


def warm_up_rows(
    queries: Sequence[Query],
    scorer: SePerScorer,
    tool: Callable[[], SearchTool],
    tokenizer: PreTrainedTokenizerBase,
    *,
    max_turns: int,
    seed: int,
) -> list[dict[str, Any]]:
    """Return ``{prompt, completion, kind}`` rows that teach the format of both actions without preferring one.

    Every question has adjacent examples of answering from memory and of searching (``simple_query``). Answers are the
    reader's own: from memory its likeliest right one if it knows the answer, else the likeliest; after a search its
    likeliest right one, if any. All processes must call this together.
    """
    queries = random.Random(seed).sample(queries, len(queries))
    known = closed_book_beliefs(scorer, queries)
    pairs = [(query, belief) for query, belief in zip(queries, known, strict=True) if belief is not None]
    mine = shard(pairs)
    bar = tqdm(mine, "answers after a search", unit="question", disable=not process_state().is_main_process)
    by_question = []
    for query, belief in bar:
        messages = messages_of(query.question, scorer.reader.prompts.style)
        examples = []
        from_memory = _likeliest(belief, right=belief.seper >= KNOWN) or _likeliest(belief)
        if from_memory is not None:
            examples.append(row_of(tokenizer, messages, _answer(from_memory), "memory"))
        searching = tool()
        for turn, (words, result) in enumerate(simple_searches(searching, query.question, max_turns)):
            call = {"type": "function", "function": {"name": "search", "arguments": {"query": words}}}
            reply = {"role": "assistant", "content": "", "tool_calls": [call]}
            examples.append(row_of(tokenizer, messages, reply, "another search" if turn else "search"))
            messages = [*messages, reply, {"role": "tool", "name": "search", "content": result}]
            passages = dict.fromkeys(passage for turn in searching.turns for passage in turn.passages)
            (read,) = scorer.measure([Asked(query.question, query.answers, (tuple(passages),))])
            answer = None if isinstance(read, UnscorableError) else _likeliest(read.beliefs[0], right=True)
            if answer is not None:
                examples.append(row_of(tokenizer, messages, _answer(answer), "after a search"))
        by_question.append(examples)
    return [example for examples in gather_in_order(by_question) for example in examples]


def _likeliest(belief: Belief, right: bool = False) -> str | None:
    """Return the likeliest sampled response; if ``right``, among those that support the answer, or ``None``."""
    places = [
        place
        for place, text in enumerate(belief.responses)
        if belief.counts[place] and text.strip() and not (right and belief.best_support[place] < _RIGHT)
    ]
    return belief.responses[max(places, key=belief.weights.__getitem__)] if places else None


def _answer(text: str) -> dict[str, object]:
    return {"role": "assistant", "content": text}


def row_of(
    tokenizer: PreTrainedTokenizerBase, messages: list[dict[str, object]], reply: dict[str, Any], kind: str
) -> dict[str, Any]:
    """Return a ``{prompt, completion, kind}`` row: a conversation in the policy's template, and its reply."""
    prompt = tokenizer.apply_chat_template(messages, tools=[SEARCH], add_generation_prompt=True, tokenize=False)
    whole = tokenizer.apply_chat_template([*messages, reply], tools=[SEARCH], tokenize=False)
    if not whole.startswith(prompt):
        raise ValueError("the chat template is not prefix-preserving; use with_tool_template, or one of TRL's")
    completion = whole[len(prompt) :].rstrip().removesuffix(CALL_END)  # the trainer adds this token
    begin = tokenizer.bos_token
    if begin and tokenizer(prompt).input_ids[:2] == [tokenizer.bos_token_id] * 2:
        prompt = prompt.removeprefix(begin)  # and this one, too
    return {"prompt": prompt, "completion": completion, "kind": kind}
