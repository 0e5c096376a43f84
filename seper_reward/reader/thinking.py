"""ThinkingSampler: the reader finishes a thought before it answers; the response is the text after the thought."""

import functools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from seper_reward.reader.chat import ThoughtFormat, begins_to_think
from seper_reward.reader.sampler import Sampler, SamplingOptions, ThoughtOptions
from seper_reward.runtime.cache import Cache
from seper_reward.types import Leaf, Responses, UnscorableError, unwrap

_BEGINNING, _BEGINNING_TOKENS = 60, 12  # length of the prefix checked for a thinking tag, in characters and tokens
_SPARE_TOKENS = 16  # a sampled thought can have a few more tokens when it is tokenized again


class ThinkingSampler:
    """Samples a thought for each of N responses, then the response that follows it.

    Prompts end at the beginning of a thought. A thought of maximum length (``longest`` tokens) is closed, and the
    reader answers from the unfinished thought (arXiv:2501.19393); its response counts as not finished.
    Log-probabilities of responses are conditional on their thoughts. A window without room for thoughts raises
    ``ValueError``.
    """

    prompts_ahead: int
    knows_leaves = False

    def __init__(self, sampler: Sampler, thought: ThoughtFormat, longest: int) -> None:
        self.backend, self.name, self.tokenizer = sampler.backend, sampler.name, sampler.tokenizer
        self.options, self.max_batch_tokens = sampler.options, sampler.max_batch_tokens
        self.prompts_ahead, self.layout = sampler.prompts_ahead, sampler.layout
        self._sampler, self._format, self._longest = sampler, thought, longest
        options = {**vars(sampler.options), "max_new_tokens": longest, "stop": (thought.end,)}
        self._thinker = sampler.with_options(ThoughtOptions(**options))
        # samplers by the number of responses per thought: equal thoughts must not all get the same response
        self._answering = functools.cache(
            lambda count: sampler.with_options(replace(sampler.options, num_samples=count))
        )
        if self.max_prompt_tokens < 1:
            raise ValueError(
                f"max_thinking_tokens={longest} leaves no room for a prompt in the window of reader {self.name!r}; "
                "lower it, or set thinking=off"
            )

    @property
    def weights_hash(self) -> str:
        """Hash over all parts of the reader that decide a response."""
        return self._sampler.weights_hash

    @property
    def device(self) -> torch.device | None:
        """Device of the reader; ``None`` if it is on a server."""
        return self._sampler.device

    @property
    def max_prompt_tokens(self) -> int:
        """Maximum length of a prompt, in tokens, that leaves room for a thought and a whole response."""
        closing = self.tokenizer(self._format.end + self._format.answer, add_special_tokens=False).input_ids
        return self._sampler.max_prompt_tokens - self._longest - len(closing) - _SPARE_TOKENS

    def sample(
        self,
        prompts: Sequence[str],
        given: Mapping[str, Sequence[str]] = MappingProxyType({}),
        questions: Mapping[str, str] = MappingProxyType({}),
    ) -> list[Responses | UnscorableError]:
        """Sample N thoughts for each prompt, which ends where a thought begins, and one response for each thought.

        Arguments and results are those of ``ResponseSampler.sample``. ``given`` has no effect: a given answer has no
        probability without a thought. A server that returns no token ids, which show the end of a thought, raises
        ``ValueError``.
        """
        distinct = sorted(set(prompts))
        found: dict[str, Responses | UnscorableError] = dict(
            zip(distinct, self._thinker.sample(distinct, questions=questions), strict=True)
        )
        thoughts = {
            prompt: self._with_thoughts(prompt, row)
            for prompt, row in found.items()
            if not isinstance(row, UnscorableError)
        }
        counts = Counter(text for rows in thoughts.values() for text, _ in rows)
        answers: dict[str, list[tuple[Any, ...]]] = {}
        errors: dict[str, UnscorableError] = {}
        for count in sorted(set(counts.values())):
            batch = sorted(text for text in counts if counts[text] == count)
            for text, row in zip(batch, self._answering(count).sample(batch), strict=True):
                if isinstance(row, UnscorableError):
                    errors[text] = row
                    continue
                answers[text] = list(zip(row.texts, row.token_log_probs, row.token_ids, row.finished, strict=True))
        for prompt, rows in thoughts.items():
            if failed := [errors[text] for text, _ in rows if text in errors]:
                found[prompt] = failed[0]
                continue
            texts, log_probs, ids, finished = zip(*(answers[text].pop() for text, _ in rows), strict=True)
            ended = tuple(whole and end for (_, whole), end in zip(rows, finished, strict=True))
            question_log_prob = unwrap(found[prompt]).question_log_prob
            found[prompt] = Responses(texts, log_probs, ids, ended, question_log_prob=question_log_prob)
        return [found[prompt] for prompt in prompts]

    def log_probs(self, prompts: Sequence[str], texts: Sequence[str]) -> list[Tensor | UnscorableError]:
        """Raise ``ValueError``: the probability of a given answer depends on a thought, which is not given."""
        raise ValueError(
            f"reader {self.name!r} thinks first, so the log-probability of a given answer is unknown; set thinking=off"
        )

    def remember(self, cache: Cache) -> None:
        """Compare weights that no hash covers with those whose responses a cache has."""
        self._sampler.remember(cache)

    def expect(self, prompts: Sequence[str]) -> None:
        """Prefetch the thoughts of prompts of a later call of ``sample``; this affects only the time."""
        self._thinker.expect(prompts)

    def leaves(self, prompts: Sequence[str], texts: Sequence[str]) -> list[Leaf | UnscorableError]:
        """Return an error for each text: its probability is a mean over all thoughts."""
        return [UnscorableError("the probability of a text after thoughts is not known") for _ in texts]

    def reading_with(self, model: Any) -> "ThinkingSampler":
        """Return the same sampler in this process, on a model with the same tokenizer."""
        return ThinkingSampler(self._sampler.reading_with(model), self._format, self._longest)

    def with_options(self, options: SamplingOptions) -> "ThinkingSampler":
        """Return a sampler of the same reader with other options for its responses."""
        return ThinkingSampler(self._sampler.with_options(options), self._format, self._longest)

    def _with_thoughts(self, prompt: str, thoughts: Responses) -> list[tuple[str, bool]]:
        """Return the prompt with each thought, up to the response, and whether the thought is complete."""
        if not thoughts.token_ids:
            raise ValueError(f"reader {self.name!r} thinks, and its server returns no token ids; set thinking=off")
        end, rows = self._format.end, []
        for ids, finished in zip(thoughts.token_ids, thoughts.finished, strict=True):
            text = self.tokenizer.decode(ids, skip_special_tokens=False)
            before, whole, _ = text.partition(end)
            if not whole:
                # ended by the maximum length, or by an end-of-sequence token, which is not part of a thought
                before = f"{self.tokenizer.decode(ids[:-1] if finished else ids, skip_special_tokens=False)}\n"
            rows.append((f"{prompt}{before}{end}{self._format.answer}", bool(whole)))
        return rows


def thoughts_problem(responses: Responses, sampler: Sampler) -> str | None:
    """Return an error message if half of the responses or more begin with thoughts instead of answers."""
    if responses.token_ids:
        heads = [ids[:_BEGINNING_TOKENS] for ids in responses.token_ids]
        beginnings = [sampler.tokenizer.decode(head, skip_special_tokens=False) for head in heads]
    else:
        beginnings = [text[:_BEGINNING] for text in responses.texts]
    if 2 * sum(map(begins_to_think, beginnings)) < len(responses.texts):
        return None
    return (
        f"reader {sampler.name!r} begins its responses with thoughts, such as {beginnings[0]!r}, and its chat "
        "template has no switch for them; use another reader, or set a chat_template that ends with an empty thought"
    )
