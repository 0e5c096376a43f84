"""Rows: the responses of a batch while their tokens are drawn one by one."""

import copy
import itertools
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from seper_reward.options import SamplingOptions
from seper_reward.reader.in_process.gumbel import draw, noise, nucleus
from seper_reward.reader.tokens import GivenResponse, ResponseEnds
from seper_reward.runtime.control_tokens import end_tokens as reader_end_tokens
from seper_reward.runtime.profiling import timed
from seper_reward.types import Leaf, Responses, UnscorableError

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

_LEAF_ROWS = 128  # tokens of given responses whose log-softmax is computed at once: a row has the vocabulary's size


@dataclass
class Row:
    """One response while its tokens are drawn: sample number ``sample`` of prompt number ``prompt`` of the batch.

    A random 64-bit word of ``noise`` decides each token. ``log_probs`` are at temperature 1; ``draw_log_prob`` is of
    all tokens in the distribution from which they are drawn. Its newest token is branch ``column`` of the prompt's
    line in a tree, and ``branch`` of the batch, else in ``line`` of the cache. ``text`` is set at the end.
    """

    noise: Sequence[int]
    prompt: int
    sample: int
    token_ids: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)
    draw_log_prob: float = 0.0
    column: int = 0
    branch: int = 0
    line: int = 0
    text: str = ""
    finished: bool = False


class RowWriter:
    """Draws the tokens of rows from logits, up to ``end_tokens`` (default: the model's)."""

    def __init__(
        self,
        model: "PreTrainedModel",
        tokenizer: "PreTrainedTokenizerBase",
        name: str,
        options: SamplingOptions,
        end_tokens: Collection[int] | None = None,
    ) -> None:
        self._name, self._options = name, options
        self._end_tokens = frozenset(reader_end_tokens(model, tokenizer) if end_tokens is None else end_tokens)
        size: int = model.get_output_embeddings().weight.shape[0]
        self._ends = ResponseEnds(tokenizer, options, self._end_tokens, size)

    def with_options(self, options: SamplingOptions) -> "RowWriter":
        """Return a writer for the same model with other options."""
        other = copy.copy(self)
        other._options, other._ends = options, self._ends.with_options(options)
        return other

    def new(self, prompts: Sequence[str]) -> list[Row]:
        """Return the rows of each prompt, ordered by prompt, then sample."""
        options = self._options
        return [
            Row(noise(prompt, index, options.seed, options.max_new_tokens), place, index, line=line)
            for line, ((place, prompt), index) in enumerate(
                itertools.product(enumerate(prompts), range(options.num_samples))
            )
        ]

    def advance(self, logits: Tensor, branches: Sequence[int], alive: Sequence[Row]) -> list[Row]:
        """Draw the next token of each row from its branch's logits ``(B, V)``; return rows that go on.

        NaN raises ``UnscorableError``.
        """
        with timed("draw"):
            log_probs = logits.float().log_softmax(-1)  # (B, V)
            drawn_from = self._draw_log_probs(log_probs)
            at = torch.tensor(branches, device=logits.device)
            tokens = draw(drawn_from, at, [row.noise[len(row.token_ids)] for row in alive])  # (R,)
            columns = [tokens.double(), log_probs[at, tokens].double(), drawn_from[at, tokens].double()]
            drawn = torch.stack(columns).tolist()  # one download
            if any(map(math.isnan, drawn[1])):  # one NaN makes all log-probabilities of its line NaN
                raise UnscorableError(f"reader {self._name!r} gave NaN logits; load it with dtype='float32'")
            for row, token, log_prob, draw_log_prob in zip(alive, *drawn, strict=True):
                self._append(row, int(token), log_prob, draw_log_prob)
        longest = self._options.max_new_tokens
        return [row for row in alive if not row.finished and len(row.token_ids) < longest]

    def responses(self, rows: Sequence[Row], leaves: Sequence[tuple[Leaf, ...]]) -> list[Responses]:
        """Return the responses of each prompt from the rows of ``new``, with the known leaves of each prompt."""
        samples = self._options.num_samples
        by_prompt = [rows[start : start + samples] for start in range(0, len(rows), samples)]
        return list(map(self._responses, by_prompt, leaves))

    def given(self, text: str) -> GivenResponse:
        """Return a given text as a response; see ``ResponseEnds.given``."""
        return self._ends.given(text)

    def leaves(self, answers: Sequence[GivenResponse], logits: Sequence[Sequence[Tensor]]) -> list[Leaf]:
        """Return the probabilities of given responses of T tokens from parts of their ``(T + 1, V)`` logits."""
        chunks: list[Tensor] = []
        start = 0
        while start < len(answers):
            end, rows = start + 1, len(answers[start].read) + 1
            while end < len(answers) and rows + len(answers[end].read) < _LEAF_ROWS:
                rows, end = rows + len(answers[end].read) + 1, end + 1
            log_probs = torch.cat([part for parts in logits[start:end] for part in parts]).float().log_softmax(-1)
            drawn_from = self._draw_log_probs(log_probs)
            both = [log_probs] if drawn_from is log_probs else [log_probs, drawn_from]
            chunks.append(torch.stack([_scored(answers[start:end], column) for column in both]))
            start = end
        if not chunks:
            return []
        columns = torch.cat(chunks, dim=1).tolist()
        scored, drawn = iter(columns[0]), iter(columns[-1])
        return [
            _leaf(answer, *(list(itertools.islice(column, len(answer.read) + 1)) for column in (scored, drawn)))
            for answer in answers
        ]

    def _draw_log_probs(self, log_probs: Tensor) -> Tensor:
        """Return the log-probabilities for drawing tokens, ``(B, V)``, from those at temperature 1."""
        options = self._options
        if options.temperature == 0:
            likeliest = torch.nn.functional.one_hot(log_probs.argmax(-1), log_probs.shape[-1])
            return likeliest.to(log_probs).log()
        if options.temperature != 1:
            log_probs = (log_probs / options.temperature).log_softmax(-1)
        if options.top_p < 1:
            log_probs = nucleus(log_probs, options.top_p)
        return log_probs

    def _append(self, row: Row, token: int, log_prob: float, draw_log_prob: float) -> None:
        row.token_ids.append(token)
        row.log_probs.append(log_prob)
        row.draw_log_prob += draw_log_prob
        if token in self._end_tokens:
            row.text = self._ends.decode(row.token_ids[:-1])
            row.finished = True
        elif self._ends.may_end_stop[token]:
            text = self._ends.cut(self._ends.decode(row.token_ids))
            if text is not None:
                row.text, row.finished = text, True

    def _responses(self, rows: Sequence[Row], leaves: tuple[Leaf, ...]) -> Responses:
        return Responses(
            texts=tuple((row.text if row.finished else self._ends.decode(row.token_ids)).strip() for row in rows),
            token_log_probs=tuple(torch.tensor(row.log_probs, dtype=torch.float32) for row in rows),
            token_ids=tuple(tuple(row.token_ids) for row in rows),
            finished=tuple(row.finished for row in rows),
            draw_log_probs=tuple(row.draw_log_prob for row in rows),
            known_leaves=leaves,
        )


def _scored(answers: Sequence[GivenResponse], log_probs: Tensor) -> Tensor:
    """Return the log-probabilities of given responses' tokens, each response followed by that of its ends, float64."""
    tokens = [token for answer in answers for token in (*answer.read, 0)]
    token_log_probs = log_probs.gather(-1, torch.tensor(tokens, device=log_probs.device)[:, None])[:, 0].double()
    by_ends: dict[tuple[int, ...], list[int]] = {}
    for answer, last in zip(answers, itertools.accumulate(len(answer.read) + 1 for answer in answers), strict=True):
        by_ends.setdefault(answer.ends or (), []).append(last - 1)
    for ends, rows in by_ends.items():
        # without an end the sum of a response's log-probabilities is that of its tokens
        token_log_probs[rows] = log_probs[rows][:, list(ends)].double().logsumexp(-1) if ends else 0.0
    return token_log_probs


def _leaf(answer: GivenResponse, log_probs: Sequence[float], draw_log_probs: Sequence[float]) -> Leaf:
    """Return a leaf from the log-probabilities of its tokens and of its ends; -inf if it cannot be a response."""
    total, drawn = (-math.inf if answer.ends is None else sum(column) for column in (log_probs, draw_log_probs))
    return Leaf(answer.text, answer.token_ids, total, drawn, sum(log_probs[:-1]) / len(answer.read))
