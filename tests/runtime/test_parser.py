"""Command lines: TRL's parser with flat names, one-line errors, and the nearest of a misspelt name."""

import itertools
import os
import re
from dataclasses import dataclass
from typing import Literal

import pytest
from transformers import TrainingArguments

from seper_reward.options import AuditSearchesOptions, ExportOptions, LabelOptions, Options, ScorerOptions, setting
from seper_reward.runtime.parser import parse_options, refuse_missing_files
from tests.helpers import run


class Reader(Options):
    """Options of a reader."""

    reader: str = setting("embedded", "Name of the reader.")
    num_samples: int = setting(10, "Responses per prompt.")


class Command(Reader):
    """Do something with a reader."""

    output: str = setting("", "File to write. Required.")
    limit: int | None = setting(None, "Number of questions (default: all).")
    strict: bool = setting(False, "Whether to stop.")
    share: float = setting(0.5, "Share.")
    stop: list[str] = setting(["\n"], "Strings.")
    mode: Literal["auto", "fast"] = setting("auto", "Mode.")

    def __post_init__(self):
        super().__post_init__()
        if not self.output:
            raise ValueError("output is required: the file to write")


@dataclass
class Arguments(TrainingArguments):
    """A trainer's arguments."""

    learning_rate: float = setting(1e-3, "Peak learning rate.")


def shown(capsys, kinds=(Command,)):
    with pytest.raises(SystemExit, match=r"^0$"):
        parse_options(kinds, ["--help"], "seper-reward act")
    return capsys.readouterr().out


def flags(text):
    return re.findall(r"^  (?:-h, )?(--\w+)", text, re.MULTILINE)


def test_help_shows_the_commands_own_options_first(capsys):
    text = shown(capsys)
    assert text.startswith("usage: seper-reward act [--config FILE.yaml] [--setting value ...]\n")
    assert "Do something with a reader. --config FILE.yaml reads any of these" in text
    own = ["--output", "--limit", "--strict", "--share", "--stop", "--mode"]
    assert flags(text) == ["--help", *own, "--reader", "--num_samples"]
    assert re.search(r"Number of questions \(default: all\)\.\n", text)  # no "(default: None)"
    assert re.search(r"--num_samples NUM_SAMPLES\n? +Responses per prompt\. \(default: 10\)", text)
    assert "--num-samples" not in text


def test_arguments_of_libraries_stand_behind_ours(capsys):
    text = shown(capsys, (Command, Arguments))
    names = flags(text)
    assert names.index("--num_samples") < names.index("--learning_rate") < names.index("--adam_beta2")
    words = ["--output", "x", "--output_dir", "y", "--use_cpu", "true", "--bf16", "false", "--learning_rate", "0.5"]
    found, arguments = parse_options((Command, Arguments), words, "act")
    assert (found.output, arguments.output_dir, arguments.learning_rate) == ("x", "y", 0.5)


def test_kinds_share_a_setting_of_one_name():
    words = ["--output_dir", "y", "--use_cpu", "true", "--seed", "7"]
    scorer, arguments = parse_options((ScorerOptions, TrainingArguments), words, "act")
    assert scorer.seed == arguments.seed == 7


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--outptu", "x"], r"^unknown setting '--outptu', did you mean '--output'\? \(--help explains"),
        (["--num-sampels=3", "--output", "x"], "unknown setting '--num-sampels=3', did you mean '--num_samples'"),
        (["--xyzzy", "3"], r"^unknown setting '--xyzzy' \("),
        (["--limt", "3", "--strickt"], "'--limt', did you mean '--limit'.; '--strickt', did you mean '--strict'"),
        (["--lim", "3", "--output", "x"], "unknown setting '--lim'"),  # no abbreviations
        (["x"], "unknown setting 'x'"),
        ([], "output is required"),
        (["--limit", "many"], "argument --limit.*: invalid int value: 'many'"),
        (["--output", "x", "--mode", "slow"], "invalid choice: 'slow'"),
        (["--config"], "--config needs the path of a YAML file"),
        (["--config", "nowhere.yaml"], "nowhere.yaml: no such file; `seper-reward init` writes the bundled files"),
    ],
)
def test_parse_options_mistakes_name_the_nearest(words, message):
    with pytest.raises((ValueError, OSError), match=message) as caught:
        parse_options((Command,), words, "act")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("text", "samples"), [("num_samples: 3\n", 3), ("", 10), ("- num_samples: 3\n", 10)])
def test_help_shows_the_values_of_a_file(tmp_path, capsys, text, samples):
    (tmp_path / "settings.yaml").write_text(text)
    with pytest.raises(SystemExit, match=r"^0$"):
        parse_options((Command,), ["--config", str(tmp_path / "settings.yaml"), "--help"], "act")
    assert f"(default: {samples})" in capsys.readouterr().out


def test_help_with_a_file_that_cannot_be_read_is_one_line(tmp_path):
    (tmp_path / "settings.yaml").write_text("output: [a\n")
    for name, message in (("settings", "expected YAML in UTF-8"), ("nowhere", "no such file")):
        with pytest.raises((ValueError, OSError), match=message):
            parse_options((Command,), ["--config", str(tmp_path / f"{name}.yaml"), "--help"], "act")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("output: a\nlimt: 3\n", r"settings.yaml: unknown setting 'limt', did you mean 'limit'\?"),
        ("output: a\nnum_samples: many\n", "argument --num_samples.*: invalid int value: 'many'"),
        ("output: a\nnum_samples: 2.5\n", r"^num_samples must be int, got 2\.5"),
        ("output: a\nnum_samples: true\n", "^num_samples must be int, got True"),
        ("output: a\nshare: [1]\n", r"^share must be float, got \[1\]"),
        ("output: a\nstop: word\n", "^stop must be list"),
        ("output: a\nstop: [1]\n", "^stop must be list"),
        ("output: a\nmode: slow\n", "^mode must be auto, fast, got 'slow'"),
        ("output: 2024-07-26\n", "^output must be str, got datetime.date"),
        ("output: [a\nlimit: 3\n", "settings.yaml: expected YAML in UTF-8, got .*line 2"),
        ("output: a\nlimit: 3\noutput: b\n", "settings.yaml: output stands twice, in lines 1 and 3; remove one"),
        ("output: \x00\n", "settings.yaml: expected YAML in UTF-8, got "),
        ("- output: a\n", "must contain a YAML mapping"),
        ("env: 3\n", "`env` field should be a dict"),
    ],
)
def test_parse_options_mistakes_in_a_file(tmp_path, text, message):
    path = tmp_path / "settings.yaml"
    path.write_text(text)
    with pytest.raises(ValueError, match=message) as caught:
        parse_options((Command,), ["--config", str(path)], "act")
    assert "\n" not in str(caught.value)


def test_parse_options_of_a_file(tmp_path, monkeypatch):
    path = tmp_path / "settings.yaml"
    path.write_text("output: a\nlimit: 7\nshare: 1\nstop: []\nenv: {SEPER_OF_A_TEST: 5}\n")
    monkeypatch.setenv("SEPER_OF_A_TEST", "")
    (found,) = parse_options((Command,), ["--config", str(path), "--limit", "8"], "act")
    assert found == Command(output="a", limit=8, share=1, stop=[])  # flags win
    assert os.environ["SEPER_OF_A_TEST"] == "5"
    path.write_text("output: a\nlearning_rate: 0.5\n")
    assert parse_options((Command,), ["--config", str(path)], "act", others=True) == (Command(output="a"),)
    path.write_bytes(b"output: \xff\n")
    with pytest.raises(ValueError, match=r"settings.yaml: expected YAML in UTF-8, got "):
        parse_options((Command,), ["--config", str(path)], "act")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (LabelOptions(corpus="misspelt.csv.gz"), "misspelt.csv.gz: no such file or folder; correct corpus"),
        (ExportOptions(labels="misspelt", output="x"), "misspelt/labels.jsonl: no such file"),
        (AuditSearchesOptions(input="misspelt.parquet"), "misspelt.parquet: no such file or folder; correct input"),
    ],
)
def test_refuse_missing_files(options, message):
    with pytest.raises(FileNotFoundError, match=message):
        refuse_missing_files(options)


def test_missing_files_are_told_before_libraries_load():
    code = "import sys; from seper_reward.cli import main; print(main(sys.argv[1:]), 'torch' in sys.modules)"
    done = run(["label", "--input", "misspelt.jsonl"], launcher=("-c", code))
    assert done.stdout == "2 False\n"
    assert "misspelt.jsonl: no such file or folder; correct input" in done.stderr


def test_a_bomb_of_aliases_is_shown_in_part(tmp_path):
    lines = ["a: &a [x, x, x, x, x, x, x, x, x]"]
    for one, other in itertools.pairwise("abcdefg"):
        lines.append(f"{other}: &{other} [{', '.join([f'*{one}'] * 9)}]")
    (tmp_path / "bomb.yaml").write_text("\n".join(lines).replace("g: &g", "stop:"))
    with pytest.raises(ValueError, match="stop must be list, got ") as caught:
        parse_options((Command,), ["--config", str(tmp_path / "bomb.yaml")], "label", others=True)
    assert len(str(caught.value)) < 250
