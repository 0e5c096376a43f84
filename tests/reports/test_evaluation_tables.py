"""Results of evaluations as tables, whatever they hold."""

import json

import pytest

from seper_reward.reports.evaluation_tables import read_evaluations, result_tables, settings_table, value_cell


def texts(table):
    return [[cell.text for cell in row] for row in table.rows]


@pytest.mark.parametrize(
    ("value", "text", "number"),
    [
        (0.12345, "0.123", 0.12345),
        (-0.5, "−0.500", -0.5),
        (94.34, "94.3", 94.34),
        (12, "12", 12.0),
        (3.2e-26, "3.2e−26", 3.2e-26),
        (0.0, "0.000", 0.0),
        (None, "–", None),
        (True, "True", None),
        ("bm25", "bm25", None),
        ([0.25, 0.75], "[0.250, 0.750]", None),
        (["a", "b"], "a, b", None),
        ([], "–", None),
        ({"value": 0.5, "interval": None}, "0.500", 0.5),
        ({"lead": -0.5, "interval": [-1, 0.25]}, "−0.500 [−1, 0.250]", -0.5),
        ({"mean": 0.5, "sd": 0.125}, "0.500 ± 0.125", 0.5),
    ],
)
def test_a_value_is_one_cell(value, text, number):
    cell = value_cell(value)
    assert (cell.text, cell.number) == (text, number)


def test_neighbours_with_the_same_fields_share_a_table():
    result = {
        "n": 120,
        "pearson": {"soft": 0.8, "hard": 0.7, "entropy": 0.1},
        "p_value": {"soft": 0.01, "hard": 0.02, "entropy": None},
        "lead": {"over": "hard", "interval": [0.0, 0.2], "pearson": 0.1},
    }
    numbers, measures, lead = result_tables(result)
    assert (numbers.header, texts(numbers)) == (("", ""), [["n", "120"]])
    assert measures.header == ("", "pearson", "p value")  # more fields than neighbours: on its side
    assert texts(measures) == [["soft", "0.800", "0.010"], ["hard", "0.700", "0.020"], ["entropy", "0.100", "–"]]
    assert measures.numeric == [False, True, True]
    assert (lead.title, texts(lead)) == (
        "lead",
        [["over", "hard"], ["interval", "[0.000, 0.200]"], ["pearson", "0.100"]],
    )


def test_what_rows_share_is_the_title_and_what_differs_names_them():
    def at(kendall):
        return {"kendall": {"value": kendall, "interval": None}, "spearman": 1}

    tree = {
        "score": {"seper": {"1": at(0.1), "10": at(0.2)}},
        "gain": {"seper": {"1": at(0.3), "10": at(0.4)}},
    }
    (table,) = result_tables({"bm25": {"correlation": tree}})
    assert (table.title, table.header) == ("bm25 · correlation · seper", ("", "", "kendall", "spearman"))
    assert texts(table) == [
        ["score", "1", "0.100", "1"],
        ["score", "10", "0.200", "1"],
        ["gain", "1", "0.300", "1"],
        ["gain", "10", "0.400", "1"],
    ]
    assert [row[1].number for row in table.rows] == [1.0, 10.0, 1.0, 10.0]  # depths are sorted as numbers


def test_lists_of_objects_are_rows_and_gaps_stay_empty():
    (table,) = result_tables({"bins": [{"n": 3, "share": 0.5}, {"n": 4}, {"n": 5, "share": 0.25}]})
    assert (table.title, table.header) == ("bins", ("", "n", "share"))
    assert texts(table) == [["1", "3", "0.500"], ["2", "4", ""], ["3", "5", "0.250"]]


def test_settings_are_verbatim():
    table = settings_table({"prompt": {"style": "brief", "examples": []}, "temperature": 0.5, "device": None})
    assert texts(table) == [
        ["prompt.style", "brief"],
        ["prompt.examples", "[]"],
        ["temperature", "0.5"],
        ["device", "null"],
    ]


def test_evaluations_are_found_in_folders(tmp_path):
    def write(name, value):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(json.dumps(value))

    write("tables/erag.json", {"n": 1, "settings": {"seed": 0}})
    write("run/results.json", {"mrr": 0.5})
    write("run/provenance.json", {"decides": {}, "settings": {}})
    write("run/config.json", {"layers": 2})
    write("run/broken.json", [1])
    found = read_evaluations([tmp_path, tmp_path / "run" / "config.json"])
    assert [(each.name, each.result, each.settings) for each in found] == [
        ("run/results.json", {"mrr": 0.5}, {}),
        ("tables/erag.json", {"n": 1}, {"seed": 0}),
        ("config.json", {"layers": 2}, {}),  # named by itself
    ]


def test_what_is_no_evaluation_is_named(tmp_path):
    (tmp_path / "broken.json").write_text("{")
    with pytest.raises(ValueError, match=r"broken\.json: expected a JSON object written by"):
        read_evaluations([tmp_path / "broken.json"])
    with pytest.raises(ValueError, match=r"expected JSON files of evaluations, got none with 'settings' among 1"):
        read_evaluations([tmp_path])
    with pytest.raises(FileNotFoundError):
        read_evaluations([tmp_path / "absent.json"])
