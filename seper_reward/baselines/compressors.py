"""Compressors of a reader's passages: Selective Context (arXiv:2310.06201) and LongLLMLingua (arXiv:2310.06839)."""

import math
import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from seper_reward.reader.prompted import PromptedReader
from seper_reward.runtime.cache import answers_through
from seper_reward.runtime.token_ids import token_ids
from seper_reward.types import Passage, unwrap

# between sentences, as in the official code of Selective Context, but also after exclamation marks, not after initials
_SENTENCE_END = re.compile(r"(?<!\w\.\w.)(?<![A-Z][a-z]\.)(?<!\b[A-Z]\.)(?<=[.?!])\s+")
_BATCH_SIZE = 16  # texts per batch: each token keeps the logits of the whole vocabulary
# LongLLMLingua's text after the question (arXiv:2310.06839, section 4.1)
_SUFFIX = "We can get the answer to this question in the given documents."


class Compressor(Protocol):
    """Shortens the passages in a reader's context."""

    def compress(self, question: str, passages: Sequence[Passage]) -> tuple[Passage, ...]:
        """Return the remaining passages with ids, titles and metadata, in the order for the reader."""


def above_percentile(scores: Sequence[float], keep: float) -> list[int]:
    """Return the positions of the share ``keep`` with the highest self-information, with ties (arXiv:2310.06201)."""
    if not scores:
        return []
    threshold = float(np.percentile(scores, 100 * (1 - keep)))
    return [place for place, score in enumerate(scores) if score >= threshold]


def within_budget(scores: Sequence[float], lengths: Sequence[int], keep: float) -> list[int]:
    """Return the positions of the units that LongLLMLingua's coarse step keeps (arXiv:2310.06839, 4.1), best first.

    The budget is the share ``keep`` of all tokens. As in the official code, the unit that exhausts it is kept whole,
    so at least one is kept.
    """
    # rounding: 0.55 * 100 is slightly above 55
    budget = math.ceil(keep * sum(lengths) - 1e-9)
    places: list[int] = []
    for place in sorted(range(len(scores)), key=lambda at: -scores[at]):
        if sum(lengths[at] for at in places) >= budget:
            break
        places.append(place)
    return places


def span_means(
    spans: Sequence[tuple[int, int]], offsets: Sequence[tuple[int, int]], values: Sequence[float]
) -> list[float]:
    """Return for each span of a text the mean value of the tokens that overlap it; 0 without such tokens.

    The paper on Selective Context sums the self-information of a unit's tokens; the official code and this function
    take the mean, which does not favour long units. Spans and token offsets are starts and (exclusive) ends.
    """
    tokens = list(zip(offsets, values, strict=True))
    inside = [[value for (low, high), value in tokens if low < end and high > start] for start, end in spans]
    return [statistics.fmean(span_values) if span_values else 0.0 for span_values in inside]


class SelectiveContext:
    """Drops words of low self-information (arXiv:2310.06201), and keeps the share ``keep``, in (0, 1].

    It is measured sentence by sentence, each as the start of a text, as in the official code, whose phrases would need
    a parser. Raises ``ValueError`` if the tokenizer returns no offsets of words.
    """

    def __init__(self, reader: PromptedReader, keep: float = 0.5) -> None:
        _check_keep(keep)
        if not reader.sampler.tokenizer.is_fast:
            raise ValueError("this compression drops words, which needs a fast tokenizer; use longllmlingua")
        self._reader, self._keep = reader, keep

    def compress(self, question: str, passages: Sequence[Passage]) -> tuple[Passage, ...]:
        """Return the remaining passages in order."""
        question, *texts = map(self._reader.prompts.as_data, [question, *(passage.text for passage in passages)])
        scored = [self._words(question, text) for text in texts]
        word_places = set(above_percentile([score for word_scores in scored for _, score in word_scores], self._keep))
        left: list[Passage] = []
        place = 0
        for passage, word_scores in zip(passages, scored, strict=True):
            words = [text for at, (text, _) in enumerate(word_scores, place) if at in word_places]
            place += len(word_scores)
            if words:
                left.append(replace(passage, text=" ".join(words)))
        return tuple(left)

    def _words(self, question: str, text: str) -> list[tuple[str, float]]:
        """Return the words of a text with the means of their tokens' scores."""
        tokenizer, sentences = self._reader.sampler.tokenizer, split_sentences(text)
        word_scores: list[tuple[str, float]] = []
        for sentence, token_scores in zip(sentences, self._scores(question, sentences), strict=True):
            words = list(re.finditer(r"\S+", sentence))
            offsets = tokenizer(sentence, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
            scores = span_means([word.span() for word in words], offsets, token_scores)
            word_scores += zip([word[0] for word in words], scores, strict=True)
        return word_scores

    def _scores(self, question: str, sentences: Sequence[str]) -> list[list[float]]:
        """Return the self-information of each token of sentences; the question is not used."""
        tokenizer = self._reader.sampler.tokenizer
        start = tokenizer.bos_token or tokenizer.eos_token or "\n"  # context of the first token
        log_probs = token_log_probs(self._reader, [start] * len(sentences), sentences)
        return [[-value for value in values] for values in log_probs]


class ContrastivePerplexity(SelectiveContext):
    """Drops words that the question makes no likelier, the fine step of LongLLMLingua (arXiv:2310.06839, eq. 3).

    A token's score is its log-probability after the question and the sentence so far, less that without the question.
    The paper drops tokens instead of words, fewer of passages with a high rank, after its coarse step, and restores
    dropped parts of the answer.
    """

    def _scores(self, question: str, sentences: Sequence[str]) -> list[list[float]]:
        informed = token_log_probs(self._reader, [f"{question}\n"] * len(sentences), sentences)
        alone = super()._scores(question, sentences)
        return [[one + other for one, other in zip(*both, strict=True)] for both in zip(informed, alone, strict=True)]


class LongLLMLingua:
    """Keeps the passages from which the reader best guesses the question (arXiv:2310.06839), a share of their tokens.

    This is the coarse, question-aware step; ``ContrastivePerplexity`` is the fine one. A passage's score is the mean
    log-probability, after it, of the question and of a sentence that the documents answer it.
    """

    def __init__(self, reader: PromptedReader, keep: float = 0.5) -> None:
        _check_keep(keep)
        self._reader, self._keep = reader, keep

    def compress(self, question: str, passages: Sequence[Passage]) -> tuple[Passage, ...]:
        """Return the remaining passages, the best one first."""
        reader, tokenizer = self._reader, self._reader.sampler.tokenizer
        suffix = f" {reader.prompts.as_data(question)} {_SUFFIX}"
        room = reader.sampler.max_prompt_tokens - len(token_ids(tokenizer, suffix))
        texts = [reader.prompts.fit([passage], lambda shown: shown[0], room).text for passage in passages]
        scores = [statistics.fmean(log_probs) for log_probs in token_log_probs(reader, texts, [suffix] * len(texts))]
        lengths = [len(token_ids(tokenizer, text)) for text in texts]
        return tuple(passages[place] for place in within_budget(scores, lengths, self._keep))


#: Compressors by name, from a reader and a share to keep.
COMPRESSORS: Mapping[str, Callable[[PromptedReader, float], Compressor]] = {
    "selective_context": SelectiveContext,
    "longllmlingua": LongLLMLingua,
    "contrastive_perplexity": ContrastivePerplexity,
}


def load_compressor(name: str, reader: PromptedReader, keep: float = 0.5) -> Compressor:
    """Return a compressor by its name in ``COMPRESSORS``, for a reader and a share to keep, in (0, 1]."""
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
    """Return the natural-log probability of each token of texts after prompts, without a template."""
    pairs = list(zip(prompts, texts, strict=True))

    def compute(missing: list[int]) -> list[list[float]]:
        computed: list[list[float]] = []
        for start in range(0, len(missing), _BATCH_SIZE):
            batch, chunk = zip(*(pairs[at] for at in missing[start : start + _BATCH_SIZE]), strict=True)
            longest = max(map(len, reader.sampler.tokenizer(list(chunk), add_special_tokens=False).input_ids))
            sampler = reader.sampler.with_options(replace(reader.sampler.options, max_new_tokens=max(longest, 1)))
            log_probs = [unwrap(values).tolist() for values in sampler.log_probs(batch, chunk)]
            computed += log_probs
        return computed

    return answers_through(reader.cache, "token log-probs", reader.sampler, pairs, compute)
