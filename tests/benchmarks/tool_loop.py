"""What dense searches cost in TRL's loop of tools, which calls one rollout's after another's.

    python -m tests.benchmarks.tool_loop --json out.json

A scripted policy makes one search in each rollout of one batch, through TRL's own GRPOTrainer: each rollout with a
query of its own, or all of a group with the same. The retriever is asked as TRL calls it (``one_by_one``), remembers
what it found (``cached``), or also knows all queries of the turn at its first search (``prefetched``). ``rollouts`` is
everything that TRL does for a turn but the policy's own generation, searches included.
"""

import tempfile
from collections.abc import Sequence
from typing import Any

import trl
from datasets import Dataset
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

from seper_reward.data.queries import pool_passages
from seper_reward.reader.loading import embedded_reader_folder
from seper_reward.retrieval import CachedRetriever, DenseRetriever, Retriever
from seper_reward.reward import prefetch_searches, search_environment
from seper_reward.reward.chat_template import with_tool_template
from seper_reward.types import Passage
from tests.benchmarks.common import CLOCK, clocked, finish, parser, questions
from trainers.models import load_encoder

KINDS = ("one_by_one", "cached", "prefetched")


def main(arguments: Sequence[str] | None = None) -> None:
    made = parser(__doc__)
    made.add_argument("--encoder", default="embedded")
    made.add_argument("--questions", type=int, default=8)
    made.add_argument("--rollouts", type=int, default=8, help="per question")
    options = made.parse_args(arguments)
    corpus, queries = pool_passages(questions(options.questions))
    retriever = DenseRetriever(load_encoder(options.encoder), corpus)
    asked = [query.question for query in queries]
    retriever.retrieve(asked, 1)  # warm-up
    result: dict[str, Any] = {"searches": options.questions * options.rollouts, "passages": len(corpus)}
    for alike in (False, True):
        found = {kind: measure(kind, retriever, asked, options.rollouts, alike) for kind in KINDS}
        seconds = {kind: row["searches"] for kind, row in found.items()}
        speedup = {kind: round(seconds["one_by_one"] / seconds[kind], 2) for kind in KINDS[1:]}
        result["queries_alike" if alike else "queries_of_their_own"] = {"seconds": found, "speedup": speedup}
    finish(result, options.json)


class Clocked:
    """A retriever that adds up the seconds of its searches."""

    def __init__(self, retriever: Retriever) -> None:
        self._retriever, self.seconds, self.searches = retriever, 0.0, 0

    def retrieve(self, questions: Sequence[str], top_k: int) -> list[tuple[Passage, ...]]:
        spent, found = clocked(lambda: self._retriever.retrieve(questions, top_k))
        self.seconds += spent[CLOCK]
        self.searches += 1
        return found


class Searching(trl.GRPOTrainer):
    """TRL's trainer, whose policy searches once, and ends; ``spent`` is what the rest of the turn took."""

    def __init__(self, *args: Any, alike: bool, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._alike, self.spent = alike, 0.0

    def _generate_single_turn(self, prompt_ids: Any, *_: Any, **__: Any) -> Any:
        return [self._says(place, ids) for place, ids in enumerate(prompt_ids)], None

    def _says(self, place: int, prompt_ids: Sequence[int]) -> list[int]:
        prompt = self.processing_class.decode(prompt_ids)
        text = "yes"
        if "<tool_response>" not in prompt:
            query = prompt.split("<|im_start|>user\n")[1].split("<|im_end|>")[0].replace('"', "")
            query = query if self._alike else f"{query} {place}"
            text = f'<tool_call>\n{{"name": "search", "arguments": {{"query": "{query}"}}}}\n</tool_call>'
        return [*self.processing_class(text).input_ids, self.processing_class.eos_token_id]

    def _generate(self, prompts: Any) -> Any:
        seconds, made = clocked(lambda: super(Searching, self)._generate(prompts))
        self.spent = seconds[CLOCK]
        return made


def measure(kind: str, dense: DenseRetriever, asked: Sequence[str], rollouts: int, alike: bool) -> dict[str, float]:
    """Return the seconds of all searches of a batch, and of its rollouts but for the policy."""
    retriever = dense if kind == "one_by_one" else CachedRetriever(dense)
    clock = Clocked(retriever)
    tokenizer = with_tool_template(AutoTokenizer.from_pretrained(embedded_reader_folder()))
    tiny = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1,
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        trainer = Searching(
            model=LlamaForCausalLM(tiny),
            alike=alike,
            reward_funcs=[lambda completions, **_: [0.0] * len(completions)],
            args=trl.GRPOConfig(
                output_dir=folder, report_to="none", bf16=False, num_generations=rollouts,
                per_device_train_batch_size=rollouts, max_completion_length=256, max_tool_calling_iterations=1,
            ),
            train_dataset=Dataset.from_list([{"question": question} for question in asked]),
            processing_class=tokenizer,
            environment_factory=search_environment(clock, tokenizer=tokenizer),
        )  # fmt: skip
        if isinstance(retriever, CachedRetriever) and kind == "prefetched":
            prefetch_searches(trainer, retriever)
        rows = [{"question": question} for question in asked for _ in range(rollouts)]
        trainer._generate_and_score_completions(rows)
    assert clock.searches == len(rows)
    return {"searches": round(clock.seconds, 3), "rollouts": round(trainer.spent, 3)}


if __name__ == "__main__":
    main()
