"""Pools of retrievers, named as in EoR (arXiv:2405.20680): sources of passages, and processing steps.

| name | passages |
|---|---|
| `none` | none: the reader answers without passages |
| `bm25@5` | the 5 best of a retriever (`load_retriever`) |
| `background` | one that the reader writes about the question |
| `bm25@5&minilm@5` | the passages of both, equal ones once |
| `bm25@RR@5` | of the 20 best, the 5 best by the reranker |
| `bm25@50@RR@5` | the same for the 50 best |
| `bm25@5&minilm@5@CP` | one: a summary of all ten for the question, which the reader writes |
| `(bm25@5&minilm@5)@RR@5` | operations after brackets apply to all passages in them |

As in the paper, `@RR` binds tightest, then `@NUMBER`, then `&`, and `@CP` last.
"""

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from tqdm.auto import tqdm

from seper_reward.baselines.measures import right_by_judge
from seper_reward.baselines.voting import SIMILARITIES, Similarity, VoteOptions, VoteWeights, vote_scores, winners
from seper_reward.data.answers import abstains, exact_match, holds_answer, normalize_answer
from seper_reward.evaluate.similarity import bertscore_f1
from seper_reward.judge.judge import Judge
from seper_reward.options import check_template
from seper_reward.reader.prompted import PromptedReader
from seper_reward.reader.prompts import fill_template
from seper_reward.reader.sampler import GREEDY
from seper_reward.reader.writer import Turn, Writer
from seper_reward.retrieval.loading import load_encoder, load_retriever
from seper_reward.retrieval.reranking import MINILM, load_reranker
from seper_reward.scorer import SePerScorer
from seper_reward.types import Asked, Pair, Passage, Query, UnscorableError, unwrap

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

_RIGHT = 0.8  # least entailment of a right answer, like the paper's threshold of BEM


class Elected(NamedTuple):
    """An answer that won a vote."""

    text: str
    source: int  # position of the retriever of the answer
    scores: list[float]  # (R,) score of each retriever's answer, NaN if it could not win


@dataclass(frozen=True)
class Candidates:
    """Candidates for the answer to a question, with the passages of R retrievers."""

    texts: tuple[str, ...]  # the reader's likeliest answer with each retriever's passages
    silent: np.ndarray  # (R,) bool, whether each answer is blank or abstains ("unknown" or similar)
    similarity: np.ndarray  # (K, R, R) of `answer_similarities`

    def vote(self, weights: VoteWeights, options: VoteOptions) -> Elected:
        """Return the answer that wins the vote of EoR."""
        scores = vote_scores(self.similarity[None], self.silent[None], weights, options)
        (place,) = winners(scores, weights).tolist()
        return Elected(self.texts[place], place, [score if score >= 0 else math.nan for score in scores[0].tolist()])


class Ensemble:
    """Queries a reader greedily with the passages of several retrievers; ``encoder`` is that of BERTScore."""

    def __init__(self, scorer: SePerScorer, encoder: "SentenceTransformer | None" = None) -> None:
        self._judge, self._reader = scorer.judge, scorer.with_sampling(**GREEDY).reader
        self._encoder = encoder or load_encoder("minilm")

    def expect(self, question: str, shown: Sequence[Sequence[Passage]]) -> None:
        """Start querying for a later call of ``candidates``, if the sampler can."""
        self._reader.expect([Asked(question, (), tuple(map(tuple, shown)))])

    def candidates(self, question: str, shown: Sequence[Sequence[Passage]]) -> Candidates:
        """Return the candidates for a question with the passages of each of R retrievers, which may be empty."""
        requests = [Asked(question, (), tuple(map(tuple, shown)))]
        texts = tuple(responses.texts[0] for responses in unwrap(self._reader.responses(requests)[0]))
        silent = np.array(list(map(_is_silent, texts)))
        return Candidates(texts, silent, answer_similarities(self._judge, self._encoder, question, texts))


def _is_silent(text: str) -> bool:
    return not text.strip() or abstains(text)


def verdicts(query: Query, texts: Sequence[str], judge: Judge | None = None) -> dict[str, bool]:
    """Return whether each text is right: it entails the answer by .8 or more, or without a judge equals it."""
    if judge is None:
        return {text: exact_match(text, query.answers) == 1 for text in texts}
    right = right_by_judge(judge, query.question, query.answers, texts, _RIGHT)
    return {text: right[text] and not _is_silent(text) for text in texts}


def answer_similarities(
    judge: Judge, encoder: "SentenceTransformer", question: str, texts: Sequence[str]
) -> np.ndarray:
    """Return ``(K, R, R)`` all K of ``SIMILARITIES`` of R answers, symmetric and in [0, 1].

    ``containment`` is 1 if one contains the other as words; ``entailment`` is the mean of both directions for the
    texts alone, and ``entailment_with_question`` as answers. Equal texts have similarity 1 in all of these; a blank
    text has 0 with all texts, and is contained in all of them in the official code.
    """

    def mutual(question: str) -> list[float]:
        both = [(Pair(question, one, other), Pair(question, other, one)) for one, other in pairs]
        judged = judge.probs([pair for directions in both for pair in directions])
        return [(judged[there] + judged[back]) / 2 for there, back in both]

    texts = [" ".join(text.split()) for text in texts]
    distinct = sorted({text for text in texts if text})
    pairs = list(itertools.combinations(distinct, 2))
    # without the tokens that begin and end each text
    embedded = encoder.encode(distinct, output_value="token_embeddings", show_progress_bar=False)
    vectors = {text: tokens[1:-1].float().cpu() for text, tokens in zip(distinct, embedded, strict=True)}
    similarities: dict[Similarity, list[float]] = {
        "exact_match": [float(normalize_answer(one) == normalize_answer(other)) for one, other in pairs],
        "containment": [float(holds_answer(one, (other,)) or holds_answer(other, (one,))) for one, other in pairs],
        "bertscore": [bertscore_f1(vectors[one], vectors[other]) for one, other in pairs],
        "entailment": mutual(""),
        "entailment_with_question": mutual(question),
    }
    number = {text: at for at, text in enumerate([*distinct, ""])}
    table = np.zeros((len(SIMILARITIES), len(number), len(number)))
    table[:, range(len(distinct)), range(len(distinct))] = 1.0
    for at, (one, other) in enumerate(pairs):
        values = [similarities[name][at] for name in SIMILARITIES]
        table[:, number[one], number[other]] = table[:, number[other], number[one]] = values
    places = [number[text] for text in texts]
    return table[:, places][:, :, places]


Passages = list[tuple[Passage, ...]]  # by question
_NONE, _BACKGROUND = "none", "background"
_RERANK, _COMPRESS = "RR", "CP"
_JOIN, _RETRIEVE = "&", "retrieve"
_RERANKED = 20  # default number of passages to rerank
BACKGROUND_PROMPT = (
    "Write a short paragraph of what is known that helps to answer this question.\nQuestion: {question}"
)
COMPRESS_PROMPT = (
    "Write down in one or two sentences what these passages say that helps to answer the question. Add nothing.\n"
    "{passages}\nQuestion: {question}"
)
_MAX_TOKENS = 256  # tokens of a written passage; the published prompts ask for up to 200 words
_BLOCK = 16  # questions


def retrieve_sources(
    names: Sequence[str],
    corpus: Mapping[str, Passage],
    questions: Sequence[str],
    reader: PromptedReader,
    background_prompt: str,
    compress_prompt: str,
    reranker: str = MINILM,
) -> dict[str, Passages]:
    """Return the passages of each source of a pool (named as in the table above) for each question, best first."""
    check_template("background_prompt", background_prompt, ["question"])
    check_template("compress_prompt", compress_prompt, ["passages", "question"])
    prompts = {_BACKGROUND: background_prompt, _COMPRESS: compress_prompt}
    pool = _Pool(corpus, questions, reader, prompts, reranker)
    for name in names:
        try:
            pool.expect(name)
        except ValueError as error:
            raise ValueError(
                "sources must be none, background or RETRIEVER@NUMBER such as bm25@5, followed by @RR (rerank) or "
                "@NUMBER, joined by &, and @CP (compress) last or in brackets, such as (bm25@5&minilm@5)@RR@3 or "
                f"bm25@5&minilm@5@CP, got {name!r}"
            ) from error
    return {name: pool.passages(name) for name in names}


def _step(name: str) -> tuple[str, list[str]]:
    """Return the loosest operation of a name and its operands; ``ValueError`` if the name is invalid."""
    if name.endswith(f"@{_COMPRESS}"):
        return _COMPRESS, [name.removesuffix(f"@{_COMPRESS}")]
    parts, depth = [""], 0
    for letter in name:
        depth += (letter == "(") - (letter == ")")
        if depth < 0:
            raise ValueError(name)
        if letter == "&" and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    if depth or (len(parts) > 1 and any(part.endswith(f"@{_COMPRESS}") for part in parts)):
        raise ValueError(name)
    if len(parts) > 1 or (name.startswith("(") and name.endswith(")")):
        return _JOIN, parts if len(parts) > 1 else [name[1:-1]]
    if name in (_NONE, _BACKGROUND):
        return name, []
    if match := re.fullmatch(rf"([^()&@]+)@{_RERANK}@(\d+)", name):
        return _step(f"{match[1]}@{max(_RERANKED, int(match[2]))}@{_RERANK}@{match[2]}")
    before, _, operation = name.rpartition("@")
    number = operation.isdecimal() and int(operation) >= 1
    if (not number and operation != _RERANK) or before.endswith(f"@{_COMPRESS}"):
        raise ValueError(name)
    if number and re.fullmatch(r"[^()&@]+", before) and before not in (_NONE, _BACKGROUND):
        return _RETRIEVE, [before, operation]
    return operation, [before]


class _Pool:
    """The passages of sources and of all their parts, each made once."""

    def __init__(
        self,
        corpus: Mapping[str, Passage],
        questions: Sequence[str],
        reader: PromptedReader,
        prompts: Mapping[str, str],
        reranker: str,
    ) -> None:
        self._corpus, self._questions, self._reader, self._prompts = corpus, questions, reader, prompts
        self._reranker = reranker
        self._depths: dict[str, int] = {}
        self._made: dict[str, Passages] = {}

    def expect(self, name: str) -> None:
        """Check a name, and record the number of passages needed from its retrievers."""
        operation, operands = _step(name)
        if operation == _RETRIEVE:
            retriever, number = operands
            self._depths[retriever] = max(int(number), self._depths.get(retriever, 0))
        else:
            for operand in operands:
                self.expect(operand)

    def passages(self, name: str) -> Passages:
        if name not in self._made:
            self._made[name] = self._make(*_step(name))
        return self._made[name]

    def _make(self, operation: str, operands: list[str]) -> Passages:
        if operation == _NONE:
            return [()] * len(self._questions)
        if operation == _BACKGROUND:
            return self._write(self._prompts[_BACKGROUND], [()] * len(self._questions), "background")
        if operation == _RETRIEVE:
            retriever, number = operands
            if retriever not in self._made:
                passages = load_retriever(retriever, self._corpus).retrieve(self._questions, self._depths[retriever])
                self._made[retriever] = passages
            return [ranked[: int(number)] for ranked in self._made[retriever]]
        made = [self.passages(operand) for operand in operands]
        if operation == _JOIN:
            return [
                tuple(dict.fromkeys(passage for part in parts for passage in part))
                for parts in zip(*made, strict=True)
            ]
        if operation == _RERANK:
            reranker = load_reranker(self._reranker)
            return [reranker.rerank(*pair) for pair in zip(self._questions, made[0], strict=True)]
        if operation == _COMPRESS:
            return self._write(self._prompts[_COMPRESS], made[0], "compressed")
        return [ranked[: int(operation)] for ranked in made[0]]

    def _write(self, template: str, lists: Passages, name: str) -> Passages:
        """Return for each question a passage that the reader writes at temperature 0; none if it cannot."""
        writer = Writer(self._reader, _MAX_TOKENS)
        prompts = [
            _prompt(writer, template, question, passages) if passages or "{passages}" not in template else None
            for question, passages in zip(self._questions, lists, strict=True)
        ]
        distinct = sorted({prompt for prompt in prompts if prompt is not None})
        texts: dict[str | None, str] = {None: ""}
        with tqdm(total=len(distinct), desc=f"writing {name}", unit="passage", disable=not distinct) as bar:
            for start in range(0, len(distinct), _BLOCK):
                block = distinct[start : start + _BLOCK]
                texts.update(zip(block, [unwrap(text).strip() for text in writer.write(block)], strict=True))
                bar.update(len(block))
        return [(Passage(texts[prompt], id=name),) if texts[prompt] else () for prompt in prompts]


def _prompt(writer: Writer, template: str, question: str, passages: Sequence[Passage]) -> str | None:
    question = writer.as_data(question)

    def turns(texts: Sequence[str]) -> list[Turn]:
        filled = template.replace("{passages}", "\n".join(f"Passage: {{{at}}}" for at in range(len(texts))))
        fields = {str(at): text for at, text in enumerate(texts)}
        return [{"role": "user", "content": fill_template(filled, question=question, **fields)}]

    try:
        return writer.prompt(passages, turns)
    except UnscorableError:
        return None
