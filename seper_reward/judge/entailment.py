"""EntailmentScorer: entailment probabilities of pairs of texts."""

import functools
import itertools
import math
import re
import unicodedata
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from seper_reward.data.demo import ENTAILMENT_ADAPTER
from seper_reward.options import ModelOptions
from seper_reward.runtime.control_tokens import ControlTokens
from seper_reward.runtime.hashing import identity_hash
from seper_reward.runtime.inference import inference
from seper_reward.runtime.memory import in_halves, token_batches
from seper_reward.runtime.multilingual_encoder import MULTILINGUAL_HUB_ID, multilingual_encoder_folder
from seper_reward.runtime.pretrained import (
    EMBEDDED,
    LoadedModel,
    base_of_adapter,
    expecting_new_head,
    helpful_errors,
    loaded_whole,
    merge_adapter,
    on_hub,
    ready,
    resolve_device,
    resolve_dtype,
)
from seper_reward.runtime.profiling import timed
from seper_reward.runtime.token_ids import PAIR_COLUMNS, joined_pairs, token_ids, whole_texts
from seper_reward.types import Pair

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

LONGEST_QUESTION = 40  # tokens; of 3,619 natural questions three are longer
LONGEST_ANSWER = 96  # tokens of a premise or hypothesis that the embedded model was trained to read
_LONGEST_PAIR = 512  # tokens, the window of BERT-like models; tokenizers may claim a longer one
_SPECIAL_TOKENS = 4  # at most, per pair
_BATCH_TOKENS = 8192  # default, per forward pass
_WORDS_OF_SCRIPT = 1000  # entries of a vocabulary from which on the model has read a script
_LAYERS = 8  # of 12, a third of the work less; the upper layers were trained to embed whole texts
_LABELS = ("entailment", "neutral", "contradiction")
_SENTENCE_END = re.compile(r"(?<=[?!])[\"'”’)]*\s+|(?<=[a-z\d]{4}\.)\s+|\s*\n\s*")


class EntailmentScorer:
    """Scores whether one answer entails another, with a sequence classifier in eval mode.

    Its ``config.id2label`` must name an entailment class. ``max_batch_tokens`` limits pairs times padded length per
    forward pass; ``name`` is the model's in provenance files. The question is prepended to the premise and to the
    hypothesis, as in the paper (arXiv:2503.01478, section 3); if the model's config sets ``question_once``, as the
    embedded model's does, to the premise only. ``trained_answer_tokens`` of the config is the length of a premise or
    hypothesis that the model was trained to read (default: the length of its window).
    """

    def __init__(
        self,
        model: "PreTrainedModel",
        tokenizer: "PreTrainedTokenizerBase",
        *,
        name: str = "entailment",
        max_batch_tokens: int = _BATCH_TOKENS,
    ) -> None:
        self.name, self.max_batch_tokens = name, max_batch_tokens
        self.model, self.tokenizer, self._control_tokens = model, tokenizer, ControlTokens(tokenizer)
        self.columns = _label_columns(model.config.id2label, name)
        self.classes = len(self.columns)
        window = getattr(model.config, "max_position_embeddings", tokenizer.model_max_length)
        self._max_length = int(min(window, tokenizer.model_max_length, _LONGEST_PAIR))
        self._question_once = bool(getattr(model.config, "question_once", False))
        self._question_tokens = min(LONGEST_QUESTION, self._max_length // 4)
        room = (self._max_length - _SPECIAL_TOKENS - (1 if self._question_once else 2) * self._question_tokens) // 2
        self.answer_tokens = min(getattr(model.config, "trained_answer_tokens", room), room)

    @classmethod
    def from_pretrained(cls, name: str = EMBEDDED, options: ModelOptions = ModelOptions()) -> "EntailmentScorer":
        """Load the model with the arguments and errors of ``load_entailment``, and make its scorer."""
        model, tokenizer, full_name = load_entailment(name, options)
        return cls(model, tokenizer, name=full_name)

    @functools.cached_property
    def weights_hash(self) -> str:
        """Hash over all parts of the model that decide a score (``identity_hash``), computed once."""
        return identity_hash(self.model, self.tokenizer)

    @property
    def device(self) -> torch.device:
        """Device of the model."""
        return torch.device(self.model.device)

    @functools.lru_cache(maxsize=65536)  # noqa: B019 (a process has few scorers)
    def unread(self, text: str) -> frozenset[str]:
        """Return the words with a token that the tokenizer lacks, or with letters of a script that it has no words of.

        A vocabulary with the single letters of a script, as BERT's has for Korean, lets different words look alike.
        """
        if text.isascii():
            return frozenset()
        unknown, words = self.tokenizer.unk_token_id, text.split()
        strange = {word for word in words if {*map(_script, word)} - self._scripts}
        return frozenset(strange).union(word for word in words if unknown in token_ids(self.tokenizer, word))

    @functools.cached_property
    def _scripts(self) -> set[str]:
        tokens = self.tokenizer.get_vocab()
        words = (self.tokenizer.convert_tokens_to_string([token]).strip(" #") for token in tokens)
        scripts = Counter(_script(word[0]) for word in words if len(word) > 1)  # Hindi's vowel signs are no letters
        return {"", *(script for script, count in scripts.items() if count >= _WORDS_OF_SCRIPT)}

    def probs(self, pairs: Sequence[Pair], *, verbatim: bool = False) -> Tensor:
        """Return class probabilities of distinct pairs, ``(n, K)``: entailment, then neutral and contradiction.

        Of a question, its asking sentence is read. Texts that are too long are judged in parts: a hypothesis is
        entailed if each of its parts is entailed by some part of the premise. With ``verbatim`` all texts are read
        unchanged, as in the official code: only ``?`` is added to a question without one, and too long pairs are
        truncated. A model that gives NaN raises ``ValueError``.
        """
        if not pairs:
            return torch.empty(0, self.classes)
        with timed("tokenize pairs"):
            grids = self.parts(pairs, verbatim=verbatim)
            parts = list(dict.fromkeys(part for grid in grids for claim in grid for part in claim))
            encoded = self.encode(parts)
        lengths = {at: len(ids) for at, ids in enumerate(encoded["input_ids"])}
        scores: dict[Pair, list[float]] = {}
        for batch in token_batches(lengths, self.max_batch_tokens):
            scored = in_halves(functools.partial(self._forward, encoded), batch)
            scores.update(zip([parts[at] for at in batch], scored, strict=True))
        # entailment is the first class, so lists are compared by it
        return torch.tensor([min(max(scores[part] for part in claim) for claim in grid) for grid in grids])

    def parts(self, pairs: Sequence[Pair], *, verbatim: bool = False) -> list[list[list[Pair]]]:
        """Return for each pair, per part of its hypothesis, the pairs of this part with the parts of its premise."""
        if verbatim:
            return [[[pair._replace(question=re.sub(r"(?<=[^?])\Z", "?", pair.question))]] for pair in pairs]
        short, fits = self._fits(self._question_tokens), self._fits(self.answer_tokens)
        asking = functools.cache(lambda text: in_windows(asking_sentence(text), short)[-1])  # of a long one the end
        cut = functools.cache(lambda text: in_windows(text, fits))
        return [
            [[Pair(asking(pair.question), one, two) for one in cut(pair.premise)] for two in cut(pair.hypothesis)]
            for pair in pairs
        ]

    def encode(self, pairs: Sequence[Pair]) -> dict[str, list[list[int]]]:
        """Return the tokenizer's columns for pairs from ``parts``, without padding; each text is tokenized once."""
        firsts = [_joined(pair.question, pair.premise) for pair in pairs]
        seconds = [_joined("" if self._question_once else pair.question, pair.hypothesis) for pair in pairs]
        safe = {text: self._control_tokens.break_up(text) for text in {*firsts, *seconds}}
        if self.tokenizer.is_fast and set(self.tokenizer.model_input_names) <= PAIR_COLUMNS:
            encoded = whole_texts(self.tokenizer).encode_batch(list(safe.values()), add_special_tokens=False)
            ids = {text: encoding.ids for text, encoding in zip(safe, encoded, strict=True)}
            pairs_of_ids = [(ids[one], ids[two]) for one, two in zip(firsts, seconds, strict=True)]
            columns = joined_pairs(self.tokenizer, pairs_of_ids)
            if all(len(pair_ids) <= self._max_length for pair_ids in columns["input_ids"]):
                return {name: columns[name] for name in self.tokenizer.model_input_names}
        pairs_of_texts = ([safe[text] for text in column] for column in (firsts, seconds))
        return dict(self.tokenizer(*pairs_of_texts, truncation="longest_first", max_length=self._max_length))

    @inference()
    def _forward(self, encoded: Mapping[str, list[list[int]]], places: list[int]) -> list[list[float]]:
        columns = {name: [column[at] for at in places] for name, column in encoded.items()}
        if self.tokenizer.pad_token_id is None:
            raise ValueError(f"judge {self.name!r}: its tokenizer has no padding token; set pad_token in its config")
        batch = self.tokenizer.pad(columns, return_tensors="pt").to(self.device)
        with timed("entailment"):
            logits: Tensor = self.model(**batch).logits  # (n, K) in the model's order
        probs: list[list[float]] = logits.float().softmax(-1)[:, self.columns].tolist()
        if any(map(math.isnan, itertools.chain.from_iterable(probs))):
            raise ValueError(f"entailment model {self.name!r} gave NaN; load it with dtype='float32'")
        return probs

    def _fits(self, tokens: int) -> Callable[[str], bool]:
        # a token has at least one character
        return lambda text: len(text) <= tokens or len(token_ids(self.tokenizer, text)) <= tokens


def _script(letter: str) -> str:
    """Return the script of a letter by the first word of its Unicode name; empty for other characters."""
    return unicodedata.name(letter, "?").partition(" ")[0].partition("-")[0] if letter.isalpha() else ""


def _joined(question: str, answer: str) -> str:
    return f"{question} {answer}" if question else answer


def asking_sentence(question: str) -> str:
    """Return the last sentence of three words or more that ends in a question mark, else the whole text."""
    sentences = list(filter(None, _SENTENCE_END.split(question.strip())))
    asks = [sentence for sentence in sentences if sentence.endswith("?") and len(sentence.split()) > 2]
    asking = (asks[-1] if asks else " ".join(sentences)).rstrip("?!.,;: ")
    return f"{asking}?" if asking else ""


@loaded_whole()
def load_entailment(name: str = EMBEDDED, options: ModelOptions = ModelOptions()) -> LoadedModel:
    """Load an entailment cross-encoder (a sequence classifier whose ``id2label`` names an entailment class).

    The name is ``"embedded"`` (multilingual-e5-small with the adapter trained by ``trainers/entailment.py``), a folder
    with such an adapter, a hub id such as ``microsoft/deberta-v2-xlarge-mnli``, or a local model folder; else
    ``OSError`` names the fix.
    """
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    device = resolve_device(options.device)
    dtype = resolve_dtype(options.dtype, device)
    adapter = ENTAILMENT_ADAPTER if name == EMBEDDED else Path(name)
    base = base_of_adapter(adapter)
    if base is not None and base.name != MULTILINGUAL_HUB_ID:
        raise ValueError(
            f"{name}: expected an adapter for {MULTILINGUAL_HUB_ID}, got one for {base.name}; merge the adapter first"
        )
    with helpful_errors("judge", name, f"{EMBEDDED!r}, a local folder or a hub id"):
        if base:
            model, tokenizer = new_entailment_model()
            model = merge_adapter(model, adapter).to(dtype)
        else:
            source, hub = on_hub(name, options.trust_remote_code)
            tokenizer = AutoTokenizer.from_pretrained(source, **hub)
            model = AutoModelForSequenceClassification.from_pretrained(source, dtype=dtype, **hub)
            if dtype != torch.float32 and (problem := _failure(model, tokenizer)):
                # transformers' DeBERTa v1 mixes dtypes
                warnings.warn(f"judge={name!r} is loaded in float32: {dtype} fails ({problem})", stacklevel=2)
                model = AutoModelForSequenceClassification.from_pretrained(source, dtype=torch.float32, **hub)
    return ready(model, tokenizer, name, device)


def _failure(model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase") -> str | None:
    try:
        with inference():
            logits = model(**tokenizer("one", "two", return_tensors="pt")).logits
    except RuntimeError as error:
        return str(error)
    return "NaN logits" if bool(logits.isnan().any()) else None


def new_entailment_model() -> tuple[Any, Any]:
    """Return the lower layers of multilingual-e5-small with an untrained three-way head, and its tokenizer."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    folder = multilingual_encoder_folder()
    with expecting_new_head():
        model = AutoModelForSequenceClassification.from_pretrained(
            folder,
            num_labels=len(_LABELS),
            id2label=dict(enumerate(_LABELS)),
            label2id={label: index for index, label in enumerate(_LABELS)},
            num_hidden_layers=_LAYERS,
            hidden_dropout_prob=0.0,  # with dropout, a training step on a CPU takes a third longer
            attention_probs_dropout_prob=0.0,
            dtype=torch.float32,
        )
    model.config.question_once, model.config.trained_answer_tokens = True, LONGEST_ANSWER
    return model, AutoTokenizer.from_pretrained(folder)


def in_windows(text: str, fits: Callable[[str], bool]) -> list[str]:
    """Cut a text into parts that fit, in halves: at the sentence end or else the space nearest the middle."""
    if len(text) <= 1 or fits(text):
        return [text]
    text = text.strip()
    middle = len(text) // 2
    spaces = ([match.start() for match in re.finditer(pattern, text)] for pattern in (r"(?<=[.!?])\s+", r"\s+"))
    cut = min(next(filter(None, spaces), [middle]), key=lambda at: abs(at - middle))
    return [part for half in (text[:cut], text[cut:].strip()) for part in in_windows(half, fits)]


def _label_columns(id2label: dict[int, str], name: str) -> list[int]:
    """Return the model's columns in our order: entailment first, then neutral and contradiction."""
    names = {str(label).lower(): int(index) for index, label in id2label.items()}
    if "entailment" not in names:
        raise ValueError(
            f"judge={name!r}: config.id2label must name a class 'entailment', got {dict(id2label)}; "
            "use a model trained on NLI, or set id2label in its config.json"
        )
    ours = [names[label] for label in _LABELS if label in names]
    return [*ours, *sorted({*names.values()} - {*ours})]
