"""EntailmentScorer: pairs of answers in, entailment probabilities out."""

import functools
import re
import string
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from seper_reward.models import EMBEDDED, identity_hash, load_entailment
from seper_reward.runtime.memory import in_halves
from seper_reward.runtime.profiling import timed

_OTHER_LABELS = ("neutral", "contradiction")


class _Pair(NamedTuple):
    """The unit of deduplication."""

    premise: str
    hypothesis: str
    question: str


class EntailmentScorer:
    """Scores whether one answer entails another, with a sequence classifier.

    Args:
        model: classifier in eval mode whose ``config.id2label`` names an entailment class.
        tokenizer: its tokenizer.
        name: what to call the model in provenance.
        max_batch_tokens: most tokens (pairs times padded length) per forward pass.

    Raises:
        ValueError: ``id2label`` names no entailment class.
    """

    def __init__(self, model: Any, tokenizer: Any, *, name: str = "entailment", max_batch_tokens: int = 8192) -> None:
        self.name = name
        self._model, self._tokenizer = model, tokenizer
        self.max_batch_tokens = max_batch_tokens
        self._columns = _label_columns(model.config.id2label, name)
        window = getattr(model.config, "max_position_embeddings", tokenizer.model_max_length)
        self._max_length = int(min(window, tokenizer.model_max_length))

    @classmethod
    def from_pretrained(
        cls,
        name: str = EMBEDDED,
        *,
        revision: str | None = None,
        dtype: str = "auto",
        device: str | torch.device | None = None,
        trust_remote_code: bool = False,
        **options: Any,
    ) -> "EntailmentScorer":
        """Load the model (see ``load_entailment``); ``options`` as above."""
        loaded = load_entailment(
            name, revision=revision, dtype=dtype, device=device, trust_remote_code=trust_remote_code
        )
        return cls(loaded.model, loaded.tokenizer, name=loaded.name, **options)

    @functools.cached_property
    def weights_hash(self) -> str:
        """Hash of all of the model that decides a score, computed once (see ``identity_hash``)."""
        return identity_hash(self._model, self._tokenizer)

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        device: torch.device = self._model.device
        return device

    def score(self, pairs: Sequence[tuple[str, str]], questions: Sequence[str] | None = None) -> Tensor:
        """Return P(premise entails hypothesis), ``(n,)`` in [0, 1]; arguments as in ``class_probs``."""
        return self.class_probs(pairs, questions)[:, 0]

    def class_probs(self, pairs: Sequence[tuple[str, str]], questions: Sequence[str] | None = None) -> Tensor:
        """Score pairs; each distinct pair once, and those that need no model without it.

        Equal answers (after ``normalize_answer``) entail each other; a blank text entails nothing and is
        entailed by nothing but a blank one.

        Args:
            pairs: ``(premise, hypothesis)`` texts.
            questions: per pair, the question both texts answer; put in front of both. Without it, the texts
                stand for themselves.

        Returns:
            ``(n, K)`` float32 probabilities; column 0 is entailment, whatever the model's own label order.
            Three-way models give neutral and contradiction in columns 1 and 2.
        """
        asked = questions if questions is not None else [""] * len(pairs)
        cut = {question: self._cut_question(question) for question in set(asked)}
        rows = [
            _Pair(_surface(premise), _surface(hypothesis), cut[question])
            for (premise, hypothesis), question in zip(pairs, asked, strict=True)
        ]
        known = {row: self._without_model(row) for row in dict.fromkeys(rows)}
        for batch in self._batches([row for row, probs in known.items() if probs is None]):
            known.update(zip(batch, in_halves(self._forward, batch), strict=True))
        if not rows:
            return torch.empty(0, len(self._columns))
        return torch.stack([probs for row in rows if (probs := known[row]) is not None])

    def _cut_question(self, question: str) -> str:
        """Keep the end of a question that would push the answers out of the model's window."""
        most = self._max_length // 4
        encoded = self._tokenizer(question, add_special_tokens=False, return_offsets_mapping=self._tokenizer.is_fast)
        if len(encoded.input_ids) <= most:
            return question
        if not self._tokenizer.is_fast:
            return str(self._tokenizer.decode(encoded.input_ids[-most:]))
        return question[encoded["offset_mapping"][-most][0] :]

    def _without_model(self, row: _Pair) -> Tensor | None:
        premise, hypothesis, _ = row
        if normalize_answer(premise) == normalize_answer(hypothesis):
            return self._certain(0)
        if not premise or not hypothesis:
            return self._certain(1)
        return None

    def _certain(self, column: int) -> Tensor:
        return torch.nn.functional.one_hot(torch.tensor(column), len(self._columns)).float()

    def _batches(self, rows: Sequence[_Pair]) -> Iterator[list[_Pair]]:
        """Sort by length in tokens and cut where the padded batch would outgrow its budget."""
        lengths = {row: self._length(row) for row in rows}
        batch: list[_Pair] = []
        for row in sorted(rows, key=lambda row: (lengths[row], row)):
            if batch and (len(batch) + 1) * lengths[row] > self.max_batch_tokens:
                yield batch
                batch = []
            batch.append(row)
        if batch:
            yield batch

    def _length(self, row: _Pair) -> int:
        return len(self._encode([row], padding=False)["input_ids"][0])

    def _encode(self, rows: Sequence[_Pair], padding: bool, **options: Any) -> Any:
        return self._tokenizer(
            [qa_statement(question, premise) for premise, _, question in rows],
            [qa_statement(question, hypothesis) for _, hypothesis, question in rows],
            truncation="longest_first",
            max_length=self._max_length,
            padding=padding,
            **options,
        )

    @torch.no_grad()
    def _forward(self, rows: list[_Pair]) -> Iterable[Tensor]:
        encoded = self._encode(rows, padding=True, return_tensors="pt").to(self._model.device)
        with timed("entailment", tokens=encoded["input_ids"].numel()):
            logits: Tensor = self._model(**encoded).logits  # (n, K) in the model's order
        probs: Tensor = logits.float().softmax(-1)[:, self._columns].cpu()
        return probs


def qa_statement(question: str, answer: str) -> str:
    """Return the text that stands for "the answer to this question is" in entailment."""
    return f"{question} {answer}" if question else answer


def normalize_answer(text: str) -> str:
    """Lower-case, drop punctuation, a leading article and extra space (after SQuAD's rule, for all scripts).

    A text of nothing but those keeps its characters, so that it equals itself only.

    >>> normalize_answer("The  Tern Bridge!"), normalize_answer("¿Málaga?"), normalize_answer("C++")
    ('tern bridge', 'málaga', 'c++')
    """
    folded = unicodedata.normalize("NFKC", text).casefold()
    # a separator between digits counts: 1/2 is not 1.2
    words = "".join(
        " "
        if _is_punctuation(character)
        and not (folded[place - 1 : place].isdigit() and folded[place + 1 : place + 2].isdigit())
        else character
        for place, character in enumerate(folded)
    )
    kept = re.sub(r"^(a|an|the) (?=\S)", "", " ".join(words.split()))
    return kept or " ".join(folded.split())


def _is_punctuation(character: str) -> bool:
    if character in "+-%$#&<>=^*/":  # these change an answer: -5, C++, 50 %, <5
        return False
    return character in string.punctuation or unicodedata.category(character).startswith("P")


def _surface(text: str) -> str:
    """Drop what never changes an answer, so that "Paris." and "Paris" are one pair."""
    return " ".join(text.split()).strip("\"'“”‘’").rstrip(" .,;:\"'“”‘’")


def _label_columns(id2label: dict[int, str], name: str) -> list[int]:
    """Return the model's columns in our order: entailment first, then neutral and contradiction."""
    names = {str(label).lower().replace("-", "_"): int(index) for index, label in id2label.items()}
    if "entailment" not in names:
        raise ValueError(
            f"entailment={name!r}: config.id2label must name a class 'entailment', got {dict(id2label)}; "
            "take a model trained on NLI, or set id2label in its config.json"
        )
    others = [names[label] for label in _OTHER_LABELS if label in names]
    rest = [index for label, index in names.items() if label != "entailment" and index not in others]
    return [names["entailment"], *others, *sorted(rest)]
