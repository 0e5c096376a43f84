"""Fixtures of the tests of labels."""

from pathlib import Path

import pytest

from tests.helpers import write_rows


@pytest.fixture
def label_words(tiny_reader, tiny_entailment, tmp_path):
    """Return the words of the command with the tiny models, for rows or their file, and a folder."""
    models = ["--reader", str(tiny_reader), "--judge", str(tiny_entailment), "--dtype", "float32", "--device", "cpu"]
    fixed = ["label", *models, "--num_samples", "3", "--max_new_tokens", "4"]

    def words(source, output="out", *more):
        path = source if isinstance(source, Path) else write_rows(tmp_path / f"{output}.jsonl", source)
        return [*fixed, "--output_dir", str(tmp_path / output), "--input", str(path), *map(str, more)]

    return words
