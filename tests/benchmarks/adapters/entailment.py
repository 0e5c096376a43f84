"""Train the entailment adapter that ships, stage by stage, by the recipe `trainers/entailment.py`.

    python -m tests.benchmarks.adapters.entailment --config tests/benchmarks/adapters/configs/entailment-demo.yaml

Each stage writes its pairs into ``pairs.jsonl`` of the output folder, trains on from the stage before, and is scored:
entailment-demo.yaml (NLI and EVOUNA, from MiniLM), -confusable (then also answers of one type), -forms (forms of
answers), -traps (texts that state nothing), -traps-more (twice as many of them), -modified (answers that say more) and
-second (second guesses, qualifiers, near names and right wordings) and -second-more (more of them).
A killed run goes on from its last checkpoint. Training uses only sets whose licences allow shipping weights
(``LICENCES``). Scores are on held-out premises and questions. The adapter (safetensors), ``scores.json`` and the model
card are written into ``--output_dir``.
"""

import json
import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file

from seper_reward.data.splits import split_of
from seper_reward.evaluate.judge import equivalence, read_verdicts
from seper_reward.judge.entailment import EntailmentScorer
from seper_reward.judge.judge import Judge
from seper_reward.options import setting
from seper_reward.runtime.json_files import read_json, write_json, write_lines
from seper_reward.runtime.parser import parse_options
from seper_reward.types import Pair
from tests.benchmarks.adapters.entailment_data import (
    CAPS,
    EVALUATION_ONLY,
    LICENCES,
    NOT_NLI,
    nli_pairs,
    training_pairs,
    trap_verdicts,
)
from tests.benchmarks.judge import EQUIVALENCE
from tests.benchmarks.judge.texts import Traps, traps
from trainers.entailment import (
    CHECKPOINTS,
    LABELS,
    NOT_ENTAILMENT,
    SCORES,
    EntailmentArguments,
    EntailmentConfig,
    LabeledPair,
    divide_logits,
    fitted_temperature,
    train,
)
from trainers.runs import claim_run, locked, suggest

_CARD = Path(__file__).with_name("entailment_adapter.md")
_INCIDENTAL = {"data_dir", "temperature", "evaluate_only", "pairs", "dev_pairs"}  # decide no weight


@dataclass(frozen=True)
class StageConfig(EntailmentConfig):
    """Train a stage of the entailment adapter that ships."""

    data_dir: str = field(
        default_factory=lambda: os.environ.get("SEPER_SHARED_DATA", "../shared/data"),
        metadata={"help": "Folder with nli/, evouna/ and qa/ (default: $SEPER_SHARED_DATA, else ../shared/data)."},
    )
    confusable: bool = setting(
        False, "Whether to train on answers that are easily confused, too: mined ones and ones of one type."
    )
    forms: bool = setting(
        False, "Whether to train on generated forms of answers, too: negated, hedged, lists, numbers, ..."
    )
    traps: int = setting(
        0, "Number of texts that state nothing to train on, too: prose, gibberish, echoes, lists, ..."
    )
    modified: int = setting(
        0, "Number of answers to train on, too, that say more than was asked: an American actress."
    )
    second: int = setting(
        0, "Number of texts to train on, too, with a second guess, a qualifier, a near name or other right words."
    )
    mean_with: str | None = setting(None, "Folder of an earlier stage to take the mean with (default: none).")
    share: float = setting(1.0, "Share of the trained adapter in the mean with the earlier stage.")
    evaluate_only: bool = setting(False, "Whether the adapter in output_dir is only scored again.")


def write_pairs(path: Path, pairs: Iterable[LabeledPair]) -> None:
    """Write pairs as the recipe reads them."""
    names = {number: name for name, number in LABELS.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_lines(path, ({**pair._asdict(), "label": names[pair.label]} for pair in pairs))


def average(adapter: Path, other: Path, share: float) -> None:
    """Replace a saved adapter by ``share`` of it and the rest of another one that it was trained on from.

    Weights of a fine-tuned model and of its start lie in one basin (WiSE-FT, Wortsman et al., arXiv:2109.01903).
    """
    file = adapter / "adapter_model.safetensors"
    trained, start = load_file(file), load_file(other / file.name)
    mean = {name: (share * each.float() + (1 - share) * start[name].float()).half() for name, each in trained.items()}
    save_file(mean, file, metadata={"format": "pt"})


def evaluate(adapter: Path, data_dir: Path) -> dict[str, Any]:
    """Score the saved adapter on held-out premises, on questions with human verdicts, and on our own test set."""
    scorer = EntailmentScorer.from_pretrained(str(adapter))
    judge = Judge(scorer)
    accuracy = {}
    for name in [*(name for name in LICENCES if name not in NOT_NLI), *EVALUATION_ONLY]:
        pairs = nli_pairs(data_dir, name, "test")
        asked = list(dict.fromkeys(Pair("", pair.premise, pair.hypothesis) for pair in pairs))
        found = dict(zip(asked, scorer.probs(asked).argmax(-1).tolist(), strict=True))
        classes = [found[Pair("", pair.premise, pair.hypothesis)] for pair in pairs]
        right = [_agrees(predicted, pair.label) for predicted, pair in zip(classes, pairs, strict=True)]
        accuracy[name] = {"accuracy": round(100 * sum(right) / len(right), 1), "n": len(pairs)}
    own = read_verdicts(EQUIVALENCE, column_by="kind")
    alike = [replace(row, column="all") for row in own]
    return {
        "nli": accuracy,
        "evouna_test": equivalence(judge, read_verdicts(data_dir / "evouna" / "NQ.json.gz")).as_dict(),
        "own": equivalence(judge, own, threshold=0.5).as_dict(),
        "stress": asdict(traps(judge)),
        "own_all": asdict(equivalence(judge, alike, threshold=0.5).columns["all"]),
    }


def _agrees(predicted: int, label: int) -> bool:
    return predicted != LABELS["entailment"] if label == NOT_ENTAILMENT else predicted == label


def card(config: StageConfig, arguments: EntailmentArguments, scores: dict[str, Any]) -> str:
    """Return the model card."""
    data = "\n".join(f"| {name} | {licence} | {CAPS.get(name, 'all')} |" for name, licence in LICENCES.items())
    nli = "\n".join(
        f"| {name}{' (not trained on)' if name in EVALUATION_ONLY else ''} | {row['accuracy']} | {row['n']} |"
        for name, row in scores["nli"].items()
    )
    own = scores["own"]["columns"] | {"all": scores["own_all"]}
    return _CARD.read_text(encoding="utf-8").format(
        data=data,
        nli=nli,
        evouna=_method_rows(scores["evouna_test"]["columns"]),
        own=_method_rows(own),
        thresholds=scores["evouna_test"]["thresholds"],
        ece=scores["evouna_test"]["calibration"]["ece"],
        own_ece=scores["own"]["calibration"]["ece"],
        stress="\n".join(f"| {trap} | {value:.3f} |" for trap, value in Traps(**scores["stress"]).rows()),
        **{**vars(arguments), **vars(config), "temperature": scores["temperature"]},
    )


_METHODS = ("entailment", "lexical", "token_f1", "cosine")  # columns of the card


def _method_rows(columns: dict[str, Any]) -> str:
    return "\n".join(
        f"| {name} | " + " | ".join(f"{row['f1'][m]} / {row['accuracy'][m]}" for m in _METHODS) + f" | {row['n']} |"
        for name, row in columns.items()
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Train and calibrate the adapter (unless ``--evaluate_only``), score it, and write its model card; return 0."""
    kinds = (StageConfig, EntailmentArguments)
    stage, arguments = parse_options(kinds, argv, "python -m tests.benchmarks.adapters.entailment")
    with locked(Path(arguments.output_dir)):
        make(stage, arguments)
    suggest(f"python -m tests.benchmarks.judge.texts --judge {arguments.output_dir}")
    return 0


def make(stage: StageConfig, arguments: EntailmentArguments) -> None:
    """Train and calibrate the adapter, unless it is only to be scored; score it, and write its model card."""
    adapter, data_dir, seed = Path(arguments.output_dir), Path(stage.data_dir), arguments.seed
    if stage.evaluate_only:
        temperature = read_json(adapter / SCORES)["temperature"]
    else:
        claim_run(stage, arguments, _INCIDENTAL)
        stage = replace(stage, pairs=str(adapter / "pairs.jsonl"))
        write_pairs(
            Path(stage.pairs),
            training_pairs(data_dir, seed, stage.confusable, stage.forms, stage.traps, stage.modified, stage.second),
        )
        train(stage, arguments)
        if stage.mean_with:
            average(adapter, Path(stage.mean_with), stage.share)
        people = read_verdicts(data_dir / "evouna" / "NQ.json.gz")
        dev = [row for row in people if split_of(row.question) == "dev"]
        dev += trap_verdicts(data_dir, len(dev), seed) if stage.traps else ()
        temperature = stage.temperature or fitted_temperature(adapter, dev)
        divide_logits(adapter, temperature)
        write_json(adapter / SCORES, {"temperature": temperature})  # ``--evaluate_only`` reads it
    scores = {**evaluate(adapter, data_dir), "temperature": temperature}
    write_json(adapter / SCORES, scores)
    (adapter / "README.md").write_text(card(stage, arguments, scores), encoding="utf-8")
    print(json.dumps(scores, indent=2))
    shutil.rmtree(adapter / CHECKPOINTS, ignore_errors=True)  # only now: until here the same command goes on


if __name__ == "__main__":
    sys.exit(main())
