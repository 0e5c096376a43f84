"""Training data of the reader adapter that ships: short answers from passages or from memory, or "unknown".

    python -m tests.benchmarks.adapters.reader_data --seed 0 > runs/reader.jsonl
    seper-reward train sft --config tests/benchmarks/adapters/configs/reader.yaml

The questions are the train splits of NQ, HotpotQA and 2WikiMultihopQA, and common facts of our own. Half of NQ's gold
passages have a second copy, in which another answer of the same kind replaces the right one (entity substitution,
Longpre et al., arXiv:2109.05052); from them the reader learns to follow the passage rather than its memory. With a
passage that does not hold the answer, it learns to answer common facts from memory, and other questions by "unknown".
"""

import json
import random
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from seper_reward.data.queries import read_queries
from seper_reward.data.splits import split_of
from seper_reward.reader.loading import PLAIN, load_tokenizer
from seper_reward.reader.prompts import PromptBuilder
from seper_reward.types import Passage, Query
from tests.benchmarks.adapters.answer_forms import any_of
from tests.benchmarks.adapters.entailment_data import common_facts
from tests.benchmarks.adapters.substitution import answer_type, misleads, states, substituted
from tests.benchmarks.common import SHARED

PROMPTS = ("brief", "brief", "brief", "paper")  # each example gets a random one
UNKNOWN = "unknown"
CLOSED_BOOK_SHARE, UNRELATED_SHARE = 0.25, 0.15  # shares of NQ's train questions
MAX_PROMPT_TOKENS = 340  # longer prompts are left out, as a cut passage may lack the answer


class Example(NamedTuple):
    """A question, the passages that the reader sees, the answer that it should give, and the kind of example."""

    question: str
    passages: tuple[Passage, ...]
    target: str
    kind: str


def qa_queries(data_dir: Path, name: str, split: str) -> list[Query]:
    """Read the questions of one set in one split."""
    queries = read_queries(data_dir / "qa" / f"{name}.jsonl.gz").queries
    return [query for query in queries if split_of(query.id) == split]


def relevant(query: Query, wanted: bool = True) -> list[Passage]:
    """Return the passages that are marked relevant or, if ``wanted`` is false, those that are not."""
    return [passage for passage in query.passages if passage.metadata["relevant"] == wanted]


def extract_answer(query: Query, passages: Sequence[Passage]) -> str | None:
    """Return the answer as the passages spell it; ``None`` if they do not hold it."""
    aliases = query.answers
    matches = (any_of([alias]).search(passage.text) for alias in aliases for passage in passages)
    return next((match.group() for match in matches if match), None)


def examples(data_dir: Path, rng: random.Random) -> Iterator[Example]:
    """Yield all training examples, from the train splits in ``data_dir`` and the common facts."""
    simple = qa_queries(data_dir, "nq_oracle_bm25neg", "train")
    yield from single_passage_examples(simple, rng)
    for name in ("hotpotqa_distractor", "2wikimultihopqa"):
        yield from multi_hop_examples(qa_queries(data_dir, name, "train"), rng)
    for query in rng.sample(simple, int(CLOSED_BOOK_SHARE * len(simple))):
        yield Example(query.question, (), query.answers[0], "closed-book")
    passages = [passage for query in simple for passage in relevant(query)]
    for query in rng.sample(simple, int(UNRELATED_SHARE * len(simple))):
        yield Example(query.question, (rng.choice(passages),), UNKNOWN, "unrelated")
    for fact in common_facts():
        yield Example(fact["question"], (), fact["answers"][0], "common fact")
        if rng.random() < 0.6:  # a passage on something else does not make a common fact unknown
            yield Example(fact["question"], (rng.choice(passages),), fact["answers"][0], "common fact, unrelated")


def single_passage_examples(queries: Sequence[Query], rng: random.Random) -> Iterator[Example]:
    """Yield examples with the gold passage, with another answer in it, among distractors, or a distractor only."""
    by_type: dict[str, list[str]] = {}
    for query in queries:
        by_type.setdefault(answer_type(query.answers[0]), []).append(query.answers[0])
    for query in queries:
        (gold, *_), others, aliases = relevant(query), relevant(query, False), query.answers
        spelled = extract_answer(query, [gold])
        if spelled is None:
            continue
        yield Example(query.question, (gold,), spelled, "gold")
        other = rng.choice(by_type[answer_type(query.answers[0])])
        if rng.random() < 0.5 and misleads(query, other):
            yield Example(query.question, (substituted(gold, aliases, other),), other, "substituted")
        if len(others) < 2:
            continue
        if rng.random() < 0.2:
            passages = [gold, rng.choice(others)]
            yield Example(query.question, _shuffled(passages, rng), spelled, "among distractors")
        elif rng.random() < 0.2:
            yield Example(query.question, (rng.choice(others),), UNKNOWN, "distractor")


def multi_hop_examples(queries: Sequence[Query], rng: random.Random) -> Iterator[Example]:
    """Yield examples with all supporting passages, at times with a distractor, and with a single one."""
    for query in queries:
        gold, others = relevant(query), relevant(query, False)
        answer = extract_answer(query, gold) or query.answers[0]
        passages = [*gold, rng.choice(others)] if rng.random() < 0.3 and others else gold
        yield Example(query.question, _shuffled(passages, rng), answer, "multi-hop")
        alone = rng.choice(gold)
        target = extract_answer(query, [alone]) or UNKNOWN
        if rng.random() < 0.3 and not states("yes no", query.answers):
            yield Example(query.question, (alone,), target, "one of several hops")


def _shuffled(passages: Sequence[Passage], rng: random.Random) -> tuple[Passage, ...]:
    return tuple(rng.sample(passages, len(passages)))


def reader_rows(data_dir: Path, tokenizer: Any, seed: int, prompts: Sequence[str]) -> list[dict[str, Any]]:
    """Return the examples as rows of ``{prompt, completion, kind}``, in random order."""
    rng = random.Random(seed)
    builders = [PromptBuilder(tokenizer, style, max_prompt_tokens=10**6) for style in prompts]
    rows = []
    for example in examples(data_dir, rng):
        prompt = rng.choice(builders).build(example.question, example.passages)
        if len(tokenizer(prompt, add_special_tokens=False).input_ids) <= MAX_PROMPT_TOKENS:
            rows.append({"prompt": prompt, "completion": example.target, "kind": example.kind})
    rng.shuffle(rows)
    return rows


if __name__ == "__main__":
    arguments = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    arguments.add_argument("--seed", type=int, required=True, help="seed of the stage")
    for row in reader_rows(SHARED, load_tokenizer(PLAIN), arguments.parse_args().seed, PROMPTS):
        print(json.dumps(row))
