"""Shared parts of commands: reading questions, and writing results."""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar, cast

from seper_reward.data.inputs import Field, Needs, load_input
from seper_reward.data.queries import Input, pool_passages
from seper_reward.options import EvaluationOptions, InputOptions, ResultOptions, RetrievalOptions, pick
from seper_reward.runtime.json_files import leaves, without_nan, write_json


def marked_questions(config: EvaluationOptions, file: str, *, answers_needed: bool = True) -> list[Any]:
    """Read the questions of the split; raise if a row is unusable."""
    return list(_input(config, file, ["answers"] if answers_needed else []).queries)


def by_name(paths: Sequence[str]) -> dict[str, str]:
    """Return files or folders by name without extension, or by path if names are equal."""
    if len(set(paths)) < len(paths):
        raise ValueError(f"expected different files or folders, got {', '.join(paths)}")
    names = [re.sub(r"\.(jsonl?|parquet)(\.gz)?$", "", Path(path).name) for path in paths]
    return dict(zip(names if len(set(names)) == len(names) else paths, paths, strict=True))


def questions_and_corpus(config: RetrievalOptions, *, answers_needed: bool = True) -> tuple[list[Any], dict[str, Any]]:
    """Read the questions of the split and the corpus: that of the settings, or the questions' passages."""
    data = _input(config, config.file, ["answers", "corpus"] if answers_needed else ["corpus"])
    if data.corpus is None:
        corpus, queries = pool_passages(data.queries)
        return queries, corpus
    return list(data.queries), dict(data.corpus)


def _input(config: EvaluationOptions, file: str, fields: Sequence[Field]) -> Input:
    needs = Needs(fields, strict=True, split=config.split, limit=config.limit)
    return load_input(pick(InputOptions, config, input=file), needs)


def corpus_flag(corpus: str | None) -> str:
    """Return the flag ``--corpus`` for a proposed command; empty without a corpus."""
    return f" --corpus {corpus}" if corpus else ""


class Record:
    """A frozen dataclass of a result, with its fields in the JSON file."""

    unwritten: ClassVar[Collection[str]] = ()  # fields that are not in the file

    def as_dict(self) -> dict[str, Any]:
        """Return the content of the JSON file, without the settings."""
        return {name: value for name, value in asdict(cast(Any, self)).items() if name not in self.unwritten}

    def table(self) -> str:
        """Return the tables that are printed, for a result of a command."""
        raise NotImplementedError


@contextmanager
def reporting(name: str, config: ResultOptions) -> Iterator[Callable[[Record], None]]:
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
