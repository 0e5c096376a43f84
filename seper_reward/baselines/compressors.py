"""Prompt compression: drops parts of retrieved passages by a reader's log-probabilities.

Selective Context (arXiv:2310.06201) keeps the parts that the reader could not guess, for any question. LongLLMLingua's
coarse step (arXiv:2310.06839, section 4.1) keeps the parts from which the reader best guesses the question.
"""

import math
import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from seper_reward.reader.prompted import PromptedReader
from seper_reward.runtime.cache import answers_through
from seper_reward.types import Passage, unwrap

# between sentences, as in the official code of Selective Context, but also after exclamation marks, not after initials
_SENTENCE_END = re.compile(r"(?<!\w\.\w.)(?<![A-Z][a-z]\.)(?<!\b[A-Z]\.)(?<=[.?!])\s+")
_BATCH_SIZE = 16  # texts per batch: each token keeps the logits of the whole vocabulary
# LongLLMLingua's text after the question (arXiv:2310.06839, section 4.1)
_SUFFIX = "We can get the answer to this question in the given documents."


class Compressor(Protocol):
    """Shortens the passages in a reader's context."""

    def compress(self, question: str, passages: Sequence[Passage]) -> tuple[Passage, ...]:
        """Return the remaining passages with ids, titles and metadata, in the order for the reader.

        Raises:
            UnscorableError: The question, or a part of a passage, is longer than the reader's window.
        """


def above_percentile(scores: Sequence[float], keep: float) -> list[int]:
    """Return the positions of the units that Selective Context keeps (arXiv:2310.06201), in ascending order.

    These are the share ``keep`` with the highest self-information; ties with the last of them are also kept.
    """
    import numpy as np

    _check_keep(keep)
    if not scores:
        return []
    threshold = float(np.percentile(scores, 100 * (1 - keep)))
    return [place for place, score in enumerate(scores) if score >= threshold]


def within_budget(scores: Sequence[float], lengths: Sequence[int], keep: float) -> list[int]:
    """Return the positions of the units that LongLLMLingua's coarse step keeps (arXiv:2310.06839, 4.1), best first.

    The budget is the share ``keep`` of all tokens. As in the official code, the unit that exhausts it is kept whole,
    so at least one is kept.
    """
    _check_keep(keep)
    # rounding: 0.55 * 20 is slightly above 11
    budget = math.ceil(keep * sum(lengths) - 1e-9)
    kept: list[int] = []
    for place in sorted(range(len(scores)), key=lambda at: -scores[at]):
        if sum(lengths[at] for at in kept) >= budget:
            break
        kept.append(place)
    return kept


def span_means(
    spans: Sequence[tuple[int, int]], offsets: Sequence[tuple[int, int]], values: Sequence[float]
) -> list[float]:
    """Return for each span of a text the mean value of the tokens that overlap it; 0 without such tokens.

    The paper on Selective Context sums the self-information of a unit's tokens; the official code and this function
    take the mean, which does not favour long units. Spans and token offsets are starts and (exclusive) ends.
    """
    tokens = list(zip(offsets, values, strict=True))
    inside = [[value for (low, high), value in tokens if low < end and high > start] for start, end in spans]
    return [statistics.fmean(own) if own else 0.0 for own in inside]


class SelectiveContext:
    """Drops words of low self-information (arXiv:2310.06201).

    Self-information is measured sentence by sentence, each as the start of a text, as in the official code. The
    phrases of the official code are not implemented, since they need a parser.

    Args:
        reader: The reader of the compressed passages.
        keep: Share of the words to keep, over all passages of a question together, in (0, 1].

    Raises:
        ValueError: ``keep`` is out of range, or the tokenizer returns no offsets of words.
    """

    def __init__(self, reader: PromptedReader, keep: float = 0.5) -> None:
        _check_keep(keep)
        if not reader.sampler.tokenizer.is_fast:
            raise ValueError("selective_context drops words, which needs a fast tokenizer; use longllmlingua")
        self._reader, self._keep = reader, keep

    def compress(self, question: str, passages: Sequence[Passage]) -> tuple[Passage, ...]:
        """Return the remaining passages in order; the question is not used."""
        scored = [self._words(self._reader.prompts.as_data(passage.text)) for passage in passages]
        kept = set(above_percentile([score for row in scored for _, score in row], self._keep))
        left: list[Passage] = []
        place = 0
        for passage, row in zip(passages, scored, strict=True):
            words = [text for at, (text, _) in enumerate(row, place) if at in kept]
            place += len(row)
            if words:
                left.append(replace(passage, text=" ".join(words)))
        return tuple(left)

    def _words(self, text: str) -> list[tuple[str, float]]:
        """Return the words of a text with their self-information."""
        tokenizer = self._reader.sampler.tokenizer
        sentences = split_sentences(text)
        start = tokenizer.bos_token or tokenizer.eos_token or "\n"  # context of the first token
        log_probs = token_log_probs(self._reader, [start] * len(sentences), sentences)
        found: list[tuple[str, float]] = []
        for sentence, row in zip(sentences, log_probs, strict=True):
            words = list(re.finditer(r"\S+", sentence))
            offsets = tokenizer(sentence, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
            scores = span_means([word.span() for word in words], offsets, [-value for value in row])
            found += zip([word[0] for word in words], scores, strict=True)
        return found


class LongLLMLingua:
    """Keeps the passages from which the reader best guesses the question (arXiv:2310.06839).

    This is the coarse, question-aware step, without the token-wise step that follows in the paper. A passage's
    score is the mean log-probability, after it, of the question and of a sentence that the documents answer it.

    Args:
        reader: The reader of the compressed passages.
        keep: Share of the tokens of a question's passages to keep, in (0, 1]; see ``within_budget``.

    Raises:
        ValueError: ``keep`` is out of range.
    """

    def __init__(self, reader: PromptedReader, keep: float = 0.5) -> None:
        _check_keep(keep)
        self._reader, self._keep = reader, keep

    def compress(self, question: str, passages: Sequence[Passage]) -> tuple[Passage, ...]:
        """Return the remaining passages, the best one first."""
        reader, tokenizer = self._reader, self._reader.sampler.tokenizer
        asked = f" {reader.prompts.as_data(question)} {_SUFFIX}"
        room = reader.sampler.max_prompt_tokens - len(tokenizer(asked, add_special_tokens=False).input_ids)
        texts = [reader.prompts.fit([passage], lambda shown: shown[0], room).text for passage in passages]
        scores = [statistics.fmean(row) for row in token_log_probs(reader, texts, [asked] * len(texts))]
        lengths = [len(tokenizer(text, add_special_tokens=False).input_ids) for text in texts]
        return tuple(passages[place] for place in within_budget(scores, lengths, self._keep))


#: Compressors by name, from a reader and a share to keep.
COMPRESSORS: Mapping[str, Callable[[PromptedReader, float], Compressor]] = {
    "selective_context": SelectiveContext,
    "longllmlingua": LongLLMLingua,
}


def load_compressor(name: str, reader: PromptedReader, keep: float = 0.5) -> Compressor:
    """Return a compressor by its name in ``COMPRESSORS``, for a reader and a share to keep, in (0, 1].

    Raises:
        ValueError: The name is unknown, ``keep`` is out of range, or the reader's tokenizer is not supported.
    """
    if name not in COMPRESSORS:
        raise ValueError(f"compressions must be none or of {', '.join(COMPRESSORS)}, got {name!r}")
    return COMPRESSORS[name](reader, keep)


def split_sentences(text: str) -> list[str]:
    """Return the sentences of a text, without the white space between them.

    >>> split_sentences("The mill of J. Voss burned. Who lit it?")
    ['The mill of J. Voss burned.', 'Who lit it?']
    """
    return [sentence for sentence in _SENTENCE_END.split(text.strip()) if sentence]


def _check_keep(keep: float) -> None:
    if not 0 < keep <= 1:
        raise ValueError(f"keep must be in (0, 1], got {keep}")


def token_log_probs(reader: PromptedReader, prompts: Sequence[str], texts: Sequence[str]) -> list[list[float]]:
    """Return the natural-log probability of each token of texts after prompts, by a reader as a plain language model.

    Prompts must not be blank and are used without a template; texts have at least one token.

    Raises:
        UnscorableError: A prompt and the longest text of its batch of 16 are longer than the reader's window.
        ValueError: The reader thinks before it answers.
    """
    pairs = list(zip(prompts, texts, strict=True))

    def compute(missing: list[int]) -> list[list[float]]:
        found: list[list[float]] = []
        for start in range(0, len(missing), _BATCH_SIZE):
            batch, chunk = zip(*(pairs[at] for at in missing[start : start + _BATCH_SIZE]), strict=True)
            longest = max(map(len, reader.sampler.tokenizer(list(chunk), add_special_tokens=False).input_ids))
            sampler = reader.sampler.with_options(replace(reader.sampler.options, max_new_tokens=max(longest, 1)))
            log_probs = [unwrap(row).tolist() for row in sampler.log_probs(batch, chunk)]
            found += log_probs
        return found

    return answers_through(reader.cache, "token log-probs", reader.sampler, pairs, compute)
