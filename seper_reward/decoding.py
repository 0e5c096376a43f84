"""Decoder: a causal language model, its key-value cache, and the samples of several prompts side by side."""

import inspect
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

Layout = Literal["tree", "repeat", "alone"]


@dataclass
class Row:
    """One response while it is drawn: sample ``sample`` of prompt ``prompt`` of the batch."""

    generator: torch.Generator
    prompt: int
    sample: int
    token_ids: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)
    text: str = ""
    finished: bool = False


class Decoder:
    """The model and its key-value cache, in one of three layouts.

    ``tree``: one line of the cache per prompt; its samples are decoded side by side as queries of that line, each
    seeing the prompt and its own tokens. ``repeat``: one line per sample, copied after the prompt was read.
    ``alone``: one line per sample, the prompt read for each.
    """

    def __init__(self, model: Any, pad_id: int, layout: Layout, samples: int) -> None:
        self._model, self._pad_id, self._layout, self._samples = model, pad_id, layout, samples
        self._cache = _new_cache(model)
        self._can_drop = all(hasattr(layer, "batch_select_indices") for layer in self._cache.layers)
        self._last_logits_only = _keep_logits(model, 1)

    def prefill(self, prompts: Sequence[Sequence[int]]) -> Tensor:
        """Read the prompts; return the logits of the first token, ``(prompts * samples, V)``."""
        device, samples = self._model.device, self._samples
        copies = samples if self._layout == "alone" else 1
        rows = [ids for ids in prompts for _ in range(copies)]
        # elsewhere the padding between common start and rest would shift a sliding window
        common = _common_prefix(rows) if self._layout == "tree" else 0
        # who wrote a slot of the cache: -1 nobody (padding), 0 the prompt, n + 1 sample n
        self._owner = torch.zeros(1, common, dtype=torch.long, device=device)
        if common:
            shared = torch.tensor([rows[0][:common]], device=device)
            self._forward(shared, torch.arange(common, device=device)[None], self._owner >= 0)
            self._repeat(len(rows))
        input_ids, mask = _left_pad([ids[common:] for ids in rows], self._pad_id)
        self._owner = torch.cat([self._owner.expand(len(rows), common), mask.to(device) - 1], dim=1)
        positions = ((self._owner >= 0).cumsum(1) - 1).clamp(min=0)[:, common:]
        logits = self._forward(input_ids.to(device), positions, self._owner >= 0)[:, -1]
        self._next_position = positions[:, -1] + 1  # (L,) per line of the cache
        if self._layout == "repeat":
            self._repeat(samples)
            self._next_position = self._next_position.repeat_interleave(samples)
        # the lines of the cache, by what is decoded in them
        self._lines = [
            (prompt, sample)
            for prompt in range(len(prompts))
            for sample in range(1 if self._layout == "tree" else samples)
        ]
        return logits if self._layout == "alone" else logits.repeat_interleave(samples, dim=0)

    def step(self, rows: Sequence[Row]) -> Tensor:
        """Append the newest token of each row; return the logits of the next, ``(R, V)``."""
        by_line: dict[tuple[int, int], list[Row]] = {}
        for row in rows:
            by_line.setdefault((row.prompt, 0 if self._layout == "tree" else row.sample), []).append(row)
        # dropping lines copies the cache: not for one or two
        if self._can_drop and len(by_line) <= 0.75 * len(self._lines):
            self._keep([place for place, line in enumerate(self._lines) if line in by_line])
        width = max(map(len, by_line.values()))
        tokens, owners = (torch.full((len(self._lines), width), filler) for filler in (self._pad_id, -1))
        places = []
        for line, name in enumerate(self._lines):
            for column, row in enumerate(by_line.get(name, ())):
                tokens[line, column], owners[line, column] = row.token_ids[-1], row.sample + 1
                places.append((line, column))
        owners = owners.to(self._owner.device)
        self._owner = torch.cat([self._owner, owners], dim=1)
        positions = self._next_position[:, None].expand(-1, width)
        logits = self._forward(tokens.to(owners.device), positions, self._visible(owners))  # (L, W, V)
        self._next_position = self._next_position + 1
        lines, columns = zip(*places, strict=True)  # rows come line by line, as they were drawn
        return logits[list(lines), list(columns)]

    def _visible(self, owners: Tensor) -> Tensor:
        """Return the mask of the newest tokens, written by ``owners`` ``(L, W)``, over all slots."""
        if self._layout != "tree":
            return self._owner >= 0
        seen = (self._owner == 0)[:, None] | (self._owner[:, None] == owners[..., None]) & (owners >= 0)[..., None]
        dtype = self._model.dtype
        mask = torch.zeros_like(seen, dtype=dtype).masked_fill(~seen, torch.finfo(dtype).min)
        return mask[:, None]  # (L, 1, W, slots)

    def _repeat(self, copies: int) -> None:
        self._cache.batch_repeat_interleave(copies)
        self._owner = self._owner.repeat_interleave(copies, dim=0)

    def _keep(self, places: list[int]) -> None:
        index = torch.tensor(places, device=self._owner.device)
        self._cache.batch_select_indices(index)
        self._owner, self._next_position = self._owner[index], self._next_position[index]
        self._lines = [self._lines[place] for place in places]

    def _forward(self, input_ids: Tensor, positions: Tensor, mask: Tensor) -> Tensor:
        prefill = mask.ndim == 2 and input_ids.shape[1] > 1
        output = self._model(
            input_ids=input_ids,
            attention_mask=mask if mask.ndim == 4 else mask.long(),
            position_ids=positions,
            past_key_values=self._cache,
            use_cache=True,
            **(self._last_logits_only if prefill else {}),
        )
        logits: Tensor = output.logits
        return logits


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
        layout: see [`Decoder`].

    Returns:
        Per line and continuation, ``(T,)`` natural-log probabilities of its T tokens.
    """
    alone = [(prompt, [said]) for prompt, continuations in lines for said in continuations]
    found = iter(_forced(model, lines if layout == "tree" else alone, pad_id))
    return [[next(found) for _ in continuations] for _, continuations in lines]


def _forced(model: Any, lines: Sequence[tuple[Sequence[int], Sequence[Sequence[int]]]], pad_id: int) -> list[Tensor]:
    device = model.device
    ids = [[*prompt, *itertools.chain(*continuations)] for prompt, continuations in lines]
    input_ids, mask = (tensor.to(device) for tensor in _left_pad(ids, pad_id))
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
        attention_mask=mask if single else _tree_mask(owners, model.dtype),
        position_ids=positions,
        use_cache=False,
        **_keep_logits(model, kept),  # left-padded: all continuations end at the end
    ).logits[:, -kept:]
    rows, places = zip(*asked, strict=True)
    log_probs = logits[list(rows), [place - (length - kept) for place in places]].float().log_softmax(-1)
    every = [said for _, continuations in lines for said in continuations]
    tokens = torch.tensor([*itertools.chain(*every)], device=device)
    chosen = log_probs.gather(-1, tokens[:, None])[:, 0].cpu()
    return list(chosen.split([len(said) for said in every]))


def _tree_mask(owners: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the mask ``(L, 1, T, T)``: a token sees the prompt, and its own continuation up to itself."""
    theirs, mine = owners[:, None], owners[..., None]
    seen = ((theirs == 0) | (theirs == mine)) & (mine >= 0)
    seen = seen & torch.ones_like(seen[0]).tril()
    return torch.zeros_like(seen, dtype=dtype).masked_fill(~seen, torch.finfo(dtype).min)[:, None]


def choose_layout(model: Any) -> Layout:
    """Choose how samples share a prompt: what the model's cache and attention can do."""
    from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

    if "position_ids" not in inspect.signature(model.forward).parameters:
        return "alone"  # positions by distance (ALiBi): slots of other samples would count
    kinds = {type(layer) for layer in _new_cache(model).layers}  # by type: hybrid layers inherit what they cannot do
    if kinds == {DynamicLayer} and model.config._attn_implementation in ("sdpa", "eager"):  # they take any mask
        return "tree"
    return "repeat" if kinds and kinds <= {DynamicLayer, DynamicSlidingWindowLayer} else "alone"


def _new_cache(model: Any) -> Any:
    from transformers import DynamicCache

    return DynamicCache(config=model.config)


def _common_prefix(sequences: Sequence[Sequence[int]]) -> int:
    """Return how many first tokens all sequences share, leaving each at least one of its own."""
    if len(sequences) == 1:
        return 0
    shortest = min(map(len, sequences)) - 1
    agree = (len({ids[position] for ids in sequences}) == 1 for position in range(shortest))
    return next((position for position, same in enumerate(agree) if not same), shortest)


def _keep_logits(model: Any, count: int) -> dict[str, int]:
    """Ask for the logits of the last positions only, where the model can."""
    return {"logits_to_keep": count} if "logits_to_keep" in inspect.signature(model.forward).parameters else {}


def _left_pad(sequences: Sequence[Sequence[int]], pad_id: int) -> tuple[Tensor, Tensor]:
    longest = max(map(len, sequences))
    ids = torch.tensor([[pad_id] * (longest - len(ids)) + list(ids) for ids in sequences])
    mask = torch.tensor([[0] * (longest - len(ids)) + [1] * len(ids) for ids in sequences])
    return ids, mask
