"""Results of evaluations as tables, whatever they hold."""

import pytest

from seper_reward.reports.evaluation_tables import settings_table, value_cell


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


def test_settings_are_verbatim():
    table = settings_table({"prompt": {"style": "brief", "examples": []}, "temperature": 0.5, "device": None})
    assert texts(table) == [
        ["prompt.style", "brief"],
        ["prompt.examples", "[]"],
        ["temperature", "0.5"],
        ["device", "null"],
    ]
