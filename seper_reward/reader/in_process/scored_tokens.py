"""Log-probabilities of some tokens of a prompt, from the forward pass that prefills it."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_ROWS = 128  # tokens whose log-softmax is computed at once: a row has as many numbers as the vocabulary


@dataclass(frozen=True)
class Place:
    """A position in a line of a batch, and the token after it, whose log-probability is wanted."""

    line: int
    position: int
    token: int


def places_of(prompts: Sequence[Sequence[int]], spans: Sequence[range]) -> list[Place]:
    """Return the places of the tokens in each prompt's span of positions, each >= 1; no spans for none."""
    return [Place(line, position - 1, prompts[line][position]) for line, span in enumerate(spans) for position in span]


def forward(
    model: "PreTrainedModel", *, ends: Sequence[int] | None = None, places: Sequence[Place] = (), **inputs: object
) -> tuple[Tensor, list[float]]:
    """Call the model once; return its logits, and the natural-log probability of the token of each place.

    The logits are ``(L, V)`` at one position of each line if ``ends`` has them, else ``(L, T, V)`` at all. Those at
    ends are bit-identical with and without places, which need them: their hidden states pass through the output layer
    apart. Log-probabilities are NaN if the model does not call its output layer.
    """
    if ends is None:
        return model(**inputs).logits, []
    hidden: list[Tensor] = []
    called = False
    lines, positions = [place.line for place in places], [place.position for place in places]
    every, thread = range(len(ends)), threading.get_ident()  # other threads may call the model at the same time

    def choose(_: object, states: tuple[Tensor]) -> tuple[Tensor] | None:
        if threading.get_ident() != thread:
            return None
        hidden.append(states[0][lines, positions])
        return (states[0][every, ends][:, None],)

    def append(layer: Any, _: object, logits: Tensor) -> Tensor | None:
        nonlocal called
        if threading.get_ident() != thread:
            return None
        called = True
        # one tensor, since some models scale or cap the logits afterwards
        return torch.cat([logits, layer.forward(hidden[-1])[:, None]]) if places else None

    layer = model.get_output_embeddings()
    hooks = layer.register_forward_pre_hook(choose), layer.register_forward_hook(append)
    try:
        logits: Tensor = model(**inputs).logits
    finally:
        for hook in hooks:
            hook.remove()
    if not called or not places:
        return logits[:, 0] if called else logits[every, ends], [float("nan")] * len(places)
    tokens = torch.tensor([place.token for place in places], device=logits.device)
    batches = torch.split(logits[len(ends) :, 0], _ROWS), torch.split(tokens, _ROWS)
    scored = [
        chunk.float().log_softmax(-1).gather(-1, wanted[:, None])[:, 0] for chunk, wanted in zip(*batches, strict=True)
    ]
    return logits[: len(ends), 0], torch.cat(scored).tolist()
