"""EngineSampler: responses from an OpenAI-compatible completions server (vLLM and others) instead of this process.

What a server draws is the same in distribution, not to the byte: its batches depend on who else asks. The prompt is
sent as token ids, so that it is read as in process; the seed of a request is a function of prompt and seed. A vLLM
server names the token ids of its responses, and ends them at stop strings; of another kind of server responses are
taken whole and cut here.
"""

import asyncio
import functools
import hashlib
import statistics
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

import torch
from torch import Tensor

from seper_reward.models import EMBEDDED, hash_with_tokenizer, load_tokenizer
from seper_reward.reader.engine.completions import Draw, completion_request, read_draws, read_forced
from seper_reward.reader.engine.servers import Server, ServerPool
from seper_reward.reader.in_process.response_sampler import ResponseSampler
from seper_reward.reader.sampler import More, SamplingOptions
from seper_reward.reader.tokens import cut_at_stop, encode_prompt, encode_response
from seper_reward.runtime.profiling import timed
from seper_reward.types import Responses

_PROBE = "Question: Who wrote „Hamlet“ – and when, 1599?\nAnswer:"
_TOLERANCE = 0.25  # nats, mean; bf16 differs by some hundredths, those of a draw at temperature 2 by several


class EngineSampler:
    """Samples N responses for each prompt from one or several servers of a model.

    Log-probabilities must be the model's own at temperature 1. At the start each server is asked one question, and
    refused if its tokenizer is another, or if the log-probabilities of a tempered draw differ from forced ones.

    Args:
        urls: base URLs, as ``["http://localhost:8000/v1"]``; all serve the same model.
        tokenizer: of that model.
        model: its name there; ``None`` if they serve only one.
        requests: most requests under way per server; each is a prompt with its N samples.
        timeout: longest wait for an answer, in seconds.
        retries: of a request that got none, with back-off; then the next server is asked.
        **sampling: fields of ``SamplingOptions``.

    Raises:
        ConnectionError: a server does not answer.
        ValueError: a server has another model or tokenizer, or its log-probabilities are not what they must be.
        OSError: the library ``openai`` is not installed.
    """

    backend = "engine"
    max_batch_tokens = 0
    refill = compiled = False
    device: torch.device | None = None

    def __init__(
        self,
        urls: Sequence[str],
        tokenizer: Any,
        *,
        model: str | None = None,
        requests: int = 64,
        timeout: float = 300.0,
        retries: int = 4,
        **sampling: Any,
    ) -> None:
        self.tokenizer, self.options = tokenizer, SamplingOptions(**sampling)
        self._pool = ServerPool(urls, model=model, requests=requests, timeout=timeout, retries=retries)
        self.name, self.prompts_ahead = self._pool.model, self._pool.capacity
        lengths = [row["max_model_len"] for row in self._pool.rows if row.get("max_model_len")]
        self._window: int = min(lengths, default=tokenizer.model_max_length)
        self._expected: dict[str, Future[Responses]] = {}
        # servers whose responses carry ids stop where we do; the others' are cut here
        named = [self._pool.start(self._meet(server)).result() for server in self._pool.servers]
        self._stops = all(named)

    @classmethod
    def from_pretrained(
        cls,
        reader: str = EMBEDDED,
        *,
        urls: Sequence[str],
        revision: str | None = None,
        trust_remote_code: bool = False,
        **options: Any,
    ) -> "EngineSampler":
        """Load the reader's tokenizer by the reader's name; ``options`` as above."""
        return cls(urls, load_tokenizer(reader, revision=revision, trust_remote_code=trust_remote_code), **options)

    @functools.cached_property
    def weights_hash(self) -> str:
        """Hash over the served model's name and source and the tokenizer; a server does not show its weights."""
        served = {(str(row["id"]), str(row.get("root"))) for row in self._pool.rows}
        return hash_with_tokenizer(["engine", sorted(served)], self.tokenizer)

    @property
    def max_prompt_tokens(self) -> int:
        """Longest prompt that leaves room for a whole response."""
        special: int = self.tokenizer.num_special_tokens_to_add()
        return self._window - self.options.max_new_tokens - special

    def expect(self, prompts: Sequence[str]) -> None:
        """Send prompts that ``sample`` will be asked for."""
        for prompt in prompts:
            if prompt not in self._expected:
                self._expected[prompt] = self._pool.start(self._sample(prompt))

    def sample(self, prompts: Sequence[str], first: int | None = None, more: More | None = None) -> list[Responses]:
        """Sample N responses for each prompt, all prompts at once.

        Args:
            prompts: texts, chat template already applied; equal ones are sampled once.
            first: ignored, as is ``more``: a server draws all N.
            more: see there.

        Returns:
            One ``Responses`` per prompt, in order; without ``token_ids`` if the server
            names none.

        Raises:
            UnscorableError: a prompt is empty or too long, the server refuses it, or its answer is not whole.
            ConnectionError: no server answered, after all retries.
        """
        self.expect(prompts)
        waiting = {prompt: self._expected.pop(prompt) for prompt in dict.fromkeys(prompts)}
        with timed("decode"):  # the server's prefill is in it
            sampled = {prompt: future.result() for prompt, future in waiting.items()}
        return [sampled[prompt] for prompt in prompts]

    def log_probs(self, prompts: Sequence[str], texts: Sequence[str]) -> list[Tensor]:
        """Return how likely the reader finds given texts as responses.

        Args:
            prompts: as in ``sample``.
            texts: one per prompt, as they continue it; their first ``max_new_tokens`` tokens count.

        Returns:
            Per pair, ``(T,)`` natural-log probabilities of the text's tokens, without an end-of-sequence token.

        Raises:
            UnscorableError: as in ``sample``, or a text has no token, or the server gives no log-probabilities of
                prompts (``echo``).
            ConnectionError: as in ``sample``.
        """
        waiting = []
        for prompt, text in zip(prompts, texts, strict=True):
            said = encode_response(self.tokenizer, text, self.options.max_new_tokens)
            waiting.append(self._pool.start(self._forced(self._pool, self._encode(prompt), said)))
        return [torch.tensor(future.result(), dtype=torch.float32) for future in waiting]

    def reading_with(self, model: Any) -> ResponseSampler:
        """Return a sampler with the same options in process, on a model that has this one's tokenizer."""
        return ResponseSampler(model, self.tokenizer, name=self.name, **vars(self.options))

    def check(self, prompt: str, tolerance: float = _TOLERANCE) -> None:
        """Compare the log-probabilities of sampled tokens with those of the same tokens as a prompt.

        Args:
            prompt: to sample from.
            tolerance: greatest mean difference in nats.

        Raises:
            RuntimeError: they differ by more.
            UnscorableError: the server names no token ids, or gives no log-probabilities of prompts.
        """
        (responses,) = self.sample([prompt])
        drawn = list(zip(responses.token_ids, (row.tolist() for row in responses.token_log_probs), strict=True))
        apart = self._pool.start(self._apart(self._pool, self._encode(prompt), drawn)).result()
        if apart > tolerance:
            raise RuntimeError(
                f"engine {self.name!r}: sampled and forced log-probabilities differ by {apart:.2f} nats"
            )

    async def _meet(self, server: Server) -> bool:
        """Ask a server one question; return whether its responses carry token ids.

        The log-probabilities are compared at a high temperature: whether a server shows those of the draw is a setting
        of the server, and plainest there, however sure the model is.
        """
        options, prompt, count = self.options, self._encode(_PROBE), min(self._count, 2)
        request = completion_request(self.name, _PROBE, n=count, max_tokens=options.max_new_tokens, temperature=2.0)
        request["extra_body"]["return_token_ids"] = True
        try:
            answer = await server.complete(request)
            drawn = read_draws(answer, count, self._decode)
            read = answer["choices"][0].get("prompt_token_ids")
            count_read = (answer.get("usage") or {}).get("prompt_tokens", len(prompt))
            if (read is not None and read != prompt) or count_read != len(prompt):
                raise ValueError("it reads a prompt as other tokens; set reader to the model that is served")
            named = all(isinstance(token, int) for row in drawn for token in row.tokens)
            if options.temperature == options.top_p == 1:  # the draw's log-probabilities are the model's own
                return named
            if not named:
                raise ValueError("it names no token ids, so its log-probabilities cannot be verified")
            apart = await self._apart(server, prompt, [(row.tokens, row.log_probs) for row in drawn])
            if apart > _TOLERANCE:
                raise ValueError(
                    f"its log-probabilities are not the model's own at temperature 1 (off by {apart:.2f} nats); start "
                    "vLLM with --logprobs-mode raw_logprobs"
                )
            return True
        except ValueError as error:
            raise ValueError(
                f"engine={server.url!r} cannot be used with temperature={options.temperature}, top_p={options.top_p}: "
                f"{error}"
            ) from error

    async def _sample(self, prompt: str) -> Responses:
        ids = self._encode(prompt)
        drawn = await self._draw(ids, self._count, prompt)
        whole = await asyncio.gather(
            *(self._past_leading_stops(ids, row, f"{prompt}\0{at}") for at, row in enumerate(drawn))
        )
        rows = [self._cut(row) for row in whole] * (self.options.num_samples // len(whole))
        return Responses(
            texts=tuple(row.text.strip() for row in rows),
            token_log_probs=tuple(torch.tensor(row.log_probs, dtype=torch.float32) for row in rows),
            token_ids=tuple(tuple(row.tokens) for row in rows) if self._stops else (),
            finished=tuple(row.ended for row in rows),
        )

    async def _draw(self, prompt: list[int], count: int, noise: str, longest: int | None = None) -> list[Draw]:
        options = self.options
        request = completion_request(
            self.name,
            prompt,
            n=count,
            max_tokens=longest or options.max_new_tokens,
            temperature=options.temperature,
            top_p=options.top_p,
        )
        digest = hashlib.sha256(f"{options.seed}\0{noise}".encode("utf-8", "surrogatepass")).digest()
        request["seed"] = int.from_bytes(digest[:4], "big") >> 2  # some keep it in 32 bits, and add the sample's index
        if self._stops and options.stop:
            request["stop"] = list(options.stop)
        return read_draws(await self._pool.complete(request), count, self._decode)

    async def _past_leading_stops(self, prompt: list[int], row: Draw, noise: str) -> Draw:
        """Go on with a response that the server ended at a stop string before its first visible character."""
        while row.stop_string and cut_at_stop(row.text, self.options.stop) is None:
            left = self.options.max_new_tokens - len(row.tokens)
            if not left:
                return Draw(row.tokens, row.log_probs, row.text, ended=False, stop_string=False)
            (more,) = await self._draw([*prompt, *row.tokens], 1, f"{noise}\0{len(row.tokens)}", left)
            tokens = row.tokens + more.tokens
            row = Draw(tokens, row.log_probs + more.log_probs, self._decode(tokens), more.ended, more.stop_string)
        return row

    def _cut(self, row: Draw) -> Draw:
        """End a response after the token that completes a stop string, as a sampler in process does."""
        whole = cut_at_stop(row.text, self.options.stop)
        if whole is None:
            return row
        for length in range(1, len(row.tokens)):
            text = cut_at_stop(self._decode(row.tokens[:length]), self.options.stop)
            if text is not None:
                return Draw(row.tokens[:length], row.log_probs[:length], text, ended=True, stop_string=True)
        return Draw(row.tokens, row.log_probs, whole, ended=True, stop_string=True)

    async def _apart(
        self, where: Server | ServerPool, prompt: list[int], drawn: Sequence[tuple[Sequence[int], list[float]]]
    ) -> float:
        """Return the mean absolute difference of log-probabilities, as drawn and as read."""
        forced = [await self._forced(where, prompt, ids) for ids, _ in drawn]
        return statistics.fmean(
            abs(one - other)
            for (_, drew), read in zip(drawn, forced, strict=True)
            for one, other in zip(drew, read, strict=True)
        )

    async def _forced(self, where: Server | ServerPool, prompt: list[int], said: Sequence[int]) -> list[float]:
        """Return the log-probabilities of tokens as part of a prompt."""
        request = completion_request(self.name, [*prompt, *said], n=1, max_tokens=0)
        return read_forced(await where.complete({**request, "echo": True}), len(prompt), len(said))

    @property
    def _count(self) -> int:
        # servers refuse to draw the likeliest response several times
        return 1 if self.options.temperature == 0 else self.options.num_samples

    def _encode(self, prompt: str) -> list[int]:
        return encode_prompt(self.tokenizer, prompt, self._window - self.options.max_new_tokens)

    def _decode(self, tokens: Sequence[Any]) -> str:
        """Return the text of token ids, or of tokens' texts."""
        if isinstance(tokens[0], str):
            return "".join(tokens)
        text: str = self.tokenizer.decode(tokens, skip_special_tokens=True)
        return text
