"""What retriever and reranker learn from: questions by use, candidates, labels; the settings of both."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from seper_reward.config import ScorerConfig, setting
from seper_reward.data.queries import pool_passages, read_examples
from seper_reward.data.splits import split_of, spread
from seper_reward.labels.labelers import LABELERS, check_labeler
from seper_reward.labels.provenance import query_key
from seper_reward.runtime.hashing import content_key
from seper_reward.types import Passage, Query


@dataclass
class RankingConfig(ScorerConfig):
    """What a ranking model learns from: questions, candidates, labels. Shared with the reranker."""

    input: str = setting("demo", "Questions as for `seper-reward label`, or 'demo'.")
    corpus: str | None = setting(None, "Corpus of {id, title?, text}; default: the passages of all the questions.")
    limit: int | None = setting(None, "Use so many questions only, evenly spread over the input.")
    test_share: float = setting(0.125, "Share of questions, by sha1(id), held out for the comparison in the end.")
    dev_share: float = setting(0.125, "Share of questions to measure on while training; may be 0.")
    labeler: str = setting("delta_seper", f"Who judges: {', '.join(LABELERS)}, or a reranker's folder.")
    candidates: Literal["retrieved", "given", "both"] = setting("both", "Passages to judge; given are the file's own.")
    top_k: int = setting(8, "Passages that are retrieved per question and round.")
    max_std_error: float | None = setting(None, "Leave out labels with a greater standard error.")
    min_spread: float = setting(0.05, "Leave out questions whose best and worst label are no further apart.")
    margin: float = setting(0.1, "Label from which a passage counts as helpful.")
    resolution: float = setting(
        0.1, "Labels are rounded to multiples of this before they are taught, since less is noise; 0 leaves them."
    )
    shift: float = setting(0.0, "Added to labels, after clipping.")
    clip_low: float | None = setting(None, "Least label; 0 makes harmful passages equal to useless ones.")
    clip_high: float | None = setting(None, "Greatest label.")
    eval_readers: list[str] = setting(
        ["plain"], "Readers, held out from labelling, that measure the result beside the labelling one."
    )
    eval_top_k: int = setting(1, "How many passages a reader that measures sees.")
    eval_gains: bool = setting(True, "Also measure nDCG with ΔSePer as gains (labels the top 5 of each question).")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_labeler(self.labeler)
        if self.test_share <= 0 or self.dev_share < 0 or self.test_share + self.dev_share >= 1:
            raise ValueError(
                f"test_share must be above 0, dev_share at least 0, and something must be left to train on, got "
                f"{self.test_share} and {self.dev_share}"
            )
        for name in ("margin", "resolution", "min_spread"):
            if getattr(self, name) < 0 or (name == "margin" and not self.margin):
                bound = "above" if name == "margin" else "at least"
                raise ValueError(f"{name} must be {bound} 0, got {getattr(self, name)}")
        if len({Path(name).name for name in self.eval_readers}) < len(self.eval_readers):
            raise ValueError(f"eval_readers must have names of their own, got {self.eval_readers}; rename a folder")
        if self.reader in self.eval_readers:
            raise ValueError(f"eval_readers must not have the labelling one, {self.reader!r}; leave it out")
        for name in ("top_k", "eval_top_k", "limit"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")


class Questions(NamedTuple):
    """Questions by use, and the corpus they search."""

    corpus: Mapping[str, Passage]
    train: list[Query]
    dev: list[Query]
    test: list[Query]


def read_questions(config: RankingConfig) -> Questions:
    """Read and split the questions by sha1(id); raise if a split is empty."""
    examples, corpus = read_examples(config.input, config.corpus)
    if examples.rejected:
        first = examples.rejected[0]
        print(f"{len(examples.rejected)} rows cannot be used; {first.where}: {first.reason}", file=sys.stderr)
    queries = spread(examples.queries, config.limit)
    if corpus is None:
        corpus, queries = pool_passages(queries)
    _check_ids(queries, corpus, config)
    split: dict[str, list[Query]] = {"train": [], "dev": [], "test": []}
    for query in queries:
        split[split_of(query.id, test_share=config.test_share, dev_share=config.dev_share)].append(query)
    for name, rows in split.items():
        if not rows and (name != "dev" or config.dev_share):
            raise ValueError(f"{config.input}: expected questions for {name}, got none of {len(queries)}; give more")
    return Questions(corpus, **split)


def data_key(questions: Questions) -> str:
    """Return a hash over all that is learnt from and measured on."""
    parts = [sorted(map(query_key, rows)) for rows in (questions.train, questions.dev, questions.test)]
    return content_key(parts, sorted((each.id, each.title, each.text) for each in questions.corpus.values()))


def _check_ids(queries: Sequence[Query], corpus: Mapping[str, Passage], config: RankingConfig) -> None:
    """Raise if an id means one text in a question and another in the corpus; tell of passages that are in neither."""
    absent = 0
    for query in queries:
        for passage in query.passages:
            known = corpus.get(passage.id)
            absent += known is None
            if known is not None and (known.text, known.title) != (passage.text, passage.title):
                raise ValueError(
                    f"question id={query.id!r}: passage id {passage.id!r} has another text in {config.corpus}; "
                    "give the passages of questions the corpus's ids"
                )
    if absent:
        print(
            f"{absent} passages of questions are not in {config.corpus}: no retriever can find them", file=sys.stderr
        )
