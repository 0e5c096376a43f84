"""A canary for the weights of a server: one prompt is read again, and its log-probabilities must stay.

A server's weights have a name and no hash, and trainers replace the weights under a fixed name (weight transfer of
vLLM, SGLang and others). Responses of replaced weights would be cached as those of the reader. The canary samples a
few tokens greedily and compares the log-probabilities of the likeliest ones.
"""

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from seper_reward.reader.engine.completions import completion_request, whole

PROBE = "Question: Which river flows through Vienna, and where does it end?\nAnswer:"
_TOKENS, _LIKELIEST = 4, 5
#: Mean difference in nats. Logits in bfloat16 are multiples of up to 1/4, so batches of another shape move them.
TOLERANCE = 0.25


class WeightsMovedError(OSError):
    """The weights of a server have changed, so all later responses would be wrong: the run stops."""


@dataclass(frozen=True)
class CanaryReading:
    """T tokens of a greedy response, and for each of them the natural-log probabilities of the likeliest tokens."""

    tokens: tuple[str, ...]
    log_probs: tuple[Mapping[str, float], ...]

    def difference(self, other: "CanaryReading") -> float:
        """Return the mean absolute difference in nats, over tokens that both have after the same tokens."""
        differences: list[float] = []
        steps = zip(self.tokens, other.tokens, self.log_probs, other.log_probs, strict=False)
        for token, other_token, log_probs, others in steps:
            differences += [abs(log_probs[key] - others[key]) for key in log_probs.keys() & others.keys()]
            if token != other_token:  # prefixes differ from here on
                break
        return statistics.fmean(differences) if differences else math.inf

    def compare(self, reference: "CanaryReading", server: str) -> None:
        """Raise ``WeightsMovedError`` if the reading of a server differs from the reference."""
        difference = reference.difference(self)
        if difference > TOLERANCE:
            raise WeightsMovedError(
                f"{server} has other weights than before: log-probabilities of the same prompt differ by "
                f"{difference:.2f} nats (at most {TOLERANCE}). Earlier entries of the cache are valid. A server "
                "to which a trainer pushes its policy cannot be the reader: start a separate server, or train with "
                "LoRA and AsyncGRPOTrainer on `vllm serve BASE --enable-lora`, and name BASE. If it serves another "
                "model on purpose, name another cache file"
            )


def canary_request(model: str) -> dict[str, Any]:
    """Return the request whose answer ``read_canary`` reads."""
    return completion_request(model, PROBE, n=1, max_tokens=_TOKENS, temperature=0.0, logprobs=_LIKELIEST)


def read_canary(answer: Mapping[str, Any]) -> CanaryReading:
    """Return the reading in a server's answer; raise ``UnscorableError`` if it has no log-probabilities."""
    with whole():
        logprobs = answer["choices"][0]["logprobs"]
        steps = ({token: float(value) for token, value in top.items()} for top in logprobs["top_logprobs"][:_TOKENS])
        return CanaryReading(tuple(logprobs["tokens"])[:_TOKENS], tuple(steps))
