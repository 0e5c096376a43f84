"""Can a language model rate the utility of passages as well as ΔSePer measures it, and at what cost (SePer, Table 8)?

    python -m tests.benchmarks.experiments.llm_utility --file demo --limit 20 --llm_judge MODEL

Two ways to ask are compared: direct (rate the passages, given the question and its answer) and reduction (rate the
reader's answer without and with the passages, and take the difference). The prompts are ours, after the paper's
description; ratings go from 1 to 10, and any other reply is counted and left out.
"""

import math
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tqdm.auto import tqdm

from seper_reward.cli import run
from seper_reward.command import MarkedConfig, Record, marked_questions, parse, reporting
from seper_reward.config import load_scorer
from seper_reward.evaluate.contexts import PASSAGES_HELP, Context, marked_contexts, with_passages
from seper_reward.evaluate.llm_judge import LLMJudgeConfig, load_llm_judge
from seper_reward.reader.prompts import fill_template
from seper_reward.reader.sampler import GREEDY
from seper_reward.reader.writer import Writer
from seper_reward.reports.tables import cell, interval_cell, markdown_table
from seper_reward.runtime.profiling import profiling
from seper_reward.runtime.settings import setting
from seper_reward.scorer import SePerScorer
from seper_reward.statistics import PooledPearson, rounded
from seper_reward.types import Asked, Query, UnscorableError, answer_items, unwrap

_NAME = "tests.benchmarks.experiments.llm_utility"
_RATING = re.compile(r"(10|[1-9])\.?")
_COUNTS = ("calls", "prompt_tokens", "response_tokens")
_REPLY_TOKENS = 4
_DIRECT = """\
Question: {question}
Right answer: {answer}
Passages:
{passages}
How much do the passages help to answer the question rightly? 1 is not at all, 10 is that they are all that one needs.
Reply with one number from 1 to 10."""
_RATE_ANSWER = """\
Question: {question}
Right answer: {answer}
Response: {response}
How good is the response? 1 is wrong, 10 is the right answer in full.
Reply with one number from 1 to 10."""


@dataclass
class LLMUtilityConfig(LLMJudgeConfig, MarkedConfig):
    """Compare ΔSePer with a language model's ratings of passages, by people's marks and by cost (SePer, Table 8)."""

    passages_per_question: int | None = setting(None, PASSAGES_HELP)
    prompt_price: float = setting(0.0, "Price of a million prompt tokens of the language model.")
    response_price: float = setting(0.0, "Price of a million tokens that the language model writes.")


@dataclass(frozen=True)
class LLMUtility(Record):
    """Ways to measure the utility of passages.

    Attributes:
        ways: By way Pearson's r with the contexts' relevance (``pearson`` and its ``interval`` over questions), the
            number of ``contexts`` that it rates, and per 1,000 contexts ``seconds``, ``calls``, ``prompt_tokens``,
            ``response_tokens`` and ``price``.
        questions: Number of questions.
        n: Number of contexts.
    """

    ways: Mapping[str, Mapping[str, Any]]
    questions: int
    n: int

    def table(self) -> str:
        """Return correlation and cost by way as Markdown."""
        costs = ("seconds", *_COUNTS, "price")
        rows = [
            [name, interval_cell(row), f"{row['contexts']} of {self.n}", *(cell(row[each]) for each in costs)]
            for name, row in self.ways.items()
        ]
        header = [
            "utility by",
            "Pearson with marks",
            "rated",
            *(f"{each.replace('_', ' ')} per 1,000" for each in costs),
        ]
        return markdown_table(header, rows) + f"\n\n{self.questions} questions, {self.n} contexts"


class Rater:
    """Asks a language model for ratings from 1 to 10, at temperature 0.

    Args:
        writer: The language model.
    """

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    def direct(self, query: Query, contexts: Sequence[Context]) -> list[float]:
        """Return the rating of each context's passages; NaN where the reply is not understood."""

        def prompt(context: Context) -> str:
            def turns(texts: Sequence[str]) -> list[dict[str, str]]:
                shown = self._filled(_DIRECT, query, passages="\n\n".join(texts))
                return [{"role": "user", "content": shown}]

            return self._writer.prompt(context.passages, turns)

        return self._ratings([prompt(context) for context in contexts])

    def of_answers(self, query: Query, responses: Sequence[str]) -> list[float]:
        """Return the rating of each response; NaN where the reply is not understood."""

        def prompt(response: str) -> str:
            asked = self._filled(_RATE_ANSWER, query, response=self._writer.as_data(response))
            return self._writer.prompt((), lambda _: [{"role": "user", "content": asked}])

        return self._ratings(list(map(prompt, responses)))

    def _filled(self, template: str, query: Query, **fields: str) -> str:
        as_data = self._writer.as_data
        answer = "; ".join(" or ".join(aliases) for aliases in answer_items(query.answers))
        return fill_template(template, question=as_data(query.question), answer=as_data(answer), **fields)

    def _ratings(self, prompts: Sequence[str]) -> list[float]:
        replies = self._writer.write(prompts)
        found = [None if isinstance(each, UnscorableError) else _RATING.fullmatch(each.strip()) for each in replies]
        return [math.nan if each is None else float(each[1]) for each in found]


def llm_utility(
    scorer: SePerScorer, queries: Sequence[Query], rater: Rater, *, prompt_price: float = 0, response_price: float = 0
) -> LLMUtility:
    """Measure ΔSePer and a language model's ratings of the same contexts, and what each costs.

    Args:
        scorer: Scorer of the reader, without a cache.
        queries: Questions whose passages have ``relevant`` in their metadata.
        rater: The language model.
        prompt_price: Price of a million of its prompt tokens.
        response_price: Price of a million of its response tokens.
    """
    contexts = marked_contexts(queries)
    greedy = scorer.with_sampling(**GREEDY).reader

    def answered(query: Query, row: Sequence[Context]) -> list[str]:
        asked = Asked(query.question, (), ((), *(context.passages for context in row)))
        return [responses.texts[0] for responses in unwrap(greedy.responses([asked])[0])]

    def reduction(query: Query, row: Sequence[Context]) -> list[float]:
        without, *ratings = rater.of_answers(query, answered(query, row))
        return [rating - without for rating in ratings]

    def delta_seper(query: Query, row: Sequence[Context]) -> list[float]:
        without, *beliefs = scorer.beliefs(query.question, query.answers, [(), *(each.passages for each in row)])
        return [belief.seper - without.seper for belief in beliefs]

    ways: dict[str, Callable[[Query, Sequence[Context]], list[float]]] = {
        "ΔSePer": delta_seper,
        "direct": rater.direct,
        "reduction": reduction,
    }
    relevance = [context.relevance for row in contexts for context in row]
    owner = [number for number, row in enumerate(contexts) for _ in row]
    found = {}
    for name, way in ways.items():
        begun = time.perf_counter()
        with profiling() as profile:
            pairs = list(zip(queries, contexts, strict=True))
            values = [value for pair in tqdm(pairs, name, unit="question") for value in way(*pair)]
        # the reader of ΔSePer is one's own, so no tokens are paid for
        prices = (0.0, 0.0) if name == "ΔSePer" else (prompt_price, response_price)
        costs = {"seconds": time.perf_counter() - begun, **{each: float(profile.counts[each]) for each in _COUNTS}}
        costs["price"] = sum(costs[each] * price for each, price in zip(_COUNTS[1:], prices, strict=True)) / 1e6
        found[name] = {
            **PooledPearson({name: values}, relevance, owner).described(name),
            "contexts": sum(not math.isnan(value) for value in values),
            **{each: rounded(1000 * cost / len(values)) for each, cost in costs.items()},
        }
    return LLMUtility(found, len(queries), len(relevance))


def command(arguments: list[str]) -> str:
    """Run ``python -m tests.benchmarks.experiments.llm_utility``."""
    config = parse(LLMUtilityConfig, arguments, f"python -m {_NAME}")
    queries = with_passages(marked_questions(config, config.file), config.passages_per_question)
    with reporting("llm_utility", config) as report:
        scorer = load_scorer(config, config.seed)
        model = load_llm_judge(config, scorer.reader)
        if model is None:
            raise ValueError("--llm_judge is required: the language model that rates, or reader")
        rater = Rater(Writer(model, _REPLY_TOKENS))
        prices = {"prompt_price": config.prompt_price, "response_price": config.response_price}
        report(llm_utility(scorer, queries, rater, **prices))
    return f"seper-reward evaluate correlation --file {config.file}"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the experiment; return 0, or 2 after a message if the input or a setting is at fault."""
    return run("llm_utility", command, sys.argv[1:] if argv is None else list(argv))


if __name__ == "__main__":
    sys.exit(main())
