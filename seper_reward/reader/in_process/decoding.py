"""Decoders: a causal language model, its key-value cache, and batches of samples of several prompts."""

import copy
import inspect
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor

from seper_reward.options import Layout
from seper_reward.reader.in_process.layout import cache_argument, has_lines, new_cache
from seper_reward.reader.in_process.rows import Row
from seper_reward.reader.in_process.scored_tokens import Place, forward, places_of
from seper_reward.reader.tokens import GivenResponse
from seper_reward.runtime.profiling import timed
from seper_reward.types import Leaf

if TYPE_CHECKING:
    from transformers import PreTrainedModel

# share of the longest prompt: sharing a shorter common prefix costs more than it saves, as it needs an attention mask
_WORTH_SHARING = 0.125
# tokens of prompts per forward pass on a CPU: more do not fit next to the weights into the processor's cache
_CPU_PREFILL_TOKENS = 1024
# tokens of given texts per forward pass, unless one text is longer: the logits of every token are kept
_GIVEN_TOKENS, _CPU_GIVEN_TOKENS = 8192, 2048


class Decoder(Protocol):
    """A model and its key-value cache.

    Both methods return the logits of the next token, ``(B, V)``, one row per branch (a branch may be shared by
    responses that are equal so far), and the branch of each response.
    """

    def prefill(
        self, prompts: Sequence[Sequence[int]], spans: Sequence[range] = ()
    ) -> tuple[Tensor, list[int], list[list[float]]]:
        """Prefill the prompts; responses are ordered by prompt, then sample.

        Also returns, per prompt, the log-probabilities of its tokens at the positions in its span, each >= 1.
        """

    def step(self, rows: Sequence[Row]) -> tuple[Tensor, list[int]]:
        """Append the newest token of each row; the rows are the unfinished responses."""


def make_decoder(model: "PreTrainedModel", pad_id: int, layout: Layout, samples: int) -> Decoder:
    """Return the decoder of a layout.

    ``tree`` has one line of the cache per prompt, and samples as parallel queries of it, one query for equal ones.
    ``repeat`` has one line per sample, copied after prefill; ``alone`` prefills each. ``reread`` computes all again
    for each token.
    """
    if layout == "tree":
        return TreeDecoder(model, pad_id, samples)
    if layout == "reread":
        return RereadDecoder(model, samples)
    return LineDecoder(model, pad_id, samples, share=layout == "repeat")


class TreeDecoder:
    """A decoder with one line of the cache per prompt, which contains the tree of the prompt's responses."""

    def __init__(self, model: "PreTrainedModel", pad_id: int, samples: int) -> None:
        self._model, self._pad_id, self._samples = model, pad_id, samples
        self._cache, self._cache_argument = new_cache(model), cache_argument(model) or ""
        self._lines: list[int] = []  # the prompt of each line
        self.given_tokens = _CPU_GIVEN_TOKENS if model.device.type == "cpu" else _GIVEN_TOKENS

    def prefill(
        self, prompts: Sequence[Sequence[int]], spans: Sequence[range] = ()
    ) -> tuple[Tensor, list[int], list[list[float]]]:
        """Read the prompts; see ``Decoder``."""
        common, longest = _common_prefix(prompts), max(map(len, prompts))
        head = None
        if common < _WORTH_SHARING * longest:
            common = 0
        else:
            head = new_cache(self._model)
        places = places_of(prompts, spans)
        scored: list[list[float]] = [[] for _ in prompts]
        if head is not None:
            # the common start can reach into questions, whose next tokens may differ
            shared = [place for place in places if place.position < common]
            _, log_probs = self._forward(
                [prompts[0][:common]], head, ends=[common - 1], places=[replace(place, line=0) for place in shared]
            )
            _assign(scored, shared, log_probs)
        logits, parts = [], []
        for start, part in self._parts(prompts):
            in_part = [place for place in places if 0 <= place.line - start < len(part) and place.position >= common]
            moved = [replace(place, line=place.line - start, position=place.position - common) for place in in_part]
            after, cache, log_probs = self._read(part, common, head, moved)
            logits.append(after)
            parts.append(cache)
            _assign(scored, in_part, log_probs)
        self._cache = parts[0] if len(parts) == 1 else _stacked(parts)
        lengths = torch.tensor([len(ids) for ids in prompts])
        # (L, W, slots) bool: the slots that each of W branches sees; first those of the prompt
        self._seen = (torch.arange(longest)[None] < lengths[:, None])[:, None]
        self._lengths, self._lines = lengths, list(range(len(prompts)))
        return torch.cat(logits), [prompt for prompt in range(len(prompts)) for _ in range(self._samples)], scored

    def _parts(self, prompts: Sequence[Sequence[int]]) -> Iterator[tuple[int, Sequence[Sequence[int]]]]:
        """Divide the prompts into groups for one forward pass, each with the position of its first prompt."""
        start = 0
        for end in range(1, len(prompts) + 1):
            longest = max(map(len, prompts[start : end + 1]))
            if end == len(prompts) or (
                self._model.device.type == "cpu" and (end + 1 - start) * longest > _CPU_PREFILL_TOKENS
            ):
                yield start, prompts[start:end]
                start = end

    def _read(
        self, prompts: Sequence[Sequence[int]], common: int, head: Any, places: Sequence[Place]
    ) -> tuple[Tensor, object, list[float]]:
        """Return the logits after the prompts, ``(L, V)``, the cache, and the log-probabilities of scored tokens."""
        cache = new_cache(self._model)
        if head is not None:
            cache = copy.deepcopy(head)
            cache.batch_repeat_interleave(len(prompts))
        longest = max(map(len, prompts))
        # padding after the prompts is not attended to, so attention needs no mask and is faster
        rest = [[*ids[common:], *[self._pad_id] * (longest - len(ids))] for ids in prompts]
        logits, scored = self._forward(rest, cache, ends=[len(ids) - common - 1 for ids in prompts], places=places)
        return logits, cache, scored

    def forced_logits(self, texts: Sequence[Sequence[Sequence[int]]]) -> list[list[Tensor]]:
        """Return logits ``(T, V)`` after each token of separate texts after the prompts, which leave the cache."""
        lengths = [[len(ids) for ids in continuations] for continuations in texts]
        width, slots = max(map(sum, lengths)), self._seen.shape[2]
        tokens, positions = (torch.full((len(self._lines), width), filler) for filler in (self._pad_id, 0))
        seen = torch.nn.functional.pad(self._seen, (0, width)).repeat(1, width, 1)
        before = torch.ones(width, width, dtype=torch.bool).tril()
        for line, continuations in enumerate(texts):
            places = itertools.pairwise(itertools.accumulate(lengths[line], initial=0))
            for ids, (start, end) in zip(continuations, places, strict=True):
                tokens[line, start:end] = torch.tensor(ids)
                positions[line, start:end] = self._lengths[line] + torch.arange(len(ids))
                seen[line, start:end, slots + start : slots + end] = before[: len(ids), : len(ids)]
        logits = self._step(tokens, seen, positions)
        for layer in self._cache.layers:
            layer.keys, layer.values = layer.keys[:, :, :slots], layer.values[:, :, :slots]
        return [
            list(torch.split(logits[line, : sum(sizes)], sizes)) if sizes else [] for line, sizes in enumerate(lengths)
        ]

    def step(self, rows: Sequence[Row]) -> tuple[Tensor, list[int]]:
        """Append the newest tokens, once for equal responses; see ``Decoder``."""
        # responses that are equal so far have one branch; those of a branch differ by their newest token
        by_line: dict[int, dict[tuple[int, int], list[Row]]] = {}
        for row in rows:
            by_line.setdefault(row.prompt, {}).setdefault((row.column, row.token_ids[-1]), []).append(row)
        # dropping lines copies the cache, which does not pay for one or two
        if len(by_line) <= 0.75 * len(self._lines):
            indices = torch.tensor([place for place, line in enumerate(self._lines) if line in by_line])
            self._cache.batch_select_indices(indices.to(self._model.device))
            self._seen, self._lengths = self._seen[indices], self._lengths[indices]
            self._lines = [self._lines[place] for place in indices.tolist()]
        width, used = max(map(len, by_line.values())), self._seen.shape[2]
        places: list[tuple[int, int, int, int]] = []  # of each branch: line, column, newest token, parent's column
        for line, prompt in enumerate(self._lines):
            for column, ((parent_column, token), equal) in enumerate(by_line.get(prompt, {}).items()):
                for row in equal:
                    row.column, row.branch = column, len(places)
                places.append((line, column, token, parent_column))
        lines, columns, newest, parents = torch.tensor(places).T  # (branches,) each
        tokens, parent = (torch.full((len(self._lines), width), filler) for filler in (self._pad_id, 0))  # (L, W)
        tokens[lines, columns], parent[lines, columns] = newest, parents
        # a token sees what its parent sees, and itself
        seen = self._seen[torch.arange(len(self._lines))[:, None], parent]  # (L, W, slots)
        self._seen = torch.nn.functional.pad(seen, (0, width))
        self._seen[:, range(width), range(used, used + width)] = True
        positions = (self._lengths + len(rows[0].token_ids) - 1)[:, None].expand(-1, width)
        logits = self._step(tokens, self._seen, positions)
        return logits[lines, columns], [row.branch for row in rows]

    def _step(self, tokens: Tensor, seen: Tensor, positions: Tensor) -> Tensor:
        device = self._model.device
        mask = attention_mask(seen.to(device), self._model.dtype)
        return self._forward(tokens, self._cache, attention_mask=mask, position_ids=positions.to(device))[0]

    def _forward(
        self, input_ids: Tensor | Sequence[Sequence[int]], cache: Any, **options: Any
    ) -> tuple[Tensor, list[float]]:
        ids = torch.as_tensor(input_ids).to(self._model.device)
        return forward(self._model, input_ids=ids, **{self._cache_argument: cache}, use_cache=True, **options)


class LineDecoder:
    """A decoder with one line of the cache per sample, for models that do not support arbitrary attention masks."""

    def __init__(self, model: "PreTrainedModel", pad_id: int, samples: int, *, share: bool) -> None:
        self._model, self._pad_id, self._samples, self._share = model, pad_id, samples, share
        self._cache, self._cache_argument = new_cache(model), cache_argument(model) or ""
        self._can_drop = has_lines(self._cache)
        self._has_positions = self._can_drop or "position_ids" in inspect.signature(model.forward).parameters

    def prefill(
        self, prompts: Sequence[Sequence[int]], spans: Sequence[range] = ()
    ) -> tuple[Tensor, list[int], list[list[float]]]:
        """Read the prompts; see ``Decoder``."""
        device, samples = self._model.device, self._samples
        # a common prefix is not shared, because the padding after it would shift a sliding window
        rows = [ids for ids in prompts for _ in range(1 if self._share else samples)]
        input_ids, mask = (tensor.to(device) for tensor in left_pad(rows, self._pad_id))
        positions = (mask.cumsum(1) - 1).clamp(min=0)
        places = places_of(prompts, spans)
        copies, slots = len(rows) // len(prompts), input_ids.shape[1]
        moved = [
            replace(place, line=place.line * copies, position=place.position + slots - len(prompts[place.line]))
            for place in places
        ]
        logits, log_probs = self._forward(input_ids, mask, positions, ends=[slots - 1] * len(rows), places=moved)
        scored: list[list[float]] = [[] for _ in prompts]
        _assign(scored, places, log_probs)
        self._mask, self._next_position = mask, positions[:, -1] + 1
        if self._share:
            self._cache.batch_repeat_interleave(samples)
            self._mask = mask.repeat_interleave(samples, dim=0)
            self._next_position = self._next_position.repeat_interleave(samples)
        branches = list(range(len(self._mask)))
        return logits, [branch // samples for branch in branches] if self._share else branches, scored

    def step(self, rows: Sequence[Row]) -> tuple[Tensor, list[int]]:
        """Append the newest tokens; see ``Decoder``."""
        # dropping lines copies the cache, which does not pay for one or two
        if self._can_drop and len(rows) <= 0.75 * len(self._mask):
            indices = torch.tensor([row.line for row in rows], device=self._mask.device)
            self._cache.batch_select_indices(indices)
            self._mask, self._next_position = self._mask[indices], self._next_position[indices]
            for line, row in enumerate(rows):
                row.line = line
        lines = [row.line for row in rows]
        tokens = torch.full_like(self._mask[:, :1], self._pad_id)
        tokens[lines, 0] = torch.tensor([row.token_ids[-1] for row in rows], device=tokens.device)
        self._mask = torch.cat([self._mask, torch.ones_like(self._mask[:, :1])], dim=1)
        logits = self._forward(tokens, self._mask, self._next_position[:, None])[0][:, 0]
        self._next_position = self._next_position + 1
        return logits[lines], list(range(len(rows)))

    def _forward(
        self, input_ids: Tensor, mask: Tensor, positions: Tensor, **options: Any
    ) -> tuple[Tensor, list[float]]:
        if self._has_positions:
            options["position_ids"] = positions
        else:  # recurrent models have no positions, and their mask covers only the new tokens
            mask = mask[:, -input_ids.shape[1] :]
        options[self._cache_argument] = self._cache
        return forward(self._model, input_ids=input_ids, attention_mask=mask, use_cache=True, **options)


class RereadDecoder:
    """A decoder without cache or padding, which computes one prompt with its responses again for each token."""

    def __init__(self, model: "PreTrainedModel", samples: int) -> None:
        self._model, self._samples = model, samples
        self._prompts: Sequence[Sequence[int]] = []

    def prefill(
        self, prompts: Sequence[Sequence[int]], spans: Sequence[range] = ()
    ) -> tuple[Tensor, list[int], list[list[float]]]:
        """Read the prompts; see ``Decoder``."""
        self._prompts = prompts
        places = [places_of([prompt], spans[at : at + 1]) for at, prompt in enumerate(prompts)]
        logits, scored = zip(*map(self._forward, ([prompt] for prompt in prompts), places), strict=True)
        branches = [prompt for prompt in range(len(prompts)) for _ in range(self._samples)]
        return torch.cat(logits), branches, list(scored)

    def step(self, rows: Sequence[Row]) -> tuple[Tensor, list[int]]:
        """Compute the rows' prompts and responses, once for equal responses; see ``Decoder``."""
        by_prompt: dict[int, dict[tuple[int, ...], None]] = {}
        for row in rows:
            by_prompt.setdefault(row.prompt, {})[tuple(row.token_ids)] = None
        # all unfinished responses of a prompt have the same length, so they need no padding
        logits = [
            self._forward([[*self._prompts[prompt], *token_ids] for token_ids in responses])[0]
            for prompt, responses in by_prompt.items()
        ]
        order = [(prompt, token_ids) for prompt, responses in by_prompt.items() for token_ids in responses]
        branches = {branch: place for place, branch in enumerate(order)}
        return torch.cat(logits), [branches[row.prompt, tuple(row.token_ids)] for row in rows]

    def _forward(self, sequences: Sequence[Sequence[int]], places: Sequence[Place] = ()) -> tuple[Tensor, list[float]]:
        ids = torch.tensor(sequences, device=self._model.device)
        return forward(self._model, input_ids=ids, ends=[ids.shape[1] - 1] * len(ids), places=places)


def known_leaves(
    decoder: TreeDecoder,
    logits: Tensor,
    answers: Sequence[Sequence[GivenResponse]],
    leaves_of: Callable[[Sequence[GivenResponse], Sequence[Sequence[Tensor]]], Sequence[Leaf]],
) -> list[tuple[Leaf, ...]]:
    """Return the leaves of each prompt's given responses, after ``prefill`` returned ``logits``, ``(L, V)``."""
    leaves: list[tuple[Leaf, ...]] = [()] * len(answers)
    longest = max((len(answer.read) for queue in answers for answer in queue), default=0)
    width = max(decoder.given_tokens // len(answers), longest)
    waiting = [list(queue) for queue in answers]
    while any(waiting):
        batch = []  # by prompt, the first waiting answers that fit into the width
        for queue in waiting:
            ends = itertools.accumulate(len(answer.read) for answer in queue)
            batch.append(queue[: sum(end <= width for end in ends)])
        waiting = [queue[len(read) :] for queue, read in zip(waiting, batch, strict=True)]
        with timed("prefill"):
            forced = decoder.forced_logits([[answer.read for answer in read] for read in batch])
        # by answer, the logits of its first token (1, V), and of its other tokens and its end (T, V)
        parts = [(logits[prompt, None], others) for prompt, by_answer in enumerate(forced) for others in by_answer]
        new_leaves = iter(leaves_of([answer for read in batch for answer in read], parts))
        for prompt, read in enumerate(batch):
            leaves[prompt] += tuple(itertools.islice(new_leaves, len(read)))
    return leaves


def _assign(scored: Sequence[list[float]], places: Sequence[Place], log_probs: Sequence[float]) -> None:
    for place, log_prob in zip(places, log_probs, strict=True):
        scored[place.line].append(log_prob)


def _stacked(caches: Sequence[Any]) -> object:
    """Move the lines of all caches into the first one, with padding after shorter lines; empties the other caches."""
    for layers in zip(*(cache.layers for cache in caches), strict=True):
        slots = max(layer.keys.shape[2] for layer in layers)
        layers[0].keys = torch.cat([_widened(layer.keys, slots) for layer in layers])
        layers[0].values = torch.cat([_widened(layer.values, slots) for layer in layers])
        for layer in layers[1:]:
            layer.keys = layer.values = None
    return caches[0]


def _widened(tensor: Tensor, slots: int) -> Tensor:
    return torch.nn.functional.pad(tensor, (0, 0, 0, slots - tensor.shape[2]))


def _common_prefix(sequences: Sequence[Sequence[int]]) -> int:
    if len(sequences) == 1:
        return 0
    shortest = min(map(len, sequences)) - 1
    agree = (len({ids[position] for ids in sequences}) == 1 for position in range(shortest))
    return next((position for position, same in enumerate(agree) if not same), shortest)


def left_pad(sequences: Sequence[Sequence[int]], pad_id: int) -> tuple[Tensor, Tensor]:
    """Return the left-padded token ids of L sequences and their mask, ``(L, T)`` each."""
    longest = max(map(len, sequences))
    ids = torch.tensor([[pad_id] * (longest - len(ids)) + list(ids) for ids in sequences])
    mask = torch.tensor([[0] * (longest - len(ids)) + [1] * len(ids) for ids in sequences])
    return ids, mask


def attention_mask(seen: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the additive mask ``(L, 1, T, slots)`` for ``seen``, ``(L, T, slots)`` bool: slots visible to a query."""
    return torch.zeros_like(seen, dtype=dtype).masked_fill(~seen, torch.finfo(dtype).min)[:, None]
