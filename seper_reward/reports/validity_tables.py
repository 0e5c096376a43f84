"""Markdown tables of how valid ΔSePer is: correlation with marks, repeats, robustness, transfer to other readers."""

from collections.abc import Mapping
from typing import Any

from seper_reward.reports.tables import cell, interval_cell, markdown_table

_OURS = ("delta_seper_soft", "delta_seper_hard")


def correlation_tables(files: Mapping[str, Mapping[str, Any]]) -> str:
    """Return Pearson's r of each measure with people's marks, one column per file.

    Args:
        files: By name of the file what ``correlation`` returned.
    """
    measures = list(dict.fromkeys(name for found in files.values() for name in found["pearson"]))
    rows = [
        [f"**{name}**" if name in _OURS else name, *(_correlation_cell(found, name) for found in files.values())]
        for name in measures
    ]
    header = ["gain with the passages", *(f"{name} (n={found['n']})" for name, found in files.items())]
    return "\n\n".join([markdown_table(header, rows), *(_lead_line(*file) for file in files.items())])


def repeats_tables(result: Mapping[str, Any]) -> str:
    """Return correlation, spread and error of SePer over repeats, one column per number of responses.

    Args:
        result: What ``repeats`` returned.
    """
    ways = result["ways"]
    counts = list(next(iter(ways.values())))
    titles = {
        "pearson": "Pearson with marks, mean over repeats",
        "pearson_sd": "its sd over repeats",
        "seper_sd": "sd of SePer over repeats",
        "rmse": "root mean squared error of SePer",
        "bias": "bias of SePer",
        "seconds": f"seconds per context ({result['clock']})",
    }
    tables = [
        markdown_table(
            [title, *(f"N={count}" for count in counts)],
            [[name, *(cell(row[count][measure]) for count in counts)] for name, row in ways.items()],
        )
        for measure, title in titles.items()
        if any(row[count][measure] is not None for row in ways.values() for count in counts)
    ]
    about = (
        f"{result['questions']} questions, {result['contexts']} contexts; pools of {result['pool']} responses, which "
        f"leave {result['unseen_mass']:.3f} of the probability unseen, so that the truth that errors are measured "
        f"against has a standard error of {result['truth_std_error']:.4f}"
    )
    return "\n\n".join([*tables, about + _left_out(result)])


def robustness_tables(result: Mapping[str, Any]) -> str:
    """Return Pearson's r of ΔSePer with people's marks by entailment model and by prompt.

    Args:
        result: What ``robustness`` returned.
    """
    rows = {"as configured": result["reference"]}
    rows |= {f"entailment: {name}": row for name, row in result["entailment"].items()}
    rows |= {f"prompt: {name}": row for name, row in result["prompt"].items()}
    columns = ("soft", "hard", "with_reference")
    header = ["", "ΔSePer soft with marks", "ΔSePer hard with marks", "with ΔSePer as configured", "baseline SePer"]
    table = markdown_table(
        header,
        [
            [name, *(_pearson_cell(row[column]) for column in columns), cell(row["baseline_seper"])]
            for name, row in rows.items()
        ],
    )
    return f"{table}\n\n{result['questions']} questions, {result['n']} contexts{_left_out(result)}"


def transfer_tables(result: Mapping[str, Any]) -> str:
    """Return how far readers' labels agree, as observed and without the noise of sampling.

    Args:
        result: What ``transfer`` returned.
    """
    readers = [
        [name, row["reader"], str(row["seed"]), cell(row["reliability"])] for name, row in result["readers"].items()
    ]
    titles = {
        "labels": "correlation of labels",
        "within_questions": "within questions",
        "sign": "same sign",
        "order": "same order",
    }
    agreement = [
        [name, title, cell(pair[kind]["observed"]), _corrected_cell(pair[kind])]
        for name, pair in result["pairs"].items()
        for kind, title in titles.items()
    ]
    counts = [[name, str(result["verdicts"].get(name, 0)), meaning] for name, meaning in _VERDICTS.items()]
    return "\n\n".join(
        [
            markdown_table(["labels", "reader", "seed", "reliability"], readers),
            markdown_table(["pair", "agreement", "observed", "without noise"], agreement),
            markdown_table(["verdict", "passages", "which means"], counts),
            f"{result['questions']} questions, {result['labels']} labels of each reader; {result['left_out']} others "
            "that not all readers have",
        ]
    )


_VERDICTS = {
    "helps": "surely helps all readers",
    "harms": "surely harms all readers",
    "useless": "surely does nothing to any reader",
    "opposite": "surely helps one and harms another",
    "depends": "surely helps or harms one, and surely does nothing to another",
    "unsure": "some label is too noisy to tell",
}


def _correlation_cell(found: Mapping[str, Any], name: str) -> str:
    if name not in found["pearson"]:
        return "–"
    text = _pearson_cell({"pearson": found["pearson"][name], "interval": found["interval"][name]})
    contexts = found["contexts"][name]
    return text if contexts == found["n"] else f"{text} (n={contexts})"


def _lead_line(name: str, found: Mapping[str, Any]) -> str:
    lead, judge = found["lead"], found.get("judge")
    parts = [
        f"{name}: {found['questions']} questions{_left_out(found)}, baseline SePer {found['baseline_seper']:.3f}",
        f"ΔSePer soft leads its best rival, {lead['over']}, by {_pearson_cell(lead)}",
    ]
    if found.get("known_left_out"):
        parts.append(f"{found['known_left_out']} questions left out that the reader answers without passages")
    if judge is not None:
        parts.append(f"{judge['not_understood']} of {judge['asked']} replies of the LLM judge not understood")
    return "; ".join(parts)


def _left_out(result: Mapping[str, Any]) -> str:
    return f" ({result['left_out']} left out)" if result["left_out"] else ""


def _pearson_cell(row: Mapping[str, Any]) -> str:
    return interval_cell({"mean": row["pearson"], "interval": row["interval"]})


def _corrected_cell(row: Mapping[str, Any]) -> str:
    return interval_cell({"mean": row["corrected"], "interval": row["interval"]})
