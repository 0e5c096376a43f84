"""Similarities of short texts, as baselines of the entailment model."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from seper_reward.data.answers import AnswerMetric, contains_answer, token_f1
from seper_reward.runtime.imports import need
from seper_reward.runtime.pretrained import embedded_encoder_folder
from seper_reward.types import Answers

Pair = tuple[str, str]
Similarity = Callable[[Sequence[Pair]], list[float]]  # n pairs of texts -> n numbers
SIMILARITIES = ("lexical", "token_f1", "cosine", "bert_score")


class Encoder:
    """all-MiniLM-L6-v2, the embedded encoder, as a measure of similarity."""

    def __init__(self, device: torch.device | str = "cpu") -> None:
        library = need("sentence_transformers", "evaluation")
        self._model = library.SentenceTransformer(str(embedded_encoder_folder()), device=str(device))

    def cosines(self, pairs: Sequence[Pair]) -> list[float]:
        """Return the cosine of the embeddings of both texts of each pair, in [-1, 1]."""
        texts, vectors = self._encode(pairs, normalize_embeddings=True)
        return [float(vectors[texts[one]] @ vectors[texts[other]]) for one, other in pairs]

    def bert_scores(self, pairs: Sequence[Pair]) -> list[float]:
        """Return BERTScore's F1 of each pair (arXiv:1904.09675, eq. 1-3; equal weights, the last layer), in [0, 1]."""
        texts, tokens = self._encode(pairs, output_value="token_embeddings")
        # the first and the last token are BERT's special tokens
        return [bertscore_f1(*(tokens[texts[text]][1:-1].float().cpu() for text in pair)) for pair in pairs]

    def _encode(self, pairs: Sequence[Pair], **options: object) -> tuple[dict[str, int], Any]:
        texts = sorted({text for pair in pairs for text in pair})
        place = {text: at for at, text in enumerate(texts)}
        return place, self._model.encode(texts, show_progress_bar=False, **options) if texts else []


def bertscore_f1(one: Tensor, other: Tensor) -> float:
    """Return the similarity of two texts by their token vectors (BERTScore, arXiv:1904.09675; equal token weights).

    ``(T, D)`` and ``(U, D)`` vectors give the harmonic mean of precision and recall, each the mean, over the tokens of
    one text, of the greatest cosine with a token of the other, in [0, 1]; 0 if a text has no token.

    >>> round(bertscore_f1(torch.tensor([[1.0, 0.0], [0.0, 2.0]]), torch.tensor([[3.0, 0.0]])), 4)
    0.6667
    """
    if not len(one) or not len(other):
        return 0.0
    cosines = torch.nn.functional.normalize(one, dim=1) @ torch.nn.functional.normalize(other, dim=1).T  # (T, U)
    sides = [float(cosines.amax(dim).mean().clamp(0.0, 1.0)) for dim in (0, 1)]
    return 2 * sides[0] * sides[1] / sum(sides) if sum(sides) else 0.0


def bert_score(encoder: Encoder, responses: Sequence[str], answers: Answers) -> AnswerMetric:
    """Return BERTScore's F1 with the best alias as a metric of these responses."""
    pairs = [(response, alias) for response in sorted(set(responses)) for alias in answers]
    scores = dict(zip(pairs, encoder.bert_scores(pairs), strict=True))
    return lambda response, aliases: max(scores[response, alias] for alias in aliases)


def load_similarity(name: str, device: torch.device | str = "cpu") -> Similarity:
    """Return a similarity by name; ``lexical`` is whether the first text contains the second."""
    if name in ("cosine", "bert_score"):
        encoder = Encoder(device)
        return encoder.cosines if name == "cosine" else encoder.bert_scores
    metric = {"lexical": contains_answer, "token_f1": token_f1}[name]
    return lambda pairs: [metric(one, [other]) for one, other in pairs]
