"""What all samplers share, wherever the reader runs: their options and their protocol."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Literal, Protocol, TypeVar, get_args

import torch
from torch import Tensor

from seper_reward.runtime.cache import Cache
from seper_reward.runtime.pretrained import LoadOptions
from seper_reward.types import Leaf, Responses, UnscorableError

T = TypeVar("T")
R = TypeVar("R")

#: How the samples of a prompt share its reading, from cheapest to dearest; see ``choose_layout``.
Layout = Literal["tree", "repeat", "alone", "reread"]

#: Fields of ``SamplingOptions`` for the one likeliest response.
GREEDY: Mapping[str, Any] = MappingProxyType({"num_samples": 1, "temperature": 0.0, "top_p": 1.0})


@dataclass(frozen=True)
class SamplingOptions:
    """How responses are sampled; everything here decides them.

    Attributes:
        num_samples: N, the number of responses per prompt, >= 1.
        temperature: Sampling temperature, >= 0; 0 takes the likeliest token (all N responses are then equal).
        top_p: Probability mass of the nucleus that tokens are drawn from, in (0, 1].
        max_new_tokens: Longest response in tokens, >= 1.
        stop: Strings that end a response and are cut from it; ignored before its first visible character.
        seed: Seed of the noise.

    Raises:
        ValueError: A number is out of range, or a stop string is empty.
    """

    # whether what is sampled is a thought: stop strings then count from the first character on, and control tokens are
    # part of its text
    thought: ClassVar[bool] = False

    num_samples: int = 10
    temperature: float = 1.0
    top_p: float = 1.0
    max_new_tokens: int = 32
    stop: tuple[str, ...] = ("\n",)
    seed: int = 0

    def __post_init__(self) -> None:
        if self.num_samples < 1 or self.max_new_tokens < 1:
            raise ValueError(
                f"num_samples and max_new_tokens must be at least 1, got {self.num_samples}, {self.max_new_tokens}"
            )
        if not self.temperature >= 0 or not 0 < self.top_p <= 1:
            raise ValueError(f"temperature must be >= 0 and top_p in (0, 1], got {self.temperature} and {self.top_p}")
        if "" in self.stop:
            raise ValueError("stop must not hold an empty string")


class ThoughtOptions(SamplingOptions):
    """How the thoughts in front of responses are sampled; ``stop`` holds what ends a thought."""

    thought: ClassVar[bool] = True


@dataclass(frozen=True)
class ReaderOptions(LoadOptions):
    """How a reader is loaded and used.

    Attributes:
        max_batch_tokens: Most tokens in the key-value cache at once; 0 takes what half of the free memory holds, and
            ``None`` 32,768.
        layout: How the samples of a prompt share its reading. ``"tree"`` keeps one line of the cache for all,
            ``"repeat"`` copies the line after the prompt was read, ``"alone"`` reads the prompt for each sample, and
            ``"reread"`` uses no cache, which is slow and fits any causal model; ``None`` chooses by the architecture.
        chat_template: Text of a chat template (Jinja) in place of the tokenizer's own; ``None`` keeps that.

    Raises:
        ValueError: ``layout`` is none of these.
    """

    layout: Layout | None = None
    chat_template: str | None = None

    def __post_init__(self) -> None:
        if self.layout is not None and self.layout not in get_args(Layout):
            raise ValueError(f"layout must be {', '.join(get_args(Layout))} or None, got {self.layout!r}")


@dataclass(frozen=True)
class EngineOptions:
    """Which servers run the reader, and how they are asked.

    Attributes:
        urls: Base URLs, such as ``("http://localhost:8000/v1",)``; all serve the same model.
        model: The reader's name there; ``None`` if the servers have only one model.
        requests: Most requests at a time per server, >= 1; a request is a prompt with its N samples.
        timeout: Longest wait for an answer, in seconds, above 0.
        retries: How often a request without an answer is sent again, with exponential back-off, >= 0; then the next
            server is asked.
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
    """What ``SePerScorer`` needs of a reader, in this process or on servers.

    Attributes:
        backend: Where the reader runs, ``"process"`` or ``"engine"``.
        name: Name of the reader in provenance files.
        tokenizer: The reader's tokenizer.
        options: How responses are sampled.
        max_batch_tokens: Most tokens in the reader's cache at once; 0 where a server decides.
        prompts_ahead: How many prompts ``expect`` can begin with before ``sample`` is called; 0 for none.
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
        """How the samples of a prompt share its reading; ``None`` where a server decides."""

    @property
    def weights_hash(self) -> str:
        """Hash over all parts of the reader that decide a response."""

    @property
    def device(self) -> torch.device | None:
        """Device of the reader; ``None`` if it is on a server."""

    @property
    def max_prompt_tokens(self) -> int:
        """Longest prompt, in tokens, that leaves room for a whole response."""

    def remember(self, cache: Cache) -> None:
        """Compare weights that no hash covers, as those of a server, with those whose responses a cache has."""

    def sample(
        self, prompts: Sequence[str], given: Mapping[str, Sequence[str]] = MappingProxyType({})
    ) -> list[Responses | UnscorableError]:
        """Sample N responses for each prompt; see ``ResponseSampler.sample``."""

    def log_probs(self, prompts: Sequence[str], texts: Sequence[str]) -> list[Tensor | UnscorableError]:
        """Return log-probabilities of given texts as responses; see ``ResponseSampler.log_probs``."""

    def expect(self, prompts: Sequence[str]) -> None:
        """Begin with prompts that ``sample`` will be called with; only the time it takes changes."""

    def leaves(self, prompts: Sequence[str], texts: Sequence[str]) -> Sequence[Leaf | UnscorableError]:
        """Return how likely a draw is to be exactly a given response, its end included, if ``knows_leaves``."""

    def reading_with(self, model: Any) -> "Sampler":
        """Return a sampler with the same options in this process, on a model that has the same tokenizer."""

    def with_options(self, options: SamplingOptions) -> "Sampler":
        """Return a sampler of the same reader with other options."""

    def check(self, prompt: str) -> None:
        """Compare the log-probabilities of sampled tokens with teacher-forced ones; see ``ResponseSampler.check``."""


def isolated(act: Callable[[list[T]], Sequence[R]], batch: list[T]) -> list[R | UnscorableError]:
    """Return the results of a batch; if it cannot be scored as a whole, its items are tried one by one.

    Args:
        act: Returns one result per item, or raises ``UnscorableError``.
        batch: The items.

    Returns:
        Per item its result, or its own error.
    """
    try:
        return list(act(batch))
    except UnscorableError as error:
        if len(batch) == 1:
            return [error.with_traceback(None)]  # its frames would keep the batch's cache alive
    return [found for item in batch for found in isolated(act, [item])]
