"""Train the reader adapter that ships, in two stages, by the recipe `trainers/sft.py`.

    python -m tests.benchmarks.adapters.reader --config tests/benchmarks/adapters/configs/reader.yaml
    python -m tests.benchmarks.adapters.reader --config tests/benchmarks/adapters/configs/reader-sharpen.yaml

The plain model learns to answer briefly from passages and from memory (``reader_data.py``). Its examples are written
into ``rows.jsonl`` of the output folder, and ``scores.json`` and the model card next to the adapter.
"""

import os
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from seper_reward.options import SamplingOptions, setting
from seper_reward.reader.loading import (
    PLAIN,
    READER_DEFAULTS,
    ReaderDefaults,
    load_tokenizer,
    save_reader_defaults,
)
from seper_reward.runtime.distributed import process_state, together
from seper_reward.runtime.json_files import write_json, write_lines
from seper_reward.runtime.parser import parse_options
from seper_reward.runtime.pretrained import EMBEDDED
from tests.benchmarks.adapters.reader_data import LICENCES, reader_rows
from tests.benchmarks.adapters.reader_scores import evaluate, score_table
from trainers.runs import suggest
from trainers.sft import SftArguments, SftScriptConfig, train

_CARD = Path(__file__).with_name("reader_adapter.md")


@dataclass(frozen=True)
class ReaderConfig(SftScriptConfig):
    """Train a reader that answers briefly."""

    data_dir: str = field(
        default_factory=lambda: os.environ.get("SEPER_SHARED_DATA", "../shared/data"),
        metadata={"help": "Folder with qa/ (default: $SEPER_SHARED_DATA, else ../shared/data)."},
    )
    prompts: list[str] = setting(
        ["brief", "brief", "brief", "paper"],
        "Prompt styles (paper, brief, few_shot); each example gets a random one.",
    )
    evaluate_only: bool = setting(False, "Whether the adapter in output_dir is only scored again.")


def examples(config: ReaderConfig, seed: int) -> list[dict[str, Any]]:
    """Return the rows that a stage learns."""
    rows = reader_rows(Path(config.data_dir), load_tokenizer(PLAIN), seed, config.prompts)
    return rows[: config.limit]


def card(config: ReaderConfig, kinds: Counter[str], scores: dict[str, Any]) -> str:
    """Return the model card of the reader adapter."""
    return _CARD.read_text(encoding="utf-8").format(
        lora_r=config.lora_r,
        prompts=", ".join(
            f"{name} ({count} of {len(config.prompts)})" for name, count in Counter(config.prompts).items()
        ),
        data="\n".join(f"| {name} | {licence} |" for name, licence in LICENCES.items()),
        kinds="\n".join(f"| {kind} | {count} |" for kind, count in kinds.most_common()),
        samples=SamplingOptions().num_samples,
        table=score_table(scores),
    )


def asked_as_trained(config: ReaderConfig) -> ReaderDefaults:
    """Return how a reader that was trained like this is to be asked: by the prompt that most examples had."""
    prompt, _ = Counter(config.prompts).most_common(1)[0]
    return READER_DEFAULTS[EMBEDDED]._replace(prompt=prompt)


def score(config: ReaderConfig, adapter: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Score a reader adapter and the plain reader, and write scores and model card into the adapter's folder."""
    scores = evaluate([(PLAIN, "brief", 1.0), (str(adapter), "brief", 1.0)], Path(config.data_dir))
    write_json(adapter / "scores.json", scores)
    (adapter / "README.md").write_text(card(config, Counter(row["kind"] for row in rows), scores), encoding="utf-8")
    print(score_table(scores))


def main(argv: Sequence[str] | None = None) -> int:
    """Train (unless ``--evaluate_only``), score the adapter and write its card; return 0."""
    kinds = (ReaderConfig, SftArguments)
    config, arguments = parse_options(kinds, argv, "python -m tests.benchmarks.adapters.reader")
    adapter = Path(arguments.output_dir)
    rows = examples(config, arguments.seed)
    if not config.evaluate_only:
        adapter.mkdir(parents=True, exist_ok=True)
        config = replace(config, data=str(adapter / "rows.jsonl"))
        together(lambda: write_lines(Path(config.data), rows))
        train(config, arguments)
    if process_state().is_main_process:
        save_reader_defaults(adapter, asked_as_trained(config))
        score(config, adapter, rows)
    suggest(f"seper-reward label --reader {adapter} --input QUESTIONS.jsonl")
    return 0


if __name__ == "__main__":
    sys.exit(main())
