"""Prompts in, sampled responses with their log-probabilities out, in this process.

The noise of a response is a function of (prompt, sample index, seed) alone, and a batch is a function of the prompts
of one call alone. So a response does not depend on other calls, their order, or the number of processes.
"""

import copy
import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar

import torch
from torch import Tensor

from seper_reward.reader.chat import with_template
from seper_reward.reader.in_process.compiled import compiled_if_it_works
from seper_reward.reader.in_process.decoding import Decoder, TreeDecoder, make_decoder
from seper_reward.reader.in_process.layout import choose_layout, has_lines, new_cache, rope_switch, window_of
from seper_reward.reader.in_process.rows import GivenResponse, Row, RowWriter
from seper_reward.reader.in_process.self_check import (
    PROBE_SAMPLES,
    PROBE_TOKENS,
    PROBES,
    check_tolerance,
    greatest_difference,
    plain_log_probs,
    probe_ids,
    probes,
)
from seper_reward.reader.in_process.teacher_forcing import forced_log_probs, forced_logits
from seper_reward.reader.loading import load_reader
from seper_reward.reader.sampler import Layout, NeedsMore, ReaderOptions, SamplingOptions
from seper_reward.reader.tokens import encode_prompt, encode_response, padding_id
from seper_reward.runtime.hashing import identity_hash
from seper_reward.runtime.memory import give_back, in_halves, token_batches, token_budget, warn_of_halving
from seper_reward.runtime.pretrained import EMBEDDED, LoadedModel
from seper_reward.runtime.profiling import timed
from seper_reward.types import Leaf, Responses, UnscorableError

R = TypeVar("R")

ALGORITHM = 5  # version of how noise becomes tokens and what is kept of them, part of cache keys
_BATCH_TOKENS = 32_768  # tokens in the key-value cache, unless the options say otherwise
_GIVE_BACK = 256  # on a CPU, freed memory is returned to the system after so many prompts
_GIVEN_TOKENS = 2048  # of a batch's given texts, read at once if none is longer; every token keeps its logits
_FORCED_BATCH = 16  # prompts whose given texts are scored at once; few, because every token of a text keeps its logits


class ResponseSampler:
    """Samples N responses for each prompt from a causal language model.

    The prompt is prefilled once and its key-value cache serves all N samples; what the prompts of a batch have in
    common at their start (instruction, examples) is prefilled once for all. Log-probabilities are the model's own
    at temperature 1, whatever the sampling temperature.

    Args:
        model: Causal language model in eval mode, on its device.
        tokenizer: Its tokenizer.
        name: Name of the model in provenance files.
        options: How the model is used; the options of loading have no effect here.
        **sampling: Fields of ``SamplingOptions``.

    Raises:
        ValueError: Responses are to be drawn without replacement, and the reader's cache does not allow it.
    """

    backend = "process"
    prompts_ahead = 0
    knows_leaves = True

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        name: str = "reader",
        options: ReaderOptions = ReaderOptions(),
        **sampling: Any,
    ) -> None:
        self.name, self.tokenizer = name, tokenizer
        self.options = SamplingOptions(**sampling)
        self.max_batch_tokens = _BATCH_TOKENS if options.max_batch_tokens is None else options.max_batch_tokens
        self.refill = options.refill
        self._model = model
        self._since_given_back = 0
        self._budget = self.max_batch_tokens or token_budget(model)
        self._given_layout = options.layout
        self._layout: Layout = options.layout or choose_layout(model)
        # what stands in padding has no effect, so that a tokenizer without a token for it can be used
        self._pad_id = padding_id(tokenizer)
        self._window = window_of(model) or tokenizer.model_max_length
        self._switch = rope_switch(model)
        self._refuse_cache_without_copies()
        self._rows = RowWriter(model, tokenizer, name, self.options)
        if options.compile_reader:
            self._model = compiled_if_it_works(model, self._trial)
        self.compiled = self._model is not model

    @classmethod
    def from_pretrained(
        cls, reader: str | LoadedModel = EMBEDDED, options: ReaderOptions = ReaderOptions(), **sampling: Any
    ) -> "ResponseSampler":
        """Load the reader, unless it is loaded already, make its sampler, and ``check`` it.

        Args:
            reader: A name for ``load_reader``, or a loaded model.
            options: How the reader is loaded and used.
            **sampling: Fields of ``SamplingOptions``.

        Raises:
            OSError: The model is neither a folder nor known to the hub; the message says what to do.
            ValueError: The model is no decoder, or fails ``check``.
        """
        loaded = reader if isinstance(reader, LoadedModel) else load_reader(reader, options)
        tokenizer = with_template(loaded.tokenizer, options.chat_template)
        sampler = cls(loaded.model, tokenizer, name=loaded.name, options=options, **sampling)
        problem = None
        for probe in probes(sampler._model.dtype):
            problem = sampler._decoding_problem(probe)
            if problem is None:
                return sampler
        raise ValueError(problem)

    @property
    def layout(self) -> Layout:
        """How the samples of a prompt share its reading."""
        return self._layout

    @functools.cached_property
    def weights_hash(self) -> str:
        """Hash over all parts of the reader that decide a response (``identity_hash``), computed once."""
        return identity_hash(self._model, self.tokenizer)

    @property
    def device(self) -> torch.device:
        """Device of the reader."""
        device: torch.device = self._model.device
        return device

    @property
    def max_prompt_tokens(self) -> int:
        """Longest prompt, in tokens, that leaves room for a whole response."""
        special: int = self.tokenizer.num_special_tokens_to_add()
        return self._window - self.options.max_new_tokens - special

    def sample(
        self,
        prompts: Sequence[str],
        first: int | None = None,
        more: NeedsMore | None = None,
        given: Mapping[str, Sequence[str]] = MappingProxyType({}),
    ) -> list[Responses]:
        """Sample N responses for each prompt.

        Args:
            prompts: Texts, with the chat template already applied; equal ones are sampled once.
            first: How many responses are sampled before ``more`` is called; has no effect without ``more``.
            more: Takes the first responses by prompt and returns the prompts that shall have all N. Has an effect only
                where the samples of a prompt share its line of the cache, and neither in refilled batches nor where
                responses are drawn without replacement.
            given: For some of the prompts, texts whose ``leaves`` come as ``known_leaves`` with the responses. Where
                the samples of a prompt share its line of the cache, the prompt is read once for both; the responses
                are the same to the bit with and without texts.

        Returns:
            One ``Responses`` per prompt, in order.

        Raises:
            UnscorableError: A prompt is empty or longer than the model's window less ``max_new_tokens``, the
                reader's logits are NaN, or a given text has no token.
        """
        distinct = sorted(set(prompts))
        encoded = {prompt: self._encode(prompt) for prompt in distinct}
        sampled: dict[str, Responses] = {}
        texts = self._as_responses(text for prompt in distinct for text in given.get(prompt, ()))
        after = {prompt: [texts[text] for text in given.get(prompt, ())] for prompt in distinct}
        self._give_back(len(distinct))
        for layout, together in self._apart(encoded):
            if layout == "tree" and self.refill:
                order = sorted(together, key=lambda prompt: (len(encoded[prompt]), prompt))
                sampled.update(zip(order, self._refilled(order, encoded, after), strict=True))
                continue
            in_two = layout == "tree" and self.options.draw == "independent"
            act = functools.partial(self._sample_batch, encoded, first or 1, more if in_two else None, layout, after)
            for batch in self._batches(together):
                sampled.update(zip(batch, in_halves(act, batch), strict=True))
        apart = [prompt for prompt in distinct if given.get(prompt) and not sampled[prompt].known_leaves]
        pairs = [(prompt, text) for prompt in apart for text in given[prompt]]
        leaves = iter(self.leaves([prompt for prompt, _ in pairs], [text for _, text in pairs]))
        for prompt in apart:
            known = tuple(itertools.islice(leaves, len(given[prompt])))
            sampled[prompt] = dataclasses.replace(sampled[prompt], known_leaves=known)
        return [sampled[prompt] for prompt in prompts]

    def log_probs(self, prompts: Sequence[str], texts: Sequence[str]) -> list[Tensor]:
        """Return how likely the reader finds given texts as responses.

        Args:
            prompts: Texts, with the chat template already applied.
            texts: One response per prompt, with its leading space if it needs one; the first ``max_new_tokens`` tokens
                count.

        Returns:
            Per pair, ``(T,)`` natural-log probabilities of the text's tokens, without an end-of-sequence token.

        Raises:
            UnscorableError: A prompt is empty or longer than the model's window less ``max_new_tokens``, or a text has
                no token.
        """
        tokens = {text: encode_response(self.tokenizer, text, self.options.max_new_tokens) for text in texts}
        by_pair = dict(self._forced(forced_log_probs, prompts, texts, tokens, lambda _, log_probs: log_probs))
        return [by_pair[pair] for pair in zip(prompts, texts, strict=True)]

    def leaves(self, prompts: Sequence[str], texts: Sequence[str]) -> list[Leaf]:
        """Return how likely a draw is to be exactly a given response, its end included.

        What counts is the tokenizer's own tokenization of the text, followed by an end token or by any single token
        that completes a stop string and leaves the text as it is.

        Args:
            prompts: Texts, with the chat template already applied.
            texts: One response per prompt, with its leading space if it needs one.

        Returns:
            One ``Leaf`` per pair, in order.

        Raises:
            UnscorableError: A prompt is empty or longer than the model's window less ``max_new_tokens``, or a text has
                no token.
        """
        given = self._as_responses(texts)
        tokens = {text: row.read for text, row in given.items()}
        by_pair = dict(
            self._forced(forced_logits, prompts, texts, tokens, lambda text, row: self._rows.leaf(given[text], row))
        )
        return [by_pair[pair] for pair in zip(prompts, texts, strict=True)]

    def expect(self, prompts: Sequence[str]) -> None:
        """Do nothing: in this process nothing is sampled ahead of its call."""

    def reading_with(self, model: Any) -> "ResponseSampler":
        """Return the same sampler on another model that has this one's tokenizer."""
        other = copy.copy(self)
        other.__dict__.pop("weights_hash", None)
        other._model, other.compiled = model, False
        other._layout = self._given_layout or choose_layout(model)
        other._refuse_cache_without_copies()
        return other

    def with_options(self, options: SamplingOptions) -> "ResponseSampler":
        """Return a sampler of the same model with other options of sampling."""
        other = copy.copy(self)
        other.options, other._rows = options, self._rows.with_options(options)
        other._refuse_cache_without_copies()
        return other

    def check(self, prompt: str = PROBES[0], tolerance: float | None = None) -> None:
        """Compare the log-probabilities of sampled and of given tokens with those of plain calls of the model.

        A few tokens are sampled for the prompt and for its first part side by side, in this sampler's layout. The
        plain calls have one prompt and response each, no padding, and no cache from before.

        Args:
            prompt: Text of the prompt.
            tolerance: Greatest difference in nats, as a mean over a response's tokens; ``None`` takes what rounding
                explains in the model's dtype.

        Raises:
            RuntimeError: They differ by more, or a call fails: the model does not decode as it reads (an architecture
                that the layout does not fit, train mode, gradient checkpointing without a cache).
            UnscorableError: The logits are NaN.
        """
        if problem := self._decoding_problem(prompt, tolerance):
            raise RuntimeError(problem)

    def _refuse_cache_without_copies(self) -> None:
        """Refuse to draw without replacement if rows have lines of the cache that cannot be copied for their children.

        Raises:
            ValueError: That is so.
        """
        if self.options.draw == "independent" or self._layout != "alone" or has_lines(new_cache(self._model)):
            return
        raise ValueError(
            f"draw=without_replacement needs a cache that can be copied, which reader {self.name!r} "
            f"({type(self._model).__name__}, layout alone) does not have; set reader_layout=reread, which is slow and "
            "fits any model, or draw=independent"
        )

    def _decoding_problem(self, prompt: str, tolerance: float | None = None) -> str | None:
        """Return what is wrong with the reader's log-probabilities, or ``None``; see ``check``."""
        model, pad_id = self._model, self._pad_id
        probe = copy.copy(self)
        probe.options = SamplingOptions(PROBE_SAMPLES, max_new_tokens=PROBE_TOKENS, stop=(), draw=self.options.draw)
        probe._rows = RowWriter(model, self.tokenizer, self.name, probe.options, end_tokens=())
        room = min(self._window, self._switch or self._window) - PROBE_TOKENS
        prompts = probe_ids(self.tokenizer(prompt).input_ids, room)
        names = [f"{prompt} {number}" for number in range(len(prompts))]  # they decide the noise
        reader = f"reader {self.name!r} ({type(model).__name__}, layout {self._layout})"
        way_out = "" if self._layout == "reread" else "reader_layout=reread, which is slow and fits any model, or "
        way_out = f"take {way_out}another reader"
        try:
            sampled = probe._sample_batch(dict(zip(names, prompts, strict=True)), 1, None, self._layout, {}, names)
            lines = [(ids, responses.token_ids) for ids, responses in zip(prompts, sampled, strict=True)]
            forced = forced_log_probs(model, lines, pad_id, self._layout)
            plain = [row for ids, rows in lines for row in plain_log_probs(model, ids, rows)]
        except (torch.OutOfMemoryError, UnscorableError):
            raise
        except Exception as error:  # whatever the model's own code raises, the user must learn which model it is
            reason = "".join(str(error).strip().splitlines()[:1])
            return f"{reader} does not decode with a key-value cache: {type(error).__name__}: {reason}; {way_out}"
        drawn = [log_probs for responses in sampled for log_probs in responses.token_log_probs]
        difference = greatest_difference([*drawn, *itertools.chain(*forced)], [*plain, *plain])
        most = check_tolerance(model.dtype) if tolerance is None else tolerance
        if difference <= most:
            return None
        return (
            f"{reader}: sampled and teacher-forced log-probabilities differ by {difference:.2f} nats (expected: at "
            f"most {most:g}); switch train mode and gradient checkpointing off if it is in training, else {way_out}"
        )

    def _trial(self, model: Any) -> None:
        """Call a model in every way it will be called: one prompt, several, several with a common start, texts."""
        sampler = self.reading_with(model)
        for prompts in (["Hello"], ["Why?", "Who was it?"], ["Who was it? " * 5, "Who was it? " * 6]):
            sampler.sample(prompts)
        sampler.log_probs(["Why?", "Who?"], [" Why not?", " Ann"])

    def _encode(self, prompt: str) -> list[int]:
        return encode_prompt(self.tokenizer, prompt, self._window - self.options.max_new_tokens)

    def _apart(self, encoded: dict[str, list[int]]) -> list[tuple[Layout, dict[str, list[int]]]]:
        """Divide prompts into groups that may be read together, and name their layout.

        Where long rope has a switch, prompts that stay below it with their responses, and those beyond it, are
        batched apart. Those that may cross it while they are decoded have no use for a cache: its keys would be
        turned by the wrong factors.
        """
        switch = self._window if self._switch is None else self._switch
        groups: dict[str, tuple[Layout, dict[str, list[int]]]] = {}
        for prompt, ids in encoded.items():
            if len(ids) > switch:
                group = groups.setdefault("beyond", (self._layout, {}))
            elif len(ids) + self.options.max_new_tokens <= switch:
                group = groups.setdefault("below", (self._layout, {}))
            else:
                group = groups.setdefault("across", ("reread", {}))
            group[1][prompt] = ids
        return list(groups.values())

    def _as_responses(self, texts: Iterable[str]) -> dict[str, GivenResponse]:
        """Return given texts as the responses that they would be."""
        longest = self.options.max_new_tokens + 1  # one more shows that a text is too long
        return {
            text: self._rows.given(encode_response(self.tokenizer, text, longest)) for text in dict.fromkeys(texts)
        }

    def _forced(
        self,
        read: Callable[..., list[list[Tensor]]],
        prompts: Sequence[str],
        texts: Sequence[str],
        tokens: Mapping[str, list[int]],
        keep: Callable[[str, Tensor], R],
    ) -> Iterator[tuple[tuple[str, str], R]]:
        """Yield each distinct pair of a prompt and a text with what is kept of its logits or log-probabilities.

        Args:
            read: ``forced_logits`` or ``forced_log_probs``.
            prompts: Texts.
            texts: One text per prompt.
            tokens: Token ids of each text.
            keep: Takes a text and what ``read`` returns for it, batch by batch: the logits of all do not fit.
        """
        lines: dict[str, dict[str, list[int]]] = {}
        for prompt, text in zip(prompts, texts, strict=True):
            lines.setdefault(prompt, {})[text] = tokens[text]
        encoded = {prompt: self._encode(prompt) for prompt in lines}
        self._give_back(len(lines))

        def act(batch: list[str]) -> list[list[R]]:
            asked = [(encoded[prompt], list(lines[prompt].values())) for prompt in batch]
            with timed("prefill", tokens=sum(len(ids) + sum(map(len, own)) for ids, own in asked)):
                found = read(self._model, asked, self._pad_id, self._layout)
                return [list(map(keep, lines[prompt], rows)) for prompt, rows in zip(batch, found, strict=True)]

        sizes = {prompt: len(encoded[prompt]) + sum(map(len, own.values())) for prompt, own in lines.items()}
        for together in token_batches(sizes, self._budget):
            for start in range(0, len(together), _FORCED_BATCH):
                batch = together[start : start + _FORCED_BATCH]
                for prompt, rows in zip(batch, in_halves(act, batch), strict=True):
                    yield from zip(((prompt, text) for text in lines[prompt]), rows, strict=True)

    def _give_back(self, prompts: int) -> None:
        """Return freed memory to the system after every few prompts that are read on a CPU."""
        self._since_given_back += prompts
        if self.device.type == "cpu" and self._since_given_back >= _GIVE_BACK:
            self._since_given_back = 0
            give_back()

    def _batches(self, encoded: dict[str, list[int]]) -> Iterator[list[str]]:
        """Group prompts of similar length, as many as the key-value cache may hold."""
        slots = {prompt: self._slots(len(ids)) for prompt, ids in encoded.items()}
        return token_batches(slots, self._budget)

    @torch.no_grad()
    def _sample_batch(
        self,
        encoded: dict[str, list[int]],
        first: int,
        more: NeedsMore | None,
        layout: Layout,
        after: Mapping[str, Sequence[GivenResponse]],
        prompts: list[str],
    ) -> list[Responses]:
        """Sample the first responses of all prompts, then, over the same cache, the rest of those that need more."""
        samples = self._rows.rows_per_prompt
        all_rows = self._rows.new(prompts)
        decoder = make_decoder(self._model, self._pad_id, layout, samples)
        with timed("prefill", tokens=sum(len(encoded[prompt]) for prompt in prompts)):
            logits, branches = decoder.prefill([encoded[prompt] for prompt in prompts])
        leaves = self._known_leaves(decoder, logits, [after.get(prompt, ()) for prompt in prompts])
        counts = dict.fromkeys(prompts, 0)
        unfinished = set(prompts)
        for start, end in itertools.pairwise((0, samples) if more is None else (0, min(first, samples), samples)):
            rows = [row for row in all_rows if start <= row.sample < end and prompts[row.prompt] in unfinished]
            if not rows:
                break
            alive = self._rows.advance(logits, [branches[row.prompt * samples + row.sample] for row in rows], rows)
            while alive:
                with timed("decode", tokens=len(alive)):
                    stepped = decoder.step(alive, keep_lines=end < samples)
                alive = self._rows.advance(*stepped, alive)
            counts |= dict.fromkeys(unfinished, end)
            if more is not None and end < samples:
                sampled = self._rows.responses(all_rows, leaves, counts.values())
                unfinished = more(dict(zip(prompts, sampled, strict=True)))
        return self._rows.responses(all_rows, leaves, counts.values())

    def _known_leaves(
        self, decoder: Decoder, logits: Tensor, given: Sequence[Sequence[GivenResponse]]
    ) -> list[tuple[Leaf, ...]]:
        """Return the leaves of each prompt's given responses, if the decoder can read them beside the samples."""
        leaves: list[tuple[Leaf, ...]] = [()] * len(given)
        longest = max((len(row.read) for own in given for row in own), default=0)
        if not isinstance(decoder, TreeDecoder) or not longest:
            return leaves
        width = max(_GIVEN_TOKENS // len(given), longest)
        waiting = [list(own) for own in given]
        while any(waiting):
            now = [_that_fit(own, width) for own in waiting]
            waiting = [own[len(these) :] for own, these in zip(waiting, now, strict=True)]
            with timed("prefill", tokens=sum(len(row.read) for these in now for row in these)):
                forced = decoder.forced_logits([[row.read for row in these] for these in now])
            for prompt, (these, rest) in enumerate(zip(now, forced, strict=True)):
                leaves[prompt] += tuple(
                    self._rows.leaf(row, torch.cat([logits[prompt, None], after]))
                    for row, after in zip(these, rest, strict=True)
                )
        return leaves

    def _refilled(
        self, prompts: list[str], encoded: dict[str, list[int]], after: Mapping[str, Sequence[GivenResponse]]
    ) -> list[Responses]:
        """Sample in a refilled batch, half as large each time that memory runs out."""
        while True:
            try:
                return self._sample_refilled(prompts, encoded, after)
            except torch.OutOfMemoryError:
                if self._budget <= self._slots(len(encoded[prompts[-1]])):
                    raise
            self._budget //= 2
            warn_of_halving("the batch")

    @torch.no_grad()
    def _sample_refilled(
        self, prompts: list[str], encoded: dict[str, list[int]], after: Mapping[str, Sequence[GivenResponse]]
    ) -> list[Responses]:
        """Sample all prompts in one batch in which waiting prompts take the room of finished ones."""
        decoder = TreeDecoder(self._model, self._pad_id, self._rows.rows_per_prompt)
        leaves: list[tuple[Leaf, ...]] = []
        all_rows: list[Row] = []
        alive: list[Row] = []
        start = 0  # place of the first waiting prompt
        while start < len(prompts) or alive:
            lines = len({row.prompt for row in alive})
            room = max(self._budget // self._slots(len(encoded[prompts[min(start, len(prompts) - 1)]])), 1)
            # joining copies the cache, which does not pay for one or two
            if start < len(prompts) and lines <= 0.75 * room:
                batch = prompts[start : start + max(room - lines, 1)]
                rows = self._rows.new(batch, start)
                with timed("prefill", tokens=sum(len(encoded[prompt]) for prompt in batch)):
                    fresh = TreeDecoder(self._model, self._pad_id, self._rows.rows_per_prompt)
                    logits, branches = fresh.prefill([encoded[prompt] for prompt in batch])
                leaves += self._known_leaves(fresh, logits, [after.get(prompt, ()) for prompt in batch])
                decoder.join(fresh, start, alive)
                all_rows += rows
                alive += self._rows.advance(logits, branches, rows)
                start += len(batch)
            elif alive:
                with timed("decode", tokens=len(alive)):
                    stepped = decoder.step(alive)
                alive = self._rows.advance(*stepped, alive)
        return self._rows.responses(all_rows, leaves, [self.options.num_samples] * len(prompts))

    def _slots(self, length: int) -> int:
        """Return how many tokens of the key-value cache a prompt of ``length`` tokens and its responses may take."""
        samples, longest = self.options.num_samples, self.options.max_new_tokens
        return length + samples * longest if self._layout == "tree" else samples * (length + longest)


def _that_fit(given: Sequence[GivenResponse], tokens: int) -> Sequence[GivenResponse]:
    """Return as many of the first texts as have no more than ``tokens`` tokens in all."""
    ends = itertools.accumulate(len(row.read) for row in given)
    return given[: sum(end <= tokens for end in ends)]
