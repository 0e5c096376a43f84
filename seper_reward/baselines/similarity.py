"""How alike the answers to a question are, in the ways that vote in EoR (arXiv:2405.20680)."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor

from seper_reward.baselines.voting import SIMILARITIES, Similarity
from seper_reward.data.answers import normalize_answer, share_held
from seper_reward.estimators.judge import BeliefJudge
from seper_reward.evaluate.bertscore import bertscore_f1


class AnswerSimilarity:
    """Compares answers by their words, by an encoder's vectors of their tokens, and by entailment.

    Args:
        judge: Judge of the entailment model, and its cache.
        encoder: A ``SentenceTransformer`` over BERT, whose vectors of tokens are compared.
    """

    def __init__(self, judge: BeliefJudge, encoder: Any) -> None:
        self._judge, self._encoder = judge, encoder

    def compare(self, question: str, texts: Sequence[str]) -> Any:
        """Return ``(K, R, R)`` all K of ``SIMILARITIES`` of R answers, symmetric and in [0, 1].

        ``exact_match`` is 1 for answers that are equal once normalised, ``containment`` also where one holds the other
        as words; ``bertscore`` is ``bertscore_f1``; ``entailment`` is the mean of both directions, of the texts by
        themselves, and ``entailment_with_question`` of the texts as answers to the question. Equal texts are alike in
        all of them. A blank one is like none; the official code takes it for contained in all.
        """
        said = [" ".join(text.split()) for text in texts]
        distinct = sorted({text for text in said if text})
        pairs = list(itertools.combinations(distinct, 2))
        vectors = dict(zip(distinct, self._token_vectors(distinct), strict=True))
        found: dict[Similarity, list[float]] = {
            "exact_match": [float(normalize_answer(one) == normalize_answer(other)) for one, other in pairs],
            "containment": [max(share_held(one, (other,)), share_held(other, (one,))) for one, other in pairs],
            "bertscore": [bertscore_f1(vectors[one], vectors[other]) for one, other in pairs],
            "entailment": self._mutual("", pairs),
            "entailment_with_question": self._mutual(question, pairs),
        }
        number = {text: at for at, text in enumerate([*distinct, ""])}
        table = np.zeros((len(SIMILARITIES), len(number), len(number)))
        table[:, range(len(distinct)), range(len(distinct))] = 1.0
        for at, (one, other) in enumerate(pairs):
            values = [found[name][at] for name in SIMILARITIES]
            table[:, number[one], number[other]] = table[:, number[other], number[one]] = values
        places = [number[text] for text in said]
        return table[:, places][:, :, places]

    def _mutual(self, question: str, pairs: Sequence[tuple[str, str]]) -> list[float]:
        probs = self._judge.entailment(question, {*pairs, *((other, one) for one, other in pairs)})
        return [(probs[one, other] + probs[other, one]) / 2 for one, other in pairs]

    def _token_vectors(self, texts: Sequence[str]) -> list[Tensor]:
        vectors = self._encoder.encode(list(texts), output_value="token_embeddings", show_progress_bar=False)
        return [row[1:-1].float().cpu() for row in vectors]  # without the tokens that begin and end each text
