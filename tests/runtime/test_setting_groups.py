"""Settings in groups: mappings of a YAML file, ``--set``, help by group, and errors that name a setting's place."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import pytest
import yaml
from seper_reward.runtime.setting_names import SettingNames
from transformers import TrainingArguments

from seper_reward import cli
from seper_reward.options import check_types, setting
from seper_reward.runtime.parser import parse_options


@dataclass
class Models:
    """Settings of models."""

    group_help: ClassVar[Mapping[str, str]] = {"engine": "The servers.", "judge": "The judge."}

    judge: str = setting("embedded", "Name of the judge.", "judge.name", common=True)
    dtype: Literal["auto", "float32"] = setting("auto", "Type of the weights.", "judge.dtype")
    engine: list[str] = setting([], "Addresses of servers.", "engine.urls", common=True)
    engine_requests: int = setting(64, "Most requests.", "engine.requests")
    engine_model: str | None = setting(None, "Name of the model.", "engine.model")


@dataclass
class Command(Models):
    """Do something with models."""

    group_help: ClassVar[Mapping[str, str]] = {"reader": "The reader.", "input": "How rows are read."}
    places: ClassVar[Mapping[str, str]] = {"dtype": "reader.dtype"}

    output: str = setting("out", "File to write.")
    reader: str = setting("embedded", "Name of the reader.", "reader.name", common=True)
    day: str = setting("2024-07-26", "The date.", "reader.day")
    thinking: Literal["off", "on"] = setting("on", "Whether it thinks.", "reader.thinking")
    note: str | None = setting(None, "A text.", "reader.note")
    options: dict[str, int] | str | None = setting(None, "Options.", "reader.options")
    stop: list[str] = setting(["\n"], "Ends of a response.", "reader.stop")
    share: float = setting(0.5, "A share.", "reader.share")
    streaming: bool = setting(False, "Whether rows are streamed.", "input.streaming")

    def __post_init__(self):
        check_types(self)


def parsed(*words, kind=Command):
    return parse_options((kind,), words, "act")[0]


def from_file(tmp_path, text, *words):
    (tmp_path / "act.yaml").write_text(text)
    return parsed("--config", str(tmp_path / "act.yaml"), *words)


def shown(capsys, *words, kinds=(Command,)):
    with pytest.raises(SystemExit, match=r"^0$"):
        parse_options(kinds, words, "act", "Acts.")
    return capsys.readouterr().out


def test_groups_of_a_file(tmp_path):
    found = from_file(
        tmp_path,
        "output: x\nreader: {name: a, dtype: float32, stop: [b, c], options: {d: 1}}\njudge: e\n"
        "engine:\n  urls: [f, g]\n  requests: 3\n  model: null\n",
    )
    assert found == Command(
        output="x", reader="a", dtype="float32", stop=["b", "c"], options={"d": 1}, judge="e", engine=["f", "g"],
        engine_requests=3,
    )  # fmt: skip
    assert from_file(tmp_path, "reader: a\nengine: f\n") == Command(reader="a", engine=["f"])
    assert from_file(tmp_path, "engine: [f, g]\n") == Command(engine=["f", "g"])


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["reader.dtype=float32", "engine.requests=3"], {"dtype": "float32", "engine_requests": 3}),
        (["reader=a", "engine=f", "output=x"], {"reader": "a", "engine": ["f"], "output": "x"}),
        (["engine.urls=[f, g]", "input.streaming=true"], {"engine": ["f", "g"], "streaming": True}),
        (['reader.stop=["\\n", "."]'], {"stop": ["\n", "."]}),
        (["reader.stop=x=1"], {"stop": ["x=1"]}),
        (['reader.options={"d": 1}'], {"options": {"d": 1}}),
        # what YAML would read as a date, a truth value, a number, nothing
        (["reader.day=2025-01-02", "reader.thinking=off"], {"day": "2025-01-02", "thinking": "off"}),
        (["engine.model=7", "reader.note="], {"engine_model": "7", "note": ""}),
        (["reader.note=null", "reader.share=1e-3"], {"note": None, "share": 0.001}),
        (["reader.note={question} ?: [", "reader.share=1"], {"note": "{question} ?: [", "share": 1}),
        (["judge.name=a", "judge.name=b"], {"judge": "b"}),
    ],
)
def test_set(words, expected):
    assert parsed(*(word for each in words for word in ("--set", each))) == Command(**expected)
    assert parsed(*(f"--set={each}" for each in words)) == Command(**expected)


def test_flags_win_over_set_and_both_over_the_file(tmp_path):
    text = "reader: {name: a, dtype: float32, share: 0.1}\noutput: x\n"
    found = from_file(tmp_path, text, "--set", "reader.name=b", "--reader", "c", "--set", "reader.share=0.2")
    assert found == Command(reader="c", dtype="float32", share=0.2, output="x")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("engine_requests: 3", "'engine_requests' is now engine: {requests: ...} ("),
        ("dtype: float32", "'dtype' is now reader: {dtype: ...} ("),
        ("dtype: float32\nday: x", "'dtype' is now reader: {dtype: ...}; 'day' is now reader: {day: ...} ("),
        ("judge: {dtype: float32}", "unknown setting 'judge.dtype', did you mean 'reader.dtype'? ("),
        (
            "engine: {engine_requests: 3}",
            "unknown setting 'engine.engine_requests', did you mean 'engine.requests'? (",
        ),
        ("engine: {request: 3}", "unknown setting 'engine.request', did you mean 'engine.requests'? ("),
        ("redaer: a", "unknown setting 'redaer', did you mean 'reader'? ("),
        ("outptu: a", "unknown setting 'outptu', did you mean 'output'? ("),
        ("input: x", "input must be a mapping of streaming, got 'x'"),
    ],
)
def test_a_file_with_other_names(tmp_path, text, message):
    with pytest.raises(ValueError, match=rf"^{re.escape(f'{tmp_path}/act.yaml: {message}')}"):
        from_file(tmp_path, text)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--dtype", "float32"], "'--dtype' is now --set reader.dtype=... ("),
        (["--engine-requests=3"], "'--engine-requests' is now --set engine.requests=... ("),
        (["--dtyp", "float32"], "unknown setting '--dtyp', did you mean '--set reader.dtype=...'? ("),
        (["--read", "a"], "unknown setting '--read', did you mean '--reader'? ("),  # no abbreviations
        (["--set", "engine_requests=3"], "--set 'engine_requests' is now engine.requests ("),
        (["--set", "engine.dtype=3"], "--set unknown setting 'engine.dtype', did you mean 'reader.dtype'? ("),
        (
            ["--set", "reader.dtype"],
            "--set reader.dtype: expected group.key=value, such as --set reader.dtype=float32",
        ),
        (["--set"], "--set needs group.key=value, such as reader.dtype=float32"),
        (["--set", "reader.dtype=int8"], "dtype must be auto, float32, got 'int8'"),
        (["--set", "engine.requests=many"], "argument --set engine.requests: invalid int value: 'many'"),
        (["--config", "a", "--config", "b"], "--config takes one file, got a and b"),
    ],
)
def test_words_with_other_names(words, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        parsed(*words)


def test_a_file_with_settings_of_others(tmp_path):
    (tmp_path / "act.yaml").write_text("output: x\nlearning_rate: 1\nreader: a\n")
    words = ["--config", str(tmp_path / "act.yaml")]
    assert parse_options((Command,), words, "act", others=True) == (Command(output="x", reader="a"),)
    with pytest.raises(ValueError, match="unknown setting 'learning_rate'"):
        parse_options((Command,), words, "act")
    (tmp_path / "act.yaml").write_text("dtype: float32\n")
    with pytest.raises(ValueError, match="'dtype' is now reader"):
        parse_options((Command,), words, "act", others=True)


def test_a_group_has_no_name_of_a_flat_setting():
    @dataclass
    class Clash(Models):
        judge: str = setting("none", "A language model.")
        more: str = setting("none", "More.", "judge.more")

    with pytest.raises(TypeError, match=r"\['judge'\] are names of groups and of settings without a place"):
        parsed(kind=Clash)


def test_help_has_the_flags_and_lists_the_groups(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    text = shown(capsys, "--help")
    assert re.findall(r"^  (?:-h, )?(--\w+)", text, re.MULTILINE) == [
        "--output", "--reader", "--judge", "--engine", "--help",
    ]  # fmt: skip
    assert text.endswith(
        "\ngroups of settings, for the YAML file or --set (--help GROUP explains them):\n"
        "  reader: name, dtype, day, thinking, note, options, stop, share\n  input: streaming\n"
        "  engine: urls, requests, model\n  judge: name\n"
    )
    assert "[--set group.key=value ...]" in text


def test_help_of_a_group(capsys):
    text = shown(capsys, "--help", "engine")
    assert "engine (YAML: engine: {key: value}; command line: --set engine.key=value):\n  The servers.\n" in text
    assert re.findall(r"^  (\w+)(?:, (--\w+))? \S+ .*", text, re.MULTILINE) == [
        ("urls", "--engine"), ("requests", ""), ("model", ""),
    ]  # fmt: skip
    assert re.search(r"^  requests N +Most requests\. \(default: 64\)$", text, re.MULTILINE)
    assert "--output" not in text
    whole = shown(capsys, "--help", "all", kinds=(Command, TrainingArguments))
    assert {"--adam_beta2", "--output"} <= set(re.findall(r"^  (--\w+)", whole, re.MULTILINE))
    assert re.search(r"^  requests N +Most requests", whole, re.MULTILINE)
    with pytest.raises(
        ValueError, match="--help models: expected nothing or one of reader, input, engine, judge, all"
    ):
        parsed("--help", "models")


@pytest.mark.parametrize(("command", "most"), [("label", 35), ("train retriever", 40), ("train reranker", 40)])
def test_few_flags(command, most, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    with pytest.raises(SystemExit, match=r"^0$"):
        cli.main([*command.split(), "--help"])
    text = capsys.readouterr().out
    ours = text.partition("\nthe trainer:\n")[0]
    assert 15 < len(re.findall(r"^  --\w+", ours, re.MULTILINE)) <= most
    if command == "label":
        assert len(text.splitlines()) <= 110


def test_the_example_of_the_guide(tmp_path):
    """One file of each group's main settings is read as it is meant."""
    from seper_reward.options import LabelOptions

    text = """
    reader: {name: Qwen/Qwen3-4B, dtype: bfloat16, prompt: paper}
    sampling: {num_samples: 10, temperature: 1.0, seed: 0}
    engine: {urls: [http://localhost:8000/v1], requests: 64}
    judge: {name: embedded}
    estimator: {preset: paper}
    labeler: {name: erag, metric: rouge_l}
    sets: conditional
    """
    (tmp_path / "label.yaml").write_text(text)
    (found,) = parse_options((LabelOptions,), ["--config", str(tmp_path / "label.yaml")], "label")
    assert found == LabelOptions(
        reader="Qwen/Qwen3-4B", dtype="bfloat16", prompt="paper", num_samples=10, temperature=1.0, seed=0,
        engine=["http://localhost:8000/v1"], engine_requests=64, entailment="embedded", estimator="paper",
        labeler="erag", erag_metric="rouge_l", sets="conditional",
    )  # fmt: skip
    assert set(yaml.safe_load(text)) <= set(SettingNames((LabelOptions,)).groups)
