"""What a policy and its warm-up share: the model, the questions, the search tool, and the reader."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from seper_reward.batching import beliefs_of
from seper_reward.config import CORPUS_HELP, INPUT_HELP, SPLIT_BY_HELP, InputConfig, ScorerConfig, load_scorer
from seper_reward.data.splits import SplitBy, names_in
from seper_reward.reader.loading import load_tokenizer
from seper_reward.reader.prompts import PromptStyle
from seper_reward.retrieval import Retriever
from seper_reward.reward.environment import RetrievalEnvironment, environment_factory
from seper_reward.reward.policy_reader import Weights
from seper_reward.reward.reward import SePerReward
from seper_reward.reward.turns import Turn
from seper_reward.runtime.cache import trainer_cache
from seper_reward.runtime.messages import say
from seper_reward.runtime.parser import parse_settings
from seper_reward.runtime.pretrained import EMBEDDED, LoadedModel
from seper_reward.runtime.settings import setting
from seper_reward.scorer import SePerScorer
from seper_reward.types import Asked, Belief, Passage, Query, UnscorableError


@dataclass
class PolicyTaskConfig(InputConfig):
    """The task of a policy: its questions, its search tool, and the reader that says what a search is worth."""

    model: str = setting(EMBEDDED, "Policy to train, before its adapter: 'embedded', 'plain', a hub id or a folder.")
    input: list[str] = setting(
        ["demo"],
        f"{INPUT_HELP} Several are taken together; 'unseen_facts' are ours, unknown to the embedded reader's adapter.",
        "input.path",
        common=True,
    )
    corpus: str | None = setting(
        None,
        f"{CORPUS_HELP}not given: the passages of all questions of the input, and the demo's corpus.",
    )
    groups: list[str] = setting(
        [],
        "Groups of questions to use, by their field group, which is the name of their file where they have none; none "
        "named: all questions.",
    )
    unseen: bool = setting(
        False,
        "Whether questions are left out that the adapter of the embedded reader was trained on: train splits of NQ, "
        "HotpotQA and 2WikiMultihopQA as in ../shared/data, and the common facts.",
    )
    limit_each: int | None = setting(
        None, "Number of questions to use of each input, evenly spread over it; not given: all."
    )
    limit: int | None = setting(None, "Number of training questions, evenly spread; not given: all.")
    eval_limit: int | None = setting(None, "Number of held-out questions, evenly spread; not given: all.")
    test_share: float = setting(0.25, "Share of questions, by SHA-1 of their ids, that are held out, above 0.")
    dev_share: float = setting(
        0.125,
        "Share of questions that the thresholds of the rules are fixed on; 0 takes the training questions instead.",
    )
    split_by: SplitBy = setting(
        "question",
        SPLIT_BY_HELP,
    )
    retriever: str = setting(
        "bm25",
        "Retriever of the search tool: bm25, minilm (dense, embedded), a bi-encoder's hub id or folder, a ready "
        "index's folder, or a search service's URL.",
    )
    search_top_k: int = setting(1, "Passages per search, >= 1.")
    max_turns: int = setting(1, "Most searches per question, >= 1.")
    max_passage_tokens: int = setting(64, "Longest passage in tokens of the policy, >= 1; longer ones are cut.")
    needed: float = setting(
        0.5, "A question needs a search if the reader's SePer without one is below this; others it knows."
    )
    reader: Weights = setting(
        "separate", "Weights of the reader: separate (its own), policy-base (the policy's, adapter off) or policy."
    )
    scorer: str | None = setting(
        None, "YAML file with settings of the reader and the entailment model, as for `seper-reward label`."
    )
    reader_seed: int = setting(0, "Seed of the reader's sampling; with the seed of labelling, both can share a cache.")
    cache: str | None = setting(
        None,
        "SQLite file of what the reader said and the entailment model judged, from which a killed run resumes; runs "
        "on this machine may share it; not given: that of the scorer's file, else one in output_dir.",
    )


def read_policy_task(path: str) -> PolicyTaskConfig:
    """Read the task from the configuration of a policy, a YAML file for ``trainers.policy``."""
    task: PolicyTaskConfig
    (task,) = parse_settings((PolicyTaskConfig,), ["--config", path], path, others=True)
    return task


def read_scorer_config(path: str | None) -> ScorerConfig:
    """Read the settings of the reader from a YAML file; ``None`` gives the defaults."""
    settings: ScorerConfig
    (settings,) = parse_settings((ScorerConfig,), ["--config", path] if path else [], "scorer")
    return settings


def load_task_scorer(task: PolicyTaskConfig, output_dir: Path, loaded: LoadedModel) -> SePerScorer:
    """Load the reader and the entailment model, with a cache; all processes must call this together.

    Args:
        task: The task.
        output_dir: Folder of the run, where the cache is if none is named.
        loaded: The policy's model before its adapter, which reads unless ``task.reader`` is ``"separate"``.

    Raises:
        ValueError: The policy's weights are to read, and the scorer's file names another reader.
    """
    settings = read_scorer_config(task.scorer)
    if task.reader != "separate" and (settings.engine or settings.reader not in (ScorerConfig.reader, task.model)):
        raise ValueError(
            f"reader={task.reader!r} reads with the policy's weights, but {task.scorer} names "
            f"{settings.engine or settings.reader}; give --reader separate, or leave it out there"
        )
    settings.cache = task.cache or settings.cache or trainer_cache(output_dir)
    return load_scorer(settings, task.reader_seed, None if task.reader == "separate" else loaded)


def closed_book_beliefs(scorer: SePerScorer, queries: Sequence[Query]) -> list[Belief | None]:
    """Return the reader's belief in each answer without a passage; all processes must call this together.

    Processes share the work. With a cache, what a killed run measured is not measured again.

    Args:
        scorer: Scorer of the reader.
        queries: The questions; their passages do not matter.

    Returns:
        One belief per question; ``None`` for a question that the reader cannot be asked, after a message.
    """
    asked = [Asked(query.question, query.answers, ((),)) for query in queries]
    found = beliefs_of(scorer, asked, "closed-book beliefs")
    return [_belief(query, beliefs) for query, beliefs in zip(queries, found, strict=True)]


def _belief(query: Query, beliefs: list[Belief] | UnscorableError) -> Belief | None:
    if isinstance(beliefs, UnscorableError):
        say(f"question id={query.id!r} left out: {beliefs}")
        return None
    return beliefs[0]


class SearchTool:
    """The search tool of one rollout, whose results are worded as the reader is asked with passages.

    A policy that is made from the reader then answers after a search as the reader would. After several searches a
    result holds the passages of all of them.

    Args:
        environment: Environment that searches and keeps the record.
        style: The reader's wording.
    """

    def __init__(self, environment: RetrievalEnvironment, style: PromptStyle) -> None:
        self._environment, self._style, self._question = environment, style, ""

    @property
    def turns(self) -> list[Turn]:
        """The searches so far."""
        return self._environment.turns

    @property
    def failure(self) -> Exception | None:
        """What the retriever failed with."""
        return self._environment.failure

    def reset(self, question: str, **row: object) -> None:
        """Forget the searches of the previous rollout; TRL calls this with the row of the data set."""
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
        if len(self.turns) == before or not self.turns[-1].passages:  # no more searches, or nothing was found
            return message
        found = dict.fromkeys(passage.text for turn in self.turns for passage in turn.passages)
        return self._style.ask(self._question, list(found))


def new_tool(
    task: PolicyTaskConfig, retriever: Retriever, style: PromptStyle, reward: SePerReward | None = None
) -> Callable[[], SearchTool]:
    """Return the function that makes the policy's search tool, one for each rollout.

    Args:
        task: The task.
        retriever: What searches.
        style: The reader's wording, in which results are told.
        reward: Reward that is told early what it will be asked; ``None`` tells nobody.
    """
    environment = environment_factory(
        retriever,
        top_k=task.search_top_k,
        max_turns=task.max_turns,
        max_passage_tokens=task.max_passage_tokens,
        tokenizer=load_tokenizer(task.model),
        reward=reward,
    )
    return lambda: SearchTool(environment(), style)


def simple_searches(tool: SearchTool, question: str, max_turns: int) -> Iterator[tuple[str, str]]:
    """Search as often as allowed by ``simple_query``; yield each query and what the tool says to it.

    Args:
        tool: The search tool, which is reset first.
        question: The question.
        max_turns: Most searches.
    """
    tool.reset(question)
    for _ in range(max_turns):
        query = simple_query(question, found_by(tool), max_turns)
        yield query, tool.search(query)


def found_by(tool: SearchTool) -> list[Passage]:
    """Return the passages of all searches so far, in order."""
    return [passage for turn in tool.turns for passage in turn.passages]


def simple_query(question: str, found: Sequence[Passage], max_turns: int) -> str:
    """Return the query of someone who only knows the question and what was found: for fixed rules, and the warm-up.

    With one search it is the question. With several, the first asks for the names in the question, and the next is
    the question with its names replaced by the names in the last passage, where there are any.

    Args:
        question: The question.
        found: Passages of the searches so far, in order.
        max_turns: Most searches.

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
