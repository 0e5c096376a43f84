"""Markdown tables of how valid ΔSePer is: correlation with marks, repeats, robustness, transfer, and the judge."""

from collections.abc import Mapping
from typing import Any

from seper_reward.evaluate.equivalence import METHODS
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


def judge_tables(result: Mapping[str, Any]) -> str:
    """Return the errors of a judge by kind of text, after its agreement with people if that was measured.

    Args:
        result: What ``measure_judge`` returned, and ``people``, what ``equivalence`` returned, if there are verdicts.
    """
    near = {
        f"{kind}, {'other spelling' if distance == '0' else f'off by {distance}'}": row
        for kind, distances in result["near"].items()
        for distance, row in distances.items()
    }
    floors = {**({"people": result["people"]["support"]} if "people" in result else {}), **result["support"]}
    return "\n\n".join(
        [
            *([_people_table(result["people"])] if "people" in result else []),
            _rates_table("own rows", result["kinds"]),
            markdown_table(
                ["trap", "support or shift"], [[trap, cell(value)] for trap, value in trap_rows(result["traps"])]
            ),
            _rates_table("near values", near),
            _rates_table("guesses", result["guesses"]),
            _rates_table("qualifiers", result["qualifiers"]),
            _rates_table("right wordings", result["wordings"]),
            markdown_table(
                ["mean support of the gold answer", "by wrong texts", "by right texts"],
                [[name, cell(row.get("wrong")), cell(row.get("right"))] for name, row in floors.items()],
            ),
            "Labels take the forward entailment, rewards the mutual support. Supported is above .5, refused below .5, "
            "paid above .05 (in brackets: number of texts), unpaid below .5. 0 is best, but 1 for stated and for "
            "support by right texts.",
        ]
    )


def trap_rows(result: Mapping[str, Any]) -> list[tuple[str, float]]:
    """Return the name and the number of each trap that ``traps`` set, unrelated prose once for each length."""
    lengths = [(f"unrelated, {tokens} tokens", value) for tokens, value in result["unrelated"].items()]
    return [*lengths, *((name.replace("_", " "), value) for name, value in result.items() if name != "unrelated")]


def _people_table(result: Mapping[str, Any]) -> str:
    rows = [
        [
            column,
            str(row["n"]),
            *(f"{row[f'{each}f1']:.1f} / {row[f'{each}accuracy']:.1f}" for each in METHODS.values()),
        ]
        for column, row in result["columns"].items()
    ]
    thresholds = ", ".join(f"{name} {value:.2f}" for name, value in result["thresholds"].items())
    error = f"expected calibration error {result['calibration']['ece']:.3f}"
    table = markdown_table(["verdicts of people", "n", *METHODS], rows)
    return f"{table}\n\nF1 / accuracy in %; thresholds: {thresholds}; {error}"


def _rates_table(title: str, rows: Mapping[str, Mapping[str, Any]]) -> str:
    """Return what ``rates`` returned by name, without the columns that no row has."""
    columns = {key: text for key, text in _RATES.items() if any(key in row for row in rows.values())}
    return markdown_table(
        [title, *columns.values()], [[name, *(_rate_cell(row, key) for key in columns)] for name, row in rows.items()]
    )


def _rate_cell(row: Mapping[str, Any], key: str) -> str:
    if key not in row:
        return ""
    if isinstance(row[key], int):
        return str(row[key])
    if key == "mean_pay":
        return cell(row[key])
    count = f" ({round(row[key] * row['wrong'])})" if key == "false_pay" else ""
    return f"{100 * row[key]:.0f} %{count}"


_RATES = {
    "wrong": "wrong texts",
    "false_support": "supported (labels)",
    "false_pay": "paid (rewards)",
    "mean_pay": "mean pay",
    "right": "right texts",
    "false_refusal": "refused (labels)",
    "unpaid": "unpaid (rewards)",
}
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
