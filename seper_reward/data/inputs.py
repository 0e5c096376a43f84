"""The door for questions: ``load_input`` parses them, attaches passages and relevance, and checks them."""

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

from seper_reward.data.demo import CORPUS, QUESTIONS
from seper_reward.data.marks import UNMARKED, is_marked
from seper_reward.data.queries import Input, Rejected, differ, read_corpus, read_queries
from seper_reward.data.rows import BadRowError
from seper_reward.data.splits import split_of, spread
from seper_reward.data.trec import beir_files, read_qrels, read_run
from seper_reward.options import InputOptions
from seper_reward.runtime.hashing import content_key, file_hash
from seper_reward.runtime.messages import plural, say_once
from seper_reward.runtime.on_disk import OnDisk
from seper_reward.types import Passage, Query

T = TypeVar("T")
_RETRIEVED_AT_ONCE = 10_000  # questions; more would hold the passages of all in memory


class Retrieving(Protocol):
    """A retriever, as in ``seper_reward.retrieval``."""

    def retrieve(self, queries: Sequence[str], top_k: int) -> Sequence[Sequence[Passage]]:
        """Return the best passages for each query."""


@dataclass(frozen=True)
class Needs:
    """Requirements of the job that an input is for, and its choice of questions."""

    answers: bool = True  # whether each question has a gold answer
    relevance: bool = False  # whether each question has relevance labels in its passages
    passages: bool = False  # whether each question has a passage, at the end
    corpus: bool = False  # whether passages must agree with the corpus, as they are retrieved from it later
    # loads the retriever of a corpus, for questions without passages; None retrieves nothing
    retriever: Callable[[Mapping[str, Passage]], Retrieving] | None = None
    own_passages: bool = False  # whether the retriever has passages without a corpus, as a search service
    top_k: int = 10  # passages to retrieve, or to take from each ranking of a run
    split: str = "all"  # train, dev or test, by the hash of the id (`split_of`); or all
    limit: int | None = None  # questions, evenly spread over the input
    strict: bool = False  # whether a row that cannot be used is an error
    on_disk: bool = False  # whether questions are kept on disk, and read when they are used


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
    found = _parse(options, needs)
    for step in (_attach_run, _attach_relevance, _choose, _agree_with_corpus, _retrieve, _check):
        found = step(found, options, needs)
    return found


def input_key(options: InputOptions, needs: Needs) -> str | None:
    """Return a hash of a file of questions and how it is read; ``None`` for sources that may change, or a corpus."""
    files = _files(options)
    content = None if files.corpus or files.qrels or needs.own_passages else file_hash(Path(files.questions))
    how = (needs.answers, needs.relevance, needs.split, needs.limit, needs.strict)
    return content and content_key(content, options.columns, *how)


def _parse(options: InputOptions, needs: Needs) -> Input:
    files = _files(options)
    if (options.run or files.qrels) and not files.corpus:
        raise ValueError("a run and judgments refer to passages of a corpus; give the corpus, too")
    corpus = read_corpus(files.corpus) if files.corpus else None
    found = read_queries(
        files.questions,
        corpus,
        options,
        answers_needed=needs.answers,
        passages_needed=not needs.own_passages,
        on_disk=needs.on_disk,
    )
    return replace(found, corpus=corpus, judgments=read_qrels(files.qrels) if files.qrels else None)


def _files(options: InputOptions) -> _Files:
    if options.input == "demo":
        return _Files(QUESTIONS, options.corpus or CORPUS, options.qrels)
    if (beir := beir_files(options.input)) is not None:
        return _Files(beir.queries, options.corpus or beir.corpus, options.qrels or beir.qrels)
    return _Files(options.input, options.corpus, options.qrels)


def _attach_run(found: Input, options: InputOptions, needs: Needs) -> Input:
    """Give the questions with a ranking in the run its best passages of the corpus in place of theirs."""
    if options.run is None:
        return found
    run, corpus = read_run(options.run), found.corpus or {}
    ranked = _keep(_in_file(found.queries, run, options.run), needs)

    def best(query: Query) -> tuple[Passage, ...]:
        return tuple([corpus[each] for each in run[query.id] if each in corpus][: needs.top_k])

    lacking = {each for query in ranked for each in run[query.id][: needs.top_k] if each not in corpus}
    queries = _keep((replace(query, passages=given) for query in ranked if (given := best(query))), needs)
    if ranked and not queries:
        raise ValueError(f"the corpus has no passage of the run, such as {min(lacking)!r}; use the corpus of the run")
    if lacking:
        say_once(
            f"left out: {plural(len(lacking), 'passage')} of the run without a text in the corpus, such as "
            f"{min(lacking)!r}, and {plural(len(ranked) - len(queries), 'question')} without another passage"
        )
    return replace(found, queries=queries)


def _attach_relevance(found: Input, options: InputOptions, needs: Needs) -> Input:
    """Keep the judged questions, with grades as the mark ``relevant``, 0 for unjudged passages as in TREC."""
    if found.judgments is None:
        return found
    judgments, corpus = found.judgments, found.corpus or {}
    lacking = Counter[bool]()  # relevant documents, by whether the corpus lacks them

    def judged(query: Query) -> Query:
        grades = judgments[query.id]
        lacking.update(each not in corpus for each, grade in grades.items() if grade > 0)
        passages = query.passages or [corpus[each] for each in grades if each in corpus]
        return replace(query, passages=tuple(_graded(each, grades) for each in passages), judged=grades)

    file = options.qrels or options.input
    queries = _keep(map(judged, _in_file(found.queries, judgments, file)), needs)
    if lacking[True]:
        say_once(
            f"{file}: not in the corpus: {lacking[True]} of {plural(lacking.total(), 'relevant document')}; nDCG and "
            "recall count them as not found, as trec_eval does"
        )
    return replace(found, queries=queries)


def _choose(found: Input, options: InputOptions, needs: Needs) -> Input:
    _raise_if_strict(found.rejected, needs)
    if needs.split == "all" and needs.limit is None:
        return found
    own = [at for at, query in enumerate(found.queries) if needs.split in ("all", split_of(query.id))]
    return replace(found, queries=_keep((found.queries[at] for at in spread(own, needs.limit)), needs))


def _agree_with_corpus(found: Input, options: InputOptions, needs: Needs) -> Input:
    if not needs.corpus or found.corpus is None:
        return found
    return replace(found, queries=tuple(in_corpus(found.queries, found.corpus, found.judgments)))


def _retrieve(found: Input, options: InputOptions, needs: Needs) -> Input:
    """Give passages to questions without; and to all if they are judged, as judgments are of the whole corpus."""
    judgments = None if options.run else found.judgments
    if needs.retriever is None or (found.corpus is None and not needs.own_passages):
        return found
    if not any(judgments or not query.passages for query in found.queries):
        if options.corpus and not options.run:
            say_once(f"{options.corpus} is not searched: all questions have passages")
        return found
    corpus = found.corpus or {}
    retriever = needs.retriever(corpus)

    def retrieved() -> Iterator[Query]:
        for start in range(0, len(found.queries), _RETRIEVED_AT_ONCE):
            queries = found.queries[start : start + _RETRIEVED_AT_ONCE]
            lacking = [query for query in queries if judgments or not query.passages]
            known = in_corpus(lacking, corpus) if corpus else lacking
            passages = retriever.retrieve([query.question for query in known], needs.top_k) if known else []
            given = {
                query.id: add_passages(query, best, judgments.get(query.id, {}) if judgments else None)
                for query, best in zip(known, passages, strict=True)
            }
            yield from (given.get(query.id, query) for query in queries)

    return replace(found, queries=_keep(retrieved(), needs))


def _check(found: Input, options: InputOptions, needs: Needs) -> Input:
    def reason(query: Query) -> str:
        if needs.passages and not query.passages:
            return "no passage was found for the question; give it passages, or drop it"
        return UNMARKED if needs.relevance and not any(map(is_marked, query.passages)) else ""

    rejected = [
        Rejected(f"{options.input}, id {query.id}", why, {"id": query.id, "question": query.question})
        for query in found.queries
        if (why := reason(query))
    ]
    if not rejected:
        return found
    _raise_if_strict(rejected, needs)
    queries = _keep((query for query in found.queries if not reason(query)), needs)
    return replace(found, queries=queries, rejected=_keep(itertools.chain(found.rejected, rejected), needs))


def _keep(items: Iterable[T], needs: Needs) -> Sequence[T]:
    return OnDisk(items) if needs.on_disk else tuple(items)


def _raise_if_strict(rejected: Sequence[Rejected], needs: Needs) -> None:
    if needs.strict and rejected:
        raise BadRowError(f"{rejected[0].where}: {rejected[0].reason} ({len(rejected)} unusable rows in all)")


def _in_file(queries: Sequence[Query], ids: Mapping[str, object], file: str) -> Iterator[Query]:
    """Yield the questions whose ids a file has; raise if there is none, and say how many are left out."""
    found = 0
    for query in queries:
        if query.id in ids:
            found += 1
            yield query
    if queries and not found:
        raise ValueError(
            f"{file}: expected ids of the questions, such as {queries[0].id!r}, got none of them; use the same ids in "
            "both files"
        )
    if found < len(queries):
        say_once(
            f"{file} does not have {len(queries) - found} of {plural(len(queries), 'question')}, which are left out"
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
        others = [_graded(each, grades) for each in others]
    return replace(query, passages=(*query.passages, *others))


def in_corpus(
    queries: Sequence[Query], corpus: Mapping[str, Passage], judgments: Mapping[str, Mapping[str, int]] | None = None
) -> list[Query]:
    """Return queries whose passages have the titles of the corpus, with those that people judged relevant.

    Passages that no retriever can find are counted. Another text in the corpus raises ``BadRowError``: ids may be mere
    row numbers.
    """
    passages = absent = 0
    found = []
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
        known = tuple(replace(each, title=each.title or corpus.get(each.id, each).title) for each in query.passages)
        grades = (judgments or {}).get(query.id, {})
        judged = [corpus[each] for each, grade in grades.items() if grade > 0 and each in corpus]
        found.append(add_passages(replace(query, passages=known), judged, grades))
    if absent:
        say_once(
            f"not in the corpus: {absent} of {plural(passages, 'passage')} of questions; no retriever can find them, "
            "and recall and nDCG count them as not found; use the corpus's ids for passages that it has"
        )
    return found
