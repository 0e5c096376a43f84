"""Compute labels again with other options of SePer, from the responses in a label folder."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

from seper_reward.estimators.judge import BeliefJudge, SampledQuestion
from seper_reward.estimators.utility import utility
from seper_reward.labels.folder import PLACEBO, REJECTED, LabelFolder
from seper_reward.labels.integrity import PROVENANCE, SUMMARY, check_labels
from seper_reward.labels.rows import (
    DELTA_SEPER,
    LABELS,
    belief_fields,
    labeler_of,
    rounded,
    sampled_responses,
    utility_fields,
)
from seper_reward.labels.summary import MARGIN
from seper_reward.runtime.hashing import content_key
from seper_reward.runtime.json_files import read_json, read_lines, write_json, write_lines
from seper_reward.runtime.run_folder import claim_settings, lock_folder


def rescore(
    labels: str | Path,
    output_dir: str | Path,
    judge: BeliefJudge,
    settings: Mapping[str, Any] | None = None,
    margin: float = MARGIN,
) -> dict[str, Any]:
    """Compute the labels of a folder again, with other options of SePer, and write them to another folder.

    Args:
        labels: Folder written by ``seper-reward label`` with a labeler of ΔSePer.
        output_dir: Folder to write: label rows, rejected rows, a summary, and provenance that names both folders.
        judge: Entailment model and options of SePer.
        settings: The command's settings, recorded in ``provenance.json`` only.
        margin: Least distance of a label's 95 % interval from 0 to count as help or harm in the summary.

    Returns:
        The result of ``summarize`` and ``sha256``, the hashes of the row files; also written to ``summary.json``.

    Raises:
        OSError: A file is missing, or cannot be written.
        ValueError: The folder has labels of another labeler, of an earlier version, of sets, or of an unfinished run;
            ``output_dir`` is the same folder, is in use, or has other labels; or the options do not fit the way in
            which responses were sampled.
    """
    source, target = Path(labels), Path(output_dir)
    if target.resolve() == source.resolve():
        raise ValueError(f"output_dir must not be the folder of the labels, {str(source)!r}; name another")
    if not (source / SUMMARY).is_file():
        raise ValueError(f"{source} has no finished labels (no {SUMMARY}); run `seper-reward label` to its end first")
    check_labels(source)
    files = [name for name in (LABELS, PLACEBO) if (source / name).is_file()]
    rows = {name: list(read_lines(source / name)) for name in files}
    if (labeler := labeler_of(rows[LABELS])) != DELTA_SEPER:
        raise ValueError(f"{source} has labels of {labeler!r}; only labels of ΔSePer can be computed again")
    if any("sets" in row for row in rows[LABELS]):
        raise ValueError(
            f"{source} has labels of sets, whose rows do not keep all responses; run `seper-reward label` with the "
            "other options and the same cache, which needs no new samples"
        )
    provenance = read_json(source / PROVENANCE)
    decides = {**provenance["decides"], **judge.fingerprint, "reestimated": provenance["labels_hash"]}
    with lock_folder(target):
        claim_settings(
            target / PROVENANCE,
            {**provenance, "labels_hash": content_key(decides), "decides": decides, "settings": dict(settings or {})},
            ["decides"],
            holds="labels made otherwise",
        )
        again = {
            name: [
                _rescore_row(row, judge, f"{source / name}, line {number}")
                for number, row in enumerate(tqdm(rows[name], desc=name, unit="question"), 1)
            ]
            for name in files
        }
        again[REJECTED] = list(read_lines(source / REJECTED))
        for name, written in again.items():
            write_lines(target / name, written, allow_nan=False)
        summary = LabelFolder(target, [*again]).summary(DELTA_SEPER, margin)
        write_json(target / SUMMARY, summary)
    return summary


def _rescore_row(row: Mapping[str, Any], judge: BeliefJudge, where: str) -> dict[str, Any]:
    """Return a label row with its beliefs computed again; other fields do not change."""
    try:
        contexts = [sampled_responses(fields) for fields in (row["baseline"], *row["passages"])]
    except KeyError as error:
        raise ValueError(
            f"{where}: expected responses with their probabilities, but {error} is missing; label again with this "
            "version"
        ) from error
    (beliefs,) = judge.beliefs([SampledQuestion(row["question"], row["answers"], contexts)])
    baseline, *others = beliefs
    return {
        **row,
        "baseline": rounded(belief_fields(baseline)),
        "passages": [
            {**passage, **rounded(utility_fields(utility(belief, baseline)))}
            for passage, belief in zip(row["passages"], others, strict=True)
        ],
    }
