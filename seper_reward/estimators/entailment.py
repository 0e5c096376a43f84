"""EntailmentScorer: pairs of texts in, entailment probabilities out."""

import functools
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from seper_reward.data.answers import normalize_answer
from seper_reward.data.demo import ENTAILMENT_ADAPTER
from seper_reward.runtime.control_tokens import ControlTokens
from seper_reward.runtime.hashing import identity_hash
from seper_reward.runtime.memory import in_halves, token_batches
from seper_reward.runtime.pretrained import (
    EMBEDDED,
    ENCODER_HUB_ID,
    LoadedModel,
    LoadOptions,
    adapter_in,
    embedded_encoder_folder,
    helpful_errors,
    merge_adapter,
    ready,
    resolve_device,
    resolve_dtype,
)
from seper_reward.runtime.profiling import timed

_LABELS = ("entailment", "neutral", "contradiction")
_BATCH_TOKENS = 8192  # per forward pass, unless the options say otherwise


class _Statement(NamedTuple):
    """A pair and its question; equal ones are scored once."""

    premise: str
    hypothesis: str
    question: str


class EntailmentScorer:
    """Scores whether one answer entails another, with a sequence classifier.

    Args:
        model: Classifier in eval mode whose ``config.id2label`` names an entailment class.
        tokenizer: Its tokenizer.
        name: Name of the model in provenance files.
        max_batch_tokens: Most tokens (pairs times padded length) per forward pass.

    Raises:
        ValueError: ``id2label`` names no entailment class.
    """

    def __init__(
        self, model: Any, tokenizer: Any, *, name: str = "entailment", max_batch_tokens: int = _BATCH_TOKENS
    ) -> None:
        self.name = name
        self._model, self._tokenizer = model, tokenizer
        self._control_tokens = ControlTokens(tokenizer)
        self.max_batch_tokens = max_batch_tokens
        self._columns = _label_columns(model.config.id2label, name)
        window = getattr(model.config, "max_position_embeddings", tokenizer.model_max_length)
        self._max_length = int(min(window, tokenizer.model_max_length))

    @classmethod
    def from_pretrained(cls, name: str = EMBEDDED, options: LoadOptions = LoadOptions()) -> "EntailmentScorer":
        """Load the model with the arguments and errors of ``load_entailment``, and make its scorer."""
        model, tokenizer, full_name = load_entailment(name, options)
        return cls(model, tokenizer, name=full_name, max_batch_tokens=options.max_batch_tokens or _BATCH_TOKENS)

    @functools.cached_property
    def weights_hash(self) -> str:
        """Hash over all parts of the model that decide a score (``identity_hash``), computed once."""
        return identity_hash(self._model, self._tokenizer)

    @property
    def device(self) -> torch.device:
        """Device of the model."""
        device: torch.device = self._model.device
        return device

    def score(self, pairs: Sequence[tuple[str, str]], questions: Sequence[str] | None = None) -> Tensor:
        """Return P(premise entails hypothesis), ``(n,)`` in [0, 1], with the arguments of ``class_probs``."""
        return self.class_probs(pairs, questions)[:, 0]

    def class_probs(self, pairs: Sequence[tuple[str, str]], questions: Sequence[str] | None = None) -> Tensor:
        """Return class probabilities of pairs; the model scores each distinct pair once.

        Two rules need no model: texts that are equal after ``normalize_answer`` entail each other, and a blank text
        entails, and is entailed by, a blank text only.

        Args:
            pairs: The n ``(premise, hypothesis)`` texts.
            questions: For each pair, the question that both texts answer; it is put in front of both. ``None`` scores
                the texts by themselves.

        Returns:
            ``(n, K)`` float32 probabilities; column 0 is entailment, whatever the model's own label order.
            Three-way models give neutral and contradiction in columns 1 and 2.
        """
        if questions is None:
            questions = [""] * len(pairs)
        short_questions = {question: self._cut_question(question) for question in set(questions)}
        rows = [
            _Statement(_surface(premise), _surface(hypothesis), short_questions[question])
            for (premise, hypothesis), question in zip(pairs, questions, strict=True)
        ]
        by_row = {row: self._without_model(row) for row in dict.fromkeys(rows)}
        lengths = {row: self._length(row) for row, probs in by_row.items() if probs is None}
        for batch in token_batches(lengths, self.max_batch_tokens):
            by_row.update(zip(batch, in_halves(self._forward, batch), strict=True))
        if not rows:
            return torch.empty(0, len(self._columns))
        return torch.stack([probs for row in rows if (probs := by_row[row]) is not None])

    def _cut_question(self, question: str) -> str:
        """Return the question, or the end of one so long that it would push the answers out of the model's window."""
        longest = self._max_length // 4
        encoded = self._tokenizer(question, add_special_tokens=False, return_offsets_mapping=self._tokenizer.is_fast)
        if len(encoded.input_ids) <= longest:
            return question
        if not self._tokenizer.is_fast:
            return str(self._tokenizer.decode(encoded.input_ids[-longest:]))
        return question[encoded["offset_mapping"][-longest][0] :]

    def _without_model(self, row: _Statement) -> Tensor | None:
        premise, hypothesis, _ = row
        if normalize_answer(premise) == normalize_answer(hypothesis):
            return self._certain(0)
        if not premise or not hypothesis:
            return self._certain(1)
        return None

    def _certain(self, column: int) -> Tensor:
        return torch.nn.functional.one_hot(torch.tensor(column), len(self._columns)).float()

    def _length(self, row: _Statement) -> int:
        return len(self._encode([row], padding=False)["input_ids"][0])

    def _encode(self, rows: Sequence[_Statement], padding: bool, **options: Any) -> Any:
        return self._tokenizer(
            [self._control_tokens.break_up(qa_statement(question, premise)) for premise, _, question in rows],
            [self._control_tokens.break_up(qa_statement(question, hypothesis)) for _, hypothesis, question in rows],
            truncation="longest_first",
            max_length=self._max_length,
            padding=padding,
            **options,
        )

    @torch.no_grad()
    def _forward(self, rows: list[_Statement]) -> Iterable[Tensor]:
        encoded = self._encode(rows, padding=True, return_tensors="pt").to(self._model.device)
        with timed("entailment", tokens=encoded["input_ids"].numel()):
            logits: Tensor = self._model(**encoded).logits  # (n, K) in the model's order
        probs: Tensor = logits.float().softmax(-1)[:, self._columns].cpu()
        return probs


def load_entailment(name: str = EMBEDDED, options: LoadOptions = LoadOptions()) -> LoadedModel:
    """Load an entailment cross-encoder (a sequence classifier whose ``id2label`` names an entailment class).

    Args:
        name: ``"embedded"`` (MiniLM with the adapter trained by ``trainers/entailment.py``), a folder with such
            an adapter, a hub id such as ``microsoft/deberta-v2-xlarge-mnli``, or a local model folder.
        options: Revision, dtype, device, and whether the model's own code may run.

    Raises:
        OSError: The model is neither a folder nor known to the hub; the message says what to do.
    """
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    device = resolve_device(options.device)
    dtype = resolve_dtype(options.dtype, device)
    adapter = adapter_in(ENTAILMENT_ADAPTER if name == EMBEDDED else name, ENCODER_HUB_ID)
    with helpful_errors("entailment", name, f"{EMBEDDED!r}, a local folder or a hub id"):
        if adapter:
            model, tokenizer = new_entailment_model()
            model = merge_adapter(model, adapter).to(dtype)
        else:
            tokenizer = AutoTokenizer.from_pretrained(name, **options.hub)
            model = AutoModelForSequenceClassification.from_pretrained(name, dtype=dtype, **options.hub)
    return ready(model, tokenizer, name, options.revision, device)


def new_entailment_model() -> tuple[Any, Any]:
    """Return all-MiniLM-L6-v2 with an untrained three-way head, where training starts, and its tokenizer."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer
    from transformers.utils import logging

    folder = embedded_encoder_folder()
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()  # transformers would warn that the head is untrained
    try:
        model = AutoModelForSequenceClassification.from_pretrained(
            folder,
            num_labels=len(_LABELS),
            id2label=dict(enumerate(_LABELS)),
            label2id={label: index for index, label in enumerate(_LABELS)},
            dtype=torch.float32,
        )
    finally:
        logging.set_verbosity(verbosity)
    return model, AutoTokenizer.from_pretrained(folder)


def qa_statement(question: str, answer: str) -> str:
    """Return the text that stands for "the answer to this question is" in entailment."""
    return f"{question} {answer}" if question else answer


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
    others = [names[label] for label in _LABELS[1:] if label in names]
    rest = [index for label, index in names.items() if label != "entailment" and index not in others]
    return [names["entailment"], *others, *sorted(rest)]
