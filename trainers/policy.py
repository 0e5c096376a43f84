"""Train a policy that decides, per question, to answer from memory or to search first: GRPO with ΔSePer as reward.

    python -m trainers.sft --config configs/sft/policy.yaml          # warm-up: both actions' format
    python -m trainers.policy --config configs/policy/demo.yaml

The settings are those below and TRL's ``GRPOConfig``; ``scorer`` names a YAML file with those of the reader.
"""

import json
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

import torch
from datasets import Dataset
from peft import LoraConfig, PeftModel, TaskType, get_peft_model
from transformers import AutoTokenizer
from trl import GRPOConfig, GRPOTrainer, TrlParser

from seper_reward.answer_metrics import exact_match
from seper_reward.config import ScorerConfig, load_scorer, setting
from seper_reward.distributed import process_state
from seper_reward.environment import environment_factory
from seper_reward.evaluation import expected_metric
from seper_reward.models import EMBEDDED, PLAIN, embedded_reader_folder, load_reader
from seper_reward.retrieval import BM25Retriever, DenseRetriever, Retriever
from seper_reward.reward import SePerReward, Variant
from seper_reward.sampling import ResponseSampler
from seper_reward.scorer import SePerScorer
from seper_reward.tool_chat import with_tool_template
from seper_reward.types import Passage, Query
from trainers.policy_data import messages_of, policy_queries
from trainers.ranking_run import last_checkpoint, load_encoder, write_json

BM25 = "bm25"


@dataclass
class PolicyConfig:
    """Train a policy that decides when to search."""

    model: str = setting(EMBEDDED, "Policy before its adapter: 'embedded', 'plain', a hub id or a folder.")
    init_adapter: str = setting("runs/policy-warm", "Warmed-up adapter to go on from; 'none' starts a new one.")
    lora_r: int = setting(16, "Rank of a new adapter (all linear layers).")
    retriever: str = setting(BM25, "What search asks: 'bm25', 'embedded' (MiniLM), or a bi-encoder's folder.")
    search_top_k: int = setting(1, "Passages per search.")
    max_turns: int = setting(1, "Searches per question.")
    max_passage_tokens: int = setting(64, "Longest passage in the policy's tokens.")
    variant: str = setting("delta", f"Reward: {', '.join(get_args(Variant))}.")
    price: float = setting(0.15, "Price of a search, in units of belief.")
    word_price: float = setting(0.0, "Price per retrieved word.")
    needed: float = setting(0.5, "A question needs a search if the reader's SePer without one is below this.")
    reader: str = setting("separate", "Whose weights read: separate, policy-base (its adapter off) or policy.")
    scorer: str | None = setting(None, "YAML file with the settings of the reader and the entailment model.")
    limit: int | None = setting(None, "Use so many training questions only.")
    evaluate_only: bool = setting(False, "Measure the policy and the fixed rules, and do not train.")

    def __post_init__(self) -> None:
        if self.variant not in get_args(Variant):
            raise ValueError(f"variant must be one of {', '.join(get_args(Variant))}, got {self.variant!r}")
        if self.init_adapter != "none" and not (Path(self.init_adapter) / "adapter_config.json").is_file():
            raise ValueError(
                f"init_adapter={self.init_adapter!r} holds no adapter; warm up first with `python -m trainers.sft "
                "--config configs/sft/policy.yaml` (a small policy never calls a tool by itself), or give 'none'"
            )


@dataclass
class PolicyArguments(GRPOConfig):
    """TRL's GRPOConfig, with short completions; on the CPU where there is no GPU."""

    output_dir: str = field(default="runs/policy", metadata={"help": "Folder of the policy; resumes there."})
    max_completion_length: int = field(default=128, metadata={"help": "Tokens of a rollout, tool results included."})
    max_tool_calling_iterations: int | None = field(default=1, metadata={"help": "Searches that TRL carries out."})
    report_to: str = field(default="none", metadata={"help": "none, wandb (WANDB_MODE=offline works), ..."})

    def __post_init__(self) -> None:
        process_state()
        self.use_cpu = self.use_cpu or not torch.accelerator.is_available()
        super().__post_init__()


def rows_of(queries: Sequence[Query]) -> Dataset:
    """Return the questions as TRL wants them, with the columns of the reward."""
    return Dataset.from_list(
        [
            {"prompt": messages_of(query.question), "question": query.question, "answers": list(query.answers)}
            for query in queries
        ]
    )


def new_retriever(name: str, corpus: dict[str, Passage]) -> Retriever:
    """Return what search asks."""
    return BM25Retriever(corpus) if name == BM25 else DenseRetriever(load_encoder(name), corpus)


def new_policy(config: PolicyConfig, network: Any) -> PeftModel:
    """Put an adapter on the network: the warmed-up one, or a new one."""
    if config.init_adapter != "none":
        return PeftModel.from_pretrained(network, config.init_adapter, is_trainable=True)
    lora = LoraConfig(task_type=TaskType.CAUSAL_LM, r=config.lora_r, target_modules="all-linear")
    return get_peft_model(network, lora)


def load_tokenizer(name: str) -> Any:
    """Load the policy's tokenizer, with tools in its chat template."""
    source = embedded_reader_folder() if name in (EMBEDDED, PLAIN) else name
    return with_tool_template(AutoTokenizer.from_pretrained(source))


def read_scorer_config(path: str | None) -> ScorerConfig:
    """Read the settings of the reader from a YAML file."""
    (found,) = TrlParser((ScorerConfig,)).parse_args_and_config(["--config", path] if path else [])
    return found


def fixed_rules(
    scorer: SePerScorer, queries: Sequence[Query], retriever: Retriever, config: PolicyConfig
) -> dict[str, dict[str, float]]:
    """Measure the reader under three rules: never search, always, and where its SePer is below ``needed``.

    Returns:
        Per rule ``accuracy`` (expected exact match of the reader's responses), ``seper``, ``searches_per_question``,
        ``search_rate_needed``, ``search_rate_not_needed`` and ``reward`` (``delta``).
    """
    found = retriever.retrieve([query.question for query in queries], config.search_top_k)
    pairs = [
        scorer.beliefs(query.question, query.answers, [(), passages])
        for query, passages in zip(queries, found, strict=True)
    ]
    needs = [without.seper < config.needed for without, _ in pairs]
    rules = {"never_search": [False] * len(pairs), "always_search": [True] * len(pairs), "threshold": needs}
    measured = {}
    for rule, searches in rules.items():
        chosen = [pair[search] for pair, search in zip(pairs, searches, strict=True)]
        measured[rule] = {
            "accuracy": _mean(
                [expected_metric(b, q.answers, exact_match) for b, q in zip(chosen, queries, strict=True)]
            ),
            "seper": _mean([belief.seper for belief in chosen]),
            "searches_per_question": _mean(searches),
            "search_rate_needed": _mean([search for search, need in zip(searches, needs, strict=True) if need]),
            "search_rate_not_needed": _mean([s for s, need in zip(searches, needs, strict=True) if not need]),
            "reward": _mean(
                [
                    belief.seper - pair[0].seper - config.price * search
                    for belief, pair, search in zip(chosen, pairs, searches, strict=True)
                ]
            ),
        }
    return measured


def measure(trainer: GRPOTrainer, reward: SePerReward) -> dict[str, float]:
    """Roll the policy out on the held-out questions; return what the reward saw."""
    trainer.evaluate()
    log = trainer.state.log_history[-1]
    names = {
        "search_rate": "seper/search_rate",
        "search_rate_needed": "seper/search_rate_needed",
        "search_rate_not_needed": "seper/search_rate_not_needed",
        "accuracy": "seper/exact_match",
        "searches_per_question": "seper/searches",
        "reward": f"rewards/{reward.__name__}/mean",
    }
    return {name: round(float(log[f"eval_{key}"]), 4) for name, key in names.items() if f"eval_{key}" in log}


def main(argv: Sequence[str] | None = None) -> int:
    """Parse, measure, train, measure again, save."""
    parser = TrlParser((PolicyConfig, PolicyArguments), prog="python -m trainers.policy", description=__doc__)
    config, arguments = parser.parse_args_and_config(argv)
    tokenizer = load_tokenizer(config.model)  # of its own: the reader keeps the chat template that it knows
    loaded = load_reader(config.model, device="cpu" if arguments.use_cpu else None)
    train, corpus = policy_queries("train")
    held_out = [*policy_queries("dev")[0], *policy_queries("test")[0]]
    retriever = new_retriever(config.retriever, corpus)
    settings = read_scorer_config(config.scorer)
    scorer = load_scorer(settings, arguments.seed)
    if config.reader != "separate":  # the policy's own network reads, asked as the scorer would
        sampler = ResponseSampler(loaded.model, loaded.tokenizer, **vars(scorer.sampler.options))
        scorer = SePerScorer(sampler, scorer.entailment, prompt=settings.prompt or "brief", estimator=scorer.estimator)
    reward = SePerReward(
        scorer, variant=config.variant, price=config.price, word_price=config.word_price, needed=config.needed,
        reader=config.reader,
    )  # fmt: skip
    rules = fixed_rules(scorer, held_out, retriever, config)
    trainer = GRPOTrainer(
        model=new_policy(config, loaded.model),
        reward_funcs=[reward],
        args=arguments,
        train_dataset=rows_of(train[: config.limit]),
        eval_dataset=rows_of(held_out),
        processing_class=tokenizer,
        environment_factory=environment_factory(
            retriever,
            top_k=config.search_top_k,
            max_turns=config.max_turns,
            max_passage_tokens=config.max_passage_tokens,
            tokenizer=tokenizer,
        ),
    )
    if config.reader != "separate":
        reward.attach(trainer)
    folder = Path(arguments.output_dir)
    results: dict[str, Any] = {"before": measure(trainer, reward), **rules}
    if not config.evaluate_only:
        trainer.train(resume_from_checkpoint=last_checkpoint(folder))
        trainer.save_model(str(folder / "model"))
        results["after"] = measure(trainer, reward)
    if process_state().is_main_process:
        write_json(folder / "results.json", results)
        print(json.dumps(results, indent=2))
    return 0


def _mean(values: Sequence[float]) -> float:
    return round(statistics.fmean(values), 4) if values else 0.0


if __name__ == "__main__":
    sys.exit(main())
