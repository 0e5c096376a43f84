"""ReaderJudge: a causal language model as the judge of pairs of answers."""

import functools
from collections.abc import Sequence

import torch
from torch import Tensor

from seper_reward.reader.chat import ChatTemplate
from seper_reward.reader.sampler import Sampler
from seper_reward.runtime.control_tokens import ControlTokens
from seper_reward.runtime.hashing import content_key
from seper_reward.runtime.token_ids import token_ids
from seper_reward.types import Pair, unwrap

_WITH_QUESTION = """\
Question: {question}
Right answer: {hypothesis}
Response: {premise}
Does the response mean the same as the right answer? Reply with one word: yes or no."""
_TEXTS_ALONE = """\
Text: {premise}
Statement: {hypothesis}
Does the text say that the statement is true? Reply with one word: yes or no."""
_REPLIES = ("yes", "no")


class ReaderJudge:
    """Judges pairs by P(yes) of a causal language model, from its log-probabilities.

    The model is asked whether the premise, as a response to the question, means the same as the hypothesis. It judges
    each language that it reads, in one process and on engines; small models are poor judges (docs/results.md).
    """

    classes = 2

    def __init__(self, sampler: Sampler) -> None:
        self.name = f"reader {sampler.name}"
        self.max_batch_tokens = sampler.max_batch_tokens
        self._sampler, self._chat = sampler, ChatTemplate(sampler.tokenizer)
        self._control_tokens = ControlTokens(sampler.tokenizer)

    @functools.cached_property
    def weights_hash(self) -> str:
        """Hash over all parts of the model and the wording of the question, which decide a score."""
        probe = self.prompt(Pair("Who?", "Ann", "Bob"))
        return content_key("reader judge", self._sampler.weights_hash, probe, *_REPLIES)

    @property
    def device(self) -> torch.device:
        """Device of the model; the CPU for engines."""
        return self._sampler.device or torch.device("cpu")

    def unread(self, text: str) -> frozenset[str]:
        """Return the words with a token that the tokenizer lacks; tokenizers of bytes lack none."""
        words = text.split() if (unknown := self._sampler.tokenizer.unk_token_id) is not None else []
        return frozenset(word for word in words if unknown in token_ids(self._sampler.tokenizer, word))

    def probs(self, pairs: Sequence[Pair], *, verbatim: bool = False) -> Tensor:
        """Return P(yes) and P(no) of distinct pairs, ``(n, 2)``, or the error of ``yes_probs``."""
        return yes_probs(self._sampler, list(map(self.prompt, pairs)))

    def prompt(self, pair: Pair) -> str:
        """Return the request about a pair, as the model reads it."""
        texts = {name: self._control_tokens.break_up(text) for name, text in pair._asdict().items()}
        request = (_WITH_QUESTION if pair.question.strip() else _TEXTS_ALONE).format(**texts)
        return self._chat.render([{"role": "user", "content": request}])


def yes_probs(sampler: Sampler, prompts: Sequence[str]) -> Tensor:
    """Return P(yes) and P(no) of replies to prompts, ``(n, 2)``: their probabilities divided by the sum of both.

    A prompt that is longer than the model's window raises ``UnscorableError``.
    """
    repeated = [prompt for prompt in prompts for _ in _REPLIES]
    log_probs = sampler.log_probs(repeated, list(_REPLIES) * len(prompts))
    return torch.tensor([float(unwrap(reply).sum()) for reply in log_probs]).view(-1, len(_REPLIES)).softmax(-1)
