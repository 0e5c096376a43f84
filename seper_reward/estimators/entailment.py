"""EntailmentScorer: entailment probabilities of pairs of texts."""

import functools
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from seper_reward.data.demo import ENTAILMENT_ADAPTER
from seper_reward.estimators.rules import decide
from seper_reward.estimators.statements import LONGEST_ANSWER, Statement, StatementEncoder
from seper_reward.runtime.hashing import identity_hash
from seper_reward.runtime.inference import inference
from seper_reward.runtime.memory import in_halves, token_batches
from seper_reward.runtime.pretrained import (
    EMBEDDED,
    ENCODER_HUB_ID,
    LoadedModel,
    LoadOptions,
    base_of_adapter,
    embedded_encoder_folder,
    helpful_errors,
    loaded_whole,
    merge_adapter,
    ready,
    resolve_device,
    resolve_dtype,
)
from seper_reward.runtime.profiling import timed

RULES = 7  # version of the rules, part of cache keys: raise it with every change of a rule
_LABELS = ("entailment", "neutral", "contradiction")
_BATCH_TOKENS = 8192  # default, per forward pass


class EntailmentScorer:
    """Scores whether one answer entails another, with a sequence classifier in eval mode.

    Its ``config.id2label`` must name an entailment class. ``max_batch_tokens`` limits pairs times padded length per
    forward pass; ``name`` is the model's in provenance files.
    """

    def __init__(
        self, model: Any, tokenizer: Any, *, name: str = "entailment", max_batch_tokens: int = _BATCH_TOKENS
    ) -> None:
        self.name = name
        self._model, self._tokenizer = model, tokenizer
        self.max_batch_tokens = max_batch_tokens
        self._columns = _label_columns(model.config.id2label, name)
        self._inputs = StatementEncoder(tokenizer, model.config)

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
        """Return P(premise entails hypothesis), ``(n,)`` in [0, 1]; for the arguments see ``class_probs``."""
        return self.class_probs(pairs, questions)[:, 0]

    def class_probs(
        self, pairs: Sequence[tuple[str, str]], questions: Sequence[str] | None = None, *, verbatim: bool = False
    ) -> Tensor:
        """Return class probabilities of pairs; the model scores each distinct pair once.

        Rules decide many pairs without the model (``rules.decide``): values are compared, texts that are equal in
        normal form entail each other, and words of the question alone entail nothing. Texts that are too long for the
        model are judged in parts: a hypothesis is entailed if each of its parts is entailed by some part of the
        premise.

        Args:
            pairs: The n ``(premise, hypothesis)`` texts.
            questions: For each pair, the question that both texts answer; its asking sentence is prepended
                (``statements``). ``None`` scores the texts without a question.
            verbatim: Whether the model scores all pairs unchanged, without rules or parts, as in the official code of
                SePer; only ``?`` is added to a question without one, and too long pairs are truncated.

        Returns:
            ``(n, K)`` float32 probabilities; column 0 is entailment, whatever the model's label order. For three-way
            models, columns 1 and 2 are neutral and contradiction.

        Raises:
            ValueError: The model gave NaN.
        """
        if questions is None:
            questions = [""] * len(pairs)
        if verbatim:
            asked = {each: f"{each}?" if each and not each.endswith("?") else each for each in set(questions)}
            rows = [
                Statement(premise, hypothesis, asked[question])
                for (premise, hypothesis), question in zip(pairs, questions, strict=True)
            ]
        else:
            asked = {question: self._inputs.asked(question) for question in set(questions)}
            rows = [
                Statement(_surface(premise), _surface(hypothesis), asked[question])
                for (premise, hypothesis), question in zip(pairs, questions, strict=True)
            ]
        ruled = {row: row if verbatim else decide(*row) for row in dict.fromkeys(rows)}
        by_row = {row: self._certain(entails) for row, entails in ruled.items() if isinstance(entails, bool)}
        claims = {
            row: Statement(claim[0], claim[1], row.question)
            for row, claim in ruled.items()
            if not isinstance(claim, bool)
        }
        parts = {row: [[row]] for row in claims.values()} if verbatim else self._inputs.parts(claims.values())
        lengths = self._inputs.lengths([part for grid in parts.values() for row in grid for part in row])
        by_part: dict[Statement, Tensor] = {}
        for batch in token_batches(lengths, self.max_batch_tokens):
            by_part.update(zip(batch, in_halves(self._forward, batch), strict=True))
        by_row |= {
            row: entailed_in_parts([[by_part[part] for part in claim] for claim in parts[claimed]])
            for row, claimed in claims.items()
        }
        return torch.stack([by_row[row] for row in rows]) if rows else torch.empty(0, len(self._columns))

    def _certain(self, entails: bool) -> Tensor:
        """Return the class probabilities of a pair decided by a rule: entailment, else contradiction."""
        return torch.nn.functional.one_hot(
            torch.tensor(0 if entails else len(self._columns) - 1), len(self._columns)
        ).float()

    @inference()
    def _forward(self, rows: list[Statement]) -> Iterable[Tensor]:
        encoded = self._inputs.encode(rows, padding=True, return_tensors="pt").to(self._model.device)
        with timed("entailment", tokens=encoded["input_ids"].numel()):
            logits: Tensor = self._model(**encoded).logits  # (n, K) in the model's order
        probs: Tensor = logits.float().softmax(-1)[:, self._columns].cpu()
        if bool(probs.isnan().any()):
            raise ValueError(f"entailment model {self.name!r} gave NaN; load it with dtype='float32'")
        return probs


@loaded_whole()
def load_entailment(name: str = EMBEDDED, options: LoadOptions = LoadOptions()) -> LoadedModel:
    """Load an entailment cross-encoder (a sequence classifier whose ``id2label`` names an entailment class).

    The name is ``"embedded"`` (MiniLM with the adapter trained by ``trainers/entailment.py``), a folder with such an
    adapter, a hub id such as ``microsoft/deberta-v2-xlarge-mnli``, or a local model folder.

    Raises:
        OSError: The model is neither a folder nor on the hub; the message names the fix.
    """
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    device = resolve_device(options.device)
    dtype = resolve_dtype(options.dtype, device)
    adapter = ENTAILMENT_ADAPTER if name == EMBEDDED else Path(name)
    base = base_of_adapter(adapter)
    if base is not None and base.name != ENCODER_HUB_ID:
        raise ValueError(
            f"{name}: expected an adapter for {ENCODER_HUB_ID}, got one for {base.name}; merge the adapter first"
        )
    with helpful_errors("entailment", name, f"{EMBEDDED!r}, a local folder or a hub id"):
        if base:
            model, tokenizer = new_entailment_model()
            model = merge_adapter(model, adapter).to(dtype)
        else:
            tokenizer = AutoTokenizer.from_pretrained(name, **options.hub)
            model = AutoModelForSequenceClassification.from_pretrained(name, dtype=dtype, **options.hub)
            if dtype != torch.float32 and (problem := _failure(model, tokenizer)):
                # transformers' DeBERTa v1 mixes dtypes
                warnings.warn(f"entailment={name!r} is loaded in float32: {dtype} fails ({problem})", stacklevel=2)
                model = AutoModelForSequenceClassification.from_pretrained(name, dtype=torch.float32, **options.hub)
    return ready(model, tokenizer, name, options.revision, device)


def _failure(model: Any, tokenizer: Any) -> str | None:
    """Return the error of a model that cannot score a pair, or ``None``."""
    try:
        with inference():
            logits = model(**tokenizer("one", "two", return_tensors="pt")).logits
    except RuntimeError as error:
        return str(error)
    return "NaN logits" if bool(logits.isnan().any()) else None


def new_entailment_model() -> tuple[Any, Any]:
    """Return all-MiniLM-L6-v2 with an untrained three-way head, the start of training, and its tokenizer."""
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
    model.config.question_once, model.config.trained_answer_tokens = True, LONGEST_ANSWER
    return model, AutoTokenizer.from_pretrained(folder)


def entailed_in_parts(probs: Sequence[Sequence[Tensor]]) -> Tensor:
    """Combine the class probabilities of a pair of texts that was judged in parts.

    A hypothesis is entailed if each of its parts is entailed by some part of the premise. ``probs`` has, per part of
    the hypothesis and part of the premise, class probabilities ``(K,)``, entailment first.
    """

    def entailment(row: Tensor) -> float:
        return float(row[0])

    return min((max(claim, key=entailment) for claim in probs), key=entailment)


def _surface(text: str) -> str:
    """Drop quotes, spaces and full stops at the ends, so "Paris." and "Paris" are scored once."""
    return " ".join(text.split()).strip("\"'“”‘’").rstrip(" .,;:\"'“”‘’")


def _label_columns(id2label: dict[int, str], name: str) -> list[int]:
    """Return the model's columns in our order: entailment first, then neutral and contradiction."""
    names = {str(label).lower().replace("-", "_"): int(index) for index, label in id2label.items()}
    if "entailment" not in names:
        raise ValueError(
            f"entailment={name!r}: config.id2label must name a class 'entailment', got {dict(id2label)}; "
            "use a model trained on NLI, or set id2label in its config.json"
        )
    others = [names[label] for label in _LABELS[1:] if label in names]
    rest = [index for label, index in names.items() if label != "entailment" and index not in others]
    return [names["entailment"], *others, *sorted(rest)]
