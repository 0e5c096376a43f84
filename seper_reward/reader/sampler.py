"""What is asked of a reader, wherever it runs: the options of a draw, and the contract of all samplers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from seper_reward.types import Responses

More = Callable[[dict[str, Responses]], set[str]]


@dataclass(frozen=True)
class SamplingOptions:
    """How responses are drawn; everything here decides them.

    Attributes:
        num_samples: N responses per prompt.
        temperature: of the draw, above 0; 0 takes the likeliest token (all N responses are then equal).
        top_p: nucleus of the draw, in (0, 1].
        max_new_tokens: longest response.
        stop: strings that end a response and are cut from it; ignored before its first visible character.
        seed: of the noise.
    """

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


class Sampler(Protocol):
    """What ``SePerScorer`` needs of a reader, wherever it runs.

    Attributes:
        backend: where it runs, ``"process"`` or ``"engine"``.
        name: of the reader, for provenance.
        tokenizer: of the reader.
        options: how responses are drawn.
        max_batch_tokens: most tokens in the reader's cache at once; 0 where a server decides.
        prompts_ahead: prompts it can work on before they are asked for, see ``expect``; 0 for none.
        refill: whether waiting prompts take the room of finished ones; then many should be asked for in one call.
        compiled: whether its forward pass is compiled, which changes low digits.
    """

    backend: str
    name: str
    tokenizer: Any
    options: SamplingOptions
    max_batch_tokens: int
    prompts_ahead: int
    refill: bool
    compiled: bool

    @property
    def weights_hash(self) -> str:
        """Hash of all of the reader that decides a response."""

    @property
    def device(self) -> torch.device | None:
        """Where the reader is; ``None`` if that is another machine's business."""

    @property
    def max_prompt_tokens(self) -> int:
        """Longest prompt that leaves room for a whole response."""

    def sample(self, prompts: Sequence[str], first: int | None = None, more: More | None = None) -> list[Responses]:
        """Sample N responses for each prompt; see ``ResponseSampler``."""

    def log_probs(self, prompts: Sequence[str], texts: Sequence[str]) -> list[Tensor]:
        """Return how likely the reader finds given texts; see ``ResponseSampler.log_probs``."""

    def expect(self, prompts: Sequence[str]) -> None:
        """Begin with prompts that ``sample`` will be asked for; changes nothing but the time it takes."""

    def reading_with(self, model: Any) -> "Sampler":
        """Return a sampler with the same options in process, on a model that has this one's tokenizer."""

    def check(self, prompt: str, tolerance: float = 0.25) -> None:
        """Compare the log-probabilities of sampled tokens with forced ones; see ``ResponseSampler.check``."""
