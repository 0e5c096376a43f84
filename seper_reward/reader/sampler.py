"""Options and protocol of all samplers, in this process and on servers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Literal, Protocol, TypeVar, get_args

import torch
from torch import Tensor

from seper_reward.runtime.cache import Cache
from seper_reward.runtime.pretrained import LoadOptions
from seper_reward.runtime.settings import check_least
from seper_reward.types import Leaf, Responses, UnscorableError

T = TypeVar("T")
R = TypeVar("R")

#: Sharing of a prompt's computation among its samples, from cheapest to most expensive; see ``choose_layout``.
Layout = Literal["tree", "repeat", "alone", "reread"]

#: Fields of ``SamplingOptions`` for greedy decoding.
GREEDY: Mapping[str, Any] = MappingProxyType({"num_samples": 1, "temperature": 0.0, "top_p": 1.0})


@dataclass(frozen=True)
class SamplingOptions:
    """Options of sampling responses; all of them decide the responses.

    Attributes:
        num_samples: N, the number of responses per prompt, >= 1.
        temperature: Sampling temperature, >= 0; 0 is greedy decoding (all N responses are then equal).
        top_p: Probability mass of the nucleus from which tokens are drawn, in (0, 1].
        max_new_tokens: Maximum length of a response in tokens, >= 1.
        stop: Strings that end a response and are cut from it; ignored before its first visible character.
        seed: Seed of the noise.

    Raises:
        ValueError: A number is out of range, or a stop string is empty.
    """

    # whether thoughts are sampled: stop strings then count from the first character on, and control tokens are part of
    # the text
    thought: ClassVar[bool] = False

    num_samples: int = 10
    temperature: float = 1.0
    top_p: float = 1.0
    max_new_tokens: int = 32
    stop: tuple[str, ...] = ("\n",)
    seed: int = 0

    def __post_init__(self) -> None:
        check_least(self, num_samples=1, max_new_tokens=1, temperature=0)
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p must be in (0, 1], got {self.top_p}")
        if "" in self.stop:
            raise ValueError("stop must not contain an empty string")


class ThoughtOptions(SamplingOptions):
    """Options of sampling the thoughts before responses; ``stop`` contains the end of a thought."""

    thought: ClassVar[bool] = True


@dataclass(frozen=True)
class ReaderOptions(LoadOptions):
    """Options of loading and running a reader.

    ``max_batch_tokens`` limits the tokens in the key-value cache (default: 32,768).
    ``layout`` is how samples share their prompt's computation: ``"tree"`` uses one line of the cache for all samples,
    ``"repeat"`` copies the line after prefill, ``"alone"`` prefills the prompt for each sample, and ``"reread"`` uses
    no cache, which is slow and works with any causal model (default: chosen by the architecture). ``chat_template`` is
    a template (Jinja) in place of the tokenizer's own.
    """

    layout: Layout | None = None
    chat_template: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.layout is not None and self.layout not in get_args(Layout):
            raise ValueError(f"layout must be {', '.join(get_args(Layout))} or None, got {self.layout!r}")


@dataclass(frozen=True)
class EngineOptions:
    """The servers of the reader, and options of requests.

    All ``urls``, such as ``http://localhost:8000/v1``, serve the same ``model`` (default: the only one there). A
    server gets at most ``requests`` >= 1 at a time, a request being a prompt with its N samples. Without an answer
    within ``timeout`` > 0 seconds, a request is retried ``retries`` >= 0 times with exponential back-off; then the
    next server is tried.
    """

    urls: tuple[str, ...] = ()
    model: str | None = None
    requests: int = 64
    timeout: float = 300.0
    retries: int = 4

    def __post_init__(self) -> None:
        if self.requests < 1 or not self.timeout > 0 or self.retries < 0:
            raise ValueError(
                "expected at least one request at a time, a timeout above 0 and retries >= 0, got "
                f"requests={self.requests}, timeout={self.timeout}, retries={self.retries}"
            )


class Sampler(Protocol):
    """Interface of a reader for ``SePerScorer``, in this process or on servers.

    Attributes:
        backend: ``"process"`` or ``"engine"``.
        name: Name of the reader in provenance files.
        tokenizer: The reader's tokenizer.
        options: Options of sampling.
        max_batch_tokens: Maximum number of tokens in the reader's cache; 0 if a server decides.
        prompts_ahead: Number of prompts that ``expect`` can prefetch before ``sample`` is called; 0 for none.
    """

    backend: str
    name: str
    tokenizer: Any
    options: SamplingOptions
    max_batch_tokens: int
    prompts_ahead: int

    @property
    def knows_leaves(self) -> bool:
        """Whether the probabilities of given texts as responses are known."""

    @property
    def layout(self) -> Layout | None:
        """Layout of the reader; ``None`` if a server decides."""

    @property
    def weights_hash(self) -> str:
        """Hash over all parts of the reader that decide a response."""

    @property
    def device(self) -> torch.device | None:
        """Device of the reader; ``None`` if it is on a server."""

    @property
    def max_prompt_tokens(self) -> int:
        """Maximum length of a prompt, in tokens, that leaves room for a whole response."""

    def remember(self, cache: Cache) -> None:
        """Compare weights that no hash covers, as those of a server, with those whose responses a cache has."""

    def sample(
        self,
        prompts: Sequence[str],
        given: Mapping[str, Sequence[str]] = MappingProxyType({}),
        questions: Mapping[str, str] = MappingProxyType({}),
    ) -> list[Responses | UnscorableError]:
        """Sample N responses for each prompt; see ``ResponseSampler.sample``."""

    def log_probs(self, prompts: Sequence[str], texts: Sequence[str]) -> list[Tensor | UnscorableError]:
        """Return log-probabilities of given texts as responses; see ``ResponseSampler.log_probs``."""

    def expect(self, prompts: Sequence[str]) -> None:
        """Prefetch prompts of a later call of ``sample``; this affects only the time."""

    def leaves(self, prompts: Sequence[str], texts: Sequence[str]) -> Sequence[Leaf | UnscorableError]:
        """Return the probabilities of drawing exactly the given responses, ends included, if ``knows_leaves``."""

    def reading_with(self, model: Any) -> "Sampler":
        """Return a sampler with the same options in this process, on a model with the same tokenizer.

        The model is checked; see ``ResponseSampler.check``.
        """

    def with_options(self, options: SamplingOptions) -> "Sampler":
        """Return a sampler of the same reader with other options."""


def isolated(act: Callable[[list[T]], Sequence[R]], batch: list[T]) -> list[R | UnscorableError]:
    """Return ``act(batch)``, one result per item; if it raises ``UnscorableError``, try the items one by one."""
    try:
        return list(act(batch))
    except UnscorableError as error:
        if len(batch) == 1:
            return [error.with_traceback(None)]  # its frames would keep the batch's cache alive
    return [found for item in batch for found in isolated(act, [item])]
