"""Teacher forcing: how likely a causal language model finds given texts after given prompts."""

import itertools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from seper_reward.reader.in_process.layout import keep_logits, rope_switch
from seper_reward.reader.in_process.masks import left_pad, tree_mask
from seper_reward.reader.sampler import Layout


@torch.no_grad()
def forced_log_probs(
    model: Any, lines: Sequence[tuple[Sequence[int], Sequence[Sequence[int]]]], pad_id: int, layout: Layout
) -> list[list[Tensor]]:
    """Return the log-probabilities of given tokens after given prompts (teacher forcing), at temperature 1.

    Args:
        model: Causal language model in eval mode.
        lines: One batch of (prompt ids, continuations' ids); continuations are not empty.
        pad_id: Id of the tokenizer's padding token.
        layout: How the continuations of a prompt share it, as chosen by ``choose_layout``.

    Returns:
        Per line and continuation, ``(T,)`` natural-log probabilities of its T tokens, on the CPU.
    """
    targets = [tokens for _, continuations in lines for tokens in continuations]
    logits = itertools.chain(*forced_logits(model, lines, pad_id, layout))
    found = [
        rows[:-1].float().log_softmax(-1).gather(-1, torch.tensor(tokens, device=rows.device)[:, None])[:, 0]
        for rows, tokens in zip(logits, targets, strict=True)
    ]
    log_probs = iter(torch.split(torch.cat(found).cpu(), [len(tokens) for tokens in targets]))
    return [[next(log_probs) for _ in continuations] for _, continuations in lines]


@torch.no_grad()
def forced_logits(
    model: Any, lines: Sequence[tuple[Sequence[int], Sequence[Sequence[int]]]], pad_id: int, layout: Layout
) -> list[list[Tensor]]:
    """Return the logits of each token of given continuations of prompts, and of what follows them.

    In the layout ``tree`` a prompt is read once, with all its continuations after it, each seeing the prompt and
    itself; in the other layouts it is read once for each continuation, in ``reread`` without padding. Where long rope
    has a switch, a continuation is read with the factors of its whole row, as the model itself would.

    Args:
        model: Causal language model in eval mode.
        lines: One batch of (prompt ids, continuations' ids); continuations are not empty.
        pad_id: Id of the tokenizer's padding token.
        layout: How the continuations of a prompt share it, as chosen by ``choose_layout``.

    Returns:
        Per line and continuation, ``(T + 1, V)`` logits: of its T tokens, and of the token after them.
    """
    switch = rope_switch(model)
    batches: dict[Any, list[tuple[int, list[int]]]] = {}  # (line, its continuations) that are read together
    for line, (prompt, continuations) in enumerate(lines):
        beyond = [switch is not None and len(prompt) + len(tokens) > switch for tokens in continuations]
        if layout == "tree" and len(set(beyond)) == 1:
            batches.setdefault(beyond[0], []).append((line, list(range(len(continuations)))))
            continue
        for number, side in enumerate(beyond):
            batches.setdefault((line, number) if layout == "reread" else side, []).append((line, [number]))
    logits: dict[tuple[int, int], Tensor] = {}
    for batch in batches.values():
        rows = [(lines[line][0], [lines[line][1][number] for number in numbers]) for line, numbers in batch]
        places = [(line, number) for line, numbers in batch for number in numbers]
        logits.update(zip(places, _forced(model, rows, pad_id), strict=True))
    return [[logits[line, number] for number in range(len(rows))] for line, (_, rows) in enumerate(lines)]


def _forced(model: Any, lines: Sequence[tuple[Sequence[int], Sequence[Sequence[int]]]], pad_id: int) -> list[Tensor]:
    device = model.device
    ids = [[*prompt, *itertools.chain(*continuations)] for prompt, continuations in lines]
    input_ids, mask = (tensor.to(device) for tensor in left_pad(ids, pad_id))
    length = input_ids.shape[1]
    owners, positions = torch.full_like(input_ids, -1), torch.zeros_like(input_ids)
    predictors: list[tuple[int, int]] = []  # (line, place) of the logits of each continuation
    for line, (prompt, continuations) in enumerate(lines):
        place = length - len(ids[line])
        owners[line, place : place + len(prompt)] = 0
        positions[line, place : place + len(prompt)] = torch.arange(len(prompt))
        end = place = place + len(prompt)
        for number, tokens in enumerate(continuations):
            owners[line, place : place + len(tokens)] = number + 1
            positions[line, place : place + len(tokens)] = torch.arange(len(prompt), len(prompt) + len(tokens))
            predictors += [(line, end - 1), *((line, at) for at in range(place, place + len(tokens)))]
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
    predicting: Tensor = logits[list(rows), [place - (length - kept) for place in places]]
    return list(torch.split(predicting, [len(tokens) + 1 for _, continuations in lines for tokens in continuations]))
