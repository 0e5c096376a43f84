"""Questions of experiments: filters, one known alias, and test questions of another domain."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from seper_reward.data.marks import is_relevant
from seper_reward.data.splits import spread
from seper_reward.options import setting
from seper_reward.types import Query
from trainers.ranking.data import Questions, RankingConfig, questions_by_split, read_source


@dataclass(frozen=True)
class ExperimentConfig(RankingConfig):
    """Settings of an experiment's questions, in addition to those of a ranking recipe."""

    marked: int | None = setting(
        None,
        "Only questions with this many passages that people marked as supporting (default: all).",
    )
    yes_no: bool = setting(True, "Whether questions whose answer is yes or no are used.")
    least_aliases: int = setting(
        1,
        "Only questions whose answer has at least this many aliases, >= 1.",
    )
    known_aliases: Literal["all", "last"] = setting(
        "all",
        "Aliases of the answers that training and dev questions keep: all, or only the last one, as if one "
        "answer string was known; test questions keep all.",
    )
    test_input: str | None = setting(
        None,
        "Other questions to test with, out of the domain of those trained on; their passages join the corpus, and "
        "limit and test_share choose from them, too (default: test questions are from the same input).",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.least_aliases < 1:
            raise ValueError(f"least_aliases must be at least 1, got {self.least_aliases}")


def read_questions(config: ExperimentConfig) -> Questions:
    """Read the questions that the filters keep, and split them as ``trainers.ranking.data.read_questions`` does.

    With ``known_aliases="last"``, questions of train and dev know only the last alias of their answers.
    """
    queries, corpus = read_source(config.input, config.corpus, config)
    queries = spread([query for query in queries if _wanted(query, config)], config.limit)
    questions = questions_by_split(queries, corpus, config)
    if config.test_input is not None:
        other = read_questions(replace(config, input=config.test_input, corpus=None, test_input=None))
        both = questions.corpus.keys() & other.corpus.keys()
        if shared := [each for each in sorted(both) if questions.corpus[each] != other.corpus[each]]:
            raise ValueError(f"{config.test_input}: passage id {shared[0]!r} has another text in {config.input}")
        questions = questions._replace(corpus={**questions.corpus, **other.corpus}, test=other.test)
    return questions._replace(train=as_known(questions.train, config), dev=as_known(questions.dev, config))


def as_known(queries: Sequence[Query], config: ExperimentConfig) -> list[Query]:
    """Return the questions with the answers that labels may know of (``known_aliases``)."""
    if config.known_aliases == "all":
        return list(queries)
    return [replace(query, answers=query.answers[-1:]) for query in queries]


def _wanted(query: Query, config: ExperimentConfig) -> bool:
    """Return whether the settings take a question, by its marks and its answer."""
    marks = sum(is_relevant(passage) for passage in query.passages) if config.marked is not None else None
    return (
        marks == config.marked
        and len(query.answers) >= config.least_aliases
        and (config.yes_no or {"yes", "no"}.isdisjoint(alias.lower() for alias in query.answers))
    )
