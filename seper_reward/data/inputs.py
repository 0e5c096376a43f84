"""The door for questions: ``load_input`` parses them, attaches passages and relevance, and checks them."""

import itertools
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, NamedTuple, Protocol, TypeVar

from seper_reward.data.demo import CORPUS, QUESTIONS
from seper_reward.data.marks import UNMARKED, is_marked
from seper_reward.data.queries import Input, Rejected, differ, read_corpus, read_queries
from seper_reward.data.rows import BadRowError
from seper_reward.data.splits import split_of, spread
from seper_reward.data.trec import Qrels, beir_files, read_qrels, read_run
from seper_reward.options import InputOptions
from seper_reward.runtime.hashing import content_key
from seper_reward.runtime.messages import plural, say_once
from seper_reward.runtime.on_disk import OnDisk
from seper_reward.types import Passage, Query

T = TypeVar("T")
Field = Literal["answers", "relevance", "passages", "corpus"]
_ANSWERS: tuple[Field, ...] = ("answers",)
_RETRIEVED_AT_ONCE = 10_000  # questions; more would hold the passages of all in memory


class Retrieving(Protocol):
    """A retriever, as in ``seper_reward.retrieval``."""

    def retrieve(self, queries: Sequence[str], top_k: int) -> Sequence[Sequence[Passage]]:
        """Return the best passages for each query."""


class Search(NamedTuple):
    """How questions without passages get some."""

    load: Callable[[Mapping[str, Passage]], Retrieving]  # the retriever of a corpus
    needs_corpus: bool = True  # False for a retriever with its own passages, such as a search service


@dataclass(frozen=True)
class Needs:
    """Requirements of the job that an input is for, and its choice of questions."""

    # what each question must have: a gold answer; a relevance label in its passages; a passage, at the end; or, if its
    # passages are retrieved from the corpus later, those of the corpus
    fields: Collection[Field] = _ANSWERS
    search: Search | None = None  # None searches for nothing
    top_k: int = 10  # passages to retrieve, or to take from each ranking of a run
    split: str = "all"  # train, dev or test, by the hash of the id (`split_of`); or all
    limit: int | None = None  # questions, evenly spread over the input
    strict: bool = False  # whether a row that cannot be used is an error
    on_disk: bool = False  # whether questions are kept on disk, and read when they are used

    @property
    def own_passages(self) -> bool:
        """Whether the search finds passages without a corpus."""
        return self.search is not None and not self.search.needs_corpus


class _Files(NamedTuple):
    questions: str | Path
    corpus: str | Path | None
    qrels: str | Path | None


def load_input(options: InputOptions = InputOptions(), needs: Needs = Needs()) -> Input:
    """Read questions, attach passages and relevance labels, and check them.

    Raises ``OSError`` if a source cannot be read; ``ValueError`` if a format is unknown, a column or split is missing,
    or no id occurs in the run or the judgments; ``BadRowError`` for a row if ``needs.strict``, or if a passage has
    another text in the corpus.
    """
    data = _parse(options, needs)
    if options.run is not None:
        data = _attach_run(data, options.run, needs)
    if data.judgments is not None:
        data = _attach_relevance(data, data.judgments, options.qrels or options.input, needs)
    _raise_if_strict(data.rejected, needs)
    data = _choose(data, needs)
    if "corpus" in needs.fields and data.corpus is not None:
        data = replace(data, queries=tuple(in_corpus(data.queries, data.corpus, data.judgments)))
    if needs.search is not None and (needs.own_passages or data.corpus is not None):
        data = _retrieve(data, needs.search, options, needs)
    return _check(data, options.input, needs)


def _parse(options: InputOptions, needs: Needs) -> Input:
    files = _files(options)
    if (options.run or files.qrels) and not files.corpus:
        raise ValueError("a run and judgments refer to passages of a corpus; give the corpus, too")
    corpus = read_corpus(files.corpus) if files.corpus else None
    data = read_queries(
        files.questions,
        corpus,
        options,
        answers_needed="answers" in needs.fields,
        passages_needed=not needs.own_passages,
        on_disk=needs.on_disk,
    )
    return replace(data, corpus=corpus, judgments=read_qrels(files.qrels) if files.qrels else None)


def _files(options: InputOptions) -> _Files:
    if options.input == "demo":
        return _Files(QUESTIONS, options.corpus or CORPUS, options.qrels)
    if (beir := beir_files(options.input)) is not None:
        return _Files(beir.queries, options.corpus or beir.corpus, options.qrels or beir.qrels)
    return _Files(options.input, options.corpus, options.qrels)


def _attach_run(data: Input, file: str, needs: Needs) -> Input:
    """Give the questions with a ranking in the run its best passages of the corpus in place of theirs."""
    run, corpus = read_run(file), data.corpus or {}
    ranked = _keep(_in_file(data.queries, run, file), needs)

    def best(query: Query) -> tuple[Passage, ...]:
        return tuple([corpus[name] for name in run[query.id] if name in corpus][: needs.top_k])

    lacking = {name for query in ranked for name in run[query.id][: needs.top_k] if name not in corpus}
    queries = _keep((replace(query, passages=passages) for query in ranked if (passages := best(query))), needs)
    if ranked and not queries:
        raise ValueError(f"the corpus has no passage of the run, such as {min(lacking)!r}; use the corpus of the run")
    if lacking:
        say_once(
            f"left out: {plural(len(lacking), 'passage')} of the run without a text in the corpus, such as "
            f"{min(lacking)!r}, and {plural(len(ranked) - len(queries), 'question')} without another passage"
        )
    return replace(data, queries=queries)


def _attach_relevance(data: Input, judgments: Qrels, file: str, needs: Needs) -> Input:
    """Keep the judged questions, with grades as the mark ``relevant``, 0 for unjudged passages as in TREC."""
    corpus = data.corpus or {}
    lacking = Counter[bool]()  # relevant documents, by whether the corpus lacks them

    def judged(query: Query) -> Query:
        grades = judgments[query.id]
        lacking.update(name not in corpus for name, grade in grades.items() if grade > 0)
        passages = query.passages or [corpus[name] for name in grades if name in corpus]
        return replace(query, passages=tuple(_graded(passage, grades) for passage in passages), judged=grades)

    queries = _keep(map(judged, _in_file(data.queries, judgments, file)), needs)
    if lacking[True]:
        say_once(
            f"{file}: not in the corpus: {lacking[True]} of {plural(lacking.total(), 'relevant document')}; nDCG and "
            "recall count them as not found, as trec_eval does"
        )
    return replace(data, queries=queries)


def _choose(data: Input, needs: Needs) -> Input:
    if needs.split == "all" and needs.limit is None:
        return data
    places = [at for at, query in enumerate(data.queries) if needs.split in ("all", split_of(query.id))]
    return replace(data, queries=_keep((data.queries[at] for at in spread(places, needs.limit)), needs))


def _retrieve(data: Input, search: Search, options: InputOptions, needs: Needs) -> Input:
    """Give passages to questions without; and to all if they are judged, as judgments are of the whole corpus."""
    judgments = None if options.run else data.judgments
    if not any(judgments or not query.passages for query in data.queries):
        if options.corpus and not options.run:
            say_once(f"{options.corpus} is not searched: all questions have passages")
        return data
    corpus = data.corpus or {}
    retriever = search.load(corpus)

    def retrieved() -> Iterator[Query]:
        for start in range(0, len(data.queries), _RETRIEVED_AT_ONCE):
            queries = data.queries[start : start + _RETRIEVED_AT_ONCE]
            lacking = [query for query in queries if judgments or not query.passages]
            searched = in_corpus(lacking, corpus) if corpus else lacking
            passages = retriever.retrieve([query.question for query in searched], needs.top_k) if searched else []
            complete = {
                query.id: add_passages(query, best, judgments.get(query.id, {}) if judgments else None)
                for query, best in zip(searched, passages, strict=True)
            }
            yield from (complete.get(query.id, query) for query in queries)

    return replace(data, queries=_keep(retrieved(), needs))


def _check(data: Input, source: str, needs: Needs) -> Input:
    def reason(query: Query) -> str:
        if "passages" in needs.fields and not query.passages:
            return "no passage was found for the question; give it passages, or drop it"
        return UNMARKED if "relevance" in needs.fields and not any(map(is_marked, query.passages)) else ""

    rejected = [
        Rejected(f"{source}, id {query.id}", why, {"id": query.id, "question": query.question})
        for query in data.queries
        if (why := reason(query))
    ]
    if not rejected:
        return data
    _raise_if_strict(rejected, needs)
    queries = _keep((query for query in data.queries if not reason(query)), needs)
    return replace(data, queries=queries, rejected=_keep(itertools.chain(data.rejected, rejected), needs))


def _keep(items: Iterable[T], needs: Needs) -> Sequence[T]:
    return OnDisk(items) if needs.on_disk else tuple(items)


def _raise_if_strict(rejected: Sequence[Rejected], needs: Needs) -> None:
    if needs.strict and rejected:
        raise BadRowError(f"{rejected[0].where}: {rejected[0].reason} ({len(rejected)} unusable rows in all)")


def _in_file(queries: Sequence[Query], ids: Mapping[str, object], file: str) -> Iterator[Query]:
    """Yield the questions whose ids a file has; raise if there is none, and say how many are left out."""
    count = 0
    for query in queries:
        if query.id in ids:
            count += 1
            yield query
    if queries and not count:
        raise ValueError(
            f"{file}: expected ids of the questions, such as {queries[0].id!r}, got none of them; use the same ids in "
            "both files"
        )
    if count < len(queries):
        say_once(
            f"{file} does not have {len(queries) - count} of {plural(len(queries), 'question')}, which are left out"
        )


def _graded(passage: Passage, grades: Mapping[str, int]) -> Passage:
    return replace(passage, metadata={**passage.metadata, "relevant": grades.get(passage.id, 0)})


def add_passages(query: Query, passages: Sequence[Passage], grades: Mapping[str, int] | None = None) -> Query:
    """Return a query with further passages after its own, each id once.

    Passages without ids get one from their texts, and further parts of a document the id ``DOCUMENT#HASH``. Human
    ``grades`` by id are of documents: further parts are then left out, and new passages get their grade.
    """
    known = {passage.id: passage.text for passage in query.passages}
    others: list[Passage] = []
    for passage in passages:
        if not passage.id or (grades is None and known.get(passage.id, passage.text) != passage.text):
            text_id = content_key(passage.title, passage.text)[:16]
            passage = replace(passage, id=f"{passage.id}#{text_id}" if passage.id else text_id)
        if passage.id not in known:
            known[passage.id] = passage.text
            others.append(passage)
    if grades is not None:
        others = [_graded(passage, grades) for passage in others]
    return replace(query, passages=(*query.passages, *others))


def in_corpus(
    queries: Sequence[Query], corpus: Mapping[str, Passage], judgments: Mapping[str, Mapping[str, int]] | None = None
) -> list[Query]:
    """Return queries whose passages have the titles of the corpus, with those that people judged relevant.

    Passages that no retriever can find are counted. Another text in the corpus raises ``BadRowError``: ids may be mere
    row numbers.
    """
    passages = absent = 0
    results = []
    for query in queries:
        for passage in query.passages:
            other = corpus.get(passage.id)
            passages += 1
            absent += other is None
            if other is not None and differ(passage, other):
                raise BadRowError(
                    f"question id={query.id!r}: its passage id={passage.id!r} is {passage.full_text[:80]!r}, but the "
                    f"corpus has {other.full_text[:80]!r} under this id; use different ids in questions and corpus"
                )
        known = tuple(
            replace(passage, title=passage.title or corpus.get(passage.id, passage).title)
            for passage in query.passages
        )
        grades = (judgments or {}).get(query.id, {})
        judged = [corpus[passage_id] for passage_id, grade in grades.items() if grade > 0 and passage_id in corpus]
        results.append(add_passages(replace(query, passages=known), judged, grades))
    if absent:
        say_once(
            f"not in the corpus: {absent} of {plural(passages, 'passage')} of questions; no retriever can find them, "
            "and recall and nDCG count them as not found; use the corpus's ids for passages that it has"
        )
    return results
