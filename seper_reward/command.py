"""Shared parts of commands: settings, reading questions, and writing results."""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar, cast

from seper_reward.config import CORPUS_HELP, INPUT_HELP, TRACKING_HELP, CommandConfig, InputConfig, Tracking
from seper_reward.data.inputs import Needs, load_input
from seper_reward.data.queries import Input, pool_passages
from seper_reward.runtime.json_files import leaves, without_nan, write_json
from seper_reward.runtime.parser import parse_settings
from seper_reward.runtime.settings import check_least, setting

C = TypeVar("C")

MARKED_HELP = f"{INPUT_HELP} Their passages have the field 'relevant': true, false or a grade. Required."


SplitOrAll = Literal["train", "dev", "test", "all"]
SPLIT_HELP = "Split of the questions to use, by SHA-1 of their ids: 3/4 train, 1/8 dev, 1/8 test; or all."


def check_streaming(streaming: bool, limit: int | None, split: SplitOrAll) -> None:
    """Raise ``ValueError`` if a stream would be cut before its split is chosen."""
    if streaming and limit is not None and split != "all":
        raise ValueError(
            f"streaming reads the first {limit} questions, but split={split!r} would use only a part of them; set "
            "--split all, or omit limit or streaming"
        )


@dataclass
class ResultConfig:
    """Settings of commands that write a result."""

    json: str | None = setting(None, "JSON file for the result, in addition to standard output (default: none).")
    report_to: Tracking = setting("none", TRACKING_HELP)


@dataclass
class EvaluationConfig(ResultConfig, InputConfig, CommandConfig):
    """Settings of commands that evaluate on questions."""

    corpus: str | None = setting(None, f"{CORPUS_HELP}; needed if passages are named by id, or by run or qrels.")
    split: SplitOrAll = setting("all", SPLIT_HELP)
    limit: int | None = setting(None, "Number of questions to use, evenly spread over the input (default: all).")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(self, limit=1)
        check_streaming(self.streaming, self.limit, self.split)


@dataclass
class MarkedConfig(EvaluationConfig):
    """Settings of commands that compare ΔSePer to people's marks on passages."""

    file: str = setting("", MARKED_HELP)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.file:
            raise ValueError("--file is required: questions whose passages have the field 'relevant'")


@dataclass
class GradedConfig(MarkedConfig):
    """Settings of commands that use relevant passages and grades."""

    relevant_from: int = setting(
        1, "Grade from which a marked passage counts as relevant, >= 1 (true is grade 1); nDCG counts all grades."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(self, relevant_from=1)


@dataclass
class RetrievalConfig(MarkedConfig):
    """Settings of commands that retrieve for each question from one corpus."""

    file: str = setting("", f"{INPUT_HELP} Marks apply to retrieved passages of the same id. Required.")
    corpus: str | None = setting(None, f"{CORPUS_HELP} (default: the passages of the chosen questions).")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.run:  # judged passages that the run lacks would count as not relevant
            raise ValueError("input.run names passages, but here retrievers find them; leave it out")


def check_depths(depths: Sequence[int]) -> None:
    """Raise ``ValueError`` unless there are depths, and all are whole numbers of at least 1."""
    if not depths or not all(isinstance(depth, int) and depth >= 1 for depth in depths):
        raise ValueError(f"depths must be whole numbers of at least 1, got {depths}")


def parse(kind: type[C], arguments: list[str], program: str) -> C:
    """Return the settings of a command, as ``parse_all`` with one class of settings."""
    config: C = parse_all((kind,), arguments, program)[0]
    return config


def parse_all(kinds: tuple[type, ...], arguments: list[str], program: str) -> tuple[Any, ...]:
    """Return the settings of a command, from its arguments and the YAML file named in them."""
    about = f"{kinds[0].__doc__} --config FILE.yaml reads any of these settings from a file; flags override it."
    return parse_settings(kinds, arguments, program, about)


def marked_questions(config: EvaluationConfig, file: str) -> list[Any]:
    """Read the questions of the split; raise if a row is unusable."""
    return list(_input(config, file, Needs(strict=True, split=config.split, limit=config.limit)).queries)


def by_name(paths: Sequence[str]) -> dict[str, str]:
    """Return files or folders by name without extension, or by path if names are equal."""
    if len(set(paths)) < len(paths):
        raise ValueError(f"expected different files or folders, got {', '.join(paths)}")
    names = [re.sub(r"\.(jsonl?|parquet)(\.gz)?$", "", Path(path).name) for path in paths]
    return dict(zip(names if len(set(names)) == len(names) else paths, paths, strict=True))


def questions_and_corpus(config: RetrievalConfig, *, answers_needed: bool = True) -> tuple[list[Any], dict[str, Any]]:
    """Read the questions of the split and the corpus: that of the settings, or the questions' passages."""
    needs = Needs(answers=answers_needed, corpus=True, strict=True, split=config.split, limit=config.limit)
    found = _input(config, config.file, needs)
    if found.corpus is None:
        corpus, queries = pool_passages(found.queries)
        return queries, corpus
    return list(found.queries), dict(found.corpus)


def _input(config: EvaluationConfig, file: str, needs: Needs) -> Input:
    return load_input(replace(config.input_options, source=file, corpus=config.corpus), needs)


def corpus_flag(config: RetrievalConfig) -> str:
    """Return the flag ``--corpus`` for a proposed command; empty without a corpus."""
    return f" --corpus {config.corpus}" if config.corpus else ""


class Record:
    """A frozen dataclass of a result, with its fields in the JSON file."""

    optional: ClassVar[Collection[str]] = ()  # fields, also of dataclasses in it, that are left out if they are None

    def as_dict(self) -> dict[str, Any]:
        """Return the content of the JSON file, without the settings."""

        def known(items: list[tuple[str, Any]]) -> dict[str, Any]:
            return {name: value for name, value in items if value is not None or name not in self.optional}

        return asdict(cast(Any, self), dict_factory=known)

    def table(self) -> str:
        """Return the tables that are printed, for a result of a command."""
        raise NotImplementedError


@contextmanager
def reporting(name: str, config: ResultConfig) -> Iterator[Callable[[Record], None]]:
    """Yield the function that prints a result, writes it, plots it and logs it, on the main process only.

    The tracker starts with the block: a missing tracker fails before anything is measured. ``name`` is the command,
    and the type of the run in W&B. A result with a method ``plot`` is plotted into the setting of this name,
    if there is one. Raises ``OSError`` if the tracker cannot start, or a file cannot be written.
    """
    from seper_reward.reports.tracking import Run
    from seper_reward.runtime.distributed import process_state

    with Run(config.report_to, name, asdict(config)) as run:

        def report(result: Record) -> None:
            if not process_state().is_main_process:
                return
            print(result.table())
            if config.json:
                write_json(Path(config.json), without_nan({**result.as_dict(), "settings": asdict(config)}))
            plot: Callable[[Path], None] | None = getattr(result, "plot", None)
            if plot is not None:
                if path := getattr(config, "plot", None):
                    plot(Path(path))
                run.figure(name, plot)
            values = leaves(result.as_dict(), lists=True)
            run.log({path: value for path, value in values if isinstance(value, (int, float))})

        yield report
