"""Settings of training that are chosen on dev questions, out of the same few for each labeler."""

import itertools
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from sentence_transformers.base.training_args import BaseTrainingArguments

from seper_reward.evaluate.rankings import downstream
from seper_reward.options import FormatOptions, LabelingOptions, ScorerOptions
from seper_reward.retrieval import Retriever
from seper_reward.runtime.distributed import together
from seper_reward.runtime.json_files import read_json, write_json
from seper_reward.scorer import SePerScorer
from trainers.ranking.data import Questions, RankingConfig
from trainers.ranking.evaluation import rank_by

MOST_TRIALS = 4
# further settings that all trials share: of the questions, their candidates and what they are measured by
_SHARED = {
    "limit", "test_share", "dev_share", "split_by", "candidates", "top_k", "hops", "embeddings_dir", "eval_readers",
    "eval_top_k", "eval_gains", "seed", "output_dir",
}  # fmt: skip
TUNING = "tuning"

Config = TypeVar("Config", bound=RankingConfig)
Arguments = TypeVar("Arguments", bound=BaseTrainingArguments)
Model = TypeVar("Model")


class Tuned(NamedTuple, Generic[Config, Arguments]):
    """What tuning chose: settings and training arguments, and the score of each trial by the name of its folder."""

    config: Config
    arguments: Arguments
    scores: dict[str, float]


def settings_grid(values: Mapping[str, Sequence[float]]) -> list[dict[str, float]]:
    """Return all combinations of the settings' values, in order.

    >>> settings_grid({"teacher_temperature": [0.2, 1.0], "learning_rate": [5e-5]})
    [{'teacher_temperature': 0.2, 'learning_rate': 5e-05}, {'teacher_temperature': 1.0, 'learning_rate': 5e-05}]
    """
    return [dict(zip(values, chosen, strict=True)) for chosen in itertools.product(*values.values())]


def check_grid(grid: Sequence[Mapping[str, float]], *settings: type) -> None:
    """Refuse a grid that cannot be tuned over.

    Raises:
        ValueError: It is empty or larger than ``MOST_TRIALS``, or names what is no setting, or what decides the
            questions or their labels, which all trials share.
    """
    if not 1 <= len(grid) <= MOST_TRIALS:
        raise ValueError(f"grid must have 1 to {MOST_TRIALS} settings, got {len(grid)}; leave some out")
    named = {name for trial in grid for name in trial}
    if unknown := sorted(named - _names(*settings)):
        raise ValueError(f"expected names of settings or training arguments in the grid, got {unknown}")
    if shared := sorted(named & (_names(FormatOptions, LabelingOptions, ScorerOptions) | _SHARED)):
        raise ValueError(
            f"expected settings of training in the grid, got {shared}, which decide the questions or their labels: "
            "all trials share them; compare such settings in folders of their own"
        )


def own_settings(one: Any, settings: Mapping[str, float]) -> dict[str, Any]:
    """Return those of a trial's settings that are fields of a dataclass's object."""
    return {name: value for name, value in settings.items() if name in _names(type(one))}


def tune(
    config: Config,
    arguments: Arguments,
    grid: Sequence[Mapping[str, float]],
    train: Callable[[Config, Arguments], Model],
    score: Callable[[Model], float | None],
    measured_by: Mapping[str, Any],
) -> Tuned[Config, Arguments]:
    """Train once with each setting of a grid, and return what scores best; of equal ones, the first.

    The same call resumes: ``train`` goes on in the folder of its trial, and what has a score is not scored again. All
    processes must call this together.

    Args:
        config: Settings of the recipe, with the labeler.
        arguments: Training arguments; each trial has a folder of its own below ``output_dir``.
        grid: Values of fields of ``config`` or ``arguments`` by name, one mapping per trial; the same for all labelers
            that are compared, so that each has the same budget.
        train: Function that trains with a trial's settings and arguments and returns the model. It is called for
            finished trials, too, so that it can refuse a folder that was begun with other settings.
        score: Function that returns a model's score on dev questions, higher = better, such as ``seper_on_dev``;
            ``None`` if it cannot be scored.
        measured_by: JSON-able; what decides a model's score. Scores by other measures are measured again.

    Returns:
        The best settings, with the ``output_dir`` of their trial, and all scores, which ``tuning/scores.json`` holds,
        too.

    Raises:
        ValueError: The grid is empty or larger than ``MOST_TRIALS``, names what is no setting, or a model cannot be
            scored.
    """
    check_grid(grid, type(config), type(arguments))
    folder = Path(str(arguments.output_dir)) / TUNING
    scores: dict[str, float] = {}
    for settings in grid:
        name = _name(settings)
        model = train(*_trial(config, arguments, settings))
        scores[name] = _score(folder / name / "score.json", model, score, measured_by)
    together(lambda: write_json(folder / "scores.json", scores))
    best = max(grid, key=lambda settings: scores[_name(settings)])  # the first of equal ones
    return Tuned(*_trial(config, arguments, best), scores)


def seper_on_dev(
    retriever: Retriever, questions: Questions, scorer: SePerScorer, top_k: int, hops: int = 1
) -> float | None:
    """Return the mean SePer of a reader with a retriever's ``top_k`` best passages for each dev question.

    All processes must call this together.

    Args:
        retriever: The retriever.
        questions: Questions with a dev split.
        scorer: Scorer of the labelling reader.
        top_k: Number of passages that the reader sees at once, >= 1.
        hops: How often is retrieved for a question.

    Returns:
        Mean over the questions that can be scored, in [0, 1]; ``None`` if none can.
    """
    retrieved = rank_by(retriever, questions.dev, top_k, hops)
    rows = downstream(scorer, questions.dev, retrieved, top_k)
    known = [row["seper"] for row in rows if row["seper"] is not None]
    return statistics.fmean(known) if known else None


def _names(*kinds: type) -> set[str]:
    return {each.name for kind in kinds for each in fields(kind)}


def _name(settings: Mapping[str, float]) -> str:
    return ",".join(f"{key}={value:g}" for key, value in settings.items())


def _trial(config: Config, arguments: Arguments, settings: Mapping[str, float]) -> tuple[Config, Arguments]:
    """Return settings and arguments of a trial, with its folder."""
    folder = Path(str(arguments.output_dir)) / TUNING / _name(settings)
    theirs = own_settings(arguments, settings)
    return replace(config, **own_settings(config, settings)), replace(arguments, output_dir=str(folder), **theirs)


def _score(path: Path, model: Model, score: Callable[[Model], float | None], measured_by: Mapping[str, Any]) -> float:
    """Return the score of a trial from its file, or measure it and write the file."""
    known = together(lambda: read_json(path) if path.is_file() else {})
    if known.get("measured_by") == measured_by:
        return float(known["score"])
    measured = score(model)
    if measured is None:
        raise ValueError(f"{path.parent}: no dev question can be scored; give a dev_share above 0, or other questions")
    together(lambda: write_json(path, {"score": measured, "measured_by": dict(measured_by)}))
    return measured
