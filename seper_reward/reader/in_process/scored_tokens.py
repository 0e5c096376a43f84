"""Log-probabilities of some tokens of a prompt, from the forward pass that prefills it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from seper_reward.reader.in_process.layout import keep_logits

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
    model: Any, *, keep: int | Tensor | None = None, places: Sequence[Place] = (), **inputs: Any
) -> tuple[Tensor, list[float]]:
    """Call the model once; return its logits, and the natural-log probability of the token of each place.

    The logits are ``(L, K, V)``, at the last ``keep`` positions or at given ones if the model has an argument for it,
    else at all; they are bit-identical with and without places, whose hidden states pass through the output layer
    apart. Log-probabilities are NaN if the model does not call its output layer.
    """
    kept = {} if keep is None else keep_logits(model, keep)
    if not places:
        return model(**inputs, **kept).logits, []
    hidden: list[Tensor] = []
    shapes: list[torch.Size] = []
    lines, positions = [each.line for each in places], [each.position for each in places]

    def choose(_: Any, states: tuple[Tensor]) -> tuple[Tensor]:
        hidden.append(states[0][lines, positions])
        return (_at(states[0], keep) if kept else states[0],)

    def append(layer: Any, _: Any, logits: Tensor) -> Tensor:
        shapes.append(logits.shape)
        # one tensor, since some models scale or cap the logits afterwards
        return torch.cat([logits.flatten(0, 1), layer.forward(hidden[-1])])[None]

    layer = model.get_output_embeddings()
    hooks = layer.register_forward_pre_hook(choose), layer.register_forward_hook(append)
    try:
        logits: Tensor = model(**inputs).logits
    finally:
        for hook in hooks:
            hook.remove()
    if not shapes:
        return _at(logits, keep) if kept else logits, [float("nan")] * len(places)
    lines_and_kept = shapes[0][:2].numel()
    tokens = torch.tensor([each.token for each in places], device=logits.device)
    batches = torch.split(logits[0, lines_and_kept:], _ROWS), torch.split(tokens, _ROWS)
    scored = [
        rows.float().log_softmax(-1).gather(-1, wanted[:, None])[:, 0] for rows, wanted in zip(*batches, strict=True)
    ]
    return logits[0, :lines_and_kept].view(*shapes[0][:2], -1), torch.cat(scored).tolist()


def _at(states: Tensor, keep: int | Tensor | None) -> Tensor:
    return states[:, -keep:] if isinstance(keep, int) else states[:, keep]
