"""ΔSePer as published (sepermetric/seper), the procedure that speed is measured against.

Per prompt one `generate(num_return_sequences=N)` that keeps scores and hidden states, with a stop check that decodes
every row at every token; entailment both ways on every pair of texts; a baseline for every passage set.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from transformers import StoppingCriteria, StoppingCriteriaList

from seper_reward import SePerScorer
from seper_reward.types import Pair, Passage, Query
from tests.benchmarks.common import now

_CHUNK = 128  # pairs at once, as published


class _Stop(StoppingCriteria):
    """Ends rows whose decoded text holds a stop string."""

    def __init__(self, tokenizer: Any, start: int, stop: Sequence[str]) -> None:
        self._tokenizer, self._start, self._stop = tokenizer, start, stop

    def __call__(self, input_ids: Tensor, scores: Tensor, **_: Any) -> Tensor:
        texts = [self._tokenizer.decode(row[self._start :], skip_special_tokens=True).lstrip() for row in input_ids]
        return torch.tensor([any(stop in text for stop in self._stop) for text in texts], device=input_ids.device)


class Reference:
    """The published procedure with a scorer's models, prompts and sampling options.

    Attributes:
        seconds: spent so far in ``baseline``, ``context`` and ``entailment``, by ``CLOCK``.
    """

    def __init__(self, scorer: SePerScorer) -> None:
        self._scorer = scorer
        self.seconds: Counter[str] = Counter()

    def beliefs(self, query: Query, passage_sets: Sequence[Sequence[Passage]]) -> list[tuple[float, float]]:
        """Return soft SePer (with, without passages) per set."""
        torch.manual_seed(0)
        return [(self._belief(query, passages), self._belief(query, ())) for passages in passage_sets]

    def _belief(self, query: Query, passages: Sequence[Passage]) -> float:
        with self._timed("context" if passages else "baseline"):
            texts, log_probs = self._generate(self._scorer.reader.prompts.build(query.question, passages))
        with self._timed("entailment"):
            asked = [(one, answer) for answer in query.answers for one in texts]
            forward, backward = self.entails(query.question, asked), self.entails(query.question, asked, True)
            pairs = [(one, other) for at, one in enumerate(texts) for other in texts[at + 1 :]]
            self.entails(query.question, pairs), self.entails(query.question, pairs, True)
        support = torch.maximum(forward, backward).view(len(query.answers), len(texts))
        return float((support * log_probs.softmax(0)).sum(1).max())

    @torch.no_grad()
    def _generate(self, prompt: str) -> tuple[list[str], Tensor]:
        sampler, options = self._scorer.sampler, self._scorer.sampler.options
        inputs = sampler.tokenizer(prompt, return_tensors="pt").to(sampler.device)
        start = inputs["input_ids"].shape[1]
        found = sampler.model.generate(
            **inputs,
            do_sample=True,
            temperature=options.temperature,
            top_p=options.top_p,
            top_k=0,
            max_new_tokens=options.max_new_tokens,
            num_return_sequences=options.num_samples,
            stopping_criteria=StoppingCriteriaList([_Stop(sampler.tokenizer, start, options.stop)]),
            pad_token_id=sampler.tokenizer.pad_token_id,
            return_dict_in_generate=True,
            output_scores=True,
            output_hidden_states=True,
        )
        scores = sampler.model.compute_transition_scores(found.sequences, found.scores, normalize_logits=True)
        said = found.sequences[:, start:]
        texts = sampler.tokenizer.batch_decode(said, skip_special_tokens=True)
        texts = [text.lstrip().split(options.stop[0])[0].strip() if options.stop else text for text in texts]
        real = said != sampler.tokenizer.pad_token_id
        return texts, (scores.masked_fill(~real, 0).sum(1) / real.sum(1).clamp(min=1)).float().cpu()

    @torch.no_grad()
    def entails(self, question: str, pairs: Sequence[tuple[str, str]], turned: bool = False) -> Tensor:
        judge = self._scorer.entailment
        said = [Pair(question, *((other, one) if turned else (one, other))) for one, other in pairs]
        parts = [grid[0][0] for grid in judge.parts(said)]
        found = []
        for start in range(0, len(said), _CHUNK):
            encoded = judge.tokenizer.pad(dict(judge.encode(parts[start : start + _CHUNK])), return_tensors="pt")
            found.append(judge.model(**encoded.to(judge.device)).logits.float().softmax(-1)[:, judge.columns[0]])
        return torch.cat(found).cpu()

    @contextmanager
    def _timed(self, stage: str) -> Iterator[None]:
        start = now()
        yield
        self.seconds[stage] += now() - start
