"""Teacher forcing: how likely a causal language model finds given texts after given prompts."""

import itertools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from seper_reward.reader.in_process.layout import keep_logits
from seper_reward.reader.in_process.masks import left_pad, tree_mask
from seper_reward.reader.sampler import Layout


@torch.no_grad()
def forced_log_probs(
    model: Any, lines: Sequence[tuple[Sequence[int], Sequence[Sequence[int]]]], pad_id: int, layout: Layout
) -> list[list[Tensor]]:
    """Return the log-probabilities of given tokens after given prompts (teacher forcing), at temperature 1.

    In the layout ``tree`` a prompt is read once, with all its continuations after it, each seeing the prompt and
    itself; in the other layouts it is read once for each continuation, in ``reread`` without padding.

    Args:
        model: Causal language model in eval mode.
        lines: One batch of (prompt ids, continuations' ids); continuations are not empty.
        pad_id: Id of the tokenizer's padding token.
        layout: How the continuations of a prompt share it, as chosen by ``choose_layout``.

    Returns:
        Per line and continuation, ``(T,)`` natural-log probabilities of its T tokens.
    """
    alone = [(prompt, [continuation]) for prompt, continuations in lines for continuation in continuations]
    batches = [[line] for line in alone] if layout == "reread" else [lines if layout == "tree" else alone]
    log_probs = itertools.chain.from_iterable(_forced(model, batch, pad_id) for batch in batches)
    return [[next(log_probs) for _ in continuations] for _, continuations in lines]


def _forced(model: Any, lines: Sequence[tuple[Sequence[int], Sequence[Sequence[int]]]], pad_id: int) -> list[Tensor]:
    device = model.device
    ids = [[*prompt, *itertools.chain(*continuations)] for prompt, continuations in lines]
    input_ids, mask = (tensor.to(device) for tensor in left_pad(ids, pad_id))
    length = input_ids.shape[1]
    owners, positions = torch.full_like(input_ids, -1), torch.zeros_like(input_ids)
    predictors: list[tuple[int, int]] = []  # (line, place) of the logits that predict each continuation's tokens
    for line, (prompt, continuations) in enumerate(lines):
        place = length - len(ids[line])
        owners[line, place : place + len(prompt)] = 0
        positions[line, place : place + len(prompt)] = torch.arange(len(prompt))
        end = place = place + len(prompt)
        for number, tokens in enumerate(continuations):
            owners[line, place : place + len(tokens)] = number + 1
            positions[line, place : place + len(tokens)] = torch.arange(len(prompt), len(prompt) + len(tokens))
            predictors += [(line, end - 1), *((line, at) for at in range(place, place + len(tokens) - 1))]
            place += len(tokens)
    single = all(len(continuations) == 1 for _, continuations in lines)
    kept = max(length - min(place for _, place in predictors), 1)
    logits = model(
        input_ids=input_ids,
        attention_mask=mask if single else tree_mask(owners, model.dtype),
        position_ids=positions,
        use_cache=False,
        **keep_logits(model, kept),  # with padding in front, all continuations are at the end
    ).logits[:, -kept:]
    rows, places = zip(*predictors, strict=True)
    log_probs = logits[list(rows), [place - (length - kept) for place in places]].float().log_softmax(-1)
    targets = [tokens for _, continuations in lines for tokens in continuations]
    target_ids = torch.tensor([*itertools.chain(*targets)], device=device)
    target_log_probs = log_probs.gather(-1, target_ids[:, None])[:, 0].cpu()
    return list(target_log_probs.split([len(tokens) for tokens in targets]))
