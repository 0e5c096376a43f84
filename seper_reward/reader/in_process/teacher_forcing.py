"""Teacher forcing: log-probabilities of given texts after given prompts under a causal language model."""

import inspect
import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from seper_reward.options import Layout
from seper_reward.reader.in_process.decoding import TreeDecoder, left_pad
from seper_reward.runtime.inference import inference

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@inference()
def forced_log_probs(
    model: "PreTrainedModel",
    lines: Sequence[tuple[Sequence[int], Sequence[Sequence[int]]]],
    pad_id: int,
    layout: Layout,
) -> list[list[Tensor]]:
    """Return ``(T,)`` log-probabilities at temperature 1 per continuation; see ``forced_logits``."""
    targets = [tokens for _, continuations in lines for tokens in continuations]
    logits = itertools.chain(*forced_logits(model, lines, pad_id, layout))
    scored = [
        chunk[:-1].float().log_softmax(-1).gather(-1, torch.tensor(tokens, device=chunk.device)[:, None])[:, 0]
        for chunk, tokens in zip(logits, targets, strict=True)
    ]
    log_probs = iter(torch.split(torch.cat(scored).cpu(), [len(tokens) for tokens in targets]))
    return [[next(log_probs) for _ in continuations] for _, continuations in lines]


@inference()
def forced_logits(
    model: "PreTrainedModel",
    lines: Sequence[tuple[Sequence[int], Sequence[Sequence[int]]]],
    pad_id: int,
    layout: Layout,
) -> list[list[Tensor]]:
    """Return the logits ``(T + 1, V)`` of each token of given continuations of prompts, and of the token after them.

    ``lines`` are one batch of (prompt ids, continuations' ids). In layouts other than ``tree`` a prompt is computed
    once for each continuation.
    """
    if layout == "tree":
        decoder = TreeDecoder(model, pad_id, samples=1)
        first, *_ = decoder.prefill([prompt for prompt, _ in lines])
        rest = decoder.forced_logits([continuations for _, continuations in lines])
        return [[torch.cat([first[line, None], after]) for after in continued] for line, continued in enumerate(rest)]
    pairs = [(prompt, tokens) for prompt, continuations in lines for tokens in continuations]
    batches = [[pair] for pair in pairs] if layout == "reread" else [pairs]
    logits = (text_logits for batch in batches for text_logits in _one_by_one(model, batch, pad_id))
    return [list(itertools.islice(logits, len(continuations))) for _, continuations in lines]


def _one_by_one(
    model: "PreTrainedModel", pairs: Sequence[tuple[Sequence[int], Sequence[int]]], pad_id: int
) -> list[Tensor]:
    ids = [[*prompt, *tokens] for prompt, tokens in pairs]
    input_ids, mask = (tensor.to(model.device) for tensor in left_pad(ids, pad_id))
    # with left padding, all continuations are at the end
    options = {"logits_to_keep": max(len(tokens) for _, tokens in pairs) + 1}
    logits = model(
        input_ids=input_ids,
        attention_mask=mask,
        position_ids=(mask.cumsum(1) - 1).clamp(min=0),
        use_cache=False,
        **(options if "logits_to_keep" in inspect.signature(model.forward).parameters else {}),
    ).logits
    return [logits[line, -len(tokens) - 1 :] for line, (_, tokens) in enumerate(pairs)]
