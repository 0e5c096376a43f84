"""A pool of OpenAI-compatible completions servers: requests go to the least busy server that has not just failed.

The API key is read only from the environment variable ``SEPER_ENGINE_API_KEY``: it must not be in configs, logs or
provenance files. ``OPENAI_API_KEY`` is not read: a key for one service must not be sent to another.
"""

import asyncio
import math
import os
import threading
import time
from collections.abc import Coroutine, Mapping
from concurrent.futures import Future
from typing import Any, TypeVar

from seper_reward.options import API_KEY, EngineOptions, check_url, split_address
from seper_reward.reader.engine.canary import CanaryReading, canary_request, read_canary
from seper_reward.runtime.imports import need
from seper_reward.runtime.messages import say_once
from seper_reward.types import UnscorableError

T = TypeVar("T")

_COOL_DOWN = 60.0  # seconds after a failure in which a server is used last
_POLICY = "trl-policy-v"  # adapters that AsyncGRPOTrainer loads, a new one after each synchronisation
_PROMPT_AT_FAULT = (400, 413, 422)  # HTTP statuses of an invalid request


class Server:
    """A server and its load; ``timeout`` is in seconds, and the client library retries with exponential back-off."""

    def __init__(self, url: str, timeout: float, retries: int) -> None:
        check_url(url)
        openai = need("openai", "engine")
        self.url, self._errors = url, openai.APIError
        self._client = openai.AsyncOpenAI(
            base_url=url,
            api_key=os.environ.get(API_KEY) or "EMPTY",
            timeout=openai.Timeout(timeout, connect=min(timeout, 10.0)),
            max_retries=retries,
        )
        self.in_flight = self._requests = 0
        self._failed_at = -math.inf
        self.has_adapters = False
        self.reference: CanaryReading | None = None  # of the canary

    @property
    def rank(self) -> tuple[bool, int, int]:
        """Sort key of the servers: working ones first, then the least busy, then the one with the fewest requests."""
        return time.monotonic() - self._failed_at < _COOL_DOWN, self.in_flight, self._requests

    async def complete(self, request: dict[str, Any]) -> dict[str, Any]:
        """Send a completion request and return the answer's JSON.

        If a trainer of adapters shares the server, the canary confirms the weights afterwards. Raises
        ``UnscorableError`` if the server rejects this prompt, answers no JSON object, or has LoRA adapters and the
        request reads a prompt; ``ConnectionError`` if it does not answer, or returns an error that the prompt did not
        cause; and ``WeightsMovedError``.
        """
        if self.has_adapters and "prompt_logprobs" in request:
            # vLLM 0.32 on a CPU ends at such a request
            raise UnscorableError(f"engine={self.url!r} serves LoRA adapters, and reading a prompt can end it")
        answer = await self._send(request)
        if self.has_adapters and self.reference is not None:
            reading = await self.read_canary(request["model"])
            reading.compare(self.reference, self.named(request["model"]))
        return answer

    def named(self, model: str) -> str:
        """Return the server and its model, for messages."""
        return f"engine={self.url!r}, model {model!r},"

    async def read_canary(self, model: str) -> CanaryReading:
        """Return the canary's reading of a model; errors are those of ``complete``."""
        return read_canary(await self._send(canary_request(model)))

    async def _send(self, request: dict[str, object]) -> dict[str, object]:
        self.in_flight += 1
        self._requests += 1
        try:
            # completions.create would walk through all tokens of the prompt, which is more work than all else
            answer = await self._client.post("/completions", body=request, cast_to=object)
        except self._errors as error:
            if getattr(error, "status_code", None) in _PROMPT_AT_FAULT:
                raise UnscorableError(f"engine refused the prompt: {_message(error)}") from error
            self._failed_at = time.monotonic()
            raise ConnectionError(_message(error)) from error
        except ValueError as error:
            raise UnscorableError(f"engine gave half an answer: {error}") from error
        finally:
            self.in_flight -= 1
        if not isinstance(answer, dict):
            raise UnscorableError(
                f"engine gave half an answer: expected a JSON object, got {_without_key(str(answer))[:60]!r}"
            )
        return answer

    async def models(self) -> dict[str, dict[str, Any]]:
        """Return the models of ``/v1/models`` by name, without retries; raises ``ConnectionError``."""
        try:
            client = self._client.with_options(max_retries=0)
            listed = (await client.models.with_raw_response.list()).http_response.json()["data"]
            models = {model["id"]: model for model in listed}
            self.has_adapters = any(map(is_adapter, models.values()))
            return models
        except (self._errors, ValueError, KeyError, TypeError) as error:
            raise ConnectionError(
                f"engine={self.url!r} does not answer as an OpenAI-compatible server: {_message(error)}; start it "
                f"(vllm serve MODEL), or correct the URL, which usually ends in /v1; put a key into ${API_KEY}"
            ) from error

    async def vllm_config(self) -> dict[str, Any]:
        """Return vLLM's configuration, which servers in development mode show, as trainers need them; else nothing."""
        root = self.url.rstrip("/").removesuffix("/v1")
        client = self._client.with_options(max_retries=0)
        try:
            answer = await client.get(f"{root}/server_info?config_format=json", cast_to=object)
        except self._errors as error:
            if getattr(error, "status_code", 0) >= 500:  # it is in development mode, and might have adapters
                raise ConnectionError(
                    f"engine={self.url!r} cannot show its settings: /server_info answers {_message(error)}; look at "
                    "the server's log (vLLM needs pip in its environment for it: pip install pip)"
                ) from error
            return {}
        config = answer.get("vllm_config") if isinstance(answer, dict) else None
        if not isinstance(config, dict):
            return {}
        self.has_adapters = self.has_adapters or config.get("lora_config") is not None
        return config


class ServerPool:
    """Sends requests to the servers of one model from a separate thread, ``capacity`` at a time.

    Each server has ``requests`` prompts with all their samples at a time. Without an answer within ``timeout`` > 0
    seconds, a request is retried ``retries`` >= 0 times with exponential back-off; then the next server is tried.
    Raises ``ConnectionError`` if one does not answer, and ``ValueError`` if it lacks the model, or none of several is
    named.
    """

    def __init__(
        self, options: EngineOptions, *, requests: int = 64, timeout: float = 300.0, retries: int = 4
    ) -> None:
        if not options.engine:
            raise ValueError("engine must have at least one URL, got none")
        urls = dict.fromkeys(url for address in options.engine for url in split_address(address)[1])
        self.servers = [Server(url, timeout, retries) for url in urls]
        self.capacity = requests * len(self.servers)
        self._places = asyncio.Semaphore(self.capacity)
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="engine", daemon=True).start()
        served = [(server, self.start(server.models()).result()) for server in self.servers]
        self.model = options.served_model or _only(*served[0])
        for server, models in served:
            if self.model not in models:
                raise ValueError(
                    f"model {self.model!r} is not on engine={server.url!r}, which serves "
                    f"{', '.join(sorted(models))}; name one of them, the same for all servers"
                )
        self.models = [models[self.model] for _, models in served]
        for server in self.servers:
            config = self.start(server.vllm_config()).result()
            if config.get("weight_transfer_config") is not None and not server.has_adapters:
                raise ValueError(
                    f"engine={server.url!r} takes weights from a trainer (weight_transfer_config), under the name "
                    f"{self.model!r}: its responses would come from a changing policy; start a separate server, "
                    "or start this one with --enable-lora, where AsyncGRPOTrainer loads a LoRA policy under other "
                    "names and the base stays"
                )
        if self.model.startswith(_POLICY):
            raise ValueError(
                f"engine={self.model!r} is a policy in training, which its trainer replaces; name the base"
            )

    def watch(self) -> None:
        """Read the canary, which must be equal on all servers, and confirms answers of those with adapters."""
        for server in self.servers:
            try:
                server.reference = self.start(server.read_canary(self.model)).result()
            except UnscorableError as error:
                say_once(f"a change of weights at engine={server.url!r} would not be noticed: {error}")
        if self.reading is not None:
            self.compare_with(self.reading)

    def compare_with(self, reference: CanaryReading) -> None:
        """Raise ``WeightsMovedError`` if weights differ from those of a reading, the reference from now on."""
        for server in self.servers:
            if server.reference is not None:
                reading, server.reference = server.reference, reference
                reading.compare(reference, server.named(self.model))

    @property
    def reading(self) -> CanaryReading | None:
        """What the canary read at the start; ``None`` if the servers return no log-probabilities of a greedy token."""
        return next((server.reference for server in self.servers if server.reference is not None), None)

    def start(self, work: Coroutine[object, object, T]) -> "Future[T]":
        """Run a coroutine in the pool's thread."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def complete(self, request: dict[str, object]) -> dict[str, Any]:
        """Send a completion request to the least busy server; if it fails, try the next ones.

        Raises the errors of ``Server.complete``; ``ConnectionError`` if no server answered.
        """
        failures: dict[str, str] = {}
        async with self._places:
            while candidates := [server for server in self.servers if server.url not in failures]:
                server = min(candidates, key=lambda candidate: candidate.rank)
                try:
                    return await server.complete(request)
                except ConnectionError as error:
                    failures[server.url] = str(error)
        raise ConnectionError(
            f"no engine answered: {'; '.join(f'{url}: {reason}' for url, reason in failures.items())}; start it again "
            "and rerun the command, which resumes with the finished work on disk"
        )


def is_adapter(model: Mapping[str, object]) -> bool:
    """Return whether a model of ``/v1/models`` is a LoRA adapter of another one."""
    return bool(model.get("parent")) or str(model["id"]).startswith(_POLICY)


def _only(server: Server, models: dict[str, Any]) -> str:
    models = {name: model for name, model in models.items() if not is_adapter(model)}
    if len(models) != 1:
        raise ValueError(
            f"engine={server.url!r} serves {', '.join(sorted(models)) or 'nothing'}; name one as MODEL@URL"
        )
    return next(iter(models))


def _message(error: Exception) -> str:
    cause = f" ({_without_key(str(error.__cause__))})" if error.__cause__ is not None else ""
    return f"{_without_key(str(error))[:300] or type(error).__name__}{cause}"


def _without_key(text: str) -> str:
    key = os.environ.get(API_KEY)
    return text.replace(key, f"${API_KEY}") if key else text
