"""Teacher forcing: how likely a causal language model finds given texts after given prompts."""

import itertools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from seper_reward.reader.in_process.decoding import Layout, keep_logits
from seper_reward.reader.in_process.masks import left_pad, tree_mask


@torch.no_grad()
def forced_log_probs(
    model: Any, lines: Sequence[tuple[Sequence[int], Sequence[Sequence[int]]]], pad_id: int, layout: Layout
) -> list[list[Tensor]]:
    """Return the log-probabilities of given tokens after given prompts (teacher forcing), at temperature 1.

    In the layout ``tree`` a prompt is read once, with all its continuations behind it, each seeing the prompt and
    itself; in the others once for each.

    Args:
        model: causal language model in eval mode.
        lines: (prompt ids, continuations' ids), one batch; continuations are not empty.
        pad_id: of the tokenizer.
        layout: see ``make_decoder``.

    Returns:
        Per line and continuation, ``(T,)`` natural-log probabilities of its T tokens.
    """
    alone = [(prompt, [said]) for prompt, continuations in lines for said in continuations]
    found = iter(_forced(model, lines if layout == "tree" else alone, pad_id))
    return [[next(found) for _ in continuations] for _, continuations in lines]


def _forced(model: Any, lines: Sequence[tuple[Sequence[int], Sequence[Sequence[int]]]], pad_id: int) -> list[Tensor]:
    device = model.device
    ids = [[*prompt, *itertools.chain(*continuations)] for prompt, continuations in lines]
    input_ids, mask = (tensor.to(device) for tensor in left_pad(ids, pad_id))
    length = input_ids.shape[1]
    owners, positions = torch.full_like(input_ids, -1), torch.zeros_like(input_ids)
    asked: list[tuple[int, int]] = []  # (line, place) of the logits of each continuation's tokens
    for line, (prompt, continuations) in enumerate(lines):
        place = length - len(ids[line])
        owners[line, place : place + len(prompt)] = 0
        positions[line, place : place + len(prompt)] = torch.arange(len(prompt))
        end = place = place + len(prompt)
        for number, said in enumerate(continuations):
            owners[line, place : place + len(said)] = number + 1
            positions[line, place : place + len(said)] = torch.arange(len(prompt), len(prompt) + len(said))
            asked += [(line, end - 1), *((line, at) for at in range(place, place + len(said) - 1))]
            place += len(said)
    single = all(len(continuations) == 1 for _, continuations in lines)
    kept = max(length - min(place for _, place in asked), 1)
    logits = model(
        input_ids=input_ids,
        attention_mask=mask if single else tree_mask(owners, model.dtype),
        position_ids=positions,
        use_cache=False,
        **keep_logits(model, kept),  # left-padded: all continuations end at the end
    ).logits[:, -kept:]
    rows, places = zip(*asked, strict=True)
    log_probs = logits[list(rows), [place - (length - kept) for place in places]].float().log_softmax(-1)
    every = [said for _, continuations in lines for said in continuations]
    tokens = torch.tensor([*itertools.chain(*every)], device=device)
    chosen = log_probs.gather(-1, tokens[:, None])[:, 0].cpu()
    return list(chosen.split([len(said) for said in every]))
