"""VLLMSampler: samples responses with vLLM in this process, for large readers and full accelerators.

Responses are equal in distribution to those of ``ResponseSampler``, but not reproducible to the byte: batches depend
on other requests. Gold answers read the prompt from vLLM's prefix cache.
"""

import atexit
import contextlib
import copy
import functools
import math
import os
import tempfile
import threading
import weakref
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from seper_reward.options import ReaderOptions, split_revision
from seper_reward.reader.chat import with_template
from seper_reward.reader.engine.completions import NEXT_TOKENS, Completion, responses_of
from seper_reward.reader.in_process.response_sampler import ResponseSampler
from seper_reward.reader.loading import load_tokenizer, merged_folder, with_reader_defaults
from seper_reward.reader.sampler import Request, Sampler, content_seed, count_work
from seper_reward.reader.tokens import (
    GivenResponse,
    ResponseEnds,
    encode_response,
    find_tokens,
    leaf_before,
)
from seper_reward.runtime.control_tokens import end_tokens
from seper_reward.runtime.hashing import file_hash, hash_with_tokenizer
from seper_reward.runtime.imports import need
from seper_reward.runtime.profiling import timed
from seper_reward.types import Leaf, Responses, UnscorableError, attempt

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

_AHEAD = 512  # number of prompts that are queued before they are needed
_MOST_QUEUED = 8192  # number of prompts in the queue from which on the oldest are given up
# on a CPU, a request with a seed ends vLLM 0.32 if its prompt is read in chunks, and compiling takes minutes
_ON_CPU = {"enable_chunked_prefill": False, "enforce_eager": True}
_LONGEST_END = 10.0  # seconds
_START = "VLLM_WORKER_MULTIPROC_METHOD"  # how vLLM starts its processes; CUDA, once counted here, refuses forks
_LAUNCHER = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT")


@dataclass(frozen=True)
class _Queued:
    """A request in vLLM's queue: its tokens, and the names of its parts: question if scored, samples, answers."""

    ids: list[int]
    span: range
    answers: tuple[GivenResponse, ...]
    names: tuple[str, ...]


class VLLMSampler(Sampler):
    """Samples N responses for each prompt with vLLM.

    Args:
        llm: vLLM's ``LLM``, with raw log-probabilities and prefix caching.
        tokenizer: Its tokenizer.
        options: Options of the reader, whose name is that in provenance files.
        weights_hash: Hash over all parts of the model that decide a response.
    """

    backend = "vllm"
    prompts_ahead = _AHEAD
    weights_hash = ""

    def __init__(
        self, llm: Any, tokenizer: "PreTrainedTokenizerBase", options: ReaderOptions, *, weights_hash: str
    ) -> None:
        self.name, self.tokenizer, self.weights_hash = options.reader, tokenizer, weights_hash
        self.options = with_reader_defaults(options, options.reader)
        self._llm, self._vllm = llm, need("vllm", "vllm")
        config = llm.llm_engine.vllm_config.model_config
        self.window = config.max_model_len - 2  # a gold answer is read with an end, and each reading draws a token
        generation = SimpleNamespace(eos_token_id=(config.try_get_generation_config() or {}).get("eos_token_id"))
        self._end_tokens = end_tokens(SimpleNamespace(generation_config=generation), tokenizer)
        self._ends = ResponseEnds(tokenizer, self.options, self._end_tokens, len(tokenizer))
        self._queued: dict[Request, _Queued | UnscorableError] = {}
        self._done: dict[str, object] = {}
        self._lock = threading.RLock()  # threads of rewards share the queue

    @classmethod
    def from_pretrained(cls, options: ReaderOptions) -> "VLLMSampler":
        """Load the reader into vLLM on this process's accelerators, with the errors of ``load_reader``."""
        vllm, before = need("vllm", "vllm"), set(threading.enumerate())
        name, revision = split_revision(options.reader)
        tokenizer = with_template(load_tokenizer(options.reader, options), options.chat_template)
        with tempfile.TemporaryDirectory() as folder, own_devices(options.tensor_parallel_size):
            source = merged_folder(options.reader, options, Path(folder))
            llm = vllm.LLM(
                str(source),
                tokenizer=str(source),
                revision=None if Path(source).is_dir() else revision,
                trust_remote_code=options.trust_remote_code,
                dtype=options.dtype,
                tensor_parallel_size=options.tensor_parallel_size,
                gpu_memory_utilization=options.gpu_memory_utilization,
                enable_prefix_caching=True,
                max_logprobs=NEXT_TOKENS,
                **({} if torch.accelerator.is_available() else _ON_CPU),
            )
            end_at_exit(llm, set(threading.enumerate()) - before)
            files = sorted(Path(source).glob("*.*")) if Path(source).is_dir() else []
            hashes = [[file.name, file_hash(file)] for file in files if file.suffix in (".safetensors", ".json")]
        identity = hash_with_tokenizer(["vllm", hashes or [name, revision]], tokenizer)
        return cls(llm, tokenizer, options, weights_hash=identity)

    @property
    def knows_leaves(self) -> bool:
        """Whether responses are drawn from the model's own distribution."""
        return self.options.temperature == 1 and self.options.top_p == 1

    def expect(self, requests: Sequence[Request]) -> None:
        """Queue requests of a later call of ``sample``: vLLM works on them while the caller judges others."""
        with self._lock:
            for request in requests:
                if request not in self._queued:
                    self._queued[request] = attempt(functools.partial(self._queue, request))
            wanted = set(requests)
            others = [request for request in self._queued if request not in wanted]
            for stale in others[: max(0, len(self._queued) - _MOST_QUEUED)]:
                queued = self._queued.pop(stale)
                names = [] if isinstance(queued, UnscorableError) else queued.names
                self._llm.llm_engine.abort_request([name for name in names if self._done.pop(name, None) is None])

    def sample(self, requests: Sequence[Request]) -> list[Responses | UnscorableError]:
        """Sample N responses for each request; of an answer's ends only the ``NEXT_TOKENS`` likeliest tokens count."""
        distinct = list(dict.fromkeys(requests))
        with self._lock, timed("decode"):  # includes prefill
            self.expect(distinct)
            queued = [self._queued.pop(request) for request in distinct]
            responses = [
                entry if isinstance(entry, UnscorableError) else self._responses(request, entry)
                for request, entry in zip(distinct, queued, strict=True)
            ]
        count_work(len(responses), (entry.ids for entry in queued if isinstance(entry, _Queued)), responses)
        results = dict(zip(distinct, responses, strict=True))
        return [results[request] for request in requests]

    def log_probs(self, prompts: Sequence[str], texts: Sequence[str]) -> list[Tensor | UnscorableError]:
        """Return the reader's log-probabilities of given texts as responses; see ``ResponseSampler.log_probs``."""

        def encoded(prompt: str, text: str) -> tuple[list[int], list[int]]:
            return self.encode(prompt), encode_response(self.tokenizer, text, self.options.max_new_tokens)

        pairs = [attempt(functools.partial(encoded, *pair)) for pair in zip(prompts, texts, strict=True)]
        usable = [pair for pair in pairs if not isinstance(pair, UnscorableError)]
        with self._lock, timed("prefill"):
            names = self._enqueue([[*ids, *tokens] for ids, tokens in usable], [self._reading()] * len(usable))
            log_probs = (
                torch.tensor(_log_probs(self._rows(ids, tokens, output), tokens), dtype=torch.float32)
                for (ids, tokens), output in zip(usable, self._wait(names), strict=True)
            )
            results = [pair if isinstance(pair, UnscorableError) else next(log_probs) for pair in pairs]
        count_work(len(results), (ids for ids, _ in usable), results)
        return results

    def reading_with(self, model: "PreTrainedModel") -> ResponseSampler:
        """Return a checked sampler with the same options in process, on a model with the same tokenizer."""
        return ResponseSampler.checked_like(self, model)

    def with_options(self, options: ReaderOptions) -> "VLLMSampler":
        """Return a sampler over the same vLLM with other options of sampling."""
        other = copy.copy(self)
        other.options, other._ends, other._queued = options, self._ends.with_options(options), {}
        return other

    def _queue(self, request: Request) -> _Queued:
        ids = self.encode(request.prompt, request.encoding)
        span = find_tokens(self.tokenizer, request.prompt, request.question, request.encoding)
        answers = tuple(map(self._ends.given, request.answers))
        # the question comes first: its request does not read the prefix cache, and fills it for the others
        prompts = [*([ids[: span.stop]] if span else []), ids, *([*ids, *self._closed(answer)] for answer in answers)]
        readings = [self._reading(use_cache=False)] * bool(span), [self._reading(NEXT_TOKENS)] * len(answers)
        count = 1 if self.options.temperature == 0 else self.options.num_samples
        params = [*readings[0], self._drawing(request.prompt, count, self.options.max_new_tokens), *readings[1]]
        return _Queued(ids, span, answers, self._enqueue(prompts, params))

    def _enqueue(self, prompts: Sequence[list[int]], params: Sequence[object]) -> tuple[str, ...]:
        inputs = [{"prompt_token_ids": ids} for ids in prompts]
        names = self._llm.enqueue(inputs, list(params), use_tqdm=False) if inputs else []
        return tuple(name.partition("-")[0] for name in names)  # outputs have no random suffix

    def _params(self, **settings: object) -> object:
        return self._vllm.SamplingParams(
            **settings, output_kind=self._vllm.sampling_params.RequestOutputKind.FINAL_ONLY, repetition_penalty=1.0
        )

    def _closed(self, answer: GivenResponse) -> list[int]:
        """Return the tokens of a given response and an end; the row of the end has the likeliest tokens there."""
        return [*answer.read, min(self._end_tokens, default=0)]

    def _reading(self, likeliest: int = 0, use_cache: bool = True) -> object:
        """Return parameters that read log-probabilities of a prompt's tokens, and of the likeliest at each place.

        They ask for none of the drawn token: vLLM would decode as many tokens for each token of all other requests.
        """
        return self._params(
            max_tokens=1,
            temperature=0,
            prompt_logprobs=likeliest,
            flat_logprobs=True,  # else an object for each token and place
            skip_reading_prefix_cache=not use_cache,
            detokenize=False,  # rows of cached tokens are noise, not tokens
        )

    def _drawing(self, noise: str, count: int, longest: int) -> object:
        options = self.options
        return self._params(
            n=count,
            seed=content_seed(options.seed, noise),
            temperature=options.temperature,
            top_p=options.top_p,
            max_tokens=longest,
            logprobs=0,
            stop=list(options.stop) or None,
            stop_token_ids=sorted(self._end_tokens),
        )

    def _wait(self, names: Sequence[str]) -> list[Any]:
        while not self._done.keys() >= set(names):
            for output in self._llm.llm_engine.step():
                if output.finished:
                    self._done[output.request_id] = output
        return [self._done.pop(name) for name in names]

    def _responses(self, request: Request, queued: _Queued) -> Responses:
        *question, samples = self._wait(queued.names[: 1 + bool(queued.span)])
        read = zip(queued.answers, self._wait(queued.names[1 + bool(queued.span) :]), strict=True)
        drawn = sorted(samples.outputs, key=lambda output: output.index)
        noises = [f"{request.prompt}\0{output.index}" for output in drawn]
        completions = [self._ended(queued.ids, *pair) for pair in zip(map(_completion, drawn), noises, strict=True)]
        scored = [question[0].prompt_logprobs[at][queued.ids[at]].logprob for at in queued.span]
        return replace(
            responses_of(completions * (self.options.num_samples // len(completions)), as_drawn=self.knows_leaves),
            known_leaves=tuple(self._leaf(queued.ids, answer, output) for answer, output in read),
            question_log_prob=math.fsum(scored) / len(scored) if scored else None,
        )

    def _ended(self, ids: list[int], completion: Completion, noise: str) -> Completion:
        """Return a response up to its stop string; one that stopped before its first visible character goes on."""
        while (cut := self._ends.cut(self._ends.decode(completion.tokens))) is None and completion.stop_string:
            room = self.options.max_new_tokens - len(completion.tokens)
            if not room:
                break
            params = self._drawing(f"{noise}\0{len(completion.tokens)}", 1, room)
            (more,) = self._wait(self._enqueue([[*ids, *completion.tokens]], [params]))
            completion = completion.and_then(_completion(more.outputs[0]))
        text = self._ends.decode(completion.tokens) if cut is None else cut
        return replace(
            completion, text=text, ended=cut is not None or (completion.ended and not completion.stop_string)
        )

    def _leaf(self, ids: list[int], answer: GivenResponse, output: object) -> Leaf:
        *candidates, after = self._rows(ids, self._closed(answer), output, NEXT_TOKENS)
        log_probs = _log_probs(candidates, answer.read)
        return leaf_before(answer, log_probs, {token: candidate.logprob for token, candidate in after.items()})

    def _rows(self, ids: list[int], tokens: Sequence[int], output: Any, likeliest: int = 0) -> list[dict[int, Any]]:
        """Return the log-probabilities at each token after the prompt ``ids``."""
        if (output.num_cached_tokens or 0) >= len(ids):  # the cache gives no log-probabilities of the first tokens
            (output,) = self._wait(self._enqueue([[*ids, *tokens]], [self._reading(likeliest, use_cache=False)]))
        # the newer of vLLM's two runners leaves out the rows of cached tokens
        return [output.prompt_logprobs[place - len(tokens)] for place in range(len(tokens))]


def _completion(drawn: Any) -> Completion:
    tokens, stop_string = list(drawn.token_ids), isinstance(drawn.stop_reason, str)
    return Completion(tokens, _log_probs(drawn.logprobs, tokens), "", drawn.finish_reason == "stop", stop_string)


def _log_probs(candidates: Sequence[Any], tokens: Sequence[int]) -> list[float]:
    return [by_token[token].logprob for by_token, token in zip(candidates, tokens, strict=True)]


def end_at_exit(llm: Any, threads: Collection[threading.Thread]) -> None:
    """Let vLLM's processes and threads end before Python does: a thread that then still runs can abort the process."""
    engine = weakref.ref(llm.llm_engine.engine_core)

    def end() -> None:
        if (core := engine()) is not None:  # else vLLM has ended already
            core.shutdown()
            for thread in threads:
                thread.join(_LONGEST_END)

    atexit.register(end)


@contextlib.contextmanager
def own_devices(count: int) -> Iterator[None]:
    """Show vLLM's processes only the accelerators of this rank of a launcher, and no variables of the launcher."""
    names = (*_LAUNCHER, "CUDA_VISIBLE_DEVICES", _START)
    env = {name: os.environ.pop(name) for name in names if name in os.environ}
    devices = env.get("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(torch.accelerator.device_count())))).split(",")
    first = int(env.get("LOCAL_RANK", 0)) * count % len(devices)
    if devices[0]:
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(devices[first : first + count])
    os.environ[_START] = env.get(_START, "spawn")
    try:
        yield
    finally:
        for name in ("CUDA_VISIBLE_DEVICES", _START):
            os.environ.pop(name, None)
        os.environ.update(env)
