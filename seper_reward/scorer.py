"""SePerScorer: composes reader, judge and estimator."""

import copy
import difflib
import functools
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from seper_reward.data.queries import parse_query
from seper_reward.data.rows import clean, shown
from seper_reward.estimators.belief import belief, pairs_of, reverse_pairs
from seper_reward.estimators.seper import Estimator, no_contradiction
from seper_reward.estimators.utility import utility
from seper_reward.judge.entailment import EntailmentScorer
from seper_reward.judge.equality import normal_form
from seper_reward.judge.judge import Judge, PairModel
from seper_reward.judge.reader_judge import ReaderJudge
from seper_reward.judge.support import Stated, mutual_supports
from seper_reward.options import (
    Baseline,
    JudgeOptions,
    ReaderOptions,
    ScorerOptions,
    split_address,
)
from seper_reward.reader.chat import ChatTemplate
from seper_reward.reader.engine.engine_sampler import load_sampler
from seper_reward.reader.prompted import PromptedReader, ahead
from seper_reward.reader.prompts import PromptStyle, prompt_style
from seper_reward.reader.sampler import Sampler
from seper_reward.runtime.cache import Cache, open_cache
from seper_reward.runtime.hub import unreached_hub
from seper_reward.runtime.memory import in_batches
from seper_reward.runtime.pretrained import EMBEDDED, LoadedModel, on_hub
from seper_reward.runtime.profiling import timed
from seper_reward.types import (
    Answers,
    Asked,
    Belief,
    Measured,
    Passage,
    Query,
    Responses,
    UnscorableError,
    Utility,
    unwrap,
)

if TYPE_CHECKING:
    from transformers import PreTrainedModel

#: Greatest number of aliases of a question that the model of the judge reads, and whose probabilities are known.
MOST_ANSWERS = 32


class SePerScorer:
    """Measures a reader's belief in the gold answers, and its change by passages (ΔSePer).

    Args:
        sampler: Samples the reader's responses, in this process or on servers.
        judge_model: The model that judges the responses.
        prompt: The wording, or the name of a style in ``prompts.STYLES``; includes the form of the baseline.
        chat: The reader's chat template (default: that of its tokenizer).
        estimator: The options of SePer; ``Estimator.preset("paper")`` and ``"official"`` are the published ones.
        max_passage_tokens: Maximum length of a passage in tokens (default: the reader's window).
        cache: Cache of responses and entailment scores between runs, or the path of its file, made if absent.

    Attributes:
        reader: The prompted reader: samples responses, and scores given answers.
        judge: The judge of pairs of answers.

    Raises:
        ValueError: The reader's chat template or window does not support an option.
    """

    def __init__(
        self,
        sampler: Sampler,
        judge_model: PairModel,
        *,
        prompt: str | PromptStyle = "paper",
        chat: ChatTemplate | None = None,
        estimator: Estimator | None = None,
        max_passage_tokens: int | None = None,
        cache: Cache | str | Path | None = None,
    ) -> None:
        cache = open_cache(cache)
        self.reader = PromptedReader(
            sampler, prompt=prompt, chat=chat, max_passage_tokens=max_passage_tokens, cache=cache
        )
        self.estimator = estimator or Estimator()
        self.entailment, self.judge = judge_model, Judge(judge_model, cache)
        if self.estimator.match == "no_contradiction":  # fail early: it raises for two classes
            no_contradiction(*torch.empty(2, 0, judge_model.classes))

    @classmethod
    def from_pretrained(
        cls, options: ScorerOptions | str = ScorerOptions(), loaded: LoadedModel | None = None, **changes: Any
    ) -> "SePerScorer":
        """Load reader and judge, and open the cache.

        Args:
            options: Options of the scorer, or the name of its reader: ``"embedded"``, ``"plain"``, a hub id
                (``ID@REVISION``) or a folder.
            loaded: The reader, if it is already loaded; it replaces the options' ``reader``.
            **changes: Fields of ``ScorerOptions`` that differ from ``options``, such as ``num_samples=4``,
                ``device="cpu"`` or ``engine=["http://localhost:8000/v1"]``; ``estimator`` may be an ``Estimator``.

        Raises:
            OSError: A model cannot be loaded; the message names the fix.
            ConnectionError: A server does not answer.
            TypeError: A keyword is no field of ``ScorerOptions``.
            ValueError: An option is out of range, or a server cannot be used as this reader.
        """
        if isinstance(options, str):
            options = ScorerOptions(reader=options)
        if loaded is not None:
            changes["reader"] = loaded.name
        names = options.__dataclass_fields__
        for name in changes.keys() - names:
            nearest = difflib.get_close_matches(name, names, n=1)
            hint = f"; did you mean {nearest[0]!r}?" if nearest else ""
            raise TypeError(f"SePerScorer.from_pretrained has no argument {name!r}{hint}")
        estimator = changes.pop("estimator", options.estimator)
        options = replace(options, **changes) if changes else options
        cache = open_cache(options.cache or None)  # fail early: loading the models is slow
        sampler = load_sampler(options, loaded)
        return cls(
            sampler,
            load_judge(options, sampler),
            prompt=prompt_style(options),
            chat=ChatTemplate(sampler.tokenizer, options),
            estimator=estimator if isinstance(estimator, Estimator) else Estimator.preset(estimator),
            max_passage_tokens=options.max_passage_tokens,
            cache=cache,
        )

    def __repr__(self) -> str:
        """Return the names of the models, the number of samples, the estimator's weighting, layout and device."""
        sampler = self.sampler
        return (
            f"SePerScorer(reader={sampler.name!r}, judge={self.entailment.name!r}, "
            f"num_samples={sampler.options.num_samples}, weighting={self.estimator.weighting!r}, "
            f"layout={sampler.layout!r}, device={str(sampler.device)!r})"
        )

    @property
    def sampler(self) -> Sampler:
        """Sampler of the reader's responses."""
        return self.reader.sampler

    @property
    def cache(self) -> Cache | None:
        """Cache of responses and entailment scores."""
        return self.reader.cache

    @functools.cached_property
    def fingerprint(self) -> dict[str, Any]:
        """All settings and model hashes that decide a label, JSON-able."""
        batching = {
            "reader": self.sampler.max_batch_tokens,
            "entailment": self.entailment.max_batch_tokens,
            "layout": self.sampler.layout,
        }
        judged = {**self.judge.fingerprint, "estimator": asdict(self.estimator)}
        return {**self.reader.fingerprint, "batching": batching, **judged}

    @property
    def batch_size(self) -> int:
        """Default batch size in questions: 128 on an accelerator, 1 on a CPU or engine."""
        device = self.sampler.device
        on_cpu = device is not None and device.type == "cpu"
        return 1 if on_cpu or self.sampler.prompts_ahead else 128

    def utilities(self, queries: Sequence[Query | Mapping[str, object]]) -> list[list[Utility]]:
        """Measure ΔSePer of each single passage of each query (arXiv:2503.01478, eq. 11).

        Args:
            queries: ``Query`` records or dicts ``{question, answers, passages}``.

        Returns:
            Per query one ``Utility`` per passage.

        Raises:
            BadRowError: A dict is not a usable query.
            TypeError: ``queries`` is one record instead of a list.
            UnscorableError: A question is longer than the reader's window.
        """
        if isinstance(queries, Query | Mapping):
            raise TypeError("utilities needs a list of records, got one record; write utilities([record])")
        records = [parse_query(clean(query)).whole for query in queries]
        requests = [Asked(query.question, query.answers, tuple(query.contexts)) for query in records]
        measured = (unwrap(result).beliefs for result in self.measure(requests))
        return [
            [utility(belief, baseline, passage.id) for passage, belief in zip(query.passages, beliefs, strict=True)]
            for query, (baseline, *beliefs) in zip(records, measured, strict=True)
        ]

    def beliefs(self, question: str, answers: Answers, passage_sets: Sequence[Sequence[Passage]]) -> list[Belief]:
        """Measure the belief in an answer given each set of passages; an empty set is the baseline.

        Raises:
            TypeError: A set is no list of ``Passage``.
            UnscorableError: The question is longer than the reader's window.
        """
        for context in passage_sets:
            if isinstance(context, str | Passage) or not all(isinstance(passage, Passage) for passage in context):
                raise TypeError(
                    f"passage_sets must be lists of Passage, such as [[], [Passage('...')]], got {shown(context)}"
                )
        (result,) = self.measure([Asked(question, answers, tuple(map(tuple, passage_sets)))])
        return list(unwrap(result).beliefs)

    def measure(self, requests: Sequence[Asked], batch_size: int | None = None) -> list[Measured | UnscorableError]:
        """Measure beliefs and texts of several questions.

        Args:
            requests: The questions, with their contexts and texts.
            batch_size: Number of questions per batch, >= 1 (default: the scorer's ``batch_size``). Low digits of the
                results depend on the other questions of a batch.

        Returns:
            Per question its beliefs and supports, or its error.
        """
        batches = in_batches(requests, batch_size or self.batch_size)
        waiting = ahead(self.reader, batches, self.known_answers)
        return list(itertools.chain.from_iterable(map(self._measured, waiting)))

    def _measured(self, batch: Sequence[Asked]) -> list[Measured | UnscorableError]:
        sampled = self.responses(batch)
        valid = [
            (request, draws, self._judged_answers(request, draws))
            for request, draws in zip(batch, sampled, strict=True)
            if not isinstance(draws, UnscorableError)
        ]
        contexts = [(request.question, answers, responses) for request, draws, answers in valid for responses in draws]
        beliefs = iter(beliefs_of(self.judge, self.estimator, contexts))
        stated = [Stated(request.question, text, answers) for request, _, answers in valid for text in request.texts]
        supports = iter(mutual_supports(self.judge, stated))
        return [
            draws
            if isinstance(draws, UnscorableError)
            else Measured(
                tuple(itertools.islice(beliefs, len(draws))), tuple(itertools.islice(supports, len(request.texts)))
            )
            for request, draws in zip(batch, sampled, strict=True)
        ]

    def responses(self, requests: Sequence[Query | Asked]) -> list[list[Responses] | UnscorableError]:
        """Sample the responses from which beliefs are computed; see ``PromptedReader.responses``."""
        return self.reader.responses(requests, list(map(self.known_answers, requests)))

    @property
    def knows_answers(self) -> bool:
        """Whether beliefs have the probabilities of the answers."""
        return self.estimator.weighting == "mass" and self.sampler.knows_leaves

    def known_answers(self, request: Query | Asked) -> Sequence[str]:
        """Return the answers whose probabilities the estimator uses: at most 32, the likeliest without a passage."""
        if self.estimator.weighting != "mass":
            return ()
        answers = list(dict.fromkeys(request.answers))
        if len(answers) <= MOST_ANSWERS:
            return request.answers
        usable = [answer for answer in answers if self.reader.prompts.response_texts([answer])]
        (log_probs,) = self.reader.answer_log_probs([Asked(request.question, (), ((),))], [usable])
        if isinstance(log_probs, UnscorableError):  # all its prompts are too long
            return answers[:MOST_ANSWERS]
        likeliest = sorted(zip(log_probs[0], usable, strict=True), key=lambda pair: -pair[0])[:MOST_ANSWERS]
        selection = {answer for _, answer in likeliest}
        return [answer for answer in answers if answer in selection]

    def _judged_answers(self, request: Asked, sampled: Sequence[Responses]) -> Answers:
        """Return the answers to judge texts by: of too many, those that are known or equal to a text."""
        known = [leaf.text for responses in sampled for leaf in responses.known_leaves]
        if not known or len(set(request.answers)) <= MOST_ANSWERS or self.estimator.aliases == "mean":
            return request.answers
        texts = (text for responses in sampled for text in responses.texts)
        stated = set(map(normal_form, itertools.chain(known, texts, request.texts)))
        return [answer for answer in request.answers if normal_form(answer) in stated]

    def with_baseline(self, baseline: Baseline) -> "SePerScorer":
        """Return the same scorer with another form of the baseline, the prompt without a passage."""
        return self._with(self.reader.with_style(replace(self.reader.prompts.style, baseline=baseline)))

    def with_sampling(self, **changes: object) -> "SePerScorer":
        """Return the same scorer with other ``SamplingOptions``, such as another ``seed``."""
        return self._with(self.reader.with_sampling(**changes))

    def reading_with(self, model: "PreTrainedModel", *, frozen: bool = False) -> "SePerScorer":
        """Return the same scorer with another model; see ``PromptedReader.reading_with``."""
        other = self._with(self.reader.reading_with(model, frozen=frozen))
        # a reader in training rarely repeats a response, so its entailment scores are not cached either
        other.judge = Judge(self.entailment, other.cache)
        return other

    def _with(self, reader: PromptedReader) -> "SePerScorer":
        other = copy.copy(self)
        other.__dict__.pop("fingerprint", None)
        other.reader = reader
        return other


def beliefs_of(judge: Judge, estimator: Estimator, sampled: Sequence[tuple[str, Answers, Responses]]) -> list[Belief]:
    """Compute the belief in each answer from the responses to its question in one context; all share batches."""
    probs = functools.partial(judge.probs, verbatim=estimator.judged_texts == "verbatim")
    judged = probs([pair for sample in sampled for pair in sorted(pairs_of(estimator, *sample))])
    judged |= probs([pair for sample in sampled for pair in sorted(reverse_pairs(estimator, *sample, judged))])
    with timed("clustering"):
        return [belief(estimator, *sample, judged) for sample in sampled]


def _is_causal(name: str, trust_remote_code: bool) -> bool:
    """Return whether a name is that of a causal language model; names that cannot be read are left to the loader."""
    from transformers import AutoConfig

    if name == EMBEDDED:
        return False
    source, hub = on_hub(name, trust_remote_code)
    try:
        config = AutoConfig.from_pretrained(source, **hub)
    except (OSError, ValueError) as error:
        if unreached := unreached_hub(error):
            raise OSError(f"judge={name!r} is not on this machine, and {unreached}") from error
        return False
    return any(architecture.endswith("ForCausalLM") for architecture in config.architectures or ())


def load_judge(options: JudgeOptions, reader: Sampler | None = None) -> PairModel:
    """Load the model that judges pairs of answers, by the names of the option ``judge``.

    ``"reader"`` is the given sampler, without which it raises ``ValueError``. A model that cannot be loaded raises
    ``OSError``.
    """
    if options.judge == "reader":
        if reader is None:
            raise ValueError("judge must not be 'reader' in a command without a reader; name its hub id or folder")
        return ReaderJudge(reader)
    name, servers = split_address(options.judge, "judge")
    if not servers and not _is_causal(name, options.trust_remote_code):
        return EntailmentScorer.from_pretrained(name, options)
    return ReaderJudge(load_sampler(ReaderOptions(reader=name, engine=servers, **options.loading)))


def load_scorers(options: ScorerOptions, readers: Sequence[str]) -> dict[str, SePerScorer]:
    """Load a scorer for each of several readers, names or ``TOKENIZER@URL``, else for the reader of the options."""
    if not readers:
        return {options.reader: SePerScorer.from_pretrained(options)}
    places = {name: split_address(name, "readers") for name in readers}
    return {
        name: SePerScorer.from_pretrained(options, reader=model, engine=servers)
        for name, (model, servers) in places.items()
    }
