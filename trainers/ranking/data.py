"""Settings shared by the retriever and reranker recipes, and their questions by split."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from seper_reward.data.inputs import Needs, load_input
from seper_reward.data.queries import pool_passages
from seper_reward.data.splits import split_by_rank, split_of, spread
from seper_reward.labels.labelers import needs_answers
from seper_reward.labels.provenance import query_key
from seper_reward.options import (
    FormatOptions,
    InputOptions,
    pick,
)
from seper_reward.runtime.hashing import content_key
from seper_reward.runtime.messages import plural
from seper_reward.types import Passage, Query

from ..options import RankingConfig, SharesConfig
from .clusters import clusters, shared_keys

#: Files of bundled questions by name, in addition to the demo.
OURS = {"unseen_facts": Path(__file__).parents[1] / "unseen_facts.jsonl"}


class Questions(NamedTuple):
    """Questions by split, and the corpus to retrieve from, by passage id."""

    corpus: Mapping[str, Passage]
    train: list[Query]
    dev: list[Query]
    test: list[Query]


def read_questions(config: RankingConfig) -> Questions:
    """Read the questions, and split them; without a corpus, it is their own passages."""
    needed = needs_answers(config.labeler, by_question=not (config.on_servers or config.set_options))
    queries, corpus = read_source(config.input, config.corpus, config, answers_needed=needed)
    queries = spread(queries, config.limit)
    if corpus is None:
        corpus, queries = pool_passages(queries)
    return Questions(corpus, **split_questions(queries, config, config.input))


def read_source(
    source: str, corpus: str | None, config: FormatOptions, *, answers_needed: bool = True
) -> tuple[Sequence[Query], dict[str, Passage] | None]:
    """Read questions, also bundled ones, and a corpus; report unusable rows on standard error."""
    options = pick(InputOptions, config, input=str(OURS.get(source, source)), corpus=corpus)
    loaded = load_input(options, Needs(["answers", "corpus"] if answers_needed else ["corpus"]))
    if loaded.rejected:
        first = loaded.rejected[0]
        print(f"{plural(len(loaded.rejected), 'row')} cannot be used; {first.where}: {first.reason}", file=sys.stderr)
    return loaded.queries, None if loaded.corpus is None else dict(loaded.corpus)


def data_key(questions: Questions) -> str:
    """Return a hash over all questions and the corpus."""
    parts = [sorted(map(query_key, split)) for split in (questions.train, questions.dev, questions.test)]
    return content_key(
        parts, sorted((passage.id, passage.title, passage.text) for passage in questions.corpus.values())
    )


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
    splits = [split_of(query_id, **shares) for query_id in smallest]
    wanted = {"train", "test"} | ({"dev"} if config.dev_share else set())
    if not wanted <= set(splits) and len(together) >= len(wanted) and largest <= len(queries) / 2:
        splits = split_by_rank(smallest, **shares)
    split_at = {place: split for places, split in zip(together, splits, strict=True) for place in places}
    by_split = {
        name: [query for place, query in enumerate(queries) if split_at[place] == name]
        for name in ("train", "dev", "test")
    }
    for name in sorted(wanted):
        if not by_split[name]:
            way_out = "give more questions" + (", or set dev_share to 0" if name == "dev" else "")
            if split_by != "question" and largest > len(queries) / 2:
                way_out = (
                    f"{largest} of them are one cluster by {split_by}, which is not divided; mark relevant "
                    "passages, so only these count, or split by question"
                )
            raise ValueError(f"{source}: expected questions for {name}, got none of {len(queries)}; {way_out}")
    return by_split
