"""Do labels hold for other readers? Agreement of two readers' labels, corrected for the noise of sampling.

python -m tests.benchmarks.experiments.transfer --config tests/benchmarks/experiments/configs/transfer.yaml
"""

import itertools
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tqdm.auto import tqdm

from seper_reward.cli import run
from seper_reward.command import Record, by_name, reporting
from seper_reward.labels.rows import DELTA_SEPER
from seper_reward.options import ResultOptions, check_types, setting
from seper_reward.reports.figures import legend_beside, new_figure, save_figure
from seper_reward.reports.tables import cell, interval_cell, markdown_table
from seper_reward.runtime.json_files import write_lines
from seper_reward.runtime.parser import parse_options
from seper_reward.statistics import interval_over_questions, rounded_or_none
from tests.benchmarks.experiments.agreement import NoisyLabels, TrueSigns, correlation, pairs_within, sign_shares
from tests.benchmarks.experiments.reader_labels import Key, ReaderLabels, read_reader

Verdict = Literal["helps", "harms", "useless", "unsure"]
_NAME = "tests.benchmarks.experiments.transfer"
_CORRELATION_RESAMPLES = 1000


_MEANINGS = {
    "helps": "surely helps all readers",
    "harms": "surely harms all readers",
    "useless": "surely does nothing to any reader",
    "opposite": "surely helps one and harms another",
    "depends": "surely helps or harms one, and surely does nothing to another",
    "unsure": "some label is too noisy to tell",
}
_COLORS = {
    "helps": "#4c9f70",
    "harms": "#c0392b",
    "useless": "#34495e",
    "opposite": "#8e44ad",
    "depends": "#e08e3a",
    "unsure": "#c8ccd0",
}


@dataclass(frozen=True)
class TransferConfig(ResultOptions):
    """Do labels hold for other readers? Agreement of their labels, corrected for sampling noise."""

    labels: list[str] = setting(
        [],
        "Folders written by `seper-reward label`, two or more, of the same questions and passages with other readers "
        "(or prompts), each with a --seed of its own. Required.",
    )
    margin: float = setting(
        0.05, "Distance from 0 from which on a label is help or harm, and two labels differ, in [0.01, 0.5]."
    )
    splits: int = setting(10, "How often a label's responses are split into random halves, >= 1.")
    resamples: int = setting(200, "Resamples of the questions for intervals of signs and orders, >= 20.")
    seed: int = setting(0, "Seed of the halves.")
    verdicts: str | None = setting(
        None,
        "JSONL file to write the verdict on each passage to, whether its label is safe for all readers (default: "
        "none).",
    )
    plot: str | None = setting(None, "Image file to plot the labels of each pair of readers into (default: none).")

    def __post_init__(self) -> None:
        check_types(self)
        if len(self.labels) < 2:
            raise ValueError(f"labels must be the folders of two readers or more, got {self.labels}")
        if not 0.01 <= self.margin <= 0.5:
            raise ValueError(f"margin must be in [0.01, 0.5], got {self.margin}")
        if self.splits < 1 or self.resamples < 20:
            raise ValueError(
                f"splits must be at least 1 and resamples at least 20, got {self.splits} and {self.resamples}"
            )


@dataclass(frozen=True)
class Transfer(Record):
    """How far the labels of several readers agree.

    Attributes:
        readers: By name ``reader``, ``seed``, and ``reliability``, the share of the variance of labels that is not
            noise.
        pairs: Of each two readers: ``labels`` (correlation over all passages), ``within_questions`` (labels less their
            question's mean), both with ``observed``, ``corrected`` and the 95 % bootstrap ``interval`` of the latter
            over questions; ``sign``: of labels beyond the margin for both, the share with the same sign; and
            ``order``: of passages of one question that differ by more than the margin for both, the share in the same
            order, each with ``observed``, ``corrected`` and ``interval``.
        same_noise: Pairs with the same prompt and seed.
        verdicts: Number of passages by verdict (``joint_verdict``).
        passages: ``id``, ``passage_id``, ``verdict`` and ``labels`` by reader.
        questions: Number of questions.
        labels: Number of labels of each reader.
        left_out: Number of labels of passages that not all readers labelled.
    """

    readers: Mapping[str, Mapping[str, Any]]
    pairs: Mapping[str, Mapping[str, Mapping[str, Any]]]
    same_noise: Sequence[str]
    verdicts: Mapping[str, int]
    passages: Sequence[Mapping[str, Any]]
    questions: int
    labels: int
    left_out: int

    def as_dict(self) -> dict[str, Any]:
        """Return the content of the JSON file, without the single passages."""
        return {name: value for name, value in super().as_dict().items() if name != "passages"}

    def table(self) -> str:
        """Return how far readers' labels agree, as observed and without the noise of sampling."""
        readers = [
            [name, row["reader"], str(row["seed"]), cell(row["reliability"])] for name, row in self.readers.items()
        ]
        titles = {
            "labels": "correlation of labels",
            "within_questions": "within questions",
            "sign": "same sign",
            "order": "same order",
        }
        agreement = [
            [name, title, cell(pair[kind]["observed"]), _corrected_cell(pair[kind])]
            for name, pair in self.pairs.items()
            for kind, title in titles.items()
        ]
        counts = [[name, str(self.verdicts.get(name, 0)), meaning] for name, meaning in _MEANINGS.items()]
        return "\n\n".join(
            [
                markdown_table(["labels", "reader", "seed", "reliability"], readers),
                markdown_table(["pair", "agreement", "observed", "without noise"], agreement),
                markdown_table(["verdict", "passages", "which means"], counts),
                f"{self.questions} questions, {self.labels} labels of each reader; {self.left_out} others "
                "that not all readers have",
            ]
        )

    def plot(self, path: Path) -> None:
        """Plot the labels of each pair of readers against each other, with how far they agree."""
        pairs = self.pairs
        figure = new_figure(4.6 * len(pairs) + 1.4, 4.6)
        for axes, (name, pair) in zip(figure.subplots(1, len(pairs), squeeze=False)[0], pairs.items(), strict=True):
            one, other = name.split(" / ")
            for verdict, color in _COLORS.items():
                labels = [row["labels"] for row in self.passages if row["verdict"] == verdict]
                if labels:
                    axes.scatter(
                        [row[one] for row in labels], [row[other] for row in labels], s=14, color=color, label=verdict
                    )
            for line in (axes.axhline, axes.axvline):
                line(0, color="#d5d8dc", zorder=0)
            axes.set(xlabel=f"ΔSePer, {one}", ylabel=f"ΔSePer, {other}", xlim=(-1.05, 1.05), ylim=(-1.05, 1.05))
            axes.set_aspect("equal")
            told = [
                f"{title} {_number(pair[kind]['observed'])} → {_number(pair[kind]['corrected'])}"
                for kind, title in (("labels", "correlation"), ("sign", "same sign"))
            ]
            axes.set_title("observed → without noise\n" + ", ".join(told), fontsize=9)
            axes.spines[["top", "right"]].set_visible(False)
        legend_beside(figure.axes[-1], title="for all readers")
        save_figure(figure, path)


def command(arguments: list[str]) -> str:
    """Run ``python -m tests.benchmarks.experiments.transfer``."""
    config = parse_options((TransferConfig,), arguments, f"python -m {_NAME}")[0]
    with reporting("transfer", config) as report:
        found = transfer(
            [read_reader(folder, name) for name, folder in by_name(config.labels).items()],
            margin=config.margin,
            splits=config.splits,
            resamples=config.resamples,
            seed=config.seed,
        )
        report(found)
    for pair in found.same_noise:
        print(
            f"warning: {pair} were labelled with one prompt and seed; if their tokenizers are the same, so is their "
            "sampling noise, and they seem to agree more than they do; label one of them with another --seed",
            file=sys.stderr,
        )
    if config.verdicts:
        write_lines(Path(config.verdicts), found.passages)
    return f"seper-reward export --labels {config.labels[0]} --output lists.jsonl"


def transfer(
    readers: Sequence[ReaderLabels],
    *,
    margin: float = 0.05,
    splits: int = 10,
    resamples: int = 200,
    seed: int = 0,
) -> Transfer:
    """Compare the labels (ΔSePer) of readers, passage by passage.

    Noise is what a label's responses owe to chance: labels on halves of them differ by it, and it is taken out of the
    agreement (``agreement.py``). Readers must have sampled independently; with one tokenizer, prompt and seed they do
    not.

    Args:
        readers: Labels of two readers or more; questions and passages that some lack are left out.
        margin: Distance from 0 from which on a label is help or harm, and two labels differ, in [0.01, 0.5].
        splits: How often responses are split into random halves, >= 1.
        resamples: Resamples of the questions for intervals of signs and orders; correlations have 1,000.
        seed: Seed of the halves.

    Raises:
        ValueError: There are fewer than two questions in common, a question or passage has one id and two texts, or a
            label is of a single response.
    """
    keys = _common(readers)
    owner = _numbered([question for question, _ in keys])
    if len(set(owner)) < 2:
        raise ValueError(
            f"expected at least two questions that {' and '.join(each.name for each in readers)} all labelled, got "
            f"{len(set(owner))}; label the same questions with each reader"
        )
    pairs = pairs_within(owner)
    labels: dict[str, NoisyLabels] = {}
    orders: dict[str, NoisyLabels] = {}
    for number, reader in enumerate(readers):
        labels[reader.name], alone = reader.noisy(keys, splits=splits, seed=(seed, number))
        orders[reader.name] = alone.differences(pairs)
    compare = _Comparison(owner, pairs, margin, resamples)
    passages = _passages(readers, keys, margin)
    return Transfer(
        readers={
            each.name: {
                "reader": each.reader,
                "seed": each.seed,
                "reliability": rounded_or_none(labels[each.name].reliability),
            }
            for each in readers
        },
        pairs={
            f"{one} / {other}": compare.compared(labels[one], labels[other], orders[one], orders[other])
            for one, other in itertools.combinations(labels, 2)
        },
        same_noise=[
            f"{one.name} / {other.name}"
            for one, other in itertools.combinations(readers, 2)
            if (one.prompt, one.seed) == (other.prompt, other.seed)
        ],
        verdicts=dict(Counter(row["verdict"] for row in passages)),
        passages=passages,
        questions=len(set(owner)),
        labels=len(keys),
        left_out=len({key for reader in readers for key in reader.texts}) - len(keys),
    )


def verdict(passage: Mapping[str, Any], margin: float) -> Verdict:
    """Return what a label says for sure: its whole 95 % interval is beyond the margin, or within it.

    Args:
        passage: Row of a passage, with ``low`` and ``high`` of its label.
        margin: Distance from 0 from which on a label is help or harm.
    """
    low, high = passage["low"], passage["high"]
    if low > margin:
        return "helps"
    if high < -margin:
        return "harms"
    return "useless" if -margin <= low and high <= margin else "unsure"


def joint_verdict(verdicts: Sequence[Verdict]) -> str:
    """Return the verdict on a passage for all readers.

    ``helps``, ``harms`` and ``useless`` are safe for all: each reader's label says so for sure. ``opposite``: it
    surely helps one reader and surely harms another; ``depends``: readers are sure of other things, which are not
    opposite; ``unsure``: some reader's label is, and the others' do not differ.

    >>> joint_verdict(["helps", "helps"]), joint_verdict(["helps", "unsure"]), joint_verdict(["helps", "useless"])
    ('helps', 'unsure', 'depends')
    """
    sure = set(verdicts) - {"unsure"}
    if {"helps", "harms"} <= sure:
        return "opposite"
    if len(sure) > 1:
        return "depends"
    return "unsure" if "unsure" in verdicts else sure.pop()


class _Comparison:
    """Compares two readers' labels of the same passages, with intervals over questions."""

    def __init__(self, owner: Sequence[int], pairs: Sequence[tuple[int, int]], margin: float, resamples: int) -> None:
        import numpy as np

        self._owner, self._pair_owner = np.array(owner), np.array([owner[one] for one, _ in pairs], dtype=int)
        self._questions = max(owner) + 1
        self._rows = [np.flatnonzero(self._owner == number) for number in range(self._questions)]
        self._margin, self._resamples = margin, resamples

    def compared(
        self, one: NoisyLabels, other: NoisyLabels, one_order: NoisyLabels, other_order: NoisyLabels
    ) -> dict[str, Any]:
        centred = one.centred(self._owner), other.centred(self._owner)
        return {
            "labels": self._correlation(one, other),
            "within_questions": self._correlation(*centred),
            "sign": self._signs(one, other, self._owner, "signs"),
            "order": self._signs(one_order, other_order, self._pair_owner, "orders"),
        }

    def _correlation(self, one: NoisyLabels, other: NoisyLabels) -> dict[str, Any]:
        import numpy as np

        def corrected(numbers: Any) -> float:
            places = np.concatenate([self._rows[int(number)] for number in numbers])
            return correlation(one.at(places), other.at(places)).corrected

        found = correlation(one, other)
        return {
            "observed": rounded_or_none(found.observed),
            "corrected": rounded_or_none(found.corrected),
            "interval": interval_over_questions(corrected, self._questions, resamples=_CORRELATION_RESAMPLES),
        }

    def _signs(self, one: NoisyLabels, other: NoisyLabels, owner: Any, title: str) -> dict[str, Any]:
        if not len(owner):  # no question has two passages
            return {"observed": None, "corrected": None, "interval": None}
        true_signs = TrueSigns(one, other, self._margin)
        with tqdm(total=self._resamples, desc=f"interval of {title}", unit="resample") as bar:
            agreement = _counted(lambda counts: true_signs.shares(counts[owner]).agreement, self._questions, bar)
            interval = interval_over_questions(agreement, self._questions, resamples=self._resamples)
        return {
            "observed": rounded_or_none(sign_shares(one.values, other.values, self._margin).agreement),
            "corrected": rounded_or_none(true_signs.shares().agreement),
            "interval": interval,
        }


def _counted(statistic: Callable[[Any], float], questions: int, bar: Any) -> Callable[[Any], float]:
    """Return a statistic of question numbers from one of how often each question was chosen."""
    import numpy as np

    def of_numbers(numbers: Any) -> float:
        bar.update()
        return statistic(np.bincount(numbers, minlength=questions))

    return of_numbers


def _common(readers: Sequence[ReaderLabels]) -> list[Key]:
    """Return the ids of all questions and passages that each reader labelled, in the order of the first."""
    texts = [reader.texts for reader in readers]
    first, *others = texts
    keys = [key for key in first if all(key in other for other in others)]
    for key in keys:
        for reader, other in zip(readers[1:], others, strict=True):
            if other[key] != first[key]:
                raise ValueError(
                    f"question id={key[0]!r}, passage id={key[1]!r}: {readers[0].name} and {reader.name} have other "
                    "texts under these ids; label the same file with each reader"
                )
    return keys


def _passages(readers: Sequence[ReaderLabels], keys: Sequence[Key], margin: float) -> list[dict[str, Any]]:
    found = []
    for question, passage in keys:
        rows = {reader.name: reader.passage((question, passage)) for reader in readers}
        found.append(
            {
                "id": question,
                "passage_id": passage,
                "verdict": joint_verdict([verdict(row, margin) for row in rows.values()]),
                "labels": {name: row[DELTA_SEPER] for name, row in rows.items()},
            }
        )
    return found


def _numbered(questions: Sequence[str]) -> list[int]:
    numbers = {question: number for number, question in enumerate(dict.fromkeys(questions))}
    return [numbers[question] for question in questions]


def _corrected_cell(row: Mapping[str, Any]) -> str:
    return interval_cell({"mean": row["corrected"], "interval": row["interval"]})


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the experiment; return 0, or 2 after a message if the input or a setting is at fault."""
    return run("transfer", command, sys.argv[1:] if argv is None else list(argv))


if __name__ == "__main__":
    sys.exit(main())
