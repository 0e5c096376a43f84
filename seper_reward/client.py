"""Thin client of ``seper-reward serve``: a scorer over HTTP, picklable, without torch.

    client = SePerClient("http://scorer:8100")
    client.utilities([{"question": ..., "answers": [...], "passages": [...]}])
    await asyncio.to_thread(client.utilities, ...)  # in an event loop

Requests that time out, or that a busy, late or stopping server rejects (429, 502, 503, 504), are retried with
exponential back-off and jitter until the client's time is over: servers can be restarted under their clients. Requests
do not change the server's state, and repeated requests are measured once. If the server requires a token, it is read
from the environment variable ``SEPER_SERVER_TOKEN`` only.
"""

import json
import os
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, TypeVar

import httpx2

from seper_reward.options import check_url
from seper_reward.runtime.codec import from_json, to_json
from seper_reward.runtime.proxies import is_this_machine, proxy_of
from seper_reward.types import Answers, Asked, Belief, Measured, Passage, Responses, UnscorableError, unwrap

TOKEN = "SEPER_SERVER_TOKEN"
DEADLINE = "SePer-Deadline"  # header: time limit of a request in seconds
_BUSY = {429, 502, 503, 504}  # HTTP statuses that are retried
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 10.0  # seconds between attempts
_CONNECTIONS = 64
_AT_ONCE = 250_000  # tokens per request; the default limit of a server is four times as high
_CHARS_PER_TOKEN = 4
_UNSENT = {"contexts": {"__all__": {"__all__": {"id", "metadata"}}}}  # of passages: they decide nothing
_Question = TypeVar("_Question")


class SePerClient:
    """A scorer behind ``seper-reward serve``; several threads may share it.

    The ``url`` is an address such as ``http://scorer:8100``; ``timeout`` is the limit of a call with all attempts, in
    seconds.

    Raises:
        ValueError: The URL is not an HTTP address or may contain a secret; or ``timeout`` is not above 0.
    """

    def __init__(self, url: str, timeout: float = 600.0) -> None:
        check_url(url, "url", secret=f"set a token in ${TOKEN}", like="an address such as http://localhost:8100")
        if not timeout > 0:
            raise ValueError(f"timeout must be above 0 seconds, got {timeout}")
        self.url, self.timeout = url.rstrip("/"), timeout

    def __repr__(self) -> str:
        return f"SePerClient({self.url!r})"

    def __getstate__(self) -> dict[str, Any]:
        """Leave open connections out of a pickle; a copy opens its own."""
        return {"url": self.url, "timeout": self.timeout}

    @cached_property
    def _http(self) -> httpx2.Client:
        limits = httpx2.Limits(max_connections=_CONNECTIONS)
        return httpx2.Client(limits=limits, trust_env=not is_this_machine(self.url))

    def measure(self, requests: Sequence[Asked]) -> list[Measured | UnscorableError]:
        """Measure beliefs and texts of several questions, many in one request; per question an error may replace them.

        Raises:
            ConnectionError: The server did not answer in time, or failed.
            ValueError: The server rejects the request, for example without its token.
        """
        parts = _parts(requests, estimated_tokens)
        bodies = ({"asked": [to_json(request, _UNSENT) for request in part]} for part in parts)
        return [result for body in bodies for result in _measured(self.post("/beliefs", body))]

    def beliefs(self, question: str, answers: Answers, passage_sets: Sequence[Sequence[Passage]]) -> list[Belief]:
        """Measure the belief in an answer given each set of passages, as in ``SePerScorer.beliefs``.

        Errors are those of ``measure``; a question that cannot be scored raises ``UnscorableError``.
        """
        request = Asked(question, answers, tuple(map(tuple, passage_sets)))
        return list(unwrap(self.measure([request])[0]).beliefs)

    def utilities(self, queries: Sequence[Mapping[str, object]]) -> list[dict[str, Any] | UnscorableError]:
        """Measure the change of the belief in each query's answer by passages or sets of passages.

        Args:
            queries: Dicts ``{question, answers, passages}`` or ``{question, answers, passage_sets}``.

        Returns:
            Per query a dict with ``baseline`` and ``utilities``, or its error. Errors of the call are those of
            ``measure``.
        """
        parts = _parts(queries, _json_tokens)
        return [result for part in parts for result in _results(self.post("/utilities", {"queries": part}))]

    def post(self, path: str, body: object) -> Any:
        """Send a JSON body, with retries, and return the JSON of the response; errors are those of ``measure``."""
        content = json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
        end = time.monotonic() + self.timeout
        attempts = 0
        while True:
            left = max(end - time.monotonic(), 0.001)
            headers = {"Content-Type": "application/json", DEADLINE: f"{left:.3f}"}
            if token := read_token():
                headers["Authorization"] = f"Bearer {token}"
            # the server answers at the deadline; leave time for that response
            timeout = httpx2.Timeout(left + 1.0, connect=min(left, 5.0))
            try:
                response = self._http.post(f"{self.url}{path}", content=content, headers=headers, timeout=timeout)
            except httpx2.TransportError as error:
                problem, wished = f"{type(error).__name__}: {error}", ""
            else:
                if response.is_success:
                    return response.json()
                problem, wished = _message(response), response.headers.get("Retry-After", "")
                if response.status_code not in _BUSY:
                    kind = ValueError if response.is_client_error else ConnectionError
                    raise kind(f"{self.url}{path} answered {response.status_code}: {problem}")
            pause = min(_FIRST_PAUSE * 2.0**attempts, _LONGEST_PAUSE) * random.uniform(0.5, 1.0)
            pause = max(pause, float(wished) if wished.isdigit() else 0.0)
            attempts += 1
            if time.monotonic() + pause >= end:
                raise self._unanswered(attempts, problem)
            time.sleep(pause)

    def _unanswered(self, attempts: int, problem: str) -> ConnectionError:
        proxy = proxy_of(self.url)
        through = f" through the proxy {proxy} of the environment (NO_PROXY leaves it out)" if proxy else ""
        return ConnectionError(
            f"{self.url} did not answer{through} within {self.timeout:g} s ({attempts} attempts; the last: "
            f"{problem}); start `seper-reward serve` there, correct the URL, or raise timeout"
        )


def read_token() -> str | None:
    """Return the secret in ``SEPER_SERVER_TOKEN``, without line breaks around it; ``None`` if it is unset."""
    token = os.environ.get(TOKEN)
    return None if token is None else token.strip()


def belief_json(belief: Belief) -> dict[str, Any]:
    """Return a belief as JSON values; of sampled responses only the texts, in ``responses``."""
    return {**to_json(belief, exclude={"sampled"}), "responses": belief.responses}


def belief_from_json(values: Mapping[str, Any]) -> Belief:
    """Return the record of values by ``belief_json``."""
    return replace(from_json(Belief, values), sampled=Responses(tuple(values["responses"]), ()))


def _parts(questions: Sequence[_Question], tokens: Callable[[_Question], int]) -> Iterator[list[_Question]]:
    """Yield questions in parts that fit into one request."""
    part: list[_Question] = []
    size = 0
    for question in questions:
        question_tokens = tokens(question)
        if part and size + question_tokens > _AT_ONCE:
            yield part
            part, size = [], 0
        part.append(question)
        size += question_tokens
    if part:
        yield part


def estimated_tokens(request: Asked, window: int | None = None) -> int:
    """Return an estimate of the tokens of contexts and texts, by characters; contexts are cut to ``window`` tokens."""
    total = 0
    for context in request.contexts:
        characters = len(request.question) + sum(len(passage.text) + len(passage.title) for passage in context)
        size = characters // _CHARS_PER_TOKEN + 1
        total += size if window is None else min(size, window)
    return total + sum(len(text) // _CHARS_PER_TOKEN + 1 for text in request.texts)


def _json_tokens(query: Mapping[str, Any]) -> int:
    """Return at least what ``estimated_tokens`` returns for a query, which has the question in each context."""
    sets = 1 + len(query.get("passage_sets") or query.get("passages") or ())
    return (len(json.dumps(query)) + sets * len(str(query.get("question", "")))) // _CHARS_PER_TOKEN + sets


def _results(answer: Mapping[str, Any]) -> list[Any]:
    """Return the results of a response, with an error in place of ``null``."""
    pairs = zip(answer["results"], answer["reasons"], strict=True)
    return [UnscorableError(reason) if result is None else result for result, reason in pairs]


def _measured(answer: Mapping[str, object]) -> list[Measured | UnscorableError]:
    return [
        result
        if isinstance(result, UnscorableError)
        else Measured(tuple(map(belief_from_json, result["beliefs"])), tuple(result["supports"]))
        for result in _results(answer)
    ]


def _message(response: httpx2.Response) -> str:
    try:
        detail = response.json()["detail"]
    except (ValueError, KeyError, TypeError):
        detail = response.text
    return f"{detail}"[:500]
