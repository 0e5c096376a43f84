"""Prompts in, sampled responses with their log-probabilities out; ResponseSampler does it in process.

The noise of a row is a function of (prompt, sample index, seed) alone, and a batch a function of the prompts of
one call alone. So who else is labelled, in which order and by how many processes, cannot change a response.
"""

import copy
import functools
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from seper_reward.models import EMBEDDED, LoadedModel, identity_hash, load_reader
from seper_reward.reader.in_process.compiled import compiled_if_it_works
from seper_reward.reader.in_process.decoding import Layout, Row, TreeDecoder, choose_layout, make_decoder
from seper_reward.reader.in_process.gumbel import draw, noise, nucleus
from seper_reward.reader.in_process.teacher_forcing import forced_log_probs
from seper_reward.reader.sampler import More, SamplingOptions
from seper_reward.reader.tokens import cut_at_stop, encode_prompt, encode_response, end_tokens, may_end_stop
from seper_reward.runtime.memory import give_back, in_halves, token_budget, warn_of_halving
from seper_reward.runtime.profiling import timed
from seper_reward.types import Responses, UnscorableError

DRAWING = 3  # how noise becomes tokens; another number is another draw, so that no cache mixes them
_GIVE_BACK = 256  # prompts after which a processor's freed memory is returned
_FORCED_BATCH = 16  # prompts whose texts are scored at once: logits are kept for every token of those


class ResponseSampler:
    """Samples N responses for each prompt from a causal language model.

    The prompt is prefilled once and its key-value cache serves all N samples; what the prompts of a batch have in
    common at their start (instruction, examples) is prefilled once for all. Log-probabilities are the model's own
    at temperature 1, whatever the samples were drawn with.

    Args:
        model: causal language model in eval mode, on its device.
        tokenizer: its tokenizer.
        name: what to call the model in provenance.
        max_batch_tokens: most tokens held in the key-value cache at once; 0 takes what half of the free memory holds.
        share_prefix: ``False`` prefills each sample by itself, as is done anyway for caches that cannot be
            shared (linear attention).
        refill: let waiting prompts take the room of finished ones in the running batch. Faster where many prompts
            are sampled in one call; a response may then depend, in low digits, on who is sampled beside it.
        compile_reader: compile the model's calls, which takes minutes before the first response; where a trial fails,
            a warning tells why and the model is called as it is. Low digits depend on what was sampled before.
        **sampling: fields of ``SamplingOptions``.
    """

    backend = "process"
    prompts_ahead = 0

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        name: str = "reader",
        max_batch_tokens: int = 32_768,
        share_prefix: bool = True,
        refill: bool = False,
        compile_reader: bool = False,
        **sampling: Any,
    ) -> None:
        self.name, self.tokenizer = name, tokenizer
        self.options = SamplingOptions(**sampling)
        self._model = model
        self.max_batch_tokens, self.refill = max_batch_tokens, refill
        self._since_given_back = 0
        self._budget = max_batch_tokens or token_budget(model)
        self._layout: Layout = choose_layout(model) if share_prefix else "alone"
        text_config = model.config.get_text_config()
        self._window: int = getattr(text_config, "max_position_embeddings", None) or tokenizer.model_max_length
        self._end_tokens = end_tokens(model, tokenizer)
        vocabulary = model.get_output_embeddings().weight.shape[0]
        self._may_end_stop = may_end_stop(tokenizer, self.options.stop, vocabulary)
        if compile_reader:
            self._model = compiled_if_it_works(model, self._trial)
        self.compiled = self._model is not model

    @classmethod
    def from_pretrained(
        cls,
        reader: str | LoadedModel = EMBEDDED,
        *,
        revision: str | None = None,
        dtype: str = "auto",
        device: str | torch.device | None = None,
        trust_remote_code: bool = False,
        **options: Any,
    ) -> "ResponseSampler":
        """Load the reader by name (see ``load_reader``); ``options`` as above."""
        if not isinstance(reader, LoadedModel):
            reader = load_reader(
                reader, revision=revision, dtype=dtype, device=device, trust_remote_code=trust_remote_code
            )
        return cls(reader.model, reader.tokenizer, name=reader.name, **options)

    @functools.cached_property
    def weights_hash(self) -> str:
        """Hash of all of the reader that decides a response, computed once (see ``identity_hash``)."""
        return identity_hash(self._model, self.tokenizer)

    @property
    def device(self) -> torch.device:
        """Where the reader is."""
        device: torch.device = self._model.device
        return device

    @property
    def max_prompt_tokens(self) -> int:
        """Longest prompt that leaves room for a whole response."""
        special: int = self.tokenizer.num_special_tokens_to_add()
        return self._window - self.options.max_new_tokens - special

    def sample(self, prompts: Sequence[str], first: int | None = None, more: More | None = None) -> list[Responses]:
        """Sample N responses for each prompt.

        Args:
            prompts: texts, chat template already applied; equal ones are sampled once.
            first: with ``more``, how many responses are drawn before it is asked.
            more: takes the first responses by prompt and returns the prompts that shall have all N. Only where the
                samples of a prompt share its line of the cache, and not in refilled batches; else all have N.

        Returns:
            One ``Responses`` per prompt, in order.

        Raises:
            UnscorableError: a prompt is empty or longer than the model's window less ``max_new_tokens``, or the
                reader's logits are NaN.
        """
        distinct = sorted(set(prompts))
        encoded = {prompt: self._encode(prompt) for prompt in distinct}
        sampled: dict[str, Responses] = {}
        self._since_given_back += len(distinct)
        if self.device.type == "cpu" and self._since_given_back >= _GIVE_BACK:
            self._since_given_back = 0
            give_back()
        if self._layout == "tree" and self.refill:
            order = sorted(encoded, key=lambda prompt: (len(encoded[prompt]), prompt))
            sampled.update(zip(order, self._refilled(order, encoded), strict=True))
        else:
            more = more if self._layout == "tree" else None
            act = functools.partial(self._sample_batch, encoded, first or 1, more)
            for batch in self._batches(encoded):
                sampled.update(zip(batch, in_halves(act, batch), strict=True))
        return [sampled[prompt] for prompt in prompts]

    def log_probs(self, prompts: Sequence[str], texts: Sequence[str]) -> list[Tensor]:
        """Return how likely the reader finds given texts as responses.

        Args:
            prompts: as in ``sample``.
            texts: one per prompt, as they continue it; their first ``max_new_tokens`` tokens count.

        Returns:
            Per pair, ``(T,)`` natural-log probabilities of the text's tokens, without an end-of-sequence token.

        Raises:
            UnscorableError: as in ``sample``, or a text has no token.
        """
        lines: dict[str, dict[str, list[int]]] = {}
        for prompt, text in zip(prompts, texts, strict=True):
            lines.setdefault(prompt, {})[text] = encode_response(self.tokenizer, text, self.options.max_new_tokens)
        found: dict[tuple[str, str], Tensor] = {}
        order = sorted(lines, key=lambda prompt: (len(prompt), prompt))
        for start in range(0, len(order), _FORCED_BATCH):
            batch = order[start : start + _FORCED_BATCH]
            rows = [(self._encode(prompt), list(lines[prompt].values())) for prompt in batch]
            forced = forced_log_probs(self._model, rows, self.tokenizer.pad_token_id, self._layout)
            for prompt, log_probs in zip(batch, forced, strict=True):
                found.update(zip(itertools.product([prompt], lines[prompt]), log_probs, strict=True))
        return [found[pair] for pair in zip(prompts, texts, strict=True)]

    def expect(self, prompts: Sequence[str]) -> None:
        """Do nothing: this process is busy with what it was asked for."""

    def reading_with(self, model: Any) -> "ResponseSampler":
        """Return the same sampler on another model that has this one's tokenizer."""
        other = copy.copy(self)
        other.__dict__.pop("weights_hash", None)
        other._model, other.compiled = model, False
        other._layout = choose_layout(model) if self._layout != "alone" else "alone"
        return other

    def check(self, prompt: str, tolerance: float = 0.25) -> None:
        """Compare the log-probabilities of sampled tokens with teacher-forced ones.

        Args:
            prompt: to sample from.
            tolerance: greatest difference in nats; bf16 differs by some hundredths, a lost cache by several.

        Raises:
            RuntimeError: they differ by more, or sampling fails: the model does not decode as it reads (train mode,
                dropout, gradient checkpointing without a cache).
        """
        try:
            (responses,) = self.sample([prompt])
        except RuntimeError as error:
            raise RuntimeError(f"reader {self.name!r} does not decode with a key-value cache: {error}") from error
        lines = [(self._encode(prompt), responses.token_ids)]
        (forced,) = forced_log_probs(self._model, lines, self.tokenizer.pad_token_id, "alone")
        apart = max(
            float((one - other).abs().max()) for one, other in zip(responses.token_log_probs, forced, strict=True)
        )
        if apart > tolerance:
            raise RuntimeError(
                f"reader {self.name!r}: sampled and teacher-forced log-probabilities differ by {apart:.2f} nats; is "
                "it in train mode, or is gradient checkpointing on?"
            )

    def _trial(self, model: Any) -> None:
        """Use a model as it will be used: one prompt, several, several with a common start, given texts."""
        sampler = self.reading_with(model)
        for prompts in (["Hello"], ["Why?", "Who was it?"], ["Who was it? " * 5, "Who was it? " * 6]):
            sampler.sample(prompts)
        sampler.log_probs(["Why?", "Who?"], [" Why not?", " Ann"])

    def _encode(self, prompt: str) -> list[int]:
        return encode_prompt(self.tokenizer, prompt, self._window - self.options.max_new_tokens)

    def _batches(self, encoded: dict[str, list[int]]) -> Iterator[list[str]]:
        """Group prompts of similar length, as many as the key-value cache may hold."""
        batch: list[str] = []
        for prompt in sorted(encoded, key=lambda text: (len(encoded[text]), text)):
            if batch and (len(batch) + 1) * self._slots(len(encoded[prompt])) > self._budget:
                yield batch
                batch = []
            batch.append(prompt)
        if batch:
            yield batch

    @torch.no_grad()
    def _sample_batch(
        self, encoded: dict[str, list[int]], first: int, more: More | None, prompts: list[str]
    ) -> list[Responses]:
        """Draw the first responses of all prompts, then over the same cache the others of those that need ``more``."""
        samples = self.options.num_samples
        drawn = self._rows(prompts)
        decoder = make_decoder(self._model, self.tokenizer.pad_token_id, self._layout, samples)
        with timed("prefill", tokens=sum(len(encoded[prompt]) for prompt in prompts)):
            logits, branches = decoder.prefill([encoded[prompt] for prompt in prompts])
        counts = dict.fromkeys(prompts, 0)
        wanted = set(prompts)
        for start, end in itertools.pairwise((0, samples) if more is None else (0, min(first, samples), samples)):
            rows = [row for row in drawn if start <= row.sample < end and prompts[row.prompt] in wanted]
            if not rows:
                break
            alive = self._advance(logits, [branches[row.prompt * samples + row.sample] for row in rows], rows)
            while alive:
                with timed("decode", tokens=len(alive)):
                    stepped = decoder.step(alive, keep_lines=end < samples)
                alive = self._advance(*stepped, alive)
            counts |= dict.fromkeys(wanted, end)
            if more is not None and end < samples:
                wanted = more(dict(zip(prompts, self._by_prompt(drawn, counts.values()), strict=True)))
        return self._by_prompt(drawn, counts.values())

    def _refilled(self, prompts: list[str], encoded: dict[str, list[int]]) -> list[Responses]:
        """Sample in a refilled batch, of half the size where memory ends."""
        while True:
            try:
                return self._sample_refilled(prompts, encoded)
            except torch.OutOfMemoryError:
                if self._budget <= self._slots(len(encoded[prompts[-1]])):
                    raise
            self._budget //= 2
            warn_of_halving("the batch")

    @torch.no_grad()
    def _sample_refilled(self, prompts: list[str], encoded: dict[str, list[int]]) -> list[Responses]:
        """Sample all prompts in one batch in which waiting prompts take the room of finished ones."""
        decoder = TreeDecoder(self._model, self.tokenizer.pad_token_id, self.options.num_samples)
        drawn: list[Row] = []
        alive: list[Row] = []
        done = 0
        while done < len(prompts) or alive:
            lines = len({row.prompt for row in alive})
            room = max(self._budget // self._slots(len(encoded[prompts[min(done, len(prompts) - 1)]])), 1)
            # joining copies the cache: not for one or two
            if done < len(prompts) and lines <= 0.75 * room:
                some = prompts[done : done + max(room - lines, 1)]
                rows = self._rows(some, done)
                with timed("prefill", tokens=sum(len(encoded[prompt]) for prompt in some)):
                    logits, branches = decoder.join([encoded[prompt] for prompt in some], done, alive)
                drawn, alive, done = drawn + rows, alive + self._advance(logits, branches, rows), done + len(some)
            elif alive:
                with timed("decode", tokens=len(alive)):
                    stepped = decoder.step(alive)
                alive = self._advance(*stepped, alive)
        return self._by_prompt(drawn)

    def _rows(self, prompts: Sequence[str], first: int = 0) -> list[Row]:
        return [
            Row(noise(prompt, index, self.options.seed, self.options.max_new_tokens), place, index)
            for place, prompt in enumerate(prompts, first)
            for index in range(self.options.num_samples)
        ]

    def _by_prompt(self, rows: Sequence[Row], counts: Iterable[int] | None = None) -> list[Responses]:
        """Return the responses of each prompt: all, or the first ``counts``."""
        samples = self.options.num_samples
        starts = range(0, len(rows), samples)
        ends = counts if counts is not None else [samples] * len(starts)
        return [self._responses(rows[start : start + end]) for start, end in zip(starts, ends, strict=True)]

    def _slots(self, length: int) -> int:
        """Return how many tokens of the key-value cache a prompt of so many tokens may take."""
        samples, longest = self.options.num_samples, self.options.max_new_tokens
        return length + samples * longest if self._layout == "tree" else samples * (length + longest)

    def _advance(self, logits: Tensor, branches: Sequence[int], alive: Sequence[Row]) -> list[Row]:
        """Draw the next token of each row; return the rows that go on."""
        with timed("draw", tokens=len(alive)):
            log_probs = logits.float().log_softmax(-1)  # (B, V)
            if bool(log_probs[:, 0].isnan().any()):  # one NaN makes its whole row NaN
                raise UnscorableError(f"reader {self.name!r} gave NaN logits; load it with dtype='float32'")
            tokens = self._draw(log_probs, branches, [row.noise[len(row.token_ids)] for row in alive])  # (R,)
            chosen = log_probs[branches, tokens]
            for row, token, log_prob in zip(alive, tokens.tolist(), chosen.tolist(), strict=True):
                self._append(row, token, log_prob)
        return [row for row in alive if not row.finished and len(row.token_ids) < self.options.max_new_tokens]

    def _draw(self, log_probs: Tensor, branches: Sequence[int], words: Sequence[int]) -> Tensor:
        """Draw one token per response from the probabilities of its branch."""
        if self.options.temperature == 0:
            return log_probs.argmax(-1)[list(branches)]
        if self.options.temperature != 1:
            log_probs = (log_probs / self.options.temperature).log_softmax(-1)
        if self.options.top_p < 1:
            log_probs = nucleus(log_probs, self.options.top_p)
        return draw(log_probs, branches, words)

    def _append(self, row: Row, token: int, log_prob: float) -> None:
        row.token_ids.append(token)
        row.log_probs.append(log_prob)
        if token in self._end_tokens:
            row.text = self._decode(row.token_ids[:-1])
            row.finished = True
        elif self._may_end_stop[token]:
            text = cut_at_stop(self._decode(row.token_ids), self.options.stop)
            if text is not None:
                row.text, row.finished = text, True

    def _responses(self, rows: Sequence[Row]) -> Responses:
        return Responses(
            texts=tuple((row.text if row.finished else self._decode(row.token_ids)).strip() for row in rows),
            token_log_probs=tuple(torch.tensor(row.log_probs, dtype=torch.float32) for row in rows),
            token_ids=tuple(tuple(row.token_ids) for row in rows),
            finished=tuple(row.finished for row in rows),
        )

    def _decode(self, token_ids: Sequence[int]) -> str:
        text: str = self.tokenizer.decode(token_ids, skip_special_tokens=True)
        return text
