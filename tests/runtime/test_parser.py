"""Command lines: help by group, settings of libraries behind ``--help all``, and the nearest of a misspelt one."""

import itertools
import os
import re
from dataclasses import dataclass
from typing import Literal

import pytest
from transformers import TrainingArguments

from seper_reward.options import setting
from seper_reward.runtime.parser import parse_options


@dataclass
class Reader:
    """Settings of a reader."""

    reader: str = setting("embedded", "Name of the reader.")
    num_samples: int = setting(10, "Responses per prompt.")


@dataclass
class Command(Reader):
    """Do something with a reader."""

    output: str = setting("", "File to write. Required.")
    limit: int | None = setting(None, "Number of questions (default: all).")
    strict: bool = setting(False, "Whether to stop.")
    share: float = setting(0.5, "Share.")
    stop: list[str] = setting(["\n"], "Strings.")

    def __post_init__(self):
        if not self.output:
            raise ValueError("output is required: the file to write")


@dataclass
class Arguments(TrainingArguments):
    """A trainer's arguments."""

    learning_rate: float = setting(1e-3, "Peak learning rate.")


@dataclass
class Shorter(Command):
    """Do less."""


def shown(words, capsys, kinds=(Command,)):
    with pytest.raises(SystemExit, match=r"^0$"):
        parse_options(kinds, words, "seper-reward act", Command.__doc__)
    return capsys.readouterr().out


def groups(text):
    """Return the flags by group of a help text."""
    parts = re.split(r"^(\S.*):$", text, flags=re.MULTILINE)
    return {
        name: re.findall(r"^  (--\w+)", body, re.MULTILINE)
        for name, body in zip(parts[1::2], parts[2::2], strict=True)
    }


def test_values():
    (config,) = parse_options((Command,), ["--output", "x", "--limit", "3", "--strict", "--stop", "a", "b"], "act")
    assert config == Command("embedded", 10, "x", 3, True, 0.5, ["a", "b"])


def test_help_is_sorted_by_who_needs_it(capsys):
    text = shown(["--help"], capsys)
    assert text.startswith("usage: seper-reward act [--config FILE.yaml] [--setting value ...]\n")
    assert groups(text) == {
        "settings of this command": ["--output", "--limit", "--strict", "--share", "--stop"],
        "the reader": ["--reader", "--num_samples"],
    }
    assert re.search(r"--limit N +Number of questions \(default: all\)\.\n", text)  # no "(default: None)"
    assert "--share X" in text
    assert "--strict [true|false]" in text
    assert "--num_samples N       Responses per prompt. (default: 10)" in text
    assert "--num-samples" not in text
    assert "--help all" not in text  # nothing is hidden


def test_help_leaves_out_what_does_nothing(capsys):
    text = shown(["--help"], capsys, (Shorter,))
    assert not {"--limit", "--num_samples"} & set(itertools.chain(*groups(text).values()))
    assert "--reader" in text
    (found,) = parse_options((Shorter,), ["--output", "x", "--limit", "3"], "seper-reward act")
    assert found.limit == 3  # refused where it would mislead, by the class itself


def test_help_hides_what_libraries_define(capsys):
    brief, full = (shown(words, capsys, (Command, Arguments)) for words in (["-h"], ["--help", "all"]))
    assert groups(brief)["the trainer"][0] == "--output_dir"
    assert {"--learning_rate", "--seed", "--report_to"} <= set(groups(brief)["the trainer"])
    assert "--adam_beta2" not in brief
    (hidden,) = re.findall(
        r"^(\d+) more arguments \(transformers\): seper-reward act --help all$", brief, re.MULTILINE
    )
    theirs = groups(full)["TrainingArguments of transformers"]
    assert "--adam_beta2" in theirs
    assert len(theirs) == int(hidden) > 80
    with pytest.raises(ValueError, match="--help trainer: expected nothing or 'all'"):
        parse_options((Command,), ["--help", "trainer"], "act")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--outptu", "x"], r"^unknown setting '--outptu', did you mean '--output'\? \(--help explains"),
        (["--num-sampels=3", "--output", "x"], "unknown setting '--num-sampels', did you mean '--num_samples'"),
        (["--xyzzy", "3"], r"^unknown setting '--xyzzy' \("),
        (["--limt", "3", "--strickt"], "'--limt', did you mean '--limit'.; '--strickt', did you mean '--strict'"),
        (["x"], "unknown setting 'x'"),
        ([], "output is required"),
        (["--limit", "many"], "argument --limit: invalid"),
        (["--config"], "--config needs the path of a YAML file"),
        (["--config", "nowhere.yaml"], "nowhere.yaml: no such file; `seper-reward init` writes the bundled files"),
    ],
)
def test_what_is_misspelt_is_named_with_the_nearest(words, message):
    with pytest.raises((ValueError, OSError), match=message):
        parse_options((Command,), words, "act")


@dataclass
class Words:
    """Settings whose values YAML reads as something else."""

    thinking: Literal["auto", "off", "on"] = setting("auto", "Whether to think.")
    day: str = setting("", "Date.")
    strict: bool = setting(False, "Whether to stop.")
    save: str = setting("epoch", "Time of checkpoints: no, steps or epoch.")


def test_words_that_yaml_reads_as_something_else(tmp_path):
    path = tmp_path / "settings.yaml"
    for text, expected in (
        ("thinking: off\nday: 2024-07-26\nstrict: on\n", Words("off", "2024-07-26", True)),
        ("thinking: on\nday: '2024-07-26'\nstrict: no\n", Words("on", "2024-07-26", False)),
        ("save: no\nday: 2024-07-26 10:30:00\n", Words(day="2024-07-26 10:30:00", save="no")),
        ("<<: {save: off}\nday: on\n", Words(day="on", save="off")),
    ):
        path.write_text(text)
        assert parse_options((Words,), ["--config", str(path)], "act") == (expected,)


def test_a_file_of_settings(tmp_path, monkeypatch):
    path = tmp_path / "settings.yaml"
    path.write_text("output: a\nlimit: 7\nenv: {SEPER_OF_A_TEST: 5, SEPER_MODE: off}\n")
    monkeypatch.setenv("SEPER_OF_A_TEST", "")
    monkeypatch.setenv("SEPER_MODE", "")
    for words in (["--config", str(path)], [f"--config={path}"]):
        (config,) = parse_options((Command,), [*words, "--limit", "8"], "act")
        assert (config.output, config.limit) == ("a", 8)  # flags win
    assert (os.environ["SEPER_OF_A_TEST"], os.environ["SEPER_MODE"]) == ("5", "off")
    path.write_text("env: {SEPER_MODE: [1]}\n")
    with pytest.raises(ValueError, match=r"expected a text as env\.SEPER_MODE, got \['1'\]"):
        parse_options((Command,), ["--config", str(path)], "act")
    path.write_text("outptu: a\n")
    with pytest.raises(ValueError, match=rf"^{path}: unknown setting 'outptu', did you mean 'output'\?"):
        parse_options((Command,), ["--config", str(path)], "act")
    path.write_text("env: 3\n")
    with pytest.raises(ValueError, match="must contain a YAML mapping"):
        parse_options((Command,), ["--config", str(path)], "act")
