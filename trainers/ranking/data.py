"""Settings shared by the retriever and reranker recipes, and their questions by split."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from seper_reward.data.inputs import Needs, load_input
from seper_reward.data.queries import pool_passages
from seper_reward.data.splits import clusters, shared_keys, split_by_rank, split_of, spread
from seper_reward.labels.labelers import parse_labeler
from seper_reward.labels.provenance import query_key
from seper_reward.options import (
    Count,
    FormatOptions,
    InputOptions,
    LabelingOptions,
    LearnFromOptions,
    LimitOptions,
    NotNegative,
    ScorerOptions,
    Share,
    SplitByOptions,
    least,
    pick,
    setting,
)
from seper_reward.runtime.hashing import content_key
from seper_reward.runtime.messages import plural
from seper_reward.types import Passage, Query

#: Files of bundled questions by name, in addition to the demo.
OURS = {"unseen_facts": Path(__file__).parents[1] / "unseen_facts.jsonl"}


@dataclass(frozen=True)
class SharesConfig(LimitOptions, SplitByOptions):
    """How questions are split."""

    test_share: float = setting(
        0.125, "Share of questions held out for the final comparison, chosen by SHA-1 of their ids, above 0."
    )
    dev_share: float = setting(
        0.125,
        "Share of questions for evaluation during training, or for the thresholds of a policy's rules; may be 0.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.test_share <= 0 or self.dev_share < 0 or self.test_share + self.dev_share >= 1:
            raise ValueError(
                f"test_share must be above 0, dev_share at least 0, and their sum below 1, got "
                f"{self.test_share} and {self.dev_share}"
            )


@dataclass(frozen=True)
class RankingConfig(LabelingOptions, LearnFromOptions, InputOptions, SharesConfig, ScorerOptions):
    """Settings of the training and evaluation data of ranking models, shared by retriever and reranker."""

    candidates: Literal["retrieved", "given", "both"] = setting(
        "both", "Passages to label: retrieved by the model, given with the questions, or both."
    )
    top_k: Count = setting(8, "Number of passages to retrieve per question and round, >= 1.")
    hops: Count = setting(
        1,
        "Number of retrievals per question, >= 1, each with the question and the best passages found so far; 2 for "
        "questions that need two passages.",
    )
    list_size: Annotated[int, least(2)] | None = setting(
        None,
        "Maximum number of passages per question in training, >= 2: the best, the worst, and evenly between; not "
        "given: all.",
    )
    heterogeneity: Share = setting(
        0.1,
        "Maximum p-value, in (0, 1], of the test that a question's labels differ more than by noise; other questions "
        "are left out. 1 keeps all.",
    )
    shrink: bool = setting(
        True,
        "Whether to shrink a question's labels towards their mean, by the noise in their differences according to the "
        "standard errors.",
    )
    min_spread: NotNegative = setting(
        0.05,
        "Difference of best and worst label, >= 0, that a training question must exceed; measured after shrinkage.",
    )
    eval_readers: list[str] = setting(
        ["plain"],
        "Further readers to measure the rankings with: 'embedded', 'plain' (SmolLM2-135M-Instruct, no adapter), "
        "hub ids or folders. Use readers at least as strong as the labelling reader. 'none': only the labelling "
        "reader measures.",
    )
    eval_top_k: Count = setting(1, "Number of top passages in the reader's prompt when a ranking is measured, >= 1.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.eval_readers == ["none"]:
            object.__setattr__(self, "eval_readers", [])
        parse_labeler(self.labeler)
        if self.learn_from != "singles" and self.sets == "none" and self.labeler != "gold":
            raise ValueError(
                f"learn_from={self.learn_from} needs labels of sets or human labels (labeler gold), got sets=none "
                f"with labeler {self.labeler!r}; label conditional sets, or learn from singles"
            )
        if self.sets != "none" and self.learn_from == "singles":
            raise ValueError(
                f"sets={self.sets} measures sets of passages, which learn_from=singles does not use; learn from "
                "paths, or leave sets out"
            )
        if len({Path(name).name for name in self.eval_readers}) < len(self.eval_readers):
            raise ValueError(f"eval_readers must have different names, got {self.eval_readers}; rename a folder")
        if self.reader in self.eval_readers:
            raise ValueError(f"eval_readers must not contain the labelling reader, {self.reader!r}; leave it out")


class Questions(NamedTuple):
    """Questions by split, and the corpus to retrieve from, by passage id."""

    corpus: Mapping[str, Passage]
    train: list[Query]
    dev: list[Query]
    test: list[Query]


def read_questions(config: RankingConfig) -> Questions:
    """Read the questions, and split them."""
    queries, corpus = read_source(config.input, config.corpus, config)
    return questions_by_split(spread(queries, config.limit), corpus, config)


def read_source(
    source: str, corpus: str | None, config: FormatOptions
) -> tuple[Sequence[Query], dict[str, Passage] | None]:
    """Read questions, also bundled ones, and a corpus; report unusable rows on standard error."""
    options = pick(InputOptions, config, input=str(OURS.get(source, source)), corpus=corpus)
    found = load_input(options, Needs(corpus=True))
    if found.rejected:
        first = found.rejected[0]
        print(f"{plural(len(found.rejected), 'row')} cannot be used; {first.where}: {first.reason}", file=sys.stderr)
    return found.queries, None if found.corpus is None else dict(found.corpus)


def questions_by_split(
    queries: Sequence[Query], corpus: dict[str, Passage] | None, config: RankingConfig
) -> Questions:
    """Split the questions; without a corpus, it is their own passages."""
    if corpus is None:
        corpus, queries = pool_passages(queries)
    return Questions(corpus, **split_questions(queries, config, config.input))


def data_key(questions: Questions) -> str:
    """Return a hash over all questions and the corpus."""
    parts = [sorted(map(query_key, rows)) for rows in (questions.train, questions.dev, questions.test)]
    return content_key(parts, sorted((each.id, each.title, each.text) for each in questions.corpus.values()))


def split_questions(queries: Sequence[Query], config: SharesConfig, source: str) -> dict[str, list[Query]]:
    """Return the questions of ``train``, ``dev`` and ``test``, in input order; print the number of clusters.

    Clusters share no key (``shared_keys``), and go by their smallest id's SHA-1, or if a split is empty, by its rank.
    """
    split_by, shares = config.split_by, {"test_share": config.test_share, "dev_share": config.dev_share}
    together = clusters([shared_keys(query, split_by) for query in queries])
    largest = max(map(len, together), default=0)
    if split_by != "question":
        print(
            f"{len(together)} clusters by {split_by}; the largest has {largest} of {len(queries)} questions",
            file=sys.stderr,
        )
    smallest = [min(queries[place].id for place in places) for places in together]
    splits = [split_of(each, **shares) for each in smallest]
    wanted = {"train", "test"} | ({"dev"} if config.dev_share else set())
    if not wanted <= set(splits) and len(together) >= len(wanted) and largest <= len(queries) / 2:
        splits = split_by_rank(smallest, **shares)
    split_at = {place: split for places, split in zip(together, splits, strict=True) for place in places}
    rows = {
        name: [query for place, query in enumerate(queries) if split_at[place] == name]
        for name in ("train", "dev", "test")
    }
    for name in sorted(wanted):
        if not rows[name]:
            way_out = "give more questions" + (", or set dev_share to 0" if name == "dev" else "")
            if split_by != "question" and largest > len(queries) / 2:
                way_out = (
                    f"{largest} of them are one cluster by {split_by}, which is not divided; mark relevant "
                    "passages, so only these count, or split by question"
                )
            raise ValueError(f"{source}: expected questions for {name}, got none of {len(queries)}; {way_out}")
    return rows
