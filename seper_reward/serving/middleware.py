"""Middleware of all endpoints: the token, limits on bodies, and metrics of requests."""

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import fields
from typing import Any

from fastapi import HTTPException
from fastapi.responses import JSONResponse
from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from seper_reward.serving.worker import Worker

_OPEN = {"/health"}  # paths that need no token
_BODY_SECONDS = 60.0  # time limit for receiving a whole body
_MOST_DRAINED = 64 * 2**20  # bytes of a refused body that are read and dropped
_CLOSE = {"Connection": "close"}
_MOST_REQUESTS = 800  # at once; further ones get 503, and their clients retry


class Numbers:
    """Metrics for Prometheus: requests by path and status, their duration, and the counts of the worker."""

    def __init__(self, worker: Worker) -> None:
        self.registry = CollectorRegistry()
        self._worker = worker
        self.registry.register(self)
        self._requests = Counter("seper_requests", "Requests answered.", ["path", "status"], registry=self.registry)
        self._seconds = Histogram(
            "seper_request_seconds",
            "Seconds from a request to its answer.",
            ["path"],
            registry=self.registry,
            buckets=(0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300),
        )

    def collect(self) -> Iterator[Metric]:
        """Yield the worker's numbers."""
        yield GaugeMetricFamily("seper_waiting", "Contexts and texts in the queue.", value=self._worker.waiting)
        counts = self._worker.counts
        for each in fields(counts):
            yield CounterMetricFamily(f"seper_{each.name}", each.metadata["about"], value=getattr(counts, each.name))

    def add(self, path: str, status: int, seconds: float) -> None:
        """Count a request."""
        self._requests.labels(path, status).inc()
        self._seconds.labels(path).observe(seconds)


class RequestGuard:
    """ASGI middleware of all endpoints: checks the token, limits a body's size and duration, and counts requests."""

    def __init__(self, app: Any, *, token: str | None, most_bytes: int, numbers: Numbers) -> None:
        self._app, self._most_bytes, self._numbers, self._running = app, most_bytes, numbers, 0
        self._expected = None if token is None else token.encode()

    async def __call__(
        self, scope: Any, receive: Callable[[], Awaitable[Any]], send: Callable[[object], Awaitable[None]]
    ) -> None:
        """Pass a request to the app, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, status = time.perf_counter(), 500
        headers = dict(scope["headers"])
        received, more = 0, True

        async def bounded() -> object:
            nonlocal received, more
            left = start + _BODY_SECONDS - time.perf_counter() if more else None  # no limit after the body
            try:
                message = await asyncio.wait_for(receive(), left)
            except TimeoutError:
                raise HTTPException(408, f"the body did not arrive within {_BODY_SECONDS:g} s", _CLOSE) from None
            received, more = received + len(message.get("body", b"")), message.get("more_body", False)
            if received > self._most_bytes:
                raise HTTPException(413, self._too_long, _CLOSE if more else None)
            return message

        async def watched(message: Any) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        length = headers.get(b"content-length", b"0")
        scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
        is_open = self._expected is None or scope["path"] in _OPEN
        if not is_open and not (scheme.lower() == b"bearer" and secrets.compare_digest(given, self._expected or b"")):
            asked = {"WWW-Authenticate": "Bearer"} | await _drain(receive)
            app: Any = JSONResponse({"detail": "expected a bearer token"}, 401, asked)
        elif self._running >= _MOST_REQUESTS and scope["path"] not in _OPEN:
            busy = {"detail": f"{_MOST_REQUESTS} requests are running; retry later"}
            app = JSONResponse(busy, 503, {"Retry-After": "1"} | await _drain(receive))
        elif length.isdigit() and int(length) > self._most_bytes:
            app = JSONResponse({"detail": self._too_long}, 413, await _drain(receive))
        else:
            app = self._app
        self._running += 1
        try:
            await app(scope, bounded, watched)
        finally:
            self._running -= 1
            # the route, since clients could send any number of paths
            path = getattr(scope.get("route"), "path", "other")
            self._numbers.add(path, status, time.perf_counter() - start)

    @property
    def _too_long(self) -> str:
        return f"expected a body of at most {self._most_bytes} bytes; split the request"


async def _drain(receive: Callable[[], Awaitable[Any]]) -> dict[str, str]:
    """Drop a refused body, as a client that sends misses the response; return headers, which may close."""
    dropped, end = 0, time.perf_counter() + _BODY_SECONDS
    while dropped <= _MOST_DRAINED:
        try:
            message = await asyncio.wait_for(receive(), end - time.perf_counter())
        except TimeoutError:
            break
        dropped += len(message.get("body", b""))
        if not message.get("more_body"):
            return {}
    return _CLOSE
