"""EngineSampler: samples responses on OpenAI-compatible completions servers (vLLM and others).

Responses of a server are equal in distribution, but not reproducible to the byte: its batches depend on other
requests. Prompts are sent as token ids, the same ones as in process; the seed of a request is a function of prompt and
seed. A vLLM server returns the token ids of its responses, and ends them at stop strings; responses of other servers
are cut here.
"""

import asyncio
import copy
import functools
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from seper_reward.options import EngineOptions, ReaderOptions, SamplingOptions
from seper_reward.reader.chat import with_template
from seper_reward.reader.engine.canary import Reading
from seper_reward.reader.engine.completions import Completion, completion_request, read_completions
from seper_reward.reader.engine.servers import ServerPool
from seper_reward.reader.engine.verification import PROBE, Verifier
from seper_reward.reader.in_process.response_sampler import ResponseSampler
from seper_reward.reader.loading import load_tokenizer
from seper_reward.reader.sampler import Request, Sampler, content_seed, count_work
from seper_reward.reader.tokens import ResponseEnds, cut_at_stop, encode_prompt, encode_response, leaf_before
from seper_reward.reader.vllm import VLLMSampler
from seper_reward.runtime.cache import Cache, answers_through
from seper_reward.runtime.control_tokens import end_tokens
from seper_reward.runtime.hashing import hash_with_tokenizer
from seper_reward.runtime.messages import say_once
from seper_reward.runtime.pretrained import LoadedModel
from seper_reward.runtime.profiling import timed
from seper_reward.types import Leaf, Responses, UnscorableError, attempt

_EXPECTED = 8192  # maximum number of prefetched responses


class EngineSampler:
    """Samples N responses for each prompt from one or several servers of a model.

    Log-probabilities must be the model's own at temperature 1. At the start, each server gets a test request. It is
    rejected if its tokenizer differs or, for sampling at another temperature or from a nucleus, if the
    log-probabilities of a response sampled at temperature 2 differ from teacher-forced ones.

    Args:
        engine: Servers and request options.
        tokenizer: The served model's tokenizer.
        **sampling: Fields of ``SamplingOptions``.

    Raises:
        ConnectionError: A server does not answer.
        ValueError: A server has another model or tokenizer, or wrong log-probabilities; or a trainer sends its policy
            to it under this name.
        OSError: The library ``openai`` is not installed.
        WeightsMovedError: The servers have different weights. Later, ``sample``, ``log_probs`` and ``leaves`` raise it
            if the weights have changed.
    """

    backend = "engine"
    max_batch_tokens = 0
    layout = None
    device: torch.device | None = None

    def __init__(self, engine: EngineOptions, tokenizer: Any, **sampling: Any) -> None:
        self.tokenizer, self.options = tokenizer, SamplingOptions(**sampling)
        self._pool = ServerPool(engine)
        self.name, self.prompts_ahead = self._pool.model, self._pool.capacity
        lengths = [row["max_model_len"] for row in self._pool.rows if row.get("max_model_len")]
        self._window: int = min(lengths, default=tokenizer.model_max_length)
        self._expected: dict[Request, Future[Responses]] = {}
        self._lock = threading.RLock()  # of _expected
        self._ask_servers()

    def _ask_servers(self) -> None:
        """Send the test request to each server."""
        tokenizer = self.tokenizer
        self._verifier = Verifier(self.name, self.options, lambda text: list(tokenizer(text).input_ids), self._decode)
        names_ids, reads_prompts = zip(
            *(
                self._pool.start(
                    self._verifier.abilities(server, server.url, read_prompt=not server.has_adapters)
                ).result()
                for server in self._pool.servers
            ),
            strict=True,
        )
        self._verifier = replace(self._verifier, reads_prompts=all(reads_prompts))
        if self._pool.reading is None:
            self._pool.watch()
        self._stops = all(names_ids)  # else responses are cut here instead of by the servers

    @functools.cached_property
    def weights_hash(self) -> str:
        """Hash over the served model's name, its source and the tokenizer; a server does not return its weights."""
        served = {(str(row["id"]), str(row.get("root"))) for row in self._pool.rows}
        return hash_with_tokenizer(["engine", sorted(served)], self.tokenizer)

    def remember(self, cache: Cache) -> None:
        """Raise ``WeightsMovedError`` if the servers have other weights than those whose responses a cache has."""
        reading = self._pool.reading
        if reading is not None:
            (known,) = answers_through(cache, "canary reading", self, [(PROBE,)], lambda _: [reading], Reading)
            self._pool.compare_with(known)

    @property
    def max_prompt_tokens(self) -> int:
        """Maximum length of a prompt, in tokens, that leaves room for a whole response."""
        special: int = self.tokenizer.num_special_tokens_to_add()
        return self._window - self.options.max_new_tokens - special

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
        usable = (each.prompt for each, found in sampled.items() if not isinstance(found, UnscorableError))
        count_work(len(sampled), map(self._encode, usable), sampled.values())
        return [sampled[request] for request in requests]

    def log_probs(self, prompts: Sequence[str], texts: Sequence[str]) -> list[Tensor | UnscorableError]:
        """Return the reader's log-probabilities of given texts as responses; see ``ResponseSampler.log_probs``.

        A request that the server rejects, or answers without log-probabilities of prompts (``echo``), is also an error
        of its pair. Raises ``ConnectionError`` if no server answered, after all retries.
        """
        futures = [self._pool.start(self._forced(*pair)) for pair in zip(prompts, texts, strict=True)]
        found = [attempt(future.result) for future in futures]
        usable = (prompt for prompt, row in zip(prompts, found, strict=True) if not isinstance(row, UnscorableError))
        count_work(len(found), map(self._encode, usable), found)
        return found

    @property
    def knows_leaves(self) -> bool:
        """Whether responses are drawn from the model's own distribution, and servers echo prompt log-probabilities."""
        return self._draws_as_it_is and self._echoes

    @functools.cached_property
    def _echoes(self) -> bool:
        probe = self._encode(PROBE)
        futures = [
            self._pool.start(self._verifier.forced_and_next(server, probe[:-1], probe[-1:]))
            for server in self._pool.servers
        ]
        problems = [found for future in futures if isinstance(found := attempt(future.result), UnscorableError)]
        for problem in problems:
            say_once(f"probabilities of gold answers are not known: {problem}")
        return not problems

    @functools.cached_property
    def _ends(self) -> ResponseEnds:
        return ResponseEnds(self.tokenizer, self.options, end_tokens(None, self.tokenizer), len(self.tokenizer))

    def reading_with(self, model: Any) -> ResponseSampler:
        """Return a checked sampler with the same options in process, on a model with the same tokenizer."""
        return ResponseSampler.checked_like(self, model)

    def with_options(self, options: SamplingOptions) -> "EngineSampler":
        """Return a sampler over the same servers with other options of sampling.

        Raises ``ValueError`` if the options require a verification of the servers, and a server fails.
        """
        other = copy.copy(self)
        other.options, other._expected = options, {}
        other.__dict__.pop("_ends", None)
        verified = (self.options.temperature, self.options.top_p) != (1, 1)
        if not verified and (options.temperature not in (0, 1) or options.top_p != 1):
            other._ask_servers()
        return other

    async def _forced(self, prompt: str, text: str) -> Tensor:
        tokens = encode_response(self.tokenizer, text, self.options.max_new_tokens)
        log_probs = await self._verifier.forced(self._pool, self._encode(prompt), tokens)
        return torch.tensor(log_probs, dtype=torch.float32)

    async def _leaf(self, ids: list[int], text: str) -> Leaf:
        given = self._ends.given(text)
        if given.ends:
            return leaf_before(given, *await self._verifier.forced_and_next(self._pool, ids, given.read))
        return leaf_before(given, await self._verifier.forced(self._pool, ids, given.read), {})  # no room for an end

    async def _responses(self, request: Request) -> Responses:
        ids = self._encode(request.prompt)
        leaves = asyncio.gather(*(self._leaf(ids, text) for text in request.answers))
        sampled, known = await asyncio.gather(self._sample(ids, request.prompt), leaves)
        return replace(sampled, known_leaves=tuple(known))

    async def _sample(self, ids: list[int], prompt: str) -> Responses:
        completions = await self._complete(ids, self._count, prompt)
        completions = await asyncio.gather(
            *(self._past_leading_stops(ids, row, f"{prompt}\0{at}") for at, row in enumerate(completions))
        )
        rows = [self._cut(row) for row in completions] * (self.options.num_samples // len(completions))
        return Responses(
            texts=tuple(row.text.strip() for row in rows),
            token_log_probs=tuple(torch.tensor(row.log_probs, dtype=torch.float32) for row in rows),
            token_ids=tuple(tuple(row.tokens) for row in rows) if self._stops else (),
            finished=tuple(row.ended for row in rows),
            draw_log_probs=tuple(sum(row.log_probs) for row in rows) if self._draws_as_it_is else (),
        )

    async def _complete(
        self, prompt: list[int], count: int, noise: str, longest: int | None = None
    ) -> list[Completion]:
        options = self.options
        request = completion_request(
            self.name,
            prompt,
            n=count,
            max_tokens=longest or options.max_new_tokens,
            temperature=options.temperature,
            top_p=options.top_p,
        )
        request["seed"] = content_seed(options.seed, noise)
        if self._stops and options.stop:
            request["stop"] = list(options.stop)
        return read_completions(await self._pool.complete(request), count, self._decode)

    async def _past_leading_stops(self, prompt: list[int], row: Completion, noise: str) -> Completion:
        """Continue a response that the server ended at a stop string before its first visible character."""
        while row.stop_string and self._before_stop(row.text) is None:
            room = self.options.max_new_tokens - len(row.tokens)
            if not room:
                return Completion(row.tokens, row.log_probs, row.text, ended=False, stop_string=False)
            (more,) = await self._complete([*prompt, *row.tokens], 1, f"{noise}\0{len(row.tokens)}", room)
            tokens = row.tokens + more.tokens
            row = Completion(
                tokens, row.log_probs + more.log_probs, self._decode(tokens), more.ended, more.stop_string
            )
        return row

    def _cut(self, row: Completion) -> Completion:
        """End a response after the token that completes a stop string, like ``ResponseSampler``."""
        cut_text = self._before_stop(row.text)
        if cut_text is None:
            return row
        for length in range(1, len(row.tokens)):
            text = self._before_stop(self._decode(row.tokens[:length]))
            if text is not None:
                return Completion(row.tokens[:length], row.log_probs[:length], text, ended=True, stop_string=True)
        return Completion(row.tokens, row.log_probs, cut_text, ended=True, stop_string=True)

    @property
    def _draws_as_it_is(self) -> bool:
        """Whether tokens are drawn with the model's own probabilities, and servers return token ids."""
        return bool(self._stops) and self.options.temperature == 1 and self.options.top_p == 1

    @property
    def _count(self) -> int:
        # servers reject several samples at temperature 0
        return 1 if self.options.temperature == 0 else self.options.num_samples

    def _encode(self, prompt: str) -> list[int]:
        return encode_prompt(self.tokenizer, prompt, self._window - self.options.max_new_tokens)

    def _decode(self, tokens: Sequence[Any]) -> str:
        """Return the text of token ids, or of tokens given as texts."""
        if isinstance(tokens[0], str):
            return "".join(tokens)
        text: str = self.tokenizer.decode(tokens, skip_special_tokens=True)
        return text

    def _before_stop(self, text: str) -> str | None:
        return cut_at_stop(text, self.options.stop)


def load_sampler(
    reader: str | LoadedModel,
    *,
    options: ReaderOptions = ReaderOptions(),
    engine: EngineOptions = EngineOptions(),
    **sampling: Any,
) -> Sampler:
    """Load the reader's sampler: on servers if the engine has URLs, by vLLM in this process if it is ``["vllm"]``.

    ``sampling`` are fields of ``SamplingOptions``; on an engine, ``options`` are those of its tokenizer.

    Raises:
        ValueError: An engine is given together with a loaded reader.
        ConnectionError: The engine does not answer.
    """
    if engine.engine == ["vllm"] and not isinstance(reader, LoadedModel):
        return VLLMSampler.from_pretrained(reader, options, engine, **sampling)
    if not engine.engine:
        return ResponseSampler.from_pretrained(reader, options, **sampling)
    if isinstance(reader, LoadedModel):
        raise ValueError(f"engine runs the reader itself; pass its name instead of the loaded reader {reader.name!r}")
    tokenizer = with_template(load_tokenizer(reader, options), options.chat_template)
    return EngineSampler(engine, tokenizer, **sampling)
