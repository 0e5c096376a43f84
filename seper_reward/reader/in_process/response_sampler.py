"""ResponseSampler: samples responses with their log-probabilities in this process.

The noise of a response depends only on (prompt, sample index, seed), and a batch only on the prompts of one call. So a
response does not depend on other calls, their order, or the number of processes.
"""

import copy
import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, get_args

import torch
from torch import Tensor

from seper_reward.options import Layout, ReaderOptions, check_choice
from seper_reward.reader.chat import with_template
from seper_reward.reader.in_process.decoding import TreeDecoder, known_leaves, make_decoder
from seper_reward.reader.in_process.layout import choose_layout, window_of
from seper_reward.reader.in_process.rows import RowWriter
from seper_reward.reader.in_process.self_check import (
    PROBE_SAMPLES,
    PROBE_TOKENS,
    decoding_problem,
    probes,
)
from seper_reward.reader.in_process.teacher_forcing import forced_log_probs, forced_logits
from seper_reward.reader.loading import load_reader, with_reader_defaults
from seper_reward.reader.sampler import Request, Sampler, count_work, isolated
from seper_reward.reader.tokens import GivenResponse, encode_response, find_tokens
from seper_reward.runtime.hashing import identity_hash
from seper_reward.runtime.inference import inference
from seper_reward.runtime.memory import give_back, in_batches, in_halves, token_batches
from seper_reward.runtime.messages import say_once
from seper_reward.runtime.pretrained import LoadedModel
from seper_reward.runtime.profiling import timed
from seper_reward.types import Leaf, Responses, UnscorableError, attempt

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

ALGORITHM = 6  # version of the sampling algorithm and of stored responses, part of cache keys
_BATCH_TOKENS, _CPU_BATCH_TOKENS = 131_072, 32_768  # default numbers of tokens in the key-value cache
_FORCED = 16  # prompts whose given texts are scored at once; few, because the logits of every token are kept
_IN_TRAINING = "switch off train mode and gradient checkpointing if it is in training"
_WAY_OUT = f"{_IN_TRAINING}, else use another reader"
_GIVE_BACK = 256  # on a CPU, number of prompts after which freed memory is returned to the system


@dataclass(frozen=True)
class Line:
    """A request as tokens: prompt, given responses, and the positions of the question; ``name`` seeds the noise."""

    name: str
    ids: list[int]
    answers: tuple[GivenResponse, ...] = ()
    span: range = range(0)


class ResponseSampler(Sampler):
    """Samples N responses for each prompt from a causal language model.

    The prompt is prefilled once, and its key-value cache is shared by all N samples; the common prefix of a batch's
    prompts is prefilled once. Log-probabilities are the model's own at temperature 1, at any sampling temperature.

    Args:
        model: Causal language model in eval mode, on its device.
        tokenizer: Its tokenizer.
        options: Options of sampling and batches; those of loading have no effect here.
        name: Name of the model in provenance files.
        layout: Computation that samples share: ``"tree"`` uses one line of the cache for all samples of a prompt,
            ``"repeat"`` copies the line after prefill, ``"alone"`` prefills the prompt for each sample, and
            ``"reread"`` uses no cache, which is slow and works with any causal model (default: by the architecture).
    """

    backend = "process"
    knows_leaves = True

    def __init__(
        self,
        model: "PreTrainedModel",
        tokenizer: "PreTrainedTokenizerBase",
        options: ReaderOptions = ReaderOptions(),
        *,
        name: str = "reader",
        layout: Layout | None = None,
    ) -> None:
        if layout is not None:
            check_choice("layout", layout, get_args(Layout))
        self.name, self.tokenizer = name, tokenizer
        self.options = with_reader_defaults(options, name)
        default = _CPU_BATCH_TOKENS if model.device.type == "cpu" else _BATCH_TOKENS
        self.max_batch_tokens = options.max_batch_tokens or default
        self.model = model
        self._since_given_back = 0
        self._given_layout = layout
        self.layout: Layout = layout or choose_layout(model)
        # models ignore padding, so any token does if the tokenizer has none
        ids = (tokenizer.pad_token_id, tokenizer.eos_token_id, 0)
        self._pad_id: int = next(token for token in ids if token is not None)
        self.window = window_of(model) or tokenizer.model_max_length
        self._rows = RowWriter(model, tokenizer, name, self.options)

    @classmethod
    def from_pretrained(
        cls,
        options: ReaderOptions = ReaderOptions(),
        loaded: LoadedModel | None = None,
        layout: Layout | None = None,
    ) -> "ResponseSampler":
        """Load the reader unless it is already loaded, create its sampler, and ``check`` it.

        If the layout chosen by the architecture fails the check, the reader has the layout ``"reread"``. Raises the
        errors of ``load_reader``, and ``ValueError`` if the reader fails ``check``.
        """
        loaded = loaded or load_reader(options.reader, options)
        tokenizer = with_template(loaded.tokenizer, options.chat_template)
        sampler = cls(loaded.model, tokenizer, options, name=loaded.name, layout=layout)
        problem = sampler._problem()
        if problem and layout is None and sampler.layout != "reread":
            say_once(f"{problem}; it is read without a cache, which is slow; {_IN_TRAINING}")
            sampler.layout = sampler._given_layout = "reread"
            problem = sampler._problem()
        elif layout is None and sampler.layout == "reread":
            say_once(f"the architecture of reader {loaded.name!r} is read without a cache, which is slow")
        if problem:
            raise ValueError(f"{problem}; {_WAY_OUT}")
        return sampler

    @functools.cached_property
    def weights_hash(self) -> str:
        """Hash over all parts of the reader that decide a response (``identity_hash``), computed once."""
        return identity_hash(self.model, self.tokenizer)

    @property
    def device(self) -> torch.device:
        """Device of the reader."""
        device: torch.device = self.model.device
        return device

    def sample(self, requests: Sequence[Request]) -> list[Responses | UnscorableError]:
        """Sample N responses for each request, equal ones once, and measure what else it asks for.

        The responses are bit-identical whatever the answers and the question of a request. A request has the error of
        a prompt that is empty, longer than the model's window minus ``max_new_tokens``, or has NaN logits, or of an
        answer without a token.
        """
        distinct = sorted(set(requests))
        self._give_back(len(distinct))
        encode_answer = functools.cache(self._rows.given)  # contexts of a question have the same answers
        lines: dict[Request, Line] = {}
        results: dict[Request, Responses | UnscorableError] = {}
        for request in distinct:
            line = attempt(functools.partial(self._line, request, encode_answer))
            if isinstance(line, UnscorableError):
                results[request] = line
            else:
                lines[request] = line
        act = functools.partial(in_halves, self._sample_batch)
        slots = {request: self._slots(len(line.ids)) for request, line in lines.items()}
        for batch in token_batches(slots, self.max_batch_tokens):
            results |= zip(batch, isolated(act, [lines[request] for request in batch]), strict=True)
        count_work(len(distinct), (line.ids for line in lines.values()), results.values())
        return [results[request] for request in requests]

    def log_probs(self, prompts: Sequence[str], texts: Sequence[str]) -> list[Tensor | UnscorableError]:
        """Return, per prompt and text, ``(T,)`` natural-log probabilities of the text's tokens as a response.

        The chat template is already applied to prompts. The first ``max_new_tokens`` tokens of a text count, with its
        leading space if it needs one, and without an end-of-sequence token. A pair has an error if its prompt is empty
        or longer than the model's window minus ``max_new_tokens``, or if its text has no token.
        """
        encode = functools.cache(self.encode)
        results: dict[tuple[str, str], Tensor | UnscorableError] = {}
        lines: dict[str, dict[str, list[int]]] = {}  # tokens of the texts of each prompt

        def encoded(prompt: str, text: str) -> list[int]:
            encode(prompt)
            return encode_response(self.tokenizer, text, self.options.max_new_tokens)

        for pair in dict.fromkeys(zip(prompts, texts, strict=True)):
            tokens = attempt(functools.partial(encoded, *pair))
            if isinstance(tokens, UnscorableError):
                results[pair] = tokens
            else:
                lines.setdefault(pair[0], {})[pair[1]] = tokens

        def read(batch: list[str]) -> list[list[Tensor]]:
            pairs = [(encode(prompt), list(lines[prompt].values())) for prompt in batch]
            with timed("prefill"):
                return forced_log_probs(self.model, pairs, self._pad_id, self.layout)

        self._give_back(len(lines))
        sizes = {prompt: len(encode(prompt)) + sum(map(len, by_text.values())) for prompt, by_text in lines.items()}
        for together in token_batches(sizes, self.max_batch_tokens):
            for batch in map(list, in_batches(together, _FORCED)):
                for prompt, log_probs in zip(batch, in_halves(read, batch), strict=True):
                    results |= zip(((prompt, text) for text in lines[prompt]), log_probs, strict=True)
        usable = (encode(prompt) for prompt in prompts if prompt in lines)
        count_work(len(prompts), usable, results.values())
        return [results[pair] for pair in zip(prompts, texts, strict=True)]

    @classmethod
    def checked_like(cls, sampler: Sampler, model: "PreTrainedModel") -> "ResponseSampler":
        """Return a checked sampler with a sampler's options in this process, on a model with the same tokenizer."""
        other = cls(model, sampler.tokenizer, sampler.options, name=sampler.name)
        other.check()
        return other

    def reading_with(self, model: "PreTrainedModel") -> "ResponseSampler":
        """Return the same sampler on another model with the same tokenizer, once it has passed ``check``."""
        other = copy.copy(self)
        other.__dict__.pop("weights_hash", None)
        other.model, other.layout = model, self._given_layout or choose_layout(model)
        other.check()
        return other

    def with_options(self, options: ReaderOptions) -> "ResponseSampler":
        """Return a sampler of the same model with other options of sampling."""
        other = copy.copy(self)
        other.options, other._rows = options, self._rows.with_options(options)
        return other

    def check(self, tolerance: float | None = None) -> None:
        """Compare the log-probabilities of sampled and of given tokens with those of plain calls of the model.

        A plain call has one prompt and response, without padding or a previous cache. ``tolerance`` is in nats, as a
        mean over a response's tokens (default: the difference explained by rounding in the model's dtype); a greater
        difference raises ``RuntimeError``, logits of NaN ``UnscorableError``. Reasons: the layout does not suit the
        architecture, train mode, gradient checkpointing without a cache.
        """
        if problem := self._problem(tolerance):
            raise RuntimeError(f"{problem}; {_WAY_OUT}")

    def _problem(self, tolerance: float | None = None) -> str | None:
        """Return a problem with all prompts of the check, or ``None`` if one of them has none."""
        probe = copy.copy(self)
        probe.options = ReaderOptions(num_samples=PROBE_SAMPLES, temperature=1.0, max_new_tokens=PROBE_TOKENS, stop=[])
        probe._rows = RowWriter(self.model, self.tokenizer, self.name, probe.options, end_tokens=())
        problem = None
        for prompt in probes(self.model.dtype):
            whole = self.tokenizer(prompt).input_ids[PROBE_TOKENS - self.window :]
            ids = [whole, whole[: -(-2 * len(whole) // 3)]]
            sample = functools.partial(
                probe._sample_batch, [Line(f"{prompt} {at}", line_ids) for at, line_ids in enumerate(ids)]
            )
            problem = decoding_problem(self.model, self.name, self.layout, self._pad_id, ids, sample, tolerance)
            if problem is None:
                return None
        return problem

    def _line(self, request: Request, encode_answer: Callable[[str], GivenResponse]) -> Line:
        ids = self.encode(request.prompt, request.encoding)
        span = find_tokens(self.tokenizer, request.prompt, request.question, request.encoding)
        return Line(request.prompt, ids, tuple(map(encode_answer, request.answers)), span)

    def _give_back(self, prompts: int) -> None:
        self._since_given_back += prompts
        if self.device.type == "cpu" and self._since_given_back >= _GIVE_BACK:
            self._since_given_back = 0
            give_back()

    @inference()
    def _sample_batch(self, lines: list[Line]) -> list[Responses]:
        rows = self._rows.new([line.name for line in lines])
        leaves = self._leaves_apart(lines) if self.layout != "tree" else []
        decoder = make_decoder(self.model, self._pad_id, self.layout, self.options.num_samples)
        with timed("prefill"):
            logits, branches, scored = decoder.prefill([line.ids for line in lines], [line.span for line in lines])
        if isinstance(decoder, TreeDecoder):
            leaves = known_leaves(decoder, logits, [line.answers for line in lines], self._rows.leaves)
        alive = self._rows.advance(logits, branches, rows)
        while alive:
            with timed("decode"):
                stepped = decoder.step(alive)
            alive = self._rows.advance(*stepped, alive)
        return [
            # the log-probability of a token is NaN if it is unknown
            replace(
                sampled,
                question_log_prob=math.fsum(log_probs) / len(log_probs)
                if log_probs and not math.isnan(sum(log_probs))
                else None,
            )
            for sampled, log_probs in zip(self._rows.responses(rows, leaves), scored, strict=True)
        ]

    def _leaves_apart(self, lines: Sequence[Line]) -> list[tuple[Leaf, ...]]:
        """Return the leaves of each line, whose samples have separate lines of the cache: answers need their own."""
        leaves = []
        for line in lines:
            longest = max((len(answer.read) for answer in line.answers), default=0)
            line_leaves: list[Leaf] = []
            for batch in in_batches(line.answers, max(1, self.max_batch_tokens // (len(line.ids) + longest))):
                texts = [answer.read for answer in batch]
                with timed("prefill"):
                    (logits,) = forced_logits(self.model, [(line.ids, texts)], self._pad_id, self.layout)
                    line_leaves += self._rows.leaves(batch, [[text_logits] for text_logits in logits])
            leaves.append(tuple(line_leaves))
        return leaves

    def _slots(self, length: int) -> int:
        samples, longest = self.options.num_samples, self.options.max_new_tokens
        return length + samples * longest if self.layout == "tree" else samples * (length + longest)
