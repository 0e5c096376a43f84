"""Retrieval by a search service over HTTP, instead of a corpus."""

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import httpx2

from seper_reward.runtime.proxies import is_this_machine
from seper_reward.types import Passage

LISTS = ("passages", "results", "documents", "hits")  # possible fields of the passages in a response
_TEXTS = ("text", "contents", "content", "snippet")  # possible fields of the text in a passage
_BUSY = {429, 502, 503, 504}  # HTTP statuses that are retried
_REJECTED = {400, 413, 414, 422}  # of rejected queries
_PAUSES = (0.5, 2.0, 8.0, None)  # seconds after each attempt; None after the last one
_CONCURRENCY = 16  # requests


class SearchService:
    """Client of a search service: ``POST {"query": question, "top_k": 5}``, one request per question, several at once.

    The response is a list of passages, best first, or an object with the list in ``passages``, ``results``,
    ``documents`` or ``hits``. A passage is a text, or an object with ``text`` (or ``contents``, ``content``,
    ``snippet``), ``id`` and ``title``, possibly inside a field ``document``. ``timeout`` is that of a request in
    seconds. Raises ``ValueError`` if the URL is not an HTTP address.
    """

    def __init__(self, url: str, timeout: float = 60.0) -> None:
        if urlsplit(url).scheme not in {"http", "https"} or not urlsplit(url).hostname:
            raise ValueError(f"url must be an address such as http://localhost:8000/search, got {url!r}")
        self.url, self.timeout = url, timeout
        self._client = httpx2.Client(timeout=timeout, trust_env=not is_this_machine(url))

    def __reduce__(self) -> tuple[Any, ...]:
        """Leave open connections out of a pickle; a copy opens its own."""
        return SearchService, (self.url, self.timeout)

    def retrieve(self, questions: Sequence[str], top_k: int) -> list[tuple[Passage, ...]]:
        """Return the passages that the service finds for each question, best first, at most ``top_k`` passages.

        Raises ``ValueError`` if ``top_k`` is below 1, or the service rejects a question; ``ConnectionError`` if it did
        not answer in four attempts, failed, is not at this URL, denies access, or answers in another form.
        """
        if top_k < 1:
            raise ValueError(f"top_k must be at least 1, got {top_k}")
        with ThreadPoolExecutor(_CONCURRENCY) as pool:
            return list(pool.map(lambda question: self._ask(question, top_k), questions))

    def _ask(self, question: str, top_k: int) -> tuple[Passage, ...]:
        for pause in _PAUSES:
            try:
                response = self._client.post(self.url, json={"query": question, "top_k": top_k})
            except httpx2.TransportError as error:
                problem = f"{type(error).__name__}: {error}"
            else:
                if response.is_success:
                    return self._passages(response)[:top_k]
                problem = f"{response.status_code}: {response.text[:200]}"
                if response.status_code not in _BUSY:
                    kind = ValueError if response.status_code in _REJECTED else ConnectionError
                    raise kind(f"{self.url} answered {problem}")
            if pause is not None:
                time.sleep(pause)
        raise ConnectionError(
            f"{self.url} did not answer in {len(_PAUSES)} attempts ({problem}); start it, or correct the URL"
        )

    def _passages(self, response: httpx2.Response) -> tuple[Passage, ...]:
        try:
            return passages_in(response.json())
        except ValueError as error:
            raise ConnectionError(f"{self.url} returned a response of another form: {error}") from error


def passages_in(answer: object) -> tuple[Passage, ...]:
    """Return the passages with text in a service's JSON; raise ``ValueError`` for a form not in ``SearchService``.

    >>> passages_in({"results": [{"document": {"id": 7, "contents": "The mill burnt down."}, "score": 3.1}]})
    (Passage(text='The mill burnt down.', title='', id='7'),)
    """
    hits = next((answer[name] for name in LISTS if name in answer), None) if isinstance(answer, Mapping) else answer
    if not isinstance(hits, list):
        raise ValueError(f"expected a list of passages or an object with one of {LISTS}, got {answer!r:.90}")
    return tuple(passage for passage in map(read_passage, hits) if passage.text.strip())


def read_passage(hit: Any) -> Passage:
    """Return a passage as search services write it, a text or an object; other hits raise ``ValueError``."""
    if isinstance(hit, Mapping) and "document" in hit:
        inner = hit["document"] if isinstance(hit["document"], Mapping) else {"text": hit["document"]}
        inner = {name: value for name, value in inner.items() if value is not None}
        groups = (("id", "_id"), _TEXTS, ("title",))  # each from the outer object only if the inner one has none of it
        outer = {name: hit[name] for names in groups if not inner.keys() & set(names) for name in names if name in hit}
        hit = {**outer, **inner}
    if isinstance(hit, str):
        return Passage(hit)
    texts = [hit[name] for name in _TEXTS if isinstance(hit.get(name), str)] if isinstance(hit, Mapping) else []
    if not texts:
        raise ValueError(f"a passage must be a text or an object with one of {_TEXTS}, got {hit!r:.100}")
    identity = hit.get("id", hit.get("_id"))
    text = next(filter(str.strip, texts), "")
    return Passage(text, str(hit.get("title") or ""), "" if identity is None else str(identity))
