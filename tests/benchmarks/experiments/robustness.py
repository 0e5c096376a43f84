"""Does ΔSePer depend on the entailment model that judges, or on how the reader is asked (SePer, Figure 7)?

python -m tests.benchmarks.experiments.robustness --config tests/benchmarks/experiments/configs/robustness.yaml
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from tqdm.auto import tqdm

from seper_reward.cli import run
from seper_reward.command import Record, marked_questions, reporting
from seper_reward.evaluate.contexts import marked_contexts, none_asked, with_passages
from seper_reward.evaluate.similarity import SIMILARITIES, Similarity, load_similarity
from seper_reward.judge.entailment import EntailmentScorer
from seper_reward.judge.judge import Judge, PairModel
from seper_reward.options import PASSAGES_HELP, LoadOptions, MarkedOptions, pick, setting
from seper_reward.reader.prompts import PromptStyle, prompt_style
from seper_reward.reports.figures import plot_intervals
from seper_reward.reports.tables import cell, interval_cell, markdown_table
from seper_reward.runtime.messages import tell_left_out
from seper_reward.runtime.parser import parse_options
from seper_reward.scorer import SePerScorer, beliefs_of, load_scorer
from seper_reward.statistics import PooledPearson, mean
from seper_reward.types import Asked, Pair, Passage, Query, Responses, UnscorableError, unwrap

_NAME = "tests.benchmarks.experiments.robustness"
_SOFT, _HARD = "delta_seper_soft", "delta_seper_hard"


@dataclass(frozen=True)
class RobustnessConfig(MarkedOptions):
    """Correlate ΔSePer with people's marks under other entailment models and prompts (SePer, Figure 7)."""

    passages_per_question: int | None = setting(None, PASSAGES_HELP)
    judges: list[str] = setting(
        ["embedded", "lexical", "token_f1", "cosine"],
        "Entailment models to compare with that of the other settings: as --judge, or a similarity in the place "
        "of one: lexical (the response holds the answer), token_f1 or cosine (of MiniLM's embeddings).",
    )
    prompts: list[str] = setting(
        ["brief", "few_shot", "paper"], "Styles of the prompt to compare with that of the other settings."
    )
    plot: str | None = setting(None, "Image file to plot the correlations with their intervals into (default: none).")


class SimilarityKernel:
    """A similarity of texts in the place of an entailment model: it says nothing of contradiction.

    Args:
        name: Name of the similarity.
        similarity: What tells how alike two texts are; numbers are clipped to [0, 1].
    """

    classes, max_batch_tokens, device = 3, 0, torch.device("cpu")

    def __init__(self, name: str, similarity: Similarity) -> None:
        self.name, self._similarity = name, similarity

    def reads(self, text: str) -> bool:
        """Return that it reads every text."""
        return True

    @property
    def weights_hash(self) -> str:
        """The name: what it stands for is fixed."""
        return self.name

    def probs(self, pairs: Sequence[Pair], *, verbatim: bool = False) -> Tensor:
        """Return ``(n, 3)``: how far the second text of each pair is found in the first, the rest, and 0.

        Args:
            pairs: The n pairs, whose questions are not used. A blank text entails, and is entailed by, a blank text
                only.
            verbatim: Not used.
        """
        texts = [(pair.premise, pair.hypothesis) for pair in pairs]
        stated = [pair for pair in dict.fromkeys(texts) if all(map(str.strip, pair))]
        found = dict(zip(stated, self._similarity(stated), strict=True))
        blank = [float(not one.strip() and not other.strip()) for one, other in texts]
        support = torch.tensor([found.get(pair, both) for pair, both in zip(texts, blank, strict=True)]).clamp(0, 1)
        return torch.stack([support, 1 - support, torch.zeros_like(support)], dim=1)


@dataclass(frozen=True)
class _Asked:
    """A question in its contexts (first without passages), and the responses there by name of the prompt."""

    query: Query
    responses: Mapping[str, list[Responses]]


@dataclass(frozen=True)
class Robustness(Record):
    """ΔSePer under other entailment models and prompts.

    Attributes:
        reference: ``soft`` and ``hard``: Pearson's r of ΔSePer with the contexts' relevance and its 95 % bootstrap
            ``interval`` over questions; ``with_reference``, the same of soft ΔSePer with the reference's; and
            ``baseline_seper``, the mean over questions.
        entailment: The same by entailment model.
        prompt: The same by style of the prompt.
        pairwise: Pearson's r of soft ΔSePer with that of every other entailment model, by both names.
        n: Number of contexts.
        questions: Number of questions.
        left_out: Number of questions that do not fit into the reader's window in some prompt.
    """

    reference: Mapping[str, Any]
    entailment: Mapping[str, Mapping[str, Any]]
    prompt: Mapping[str, Mapping[str, Any]]
    pairwise: Mapping[str, Mapping[str, Any]]
    n: int
    questions: int
    left_out: int

    def table(self) -> str:
        """Return Pearson's r of ΔSePer with people's marks by entailment model and by prompt."""
        rows = {"as configured": self.reference}
        rows |= {f"entailment: {name}": row for name, row in self.entailment.items()}
        rows |= {f"prompt: {name}": row for name, row in self.prompt.items()}
        columns = ("soft", "hard", "with_reference")
        header = [
            "",
            "ΔSePer soft with marks",
            "ΔSePer hard with marks",
            "with ΔSePer as configured",
            "baseline SePer",
        ]
        table = markdown_table(
            header,
            [
                [name, *(interval_cell(row[column]) for column in columns), cell(row["baseline_seper"])]
                for name, row in rows.items()
            ],
        )
        pairs = [[name, *map(interval_cell, row.values())] for name, row in self.pairwise.items()]
        table += f"\n\n{markdown_table(['ΔSePer soft, pairwise', *self.pairwise], pairs)}"
        left_out = f" ({self.left_out} left out)" if self.left_out else ""
        return f"{table}\n\n{self.questions} questions, {self.n} contexts{left_out}"

    def plot(self, path: Path) -> None:
        """Plot Pearson's r of soft and hard ΔSePer with people's marks by entailment model and prompt."""
        rows = {"as configured": self.reference, **self.entailment}
        rows |= {f"prompt {name}": row for name, row in self.prompt.items()}
        panels = {
            f"Pearson of ΔSePer {kind} with marks": {
                "": {name: (row[kind]["pearson"], row[kind]["interval"]) for name, row in rows.items()}
            }
            for kind in ("soft", "hard")
        }
        plot_intervals(panels, path, ours=("as configured",))


def command(arguments: list[str]) -> str:
    """Run ``python -m tests.benchmarks.experiments.robustness``."""
    config = parse_options((RobustnessConfig,), arguments, f"python -m {_NAME}")[0]
    file = config.file
    styles = {name: prompt_style(name, baseline=config.baseline, placebo=config.placebo) for name in config.prompts}
    queries = with_passages(marked_questions(config, file), config.passages_per_question)

    def loader(name: str, scorer: SePerScorer) -> Callable[[], Any]:
        if name == config.judge:
            return lambda: scorer.entailment
        if name in SIMILARITIES:
            return lambda: SimilarityKernel(name, load_similarity(name, scorer.entailment.device))
        return lambda: EntailmentScorer.from_pretrained(name, pick(LoadOptions, config))

    with reporting("robustness", config) as report:
        scorer = load_scorer(config, config.seed)
        report(robustness(scorer, queries, {name: loader(name, scorer) for name in config.judges}, styles))
    return f"seper-reward label --input {config.file} --reader plain --seed 1 --output_dir runs/plain"


def robustness(
    scorer: SePerScorer,
    queries: Sequence[Query],
    entailments: Mapping[str, Callable[[], PairModel]],
    prompts: Mapping[str, PromptStyle],
) -> Robustness:
    """Correlate ΔSePer with people's marks under other entailment models and prompts (SePer, Figure 7).

    Entailment models judge the same responses; another prompt has responses of its own, judged by the scorer's model.

    Args:
        scorer: Scorer whose prompt and entailment model the others are compared with.
        queries: Questions whose passages have ``relevant`` in their metadata.
        entailments: What loads each entailment model, by name; one is in memory at a time.
        prompts: Styles of the prompt by name.

    Raises:
        ValueError: Marks are missing or equal, or no question can be asked.
        OSError: A model cannot be loaded.
    """
    contexts = marked_contexts(queries)
    asked: list[_Asked] = []
    relevance: list[float] = []
    owner: list[int] = []
    for query, query_contexts in zip(tqdm(queries, desc="sampling", unit="question"), contexts, strict=True):
        try:
            row = _sampled(scorer, query, [context.passages for context in query_contexts], prompts)
        except UnscorableError as error:
            tell_left_out(query.id, error)
            continue
        owner += [len(asked)] * len(query_contexts)
        relevance += [context.relevance for context in query_contexts]
        asked.append(row)
    if not asked:
        raise none_asked(queries)
    reference = _gains(scorer, scorer.judge, asked, "", "the reference")

    def described(gains: Mapping[str, list[float]]) -> dict[str, Any]:
        marked = PooledPearson({_SOFT: gains[_SOFT], _HARD: gains[_HARD]}, relevance, owner)
        alike = PooledPearson({_SOFT: gains[_SOFT]}, reference[_SOFT], owner)
        return {
            "soft": marked.described(_SOFT),
            "hard": marked.described(_HARD),
            "with_reference": alike.described(_SOFT),
            "baseline_seper": mean(gains["baseline"]),
        }

    judged = {name: _gains(scorer, _judge(scorer, load()), asked, "", name) for name, load in entailments.items()}
    return Robustness(
        reference=described(reference),
        entailment={name: described(gains) for name, gains in judged.items()},
        pairwise={
            one: {
                other: PooledPearson({_SOFT: row[_SOFT]}, column[_SOFT], owner).described(_SOFT)
                for other, column in judged.items()
            }
            for one, row in judged.items()
        },
        prompt={name: described(_gains(scorer, scorer.judge, asked, name, f"prompt {name}")) for name in prompts},
        n=len(relevance),
        questions=len(asked),
        left_out=len(queries) - len(asked),
    )


def _sampled(
    scorer: SePerScorer, query: Query, sets: Sequence[Sequence[Passage]], prompts: Mapping[str, PromptStyle]
) -> _Asked:
    asked = Asked(query.question, query.answers, ((), *map(tuple, sets)))
    known = [scorer.known_answers(query)]
    readers = {"": scorer.reader, **{name: scorer.reader.with_style(style) for name, style in prompts.items()}}
    return _Asked(
        query,
        {name: unwrap(reader.responses([asked], known)[0]) for name, reader in readers.items()},
    )


def _judge(scorer: SePerScorer, model: PairModel) -> Judge:
    # similarities are faster than the cache
    return Judge(model, None if isinstance(model, SimilarityKernel) else scorer.cache)


def _gains(
    scorer: SePerScorer, judge: Judge, asked: Sequence[_Asked], prompt: str, title: str
) -> dict[str, list[float]]:
    """Return soft and hard ΔSePer of all contexts, and soft SePer without passages of all questions."""
    found: dict[str, list[float]] = {_SOFT: [], _HARD: [], "baseline": []}
    for row in tqdm(asked, desc=f"judging: {title}", unit="question"):
        asked_of = [(row.query.question, row.query.answers, each) for each in row.responses[prompt]]
        baseline, *beliefs = beliefs_of(judge, scorer.estimator, asked_of)
        found[_SOFT] += [belief.seper - baseline.seper for belief in beliefs]
        found[_HARD] += [belief.seper_hard - baseline.seper_hard for belief in beliefs]
        found["baseline"].append(baseline.seper)
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Run the experiment; return 0, or 2 after a message if the input or a setting is at fault."""
    return run("robustness", command, sys.argv[1:] if argv is None else list(argv))


if __name__ == "__main__":
    sys.exit(main())
