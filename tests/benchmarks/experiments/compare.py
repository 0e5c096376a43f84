"""Labelers side by side: agreement with people's marks, with the reader's score, and the costs of a label.

python -m tests.benchmarks.experiments.compare --config tests/benchmarks/experiments/configs/compare.yaml
"""

import functools
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from seper_reward.baselines.erag import answering_labeler, end_to_end
from seper_reward.baselines.labelled import Labelled, costs_per, label_all
from seper_reward.data.inputs import Needs, load_input
from seper_reward.data.marks import is_relevant, relevance_of, role_order
from seper_reward.evaluate.list_metrics import list_metric
from seper_reward.labels.labelers import ERAGLabeler, load_labeler, needs_answers, parse_labeler
from seper_reward.labels.labelers.base import PassageLabeler
from seper_reward.labels.provenance import query_key
from seper_reward.options import CommandOptions, InputOptions, setting
from seper_reward.reports.figures import plot_intervals
from seper_reward.reports.tables import cell, interval_cell, markdown_table
from seper_reward.retrieval import load_reranker
from seper_reward.runtime.hashing import content_key
from seper_reward.runtime.json_files import read_json, write_json
from seper_reward.runtime.parser import parse_options
from seper_reward.runtime.run_folder import claim_settings, lock_folder
from seper_reward.scorer import SePerScorer, load_scorer
from seper_reward.statistics import PooledPearson, mean, mean_over_questions, rank_correlation
from seper_reward.types import LabeledQuery, Passage, Query

Ends = Sequence[Mapping[int, float] | None]  # by question: the reader's score by depth
_INCIDENTAL = ("data", "output_dir", "cache")


@dataclass(frozen=True)
class CompareConfig(CommandOptions):
    """Compare labelers by people's marks, by how well the reader answers, and by their costs, on several data sets."""

    data: list[str] = setting(
        ["demo=demo"],
        "Data sets as NAME=FILE: questions as JSON, JSONL (also .gz) or Parquet, or 'demo'; their passages carry "
        "'relevant': true, false or a grade. FILE#train, #dev or #test takes a split, by SHA-1 of the questions' ids. "
        "A file that is absent is skipped.",
    )
    limit: int | None = setting(
        None, "Number of questions of each data set, evenly spread over its file (default: all)."
    )
    labelers: list[str] = setting(
        ["delta_seper", "erag", "likelihood", "item", "contains", "gold"],
        "Labelers to compare, by their names in `seper-reward label`.",
    )
    depth: int = setting(2, "Number of a question's passages, nearest to it first, that the reader sees together.")
    output_dir: str = setting(
        "runs/compare",
        "Folder of the results (JSON, Markdown and a figure); the same command goes on with what is missing there.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("depth", "limit"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        if not self.data or not self.labelers or len(self.files) < len(self.data):
            raise ValueError(
                f"expected labelers, and data sets with names of their own, got {self.labelers} and {self.data}"
            )

    @property
    def files(self) -> dict[str, str]:
        """File by name of the data set, with its split.

        Raises:
            ValueError: An entry of ``data`` is not NAME=FILE, where a name can be that of a file.
        """
        files = {name: file for name, _, file in (each.partition("=") for each in self.data)}
        for name, file in files.items():
            if not re.fullmatch(r"[\w.-]+", name) or not re.fullmatch(r"[^#]+(#(train|dev|test))?", file):
                raise ValueError(f"data must be NAME=FILE or NAME=FILE#SPLIT, got {name}={file}")
        return files


def compare(
    queries: Sequence[Query], labelers: Mapping[str, PassageLabeler], answering: ERAGLabeler, *, depth: int
) -> dict[str, Any]:
    """Compare labelers on the same questions.

    A question's own passages are its list, in order of their cosine similarity to it by the embedded encoder.

    Args:
        queries: Q questions with gold answers, whose passages people marked.
        labelers: Labelers by name.
        answering: Labeler whose metric of the reader's responses is the score of a list; of another seed than the
            labelers, as labels of the same draws share their noise with it.
        depth: How many of a list's first passages the reader sees together, >= 1.

    Returns:
        ``questions``, ``passages``, ``metric`` (the name of the reader's score) and ``end_to_end``, its mean without
        a passage (``"0"``) and with the first ones; and ``labelers``, by name: whether it ``needs_answers``;
        ``questions`` that have labels;
        ``left_out`` (why others have none, one reason each); ``marks``, Pearson's r of its labels with the marks over
        all passages; ``types``, by type of passage (``type_of``) the mean ``label`` and, of types that are not
        relevant, Pearson's r over these and the relevant ones; ``score`` and ``gain``, ``rank_correlation`` over
        questions of the mean label of the first passages with the reader's score on them, and with that less its score
        without a passage; and the costs ``per_label``.

    Raises:
        BadRowError: A question has no mark.
        ValueError: ``depth`` is below 1.
    """
    if depth < 1:
        raise ValueError(f"depth must be at least 1, got {depth}")
    for query in queries:
        relevance_of(query)  # raises for one without marks
    nearest = load_reranker("minilm")
    ranked = [replace(query, passages=nearest.rerank(query.question, query.passages)) for query in queries]
    ends = end_to_end(ranked, answering, [0, depth])
    return {
        "questions": len(ranked),
        "passages": sum(len(query.passages) for query in ranked),
        "depth": depth,
        "metric": answering.name.removeprefix("erag_"),
        "end_to_end": {str(at): mean_over_questions([row[at] for row in ends if row]) for at in (0, depth)},
        "labelers": {
            name: {"needs_answers": needs_answers(name), **_described(label_all(labeler, ranked), ends, depth)}
            for name, labeler in labelers.items()
        },
    }


def _described(labelled: Labelled, ends: Ends, depth: int) -> dict[str, Any]:
    rows = [row for row in labelled.rows if isinstance(row, LabeledQuery)]
    both = [
        (row.labels, end)
        for row, end in zip(labelled.rows, ends, strict=True)
        if isinstance(row, LabeledQuery) and end
    ]
    means = list_metric("p", [labels for labels, _ in both], depth)
    return {
        "questions": len(rows),
        "left_out": labelled.reasons,
        "marks": _with_marks(rows),
        "types": _by_type(rows),
        "score": rank_correlation(means, [end[depth] for _, end in both]),
        "gain": rank_correlation(means, [end[depth] - end[0] for _, end in both]),
        "per_label": costs_per(labelled.costs, sum(len(row.labels) for row in rows)),
    }


def _by_type(rows: Sequence[LabeledQuery]) -> dict[str, dict[str, Any]]:
    labels: dict[str, list[float]] = {}
    relevant: set[str] = set()
    for row in rows:
        for passage, label in zip(row.query.passages, row.labels, strict=True):
            labels.setdefault(type_of(passage), []).append(label)
            relevant |= {type_of(passage)} if is_relevant(passage) else set()
    found: dict[str, dict[str, Any]] = {}
    for name in sorted(labels, key=role_order):
        found[name] = {"passages": len(labels[name]), "label": mean(labels[name])}
        if name not in relevant:
            found[name] |= _with_marks([_of_types(row, {name, *relevant}) for row in rows])
    return found


def _of_types(row: LabeledQuery, types: set[str]) -> LabeledQuery:
    return row.keep([at for at, passage in enumerate(row.query.passages) if type_of(passage) in types])


def _with_marks(rows: Sequence[LabeledQuery]) -> dict[str, Any]:
    """Return Pearson's r of labels with marks over all passages, resampled by question."""
    kept = [row for row in rows if row.labels]
    labels = [label for row in kept for label in row.labels]
    marks = [is_relevant(passage) for row in kept for passage in row.query.passages]
    owner = [number for number, row in enumerate(kept) for _ in row.labels]
    return PooledPearson({"labels": labels}, marks, owner).described("labels")


class CompareRun:
    """Compares labelers on data sets, one after the other; what is finished is on disk, and is not done again.

    Args:
        folder: Folder of the results: ``data/NAME.json`` by data set, and all of them in ``results.json``.
        settings: All settings of the run, JSON-able; one that decides a number must be the same when it goes on.
        load_scorer: Function that loads the scorer; called when there is something to do.
        labelers: Names of the labelers.
        options: Options of the labelers that have some; eRAG's metric is the reader's score of a list.
        depth: How many passages the reader sees together.
        judging_seed: Seed of the responses that it answers with then, another than the scorer's, whose labels would
            otherwise share their noise with what they are compared with.
    """

    def __init__(
        self,
        folder: Path,
        settings: Mapping[str, Any],
        load_scorer: Callable[[], SePerScorer],
        labelers: Sequence[str],
        *,
        depth: int,
        judging_seed: int,
    ) -> None:
        self.folder = folder
        self._settings = {name: value for name, value in settings.items() if name not in _INCIDENTAL}
        self._scorer = functools.cache(load_scorer)
        self._labelers, self._depth, self._judging_seed = labelers, depth, judging_seed

    def run(self, files: Mapping[str, str], read: Callable[[str, str], Sequence[Query]]) -> dict[str, Any]:
        """Return by data set its ``file`` and what ``compare`` returns; of an absent one, why it is ``skipped``.

        Args:
            files: By name of the data set its file, or ``"demo"``; behind ``#`` a split.
            read: Function that returns the questions of a file and split (``"all"`` where none is named).

        Raises:
            ValueError: The folder holds a run with other settings, or a data set of this name from another file, of
                other questions or by other models; another process works in it; or all files are absent.
        """
        with lock_folder(self.folder):
            claim_settings(self.folder / "settings.json", self._settings)
            results = {name: self._on(name, file, read) for name, file in files.items()}
            if all("skipped" in found for found in results.values()):
                raise ValueError("; ".join(found["skipped"] for found in results.values()))
            write_json(self.folder / "results.json", results)
        return results

    def _on(self, name: str, file: str, read: Callable[[str, str], Sequence[Query]]) -> dict[str, Any]:
        path = self.folder / "data" / f"{name}.json"
        finished = read_json(path) if path.is_file() else None
        if finished is not None and finished["file"] != file:
            raise ValueError(f"{path} is of {finished['file']!r}, not of {file!r}; name the data set otherwise")
        source, _, split = file.partition("#")
        if source != "demo" and not Path(source).exists():
            return finished or {"file": file, "skipped": f"{source} is absent"}
        queries, scorer = read(source, split or "all"), self._scorer()
        data = content_key(list(map(query_key, queries)))
        made_of = {"file": file, "data": data, "scorer": content_key(scorer.fingerprint)}
        if finished is not None:
            if any(finished.get(part) != made_of[part] for part in made_of):
                raise ValueError(
                    f"{path} was made of other questions or with other models than those of now; name another folder, "
                    "or remove this file"
                )
            return dict(finished)
        print(f"{name}: {file}", file=sys.stderr)
        labelers = {each: load_labeler(each, lambda: scorer) for each in self._labelers}
        answering = answering_labeler(scorer, self._labelers, self._judging_seed)
        found = {**made_of, **compare(queries, labelers, answering, depth=self._depth)}
        write_json(path, found)
        return found


def compare_markdown(results: Mapping[str, Any]) -> str:
    """Return labelers side by side as Markdown: all data sets in one table, then each by itself.

    Args:
        results: What ``CompareRun.run`` returned.
    """
    used = {name: found for name, found in results.items() if "skipped" not in found}
    parts = []
    if len(used) > 1:
        parts += ["r with marks / τ with the reader's score:", _overview(used)]
    for name, found in used.items():
        parts += [_title(name, found), _labelers(found), _types(found)]
    parts += [f"`{name}` is skipped: {found['skipped']}" for name, found in results.items() if "skipped" in found]
    return "\n\n".join(parts)


def _overview(used: Mapping[str, Any]) -> str:
    labelers = dict.fromkeys(labeler for found in used.values() for labeler in found["labelers"])
    return markdown_table(
        ["labeler", *used],
        [[f"`{each}`", *(_both(found["labelers"].get(each)) for found in used.values())] for each in labelers],
    )


def _both(row: Mapping[str, Any] | None) -> str:
    return "–" if row is None else f"{cell(row['marks']['pearson'])} / {cell(row['score']['kendall']['value'])}"


def _title(name: str, found: Mapping[str, Any]) -> str:
    alone, together = found["end_to_end"].values()
    return (
        f"**{name}**: {found['questions']} questions, {found['passages']} passages; {found['metric']} without a "
        f"passage {interval_cell(alone)}, with the {found['depth']} nearest {interval_cell(together)}"
    )


def _labelers(found: Mapping[str, Any]) -> str:
    header = [
        "labeler", "gold answer", "questions", "r with marks", "τ with the score", "τ with the gain", "calls a label",
        "tokens a label", "seconds a label",
    ]  # fmt: skip
    return markdown_table(header, [[f"`{name}`", *_labeler(row)] for name, row in found["labelers"].items()])


def _labeler(row: Mapping[str, Any]) -> list[str]:
    costs = row["per_label"]
    tokens = None if costs["prompt_tokens"] is None else costs["prompt_tokens"] + costs["response_tokens"]
    return [
        "needed" if row["needs_answers"] else "not needed",
        str(row["questions"]),
        interval_cell(row["marks"]),
        *(interval_cell(row[end]["kendall"]) for end in ("score", "gain")),
        *(cell(value) for value in (costs["calls"], tokens, costs["seconds"])),
    ]


def _types(found: Mapping[str, Any]) -> str:
    """Return labels by type of passage, and their correlation with marks where only one other type is compared."""
    labelled = [row["types"] for row in found["labelers"].values()]
    types = list(dict.fromkeys(each for row in labelled for each in row))
    against = [each for each in types if any("pearson" in row.get(each, {}) for row in labelled)]
    header = ["labeler", *(f"mean label, {each}" for each in types), *(f"r, relevant and {each}" for each in against)]
    rows = [
        [
            f"`{name}`",
            *(cell(row["types"].get(each, {}).get("label")) for each in types),
            *(cell(row["types"].get(each, {}).get("pearson")) for each in against),
        ]
        for name, row in found["labelers"].items()
    ]
    return markdown_table(header, rows)


def plot_compare(results: Mapping[str, Any], path: Path) -> None:
    """Plot each labeler's agreement with marks and with the reader's score, one row of points by data set.

    Args:
        results: What ``CompareRun.run`` returned; data sets that were skipped are left out.
        path: Image file; its ending decides the format (svg, png, pdf).

    Raises:
        OSError: matplotlib is not installed, or the path cannot be written.
    """
    used = {name: found["labelers"] for name, found in results.items() if "labelers" in found}
    panels = {
        title: {
            name: {each: tuple(row[measure].get("kendall", row[measure]).values()) for each, row in found.items()}
            for name, found in used.items()
        }
        for title, measure in (
            ("Pearson's r with people's marks", "marks"),
            ("Kendall's τ with the reader's score", "score"),
        )
    }
    plot_intervals(panels, path)


def run(arguments: list[str]) -> None:
    """Compare labelers as the words of a command line say."""
    config = parse_options((CompareConfig,), arguments, "python -m tests.benchmarks.experiments.compare")[0]
    for name in config.labelers:
        parse_labeler(name)
    run = CompareRun(
        Path(config.output_dir),
        asdict(config),
        lambda: load_scorer(config, config.seed),
        config.labelers,
        depth=config.depth,
        judging_seed=config.seed + 1,
    )

    def read(file: str, split: str) -> list[Query]:
        return list(load_input(InputOptions(file), Needs(strict=True, split=split, limit=config.limit)).queries)

    results = run.run(config.files, read)
    text = compare_markdown(results)
    (run.folder / "results.md").write_text(text + "\n", encoding="utf-8")
    plot_compare(results, run.folder / "results.svg")
    print(text)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the experiment; return 0, or 2 after a message if the input or a setting is at fault."""
    try:
        run(list(sys.argv[1:] if argv is None else argv))
    except (OSError, ValueError) as error:
        print(f"compare: {error}", file=sys.stderr)
        return 2
    return 0


def type_of(passage: Passage) -> str:
    """Return the annotated type of a passage: its ``role`` or ``type``, else ``relevant`` or ``other``."""
    named = passage.metadata.get("role") or passage.metadata.get("type")
    return str(named) if named else "relevant" if is_relevant(passage) else "other"


if __name__ == "__main__":
    sys.exit(main())
