"""Measure how often a judge supports wrong answers and rejects right ones, on the project's own texts.

The judge is measured as labels and rewards use it: labels use the forward entailment of the gold answer by a
response, and rewards the mutual support of the answer that a completion states last.

    python -m tests.benchmarks.judge.texts --json runs/judge.json    # --judge FOLDER for another judge
"""

import itertools
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from seper_reward.batching import measure_shared
from seper_reward.cli import run
from seper_reward.command import Record, reporting
from seper_reward.judge.entailment import EntailmentScorer
from seper_reward.judge.extract import extract_answer
from seper_reward.judge.judge import Judge
from seper_reward.judge.support import Stated, mutual_supports
from seper_reward.options import JudgeOptions, ResultOptions, setting
from seper_reward.reports.tables import cell, markdown_table
from seper_reward.runtime.parser import parse_options
from seper_reward.scorer import judge_options
from seper_reward.statistics import mean
from seper_reward.types import Pair
from tests.benchmarks.judge.cases import SHIFTS, Case, fact_cases, near_cases, own_cases

Rates = Mapping[str, float]  # numbers of wrong and right texts, and shares of errors; without texts, without them

_NAME = "judge texts"
GOLDS = 60  # gold answers per kind of value
SUPPORTED, PAID, HALF_PAID = 0.5, 0.05, 0.5
_CHUNK = 256  # texts that are judged together
_TRAPS = ("gibberish", "echo", "shotgun", "not_gold")
_FACTS = ("guesses", "qualifiers", "wordings")
_COLUMNS = {
    "wrong": "wrong texts",
    "false_support": "supported (labels)",
    "false_pay": "paid (rewards)",
    "right": "right texts",
    "false_refusal": "refused (labels)",
    "unpaid": "unpaid (rewards)",
}


@dataclass(frozen=True)
class JudgeTextsConfig(JudgeOptions, ResultOptions):
    """Measure how often the judge supports or rewards wrong answers and rejects right ones, by kind of text."""

    seed: int = setting(0, "Seed of the values near gold answers.")


@dataclass(frozen=True)
class Judged:
    """A judged text: its forward entailment (labels) and its mutual support (rewards), both in [0, 1]."""

    case: Case
    support: float
    reward: float


@dataclass(frozen=True)
class Traps:
    """Mean support of the gold answer, in [0, 1], on the trap kinds of ``equivalence.jsonl``.

    All fields except ``stated`` should be 0.
    """

    unrelated: Mapping[str, float]  # by prose without any relation to the question, by its length in tokens
    gibberish: float
    echo: float  # by repeated words of the question
    shotgun: float  # by the gold answer among many others
    not_gold: float  # by a denial of the gold answer
    politeness_shift: float  # mean absolute change of SePer by politeness around the question
    question_mark_shift: float  # the same by the question mark
    stated: float  # by responses that state the gold answer, which should be 1

    def rows(self) -> list[tuple[str, float]]:
        """Return the name and the number of each trap, unrelated prose once for each length."""
        found = asdict(self)
        lengths = [(f"unrelated, {tokens} tokens", value) for tokens, value in found.pop("unrelated").items()]
        return [*lengths, *((name.replace("_", " "), value) for name, value in found.items())]


@dataclass(frozen=True)
class JudgeErrors(Record):
    """The errors of a judge by kind of text."""

    kinds: Mapping[str, Rates]  # on the project's own rows by kind, and of `all`
    guesses: Mapping[str, Rates]  # on several answers at once by form, and of `all`
    qualifiers: Mapping[str, Rates]  # on the gold answer next to a word that changes it by form, and of `all`
    wordings: Mapping[str, Rates]  # on right wordings by kind, and of `all`
    near: Mapping[str, Rates]  # on near values by kind and distance of the value, and of `all`
    traps: Traps

    def table(self) -> str:
        """Return the errors by kind of text."""
        return "\n\n".join(
            [
                markdown_table(
                    ["trap", "support or shift"], [[trap, cell(value)] for trap, value in self.traps.rows()]
                ),
                *(_rates_table(name, getattr(self, name)) for name in ("kinds", *_FACTS, "near")),
                "Labels use the forward entailment, rewards the mutual support. Supported: above .5; refused: below "
                ".5; paid: above .05; unpaid: below .5. The best value is 0, except 1 for stated.",
            ]
        )


def command(arguments: list[str]) -> str:
    """Measure the judge of the settings, and return what to run next."""
    config = parse_options((JudgeTextsConfig,), arguments, "python -m tests.benchmarks.judge.texts")[0]
    with reporting(_NAME, config) as report:
        scorer = EntailmentScorer.from_pretrained(config.judge, judge_options(config))
        report(measure_judge(Judge(scorer), seed=config.seed))
    return f"seper-reward label --judge {config.judge} --input QUESTIONS.jsonl"


def measure_judge(judge: Judge, *, seed: int = 0) -> JudgeErrors:
    """Measure a judge on own rows, near values, guesses, qualifiers and right wordings; processes share the texts."""
    found = judged(judge, itertools.chain(own_cases(), near_cases(seed, GOLDS), fact_cases()))
    sections = _parts(found, lambda group: group[0])
    return JudgeErrors(
        near=_rates_by_name(sections["near"], _near_name),
        traps=_trap_means([row.case for row in found], [row.support for row in found]),
        **{name: _rates_by_name(sections[name], lambda group: group[1]) for name in ("kinds", *_FACTS)},
    )


def _near_name(group: tuple[str, ...]) -> str:
    _, kind, distance = group
    return f"{kind}, {'other spelling' if distance == '0' else f'off by {distance}'}"


def traps(judge: Judge) -> Traps:
    """Measure a judge on the traps alone, in this process."""
    kinds = {"unrelated", *_TRAPS, *SHIFTS}
    cases = [case for case in own_cases() if case.group[1] in kinds]
    return _trap_means(cases, supports(judge, cases))


def judged(judge: Judge, cases: Iterable[Case]) -> list[Judged]:
    """Judge texts as responses, by forward entailment of the best alias, and as completions; processes share them."""

    def measure(chunk: Sequence[Case]) -> list[Judged]:
        stated = [Stated(case.question, extract_answer(case.text), case.answers) for case in chunk]
        rewards = mutual_supports(judge, stated)
        return [Judged(*each) for each in zip(chunk, supports(judge, chunk), rewards, strict=True)]

    return measure_shared(list(cases), measure, "judging", size=_CHUNK, unit="text")


def supports(judge: Judge, cases: Sequence[Case]) -> list[float]:
    """Return the forward entailment of the alias that each text entails most, as in labels, in [0, 1]."""
    pairs = [[Pair(case.question, case.text, alias) for alias in case.answers] for case in cases]
    judged = judge.probs([pair for own in pairs for pair in own])
    return [max(judged[pair] for pair in own) for own in pairs]


def rates(rows: Sequence[Judged]) -> Rates:
    """Return the error rates of a judge on texts."""
    wrong, right = [row for row in rows if not row.case.right], [row for row in rows if row.case.right]
    found: dict[str, float] = {}
    if wrong:
        found |= {
            "wrong": len(wrong),
            "false_support": mean([row.support > SUPPORTED for row in wrong]),
            "false_pay": mean([row.reward > PAID for row in wrong]),
        }
    if right:
        found |= {
            "right": len(right),
            "false_refusal": mean([row.support < SUPPORTED for row in right]),
            "unpaid": mean([row.reward < HALF_PAID for row in right]),
        }
    return found


def _parts(rows: Iterable[Judged], name_of: Callable[[tuple[str, ...]], str]) -> dict[str, list[Judged]]:
    """Return judged texts by a name made of their groups, in order of appearance."""
    parts: dict[str, list[Judged]] = {}
    for row in rows:
        parts.setdefault(name_of(row.case.group), []).append(row)
    return parts


def _rates_by_name(rows: Sequence[Judged], name_of: Callable[[tuple[str, ...]], str]) -> dict[str, Rates]:
    return {name: rates(part) for name, part in _parts(rows, name_of).items()} | {"all": rates(rows)}


def _trap_means(cases: Sequence[Case], support: Sequence[float]) -> Traps:
    by_group: dict[tuple[str, ...], list[float]] = {}
    for case, value in zip(cases, support, strict=True):
        by_group.setdefault(case.group, []).append(value)
    lengths = sorted((group[2] for group in by_group if group[:2] == ("kinds", "unrelated")), key=int)
    means: dict[str, Any] = {"unrelated": {length: mean(by_group["kinds", "unrelated", length]) for length in lengths}}
    means |= {kind: mean(by_group["kinds", kind]) for kind in _TRAPS}
    for kind in SHIFTS:
        pairs = zip(by_group["kinds", kind], by_group["plain", kind], strict=True)
        means[f"{kind}_shift"] = mean([abs(changed - plain) for changed, plain in pairs])
    stated = [value for case, value in zip(cases, support, strict=True) if case.group[0] == "plain" and case.right]
    return Traps(**means, stated=mean(stated))


def _rates_table(title: str, rows: Mapping[str, Rates]) -> str:
    """Return rates by name, in per cent, without columns that are empty in all rows."""
    columns = {key: text for key, text in _COLUMNS.items() if any(key in row for row in rows.values())}

    def shown(row: Rates, key: str) -> str:
        return "" if key not in row else str(row[key]) if key in ("wrong", "right") else f"{100 * row[key]:.1f}"

    return markdown_table(
        [title, *columns.values()], [[name, *(shown(row, key) for key in columns)] for name, row in rows.items()]
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; return 0, or 2 after a message if a setting is at fault."""
    return run("judge texts", command, sys.argv[1:] if argv is None else list(argv))


if __name__ == "__main__":
    sys.exit(main())
