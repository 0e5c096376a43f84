"""EngineSampler: samples responses on OpenAI-compatible completions servers (vLLM and others).

Responses of a server are equal in distribution, but not reproducible to the byte: its batches depend on other
requests. Prompts are sent as token ids, the same ones as in process; the seed of a request is a function of prompt and
seed. A vLLM server returns the token ids of its responses, and ends them at stop strings; responses of other servers
are cut here.
"""

import asyncio
import copy
import functools
import itertools
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from seper_reward.options import ReaderOptions
from seper_reward.reader.chat import with_template
from seper_reward.reader.engine.canary import CanaryReading
from seper_reward.reader.engine.completions import (
    Completion,
    completion_request,
    forced,
    read_completions,
    responses_of,
)
from seper_reward.reader.engine.servers import ServerPool
from seper_reward.reader.engine.verification import PROBE, verify
from seper_reward.reader.in_process.response_sampler import ResponseSampler
from seper_reward.reader.loading import load_tokenizer, with_reader_defaults
from seper_reward.reader.sampler import Request, Sampler, content_seed, count_work
from seper_reward.reader.tokens import ResponseEnds, encode_response, leaf_before
from seper_reward.reader.vllm import VLLMSampler
from seper_reward.runtime.cache import Cache, answers_through
from seper_reward.runtime.control_tokens import end_tokens
from seper_reward.runtime.hashing import hash_with_tokenizer
from seper_reward.runtime.messages import say_once
from seper_reward.runtime.pretrained import LoadedModel
from seper_reward.runtime.profiling import timed
from seper_reward.types import Responses, UnscorableError, attempt

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

_EXPECTED = 8192  # maximum number of prefetched responses


class EngineSampler(Sampler):
    """Samples N responses for each prompt from one or several servers of a model.

    Log-probabilities must be the model's own at temperature 1. At the start, each server gets a test request. It is
    rejected if its tokenizer differs or, for sampling at another temperature or from a nucleus, if the
    log-probabilities of a response sampled at temperature 2 differ from teacher-forced ones.

    Args:
        options: Options of sampling, and the servers; those of loading have no effect here.
        tokenizer: The served model's tokenizer.
        **limits: Limits of requests, arguments of ``ServerPool``.

    Raises:
        ConnectionError: A server does not answer.
        ValueError: A server has another model or tokenizer, or wrong log-probabilities; or a trainer sends its policy
            to it under this name.
        OSError: The library ``openai`` is not installed.
        WeightsMovedError: The servers have different weights. Later, ``sample`` and ``log_probs`` raise it if the
            weights have changed.
    """

    backend = "engine"

    def __init__(self, options: ReaderOptions, tokenizer: "PreTrainedTokenizerBase", **limits: Any) -> None:
        self.tokenizer, self.options = tokenizer, with_reader_defaults(options, options.reader)
        self._pool = ServerPool(options, **limits)
        self.name, self.prompts_ahead = self._pool.model, self._pool.capacity
        lengths = [model["max_model_len"] for model in self._pool.models if model.get("max_model_len")]
        self.window = min(lengths, default=tokenizer.model_max_length)
        self._expected: dict[Request, Future[Responses]] = {}
        self._lock = threading.RLock()  # of _expected
        self._verify()
        self._pool.watch()

    def _verify(self) -> None:
        checks = []
        for server in self._pool.servers:
            work = verify(server, self.name, self.options, self.tokenizer)
            try:
                checks.append(self._pool.start(work).result())
            except ValueError as error:
                drawn = f"temperature={self.options.temperature}, top_p={self.options.top_p}"
                raise ValueError(f"engine={server.url!r} cannot be used with {drawn}: {error}") from error
        self._names_ids, self._reads_prompts = (all(column) for column in zip(*checks, strict=True))
        if self._draws_as_it_is and not self._reads_prompts:
            adapters = any(server.has_adapters for server in self._pool.servers)
            reason = "serves LoRA adapters" if adapters else "gives no log-probabilities of prompts (prompt_logprobs)"
            say_once(f"probabilities of gold answers are not known: engine {reason}")

    @functools.cached_property
    def weights_hash(self) -> str:
        """Hash over the served model's name, its source and the tokenizer; a server does not return its weights."""
        served = {(str(model["id"]), str(model.get("root"))) for model in self._pool.models}
        return hash_with_tokenizer(["engine", sorted(served)], self.tokenizer)

    def remember(self, cache: Cache) -> None:
        """Raise ``WeightsMovedError`` if the servers have other weights than those whose responses a cache has."""
        reading = self._pool.reading
        if reading is not None:
            (known,) = answers_through(cache, "canary reading", self, [(PROBE,)], lambda _: [reading], CanaryReading)
            self._pool.compare_with(known)

    def expect(self, requests: Sequence[Request]) -> None:
        """Send requests of a later call of ``sample`` to the servers; failed ones are sent again."""
        with self._lock:
            for request in dict.fromkeys(requests):
                future = self._expected.pop(request, None)
                if future is None or (future.done() and future.exception() is not None):
                    future = self._pool.start(self._responses(request))
                self._expected[request] = future  # moved to the end: the loop below drops the oldest first
            for stale in list(self._expected)[: -max(_EXPECTED, len(requests))]:
                del self._expected[stale]  # never used

    def sample(self, requests: Sequence[Request]) -> list[Responses | UnscorableError]:
        """Sample N responses for each request, all at once, with the probabilities of its answers if ``knows_leaves``.

        Equal requests are sampled once. ``token_ids`` are empty if the server returns none, and of ends only those
        among the ``NEXT_TOKENS`` likeliest next tokens count. A request has an error if its prompt is empty or too
        long, or the server rejects it or answers only in part. Questions are not scored. Raises ``ConnectionError`` if
        no server answered, after all retries.
        """
        with self._lock:  # threads of rewards may send the same requests
            self.expect(requests)
            futures = {request: self._expected.pop(request) for request in dict.fromkeys(requests)}
        with timed("decode"):  # includes the server's prefill
            sampled = {request: attempt(future.result) for request, future in futures.items()}
        usable = (request.prompt for request, result in sampled.items() if not isinstance(result, UnscorableError))
        count_work(len(sampled), map(self.encode, usable), sampled.values())
        return [sampled[request] for request in requests]

    def log_probs(self, prompts: Sequence[str], texts: Sequence[str]) -> list[Tensor | UnscorableError]:
        """Return log-probabilities of given texts; see ``ResponseSampler.log_probs`` and ``sample``."""
        futures = [self._pool.start(self._forced(*pair)) for pair in zip(prompts, texts, strict=True)]
        results = [attempt(future.result) for future in futures]
        readable = [not isinstance(result, UnscorableError) for result in results]
        usable = itertools.compress(prompts, readable)
        count_work(len(results), map(self.encode, usable), results)
        return results

    @property
    def knows_leaves(self) -> bool:
        """Whether responses are drawn from the model's own distribution, and servers read prompts."""
        return self._draws_as_it_is and self._reads_prompts

    @functools.cached_property
    def _ends(self) -> ResponseEnds:
        return ResponseEnds(self.tokenizer, self.options, end_tokens(None, self.tokenizer), len(self.tokenizer))

    def reading_with(self, model: "PreTrainedModel") -> ResponseSampler:
        """Return a checked sampler with the same options in process, on a model with the same tokenizer."""
        return ResponseSampler.checked_like(self, model)

    def with_options(self, options: ReaderOptions) -> "EngineSampler":
        """Return a sampler with other options, which servers may not support (``ValueError``)."""
        other = copy.copy(self)
        other.options, other._expected = options, {}
        other.__dict__.pop("_ends", None)
        verified = (self.options.temperature, self.options.top_p) != (1, 1)
        if not verified and (options.temperature not in (0, 1) or options.top_p != 1):
            other._verify()
        return other

    async def _forced(self, prompt: str, text: str) -> Tensor:
        tokens = encode_response(self.tokenizer, text, self.options.max_new_tokens)
        ((log_probs, _),) = await forced(self._pool.complete, self.name, self.encode(prompt), [tokens])
        return torch.tensor(log_probs, dtype=torch.float32)

    async def _responses(self, request: Request) -> Responses:
        ids = self.encode(request.prompt, request.encoding)
        answers = list(map(self._ends.given, request.answers))
        read = forced(self._pool.complete, self.name, ids, [answer.read for answer in answers])
        sampled, known = await asyncio.gather(self._sample(ids, request.prompt), read)
        leaves = (leaf_before(answer, *probs) for answer, probs in zip(answers, known, strict=True))
        return replace(sampled, known_leaves=tuple(leaves))

    async def _sample(self, ids: list[int], prompt: str) -> Responses:
        # servers reject several samples at temperature 0
        count = 1 if self.options.temperature == 0 else self.options.num_samples
        drawn = await self._complete(ids, count, prompt, self.options.max_new_tokens)
        ended = (self._ended(ids, completion, f"{prompt}\0{at}") for at, completion in enumerate(drawn))
        completions = await asyncio.gather(*ended) * (self.options.num_samples // count)
        return responses_of(completions, as_drawn=self._draws_as_it_is)

    async def _complete(self, prompt: list[int], count: int, noise: str, longest: int) -> list[Completion]:
        options = self.options
        drawn: dict[str, object] = {"temperature": options.temperature, "top_p": options.top_p}
        drawn["seed"] = content_seed(options.seed, noise)
        if self._names_ids and options.stop:
            drawn["stop"] = list(options.stop)
        request = completion_request(self.name, prompt, n=count, max_tokens=longest, **drawn)
        return read_completions(await self._pool.complete(request), count)

    async def _ended(self, prompt: list[int], completion: Completion, noise: str) -> Completion:
        """Return a response up to its stop string; one that stopped before its first visible character goes on."""
        while completion.stop_string and self._ends.cut(self._decode(completion.tokens)) is None:
            tokens = completion.tokens
            room = self.options.max_new_tokens - len(tokens)
            if not room:
                completion = replace(completion, ended=False, stop_string=False)
                break
            (more,) = await self._complete([*prompt, *tokens], 1, f"{noise}\0{len(tokens)}", room)
            completion = completion.and_then(more)
        tokens, log_probs = completion.tokens, completion.log_probs
        for length in range(len(tokens) if self._names_ids else 1, len(tokens) + 1):
            text = self._ends.cut(self._decode(tokens[:length]))
            if text is not None:
                return Completion(tokens[:length], log_probs[:length], text, ended=True, stop_string=True)
        return replace(completion, text=self._decode(tokens)) if self._names_ids else completion

    @property
    def _draws_as_it_is(self) -> bool:
        """Whether tokens are drawn with the model's own probabilities, and servers return token ids."""
        return self._names_ids and self.options.temperature == 1 and self.options.top_p == 1

    def _decode(self, tokens: Sequence[Any]) -> str:
        return "".join(tokens) if isinstance(tokens[0], str) else self._ends.decode(tokens)


def load_sampler(options: ReaderOptions, loaded: LoadedModel | None = None) -> Sampler:
    """Load the reader's sampler: on servers if the engine has URLs, by vLLM in this process if it is ``["vllm"]``.

    On servers, options of loading are those of the tokenizer.

    Raises:
        ValueError: An engine is given together with a loaded reader.
        ConnectionError: The engine does not answer.
    """
    if not options.engine:
        return ResponseSampler.from_pretrained(options, loaded)
    if loaded is not None:
        raise ValueError(f"engine runs the reader itself; pass its name instead of the loaded reader {loaded.name!r}")
    if options.engine == ["vllm"]:
        return VLLMSampler.from_pretrained(options)
    return EngineSampler(options, with_template(load_tokenizer(options.reader, options), options.chat_template))
