"""Rows as CSV are read back unchanged, by pandas and by the csv module."""

import csv

import pandas
import pytest

from seper_reward.runtime.csv_files import write_csv


@pytest.mark.parametrize("ending", [".csv", ".tsv"])
def test_write_csv_with_all_kinds_of_breaks(tmp_path, ending):
    rows = [{"text": text, "label": 0.5} for text in ("a\rb", "a\nb", "a\r\nb", 'a "b", c', "a\tb")]
    path = tmp_path / f"rows{ending}"
    write_csv(path, rows)
    separator = "\t" if ending == ".tsv" else ","
    found = pandas.read_csv(path, sep=separator)
    assert found["label"].tolist() == [0.5] * len(rows)
    with path.open(newline="") as file:
        assert [row["text"] for row in csv.DictReader(file, delimiter=separator)] == [row["text"] for row in rows]


def test_write_csv_quotes_little(tmp_path):
    write_csv(tmp_path / "rows.csv", [{"text": "a", "label": 0.5}])
    assert (tmp_path / "rows.csv").read_text() == "text,label\na,0.5\n"
