"""Candidates for labelling, from the retriever that is being trained; labels kept from round to round."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from sentence_transformers import SentenceTransformer
from tqdm.auto import tqdm

from seper_reward.labels.dataset import query_cost
from seper_reward.labels.labelers import PassageLabeler
from seper_reward.retrieval import DenseRetriever, Retriever
from seper_reward.runtime.distributed import gather_in_order, process_state, shard
from seper_reward.runtime.json_files import read_lines, write_lines
from seper_reward.types import LabeledQuery, Passage, Query, UnscorableError
from trainers.ranking.data import Questions, RankingConfig


def propose(model: SentenceTransformer, config: RankingConfig, questions: Questions) -> list[Query]:
    """Return the training questions with the passages to judge; all processes come here together."""
    retriever = None
    if config.candidates != "given":
        retriever = DenseRetriever(model, questions.corpus, share=True)
    return candidates(questions.train, retriever, config.top_k, config.candidates != "retrieved")


def candidates(queries: Sequence[Query], retriever: Retriever | None, top_k: int, given: bool) -> list[Query]:
    """Return the queries with the passages to judge.

    Args:
        queries: with their own passages.
        retriever: whose best passages are candidates; ``None`` for none.
        top_k: how many of them.
        given: the queries' own passages are candidates, too, and come first.
    """
    mine = shard(queries)
    found: Sequence[tuple[Passage, ...]] = [()] * len(mine)
    if retriever is not None:
        found = retriever.retrieve([query.question for query in mine], top_k)
    return gather_in_order([_with(query, passages, given) for query, passages in zip(mine, found, strict=True)])


def _with(query: Query, retrieved: Sequence[Passage], given: bool) -> Query:
    own = {passage.id: passage for passage in query.passages}
    # a query's own passages carry what is known of them for this query
    chosen = {passage.id: own.get(passage.id, passage) for passage in retrieved}
    return replace(query, passages=tuple((own | chosen if given else chosen).values()))


class LabelStore:
    """Labels by query and passage, on disk, so that no passage is judged twice.

    Args:
        path: of the JSONL file; read if it is there.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._labels: dict[tuple[str, str], tuple[float, float]] = {}
        if path.is_file():
            for row in read_lines(path):
                self._labels[row["query"], row["passage"]] = (row["label"], row["std_error"])

    def __len__(self) -> int:
        return len(self._labels)

    def label(self, queries: Sequence[Query], labeler: PassageLabeler) -> list[LabeledQuery]:
        """Return the queries' labels, judging what has none yet; processes share the work.

        A query that cannot be scored is left out and told of; others are not affected.
        """
        unjudged = [query for query in map(self._missing, queries) if query.passages]
        costs = list(map(query_cost, unjudged))
        work = shard(unjudged, costs)
        ahead = getattr(labeler, "ahead", iter)(work)
        bar = tqdm(ahead, desc=f"labelling by {labeler.name}", unit="question", total=len(work), disable=not _main())
        judged = gather_in_order([_judge(query, labeler) for query in bar], costs)
        for row in judged:
            if row is not None:
                for passage, label, error in zip(row.query.passages, row.labels, row.std_errors, strict=True):
                    # as they will be on disk: a resumed run must see the same numbers
                    self._labels[row.query.id, passage.id] = (round(label, 6), round(error, 6))
        if _main() and judged:
            self._save()
        return [self._labeled(query) for query in queries if not self._missing(query).passages]

    def _missing(self, query: Query) -> Query:
        unknown = tuple(passage for passage in query.passages if (query.id, passage.id) not in self._labels)
        return replace(query, passages=unknown)

    def _labeled(self, query: Query) -> LabeledQuery:
        rows = [self._labels[query.id, passage.id] for passage in query.passages]
        return LabeledQuery(query, tuple(label for label, _ in rows), tuple(error for _, error in rows))

    def _save(self) -> None:
        rows = [
            {"query": query, "passage": passage, "label": label, "std_error": error}
            for (query, passage), (label, error) in self._labels.items()
        ]
        write_lines(self._path, rows)


def _judge(query: Query, labeler: PassageLabeler) -> LabeledQuery | None:
    try:
        return labeler.label(query)
    except UnscorableError as error:
        tqdm.write(f"question id={query.id!r} left out: {error}")
        return None


def label_statistics(labeled: Sequence[LabeledQuery], margin: float) -> dict[str, float]:
    """Return counts and shares of a round's labels, for the log."""
    values = [label for row in labeled for label in row.labels]
    count = max(len(values), 1)
    return {
        "questions": len(labeled),
        "passages": len(values),
        "mean": round(sum(values) / count, 4),
        "share_helpful": round(sum(label >= margin for label in values) / count, 4),
        "share_harmful": round(sum(label <= -margin for label in values) / count, 4),
        "share_questions_helped": round(
            sum(max(row.labels, default=0) >= margin for row in labeled) / max(len(labeled), 1), 4
        ),
        "mean_std_error": round(sum(error for row in labeled for error in row.std_errors) / count, 4),
    }


def _main() -> bool:
    return bool(process_state().is_main_process)
