"""Settings shared by the retriever and reranker recipes, and their questions by split."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from seper_reward.data.inputs import Needs, load_input
from seper_reward.data.queries import pool_passages
from seper_reward.data.splits import clusters, shared_keys, split_by_rank, split_of, spread
from seper_reward.labels.labelers import parse_labeler
from seper_reward.labels.provenance import query_key
from seper_reward.options import (
    POSITIVE,
    FormatOptions,
    InputOptions,
    LabelingOptions,
    LearnFromOptions,
    LimitOptions,
    ScorerOptions,
    SplitBy,
    SplitByOptions,
    check_least,
    pick,
    setting,
)
from seper_reward.runtime.hashing import content_key
from seper_reward.types import Passage, Query

#: Files of bundled questions by name, in addition to the demo.
OURS = {"unseen_facts": Path(__file__).parents[1] / "unseen_facts.jsonl"}


@dataclass(frozen=True)
class RankingConfig(LabelingOptions, LearnFromOptions, InputOptions, LimitOptions, SplitByOptions, ScorerOptions):
    """Settings of the training and evaluation data of ranking models, shared by retriever and reranker."""

    test_share: float = setting(
        0.125, "Share of questions held out for the final comparison, chosen by SHA-1 of their ids, above 0."
    )
    dev_share: float = setting(0.125, "Share of questions for evaluation during training; may be 0.")
    candidates: Literal["retrieved", "given", "both"] = setting(
        "both", "Passages to label: retrieved by the model, given with the questions, or both."
    )
    top_k: int = setting(8, "Number of passages to retrieve per question and round, >= 1.")
    hops: int = setting(
        1,
        "Number of retrievals per question, >= 1, each with the question and the best passages found so far; 2 for "
        "questions that need two passages.",
    )
    list_size: int | None = setting(
        None,
        "Maximum number of passages per question in training, >= 2: the best, the worst, and evenly between; not "
        "given: all.",
    )
    heterogeneity: float = setting(
        0.1,
        "Maximum p-value, in (0, 1], of the test that a question's labels differ more than by noise; other questions "
        "are left out. 1 keeps all.",
    )
    shrink: bool = setting(
        True,
        "Whether to shrink a question's labels towards their mean, by the noise in their differences according to the "
        "standard errors.",
    )
    min_spread: float = setting(
        0.05,
        "Difference of best and worst label, >= 0, that a training question must exceed; measured after shrinkage.",
    )
    margin: float = setting(
        POSITIVE,
        "Minimum label of a helpful passage, > 0; the retriever's loss contrastive ignores pairs of passages whose "
        "labels differ by less.",
    )
    resolution: float = setting(
        0.1,
        "Unit to which labels are rounded, >= 0, since smaller differences are noise; 0 does not round.",
    )
    eval_readers: list[str] = setting(
        ["plain"],
        "Further readers to measure the rankings with: 'embedded', 'plain' (SmolLM2-135M-Instruct, no adapter), "
        "hub ids or folders. Use readers at least as strong as the labelling reader. 'none': only the labelling "
        "reader measures.",
    )
    embeddings_dir: str | None = setting(
        None, "Folder for a corpus's embeddings, by the bi-encoder's weights (default: one in output_dir)."
    )
    eval_top_k: int = setting(1, "Number of top passages in the reader's prompt when a ranking is measured, >= 1.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.eval_readers == ["none"]:
            object.__setattr__(self, "eval_readers", [])
        parse_labeler(self.labeler)
        if self.test_share <= 0 or self.dev_share < 0 or self.test_share + self.dev_share >= 1:
            raise ValueError(
                f"test_share must be above 0, dev_share at least 0, and their sum below 1, got "
                f"{self.test_share} and {self.dev_share}"
            )
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
        check_least(self, list_size=2, top_k=1, hops=1, eval_top_k=1, resolution=0, min_spread=0)
        if not self.margin > 0:
            raise ValueError(f"margin must be above 0, got {self.margin}")
        if not 0 < self.heterogeneity <= 1:
            raise ValueError(f"heterogeneity must be in (0, 1], got {self.heterogeneity}")
        if len({Path(name).name for name in self.eval_readers}) < len(self.eval_readers):
            raise ValueError(f"eval_readers must have different names, got {self.eval_readers}; rename a folder")
        if self.reader in self.eval_readers:
            raise ValueError(f"eval_readers must not contain the labelling reader, {self.reader!r}; leave it out")

    @property
    def embeddings_folder(self) -> Path | None:
        """``embeddings_dir`` as a path."""
        return Path(self.embeddings_dir) if self.embeddings_dir else None


class Questions(NamedTuple):
    """Questions by split, and the corpus to retrieve from, by passage id."""

    corpus: Mapping[str, Passage]
    train: list[Query]
    dev: list[Query]
    test: list[Query]


def read_questions(config: RankingConfig) -> Questions:
    """Read the questions and split them by SHA-1 of their ids; clusters go by the smallest id."""
    queries, corpus = read_input(config)
    return questions_by_split(spread(queries, config.limit), corpus, config)


def read_input(config: RankingConfig) -> tuple[Sequence[Query], dict[str, Passage] | None]:
    """Read all questions and the corpus; ``None`` if the corpus consists of the questions' own passages."""
    return read_source(config.input, config.corpus, config)


def read_source(
    source: str, corpus: str | None, config: FormatOptions
) -> tuple[Sequence[Query], dict[str, Passage] | None]:
    """Read questions, also bundled ones, and a corpus; report unusable rows on standard error."""
    options = pick(InputOptions, config, input=str(OURS.get(source, source)), corpus=corpus)
    found = load_input(options, Needs(corpus=True))
    if found.rejected:
        first = found.rejected[0]
        print(f"{len(found.rejected)} rows cannot be used; {first.where}: {first.reason}", file=sys.stderr)
    return found.queries, None if found.corpus is None else dict(found.corpus)


def questions_by_split(
    queries: Sequence[Query], corpus: dict[str, Passage] | None, config: RankingConfig
) -> Questions:
    """Split the questions; without a corpus, it is their own passages."""
    if corpus is None:
        corpus, queries = pool_passages(queries)
    split = split_questions(
        queries,
        config.split_by,
        source=config.input,
        test_share=config.test_share,
        dev_share=config.dev_share,
    )
    return Questions(corpus, **split)


def data_key(questions: Questions) -> str:
    """Return a hash over all questions and the corpus."""
    parts = [sorted(map(query_key, rows)) for rows in (questions.train, questions.dev, questions.test)]
    return content_key(parts, sorted((each.id, each.title, each.text) for each in questions.corpus.values()))


def split_questions(
    queries: Sequence[Query],
    split_by: SplitBy,
    *,
    source: str,
    test_share: float,
    dev_share: float,
    salt: str = "",
) -> dict[str, list[Query]]:
    """Return the questions of ``train``, ``dev`` and ``test``, in input order; print the number of clusters.

    If so few clusters leave a split empty by their hashes, they are split by the ranks of their hashes. Clusters share
    no key (``shared_keys``), and go by their smallest id. ``salt`` is a prefix of ids before hashing, for questions
    that were already chosen by the hash of their ids. A split that should not be empty, but is, raises ``ValueError``.
    """
    together = clusters([shared_keys(query, split_by) for query in queries])
    largest = max(map(len, together), default=0)
    if split_by != "question":
        print(
            f"{len(together)} clusters by {split_by}; the largest has {largest} of {len(queries)} questions",
            file=sys.stderr,
        )
    smallest = [salt + min(queries[place].id for place in places) for places in together]
    splits = [split_of(each, test_share=test_share, dev_share=dev_share) for each in smallest]
    wanted = {"train", "test"} | ({"dev"} if dev_share else set())
    if not wanted <= set(splits) and len(together) >= len(wanted) and largest <= len(queries) / 2:
        splits = split_by_rank(smallest, test_share=test_share, dev_share=dev_share)
    split_at = {place: split for places, split in zip(together, splits, strict=True) for place in places}
    names = [split_at[place] for place in range(len(queries))]
    rows = {
        name: [query for query, own in zip(queries, names, strict=True) if own == name]
        for name in ("train", "dev", "test")
    }
    for name, found in rows.items():
        if not found and (name != "dev" or dev_share):
            way_out = "give more questions" + (", or set dev_share to 0" if name == "dev" else "")
            if split_by != "question" and largest > len(queries) / 2:
                way_out = (
                    f"{largest} of them are one cluster by {split_by}, which is not divided; mark relevant "
                    "passages, so only these count, or split by question"
                )
            raise ValueError(f"{source}: expected questions for {name}, got none of {len(queries)}; {way_out}")
    return rows
