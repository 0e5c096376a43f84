"""Options and protocol of all samplers, in this process and on servers."""

import hashlib
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import torch
from torch import Tensor

from seper_reward.options import Layout, ReaderOptions
from seper_reward.reader.tokens import encode_prompt
from seper_reward.runtime.cache import Cache
from seper_reward.runtime.profiling import count
from seper_reward.types import Responses, UnscorableError

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

T = TypeVar("T")
R = TypeVar("R")

#: Fields of ``SamplingOptions`` for greedy decoding.
GREEDY: Mapping[str, Any] = MappingProxyType({"num_samples": 1, "temperature": 0.0, "top_p": 1.0})


@dataclass(frozen=True, order=True)
class Request:
    """A prompt to sample, with the chat template already applied, and what else to measure with it.

    Attributes:
        prompt: The prompt.
        answers: Texts whose probabilities are the ``known_leaves`` of the responses, in order.
        question: The question in the prompt; its last occurrence is scored as ``question_log_prob``. Empty for none.
        encoding: The tokenizer's encoding of the prompt without special tokens, if it was made before.
    """

    prompt: str
    answers: tuple[str, ...] = ()
    question: str = ""
    encoding: Any = field(default=None, compare=False, repr=False)


class Sampler(Protocol):
    """Interface of a reader for ``SePerScorer``, in this process or on servers.

    Attributes:
        backend: ``"process"``, ``"vllm"`` or ``"engine"``.
        name: Name of the reader in provenance files.
        tokenizer: The reader's tokenizer.
        options: Options of the reader, with numbers in place of ``None``, the defaults.
        window: Maximum length of a prompt with its response, in tokens.
        max_batch_tokens: Maximum number of tokens in the reader's cache; 0 if an engine decides.
        prompts_ahead: Number of prompts that ``expect`` can prefetch before ``sample`` is called; 0 for none.
        layout: Layout of the reader; ``None`` if an engine decides.
    """

    backend: str
    name: str
    tokenizer: "PreTrainedTokenizerBase"
    options: ReaderOptions
    window: int
    max_batch_tokens: int = 0
    prompts_ahead: int = 0
    layout: Layout | None = None

    @property
    def weights_hash(self) -> str:
        """Hash over all parts of the reader that decide a response."""

    @property
    def device(self) -> torch.device | None:
        """Device of the reader; ``None`` if an engine decides."""
        return None

    @property
    def knows_leaves(self) -> bool:
        """Whether responses have the probabilities of a request's answers."""

    @property
    def max_prompt_tokens(self) -> int:
        """Maximum length of a prompt, in tokens, that leaves room for a whole response."""
        special: int = self.tokenizer.num_special_tokens_to_add()
        return self.window - self.options.max_new_tokens - special

    def encode(self, prompt: str, encoding: object = None) -> list[int]:
        """Return the token ids of a prompt that leaves room for a whole response; see ``encode_prompt``."""
        return encode_prompt(self.tokenizer, prompt, self.window - self.options.max_new_tokens, encoding)

    def remember(self, cache: Cache) -> None:
        """Raise if a server's weights, which no hash covers, are not those whose responses a cache has."""

    def expect(self, requests: Sequence[Request]) -> None:
        """Prefetch requests of a later call of ``sample``, if possible; this affects only the time."""

    def sample(self, requests: Sequence[Request]) -> list[Responses | UnscorableError]:
        """Sample N responses for each request; see ``ResponseSampler.sample``."""

    def log_probs(self, prompts: Sequence[str], texts: Sequence[str]) -> list[Tensor | UnscorableError]:
        """Return log-probabilities of given texts as responses; see ``ResponseSampler.log_probs``."""

    def reading_with(self, model: "PreTrainedModel") -> "Sampler":
        """Return a sampler with the same options in this process, on a checked model with the same tokenizer."""

    def with_options(self, options: ReaderOptions) -> "Sampler":
        """Return a sampler of the same reader with other options."""


def content_seed(seed: int, noise: str) -> int:
    """Return the seed of a request, in 30 bits: some servers store 32, and add the sample's index."""
    digest = hashlib.sha256(f"{seed}\0{noise}".encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:4], "big") >> 2


def count_work(
    calls: int, prompts: Iterable[Sequence[int]], results: Iterable[Responses | Tensor | UnscorableError]
) -> None:
    """Count calls, and tokens of prompts and of their responses or given texts, in the active profiles."""

    def numbers() -> dict[str, int]:
        usable = [result for result in results if not isinstance(result, UnscorableError)]
        texts = (result.token_log_probs if isinstance(result, Responses) else [result] for result in usable)
        return {
            "calls": calls,
            "prompt_tokens": sum(map(len, prompts)),
            "response_tokens": sum(map(len, itertools.chain.from_iterable(texts))),
        }

    count(numbers)


def isolated(act: Callable[[list[T]], Sequence[R]], batch: list[T]) -> list[R | UnscorableError]:
    """Return ``act(batch)``, one result per item; if it raises ``UnscorableError``, try the items one by one."""
    try:
        return list(act(batch))
    except UnscorableError as error:
        if len(batch) == 1:
            return [error.with_traceback(None)]  # its frames would keep the batch's cache alive
    return [result for item in batch for result in isolated(act, [item])]
