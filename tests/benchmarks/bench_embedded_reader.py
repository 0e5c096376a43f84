"""Which prompt and temperature suit the embedded reader? (Not a timing: shares of right samples.)

    python tests/benchmarks/bench_embedded_reader.py [--questions 24]

For every 1/n-th demo question: the share of 10 samples that state the right answer closed-book (group known), with
the supporting passage (fiction: the one; two-hop: the second), and the share that repeat the wrong one of the
misleading passage less often than that: right answers with an unrelated passage, a leak or a lucky guess.
"""

import argparse
import itertools
import re

from tqdm import tqdm

from seper_reward import ResponseSampler
from seper_reward.data import read_corpus, read_queries
from seper_reward.demo import CORPUS, QUESTIONS
from seper_reward.prompts import PromptBuilder


def states(text: str, answers: tuple[str, ...]) -> bool:
    return any(re.search(rf"(?<!\w){re.escape(answer)}(?!\w)", text, re.IGNORECASE) for answer in answers)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=24)
    parser.add_argument("--prompts", nargs="+", default=["paper", "brief", "few_shot"])
    parser.add_argument("--temperatures", nargs="+", type=float, default=[1.0, 0.7, 0.5, 0.3])
    options = parser.parse_args()
    queries = read_queries(QUESTIONS, read_corpus(CORPUS)).queries
    queries = queries[:: max(1, len(queries) // options.questions)]
    loaded = ResponseSampler.from_pretrained()
    print(f"{len(queries)} questions\nprompt    T    closed-book  supporting  unrelated  words per response")
    for style, temperature in tqdm(list(itertools.product(options.prompts, options.temperatures))):
        sampler = ResponseSampler(loaded._model, loaded.tokenizer, temperature=temperature, max_new_tokens=16)
        builder = PromptBuilder(sampler.tokenizer, style, max_prompt_tokens=sampler.max_prompt_tokens)
        right: dict[str, list[bool]] = {"closed": [], "supporting": [], "unrelated": []}
        words = []
        for query in queries:
            wanted = {"supporting": None, "unrelated": None}
            for passage in query.passages:
                if passage.metadata["role"] in wanted and passage.metadata.get("hop", 2) == 2:
                    wanted[passage.metadata["role"]] = builder.build(query.question, (passage,))
            if query.metadata["group"] == "known":
                wanted["closed"] = builder.build(query.question)
            for (name, _), responses in zip(wanted.items(), sampler.sample(list(wanted.values())), strict=True):
                right[name] += [states(text, query.answers) for text in responses.texts]
                words += [len(text.split()) for text in responses.texts]
        shares = {name: sum(found) / len(found) for name, found in right.items()}
        tqdm.write(
            f"{style:<9} {temperature:<4} {shares['closed']:11.2f} {shares['supporting']:11.2f} "
            f"{shares['unrelated']:10.2f} {sum(words) / len(words):10.1f}"
        )


if __name__ == "__main__":
    main()
