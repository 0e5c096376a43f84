"""What all samplers share, wherever the reader runs: their options and their protocol."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Literal, Protocol, get_args

import torch
from torch import Tensor

from seper_reward.runtime.pretrained import LoadOptions
from seper_reward.types import Leaf, Responses

Backend = Literal["process", "engine", "auto"]

#: How the samples of a prompt share its reading, from cheapest to dearest; see ``choose_layout``.
Layout = Literal["tree", "repeat", "alone", "reread"]

#: Whether the responses of a prompt are drawn independently, or all distinct.
Draw = Literal["independent", "without_replacement"]

#: Fields of ``SamplingOptions`` for the one likeliest response.
GREEDY: Mapping[str, Any] = MappingProxyType(
    {"num_samples": 1, "temperature": 0.0, "top_p": 1.0, "draw": "independent"}
)

#: Takes the first responses by prompt and returns the prompts that need all N.
NeedsMore = Callable[[Mapping[str, Responses]], set[str]]


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
        draw: ``"independent"`` draws each response by itself, so that a likely one is drawn several times;
            ``"without_replacement"`` draws N distinct ones, as token sequences, in the order in which they would first
            be drawn (stochastic beam search, arXiv:1903.06059), or as many as have a probability above 0 at this
            temperature and within the nucleus.

    Raises:
        ValueError: A number is out of range, a stop string is empty, or ``draw`` is unknown.
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
    draw: Draw = "independent"

    def __post_init__(self) -> None:
        if self.num_samples < 1 or self.max_new_tokens < 1:
            raise ValueError(
                f"num_samples and max_new_tokens must be at least 1, got {self.num_samples}, {self.max_new_tokens}"
            )
        if not self.temperature >= 0 or not 0 < self.top_p <= 1:
            raise ValueError(f"temperature must be >= 0 and top_p in (0, 1], got {self.temperature} and {self.top_p}")
        if "" in self.stop:
            raise ValueError("stop must not hold an empty string")
        if self.draw not in get_args(Draw):
            raise ValueError(f"draw must be {' or '.join(get_args(Draw))}, got {self.draw!r}")

    def refuse_without_replacement(self, reader: str) -> None:
        """Refuse ``draw="without_replacement"`` for a reader that can only draw independently, named in the error.

        Raises:
            ValueError: ``draw`` is ``"without_replacement"``.
        """
        if self.draw == "without_replacement":
            raise ValueError(
                "draw=without_replacement needs a reader in this process that answers without thinking first, got "
                f"{reader}; set draw=independent"
            )


class ThoughtOptions(SamplingOptions):
    """How the thoughts in front of responses are sampled; ``stop`` holds what ends a thought."""

    thought: ClassVar[bool] = True


@dataclass(frozen=True)
class AdaptiveSampling:
    """Sample fewer than N responses where few are enough.

    Where the estimator weighs by mass, they are enough when little mass is unseen, or its support clear; agreement
    alone is not. With other weights, a few responses that agree by chance move beliefs a little towards 0 and 1.

    Attributes:
        enough_std_error: Standard error of a belief, in (0, 1], up to which ``min_samples`` responses are enough.
        min_samples: How many responses are sampled in any case, >= 2.

    Raises:
        ValueError: A number is out of range.
    """

    enough_std_error: float
    min_samples: int = 4

    def __post_init__(self) -> None:
        if not 0 < self.enough_std_error <= 1 or self.min_samples < 2:
            raise ValueError(
                "enough_std_error must be in (0, 1] and min_samples at least 2, got "
                f"{self.enough_std_error}, {self.min_samples}"
            )


@dataclass(frozen=True)
class ReaderOptions(LoadOptions):
    """How a reader is loaded and used.

    Attributes:
        backend: ``"process"``, ``"engine"`` or ``"auto"``, which measures both and keeps the faster; ``None`` takes
            the engine where one is named. The other options concern a reader in this process.
        max_batch_tokens: Most tokens in the key-value cache at once; 0 takes what half of the free memory holds, and
            ``None`` 32,768.
        layout: How the samples of a prompt share its reading. ``"tree"`` keeps one line of the cache for all,
            ``"repeat"`` copies the line after the prompt was read, ``"alone"`` reads the prompt for each sample, and
            ``"reread"`` uses no cache, which is slow and fits any causal model; ``None`` chooses by the architecture.
        refill: Whether waiting prompts take the room of finished ones in the running batch. Faster where many prompts
            are sampled in one call; a response may then depend, in low digits, on the prompts beside it.
        compile_reader: Whether the model's calls are compiled, which takes minutes before the first response; where a
            trial fails, a warning tells why and the model is called as it is. Low digits then depend on what was
            sampled before.
        chat_template: Text of a chat template (Jinja) in place of the tokenizer's own; ``None`` keeps that.

    Raises:
        ValueError: ``layout`` is none of these.
    """

    backend: Backend | None = None
    layout: Layout | None = None
    refill: bool = False
    compile_reader: bool = False
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
        knows_leaves: Whether ``leaves``, and ``sample`` of given texts, tell how likely a response is with its end.
        refill: Whether waiting prompts take the room of finished ones; one call should then have many prompts.
        compiled: Whether the reader's forward pass is compiled, which changes low digits.
    """

    backend: str
    name: str
    tokenizer: Any
    options: SamplingOptions
    max_batch_tokens: int
    prompts_ahead: int
    knows_leaves: bool
    refill: bool
    compiled: bool

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

    def sample(
        self,
        prompts: Sequence[str],
        first: int | None = None,
        more: NeedsMore | None = None,
        given: Mapping[str, Sequence[str]] = MappingProxyType({}),
    ) -> list[Responses]:
        """Sample N responses for each prompt; see ``ResponseSampler.sample``."""

    def log_probs(self, prompts: Sequence[str], texts: Sequence[str]) -> list[Tensor]:
        """Return log-probabilities of given texts as responses; see ``ResponseSampler.log_probs``."""

    def leaves(self, prompts: Sequence[str], texts: Sequence[str]) -> list[Leaf]:
        """Return how likely given texts are as whole responses, end included; see ``ResponseSampler.leaves``."""

    def expect(self, prompts: Sequence[str]) -> None:
        """Begin with prompts that ``sample`` will be called with; only the time it takes changes."""

    def reading_with(self, model: Any) -> "Sampler":
        """Return a sampler with the same options in this process, on a model that has the same tokenizer."""

    def with_options(self, options: SamplingOptions) -> "Sampler":
        """Return a sampler of the same reader with other options."""

    def check(self, prompt: str) -> None:
        """Compare the log-probabilities of sampled tokens with teacher-forced ones; see ``ResponseSampler.check``."""
