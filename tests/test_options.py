"""Options: each has a help text and one default, and the parts of a command's options are taken out unchanged."""

import ast
import subprocess
import sys
from dataclasses import MISSING, fields
from pathlib import Path

import pytest

from seper_reward import options as core_options
from seper_reward.baselines import options as baseline_options
from seper_reward.cli import find_commands
from seper_reward.options import (
    EngineOptions,
    LabelOptions,
    MergeReaderOptions,
    SamplingOptions,
    ScorerOptions,
)

COMMANDS = {name: found.options for name, found in find_commands().items() if found.options}


def test_settings_stay_few():
    assert len(fields(LabelOptions)) <= 40
    assert len({each.name for kind in COMMANDS.values() for each in fields(kind)}) <= 100


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_each_option_of_a_command_has_a_default_and_a_help_text(name):
    for each in fields(COMMANDS[name]):
        assert each.default is not MISSING or each.default_factory is not MISSING, each.name
        text = each.metadata["help"]
        assert text[0].isupper() or text.startswith("dtype") or each.name == "format", text
        assert "%" not in text, text  # argparse formats it


@pytest.mark.parametrize("options", [core_options, baseline_options])
def test_no_option_is_declared_twice_on_one_road(options):
    """A value has one default: a class that inherits an option does not write it again."""
    body = ast.parse(Path(options.__file__).read_text("utf-8")).body
    classes = [node for node in body if isinstance(node, ast.ClassDef)]
    again = set()
    for node in classes:
        inherited = (
            {each.name for base in getattr(options, node.name).__bases__ for each in fields(base)}
            if (node.name != "Options")
            else set()
        )
        own = {each.target.id for each in node.body if isinstance(each, ast.AnnAssign)}
        again |= {f"{node.name}.{name}" for name in own & inherited}
    assert not again


@pytest.mark.parametrize(
    ("kind", "given", "message"),
    [
        (SamplingOptions, {"num_samples": 0}, "num_samples must be at least 1, got 0"),
        (SamplingOptions, {"top_p": 0.0}, r"top_p must be in \(0, 1\], got 0.0"),
        (SamplingOptions, {"temperature": "hot"}, "temperature must be float, got 'hot'"),
        (ScorerOptions, {"dtype": "int8"}, "dtype must be auto, float32, bfloat16, float16, got 'int8'"),
        (ScorerOptions, {"engine": ["localhost"]}, "engine must be URLs such as"),
        (ScorerOptions, {"chat_template_kwargs": "[1]"}, "chat_template_kwargs must be dict"),
        (ScorerOptions, {"chat_template_kwargs": "{a"}, "chat_template_kwargs must be a JSON mapping, got '{a'"),
        (ScorerOptions, {"chat_template": "gone.jinja"}, "chat_template must be a file with a chat template"),
        (EngineOptions, {"engine": ["a@http://a", "http://b"]}, "engine must name one model for all servers"),
        (MergeReaderOptions, {}, "output_dir is required: the folder to create"),
        (ScorerOptions, {"seed": True}, "seed must be int, got True"),
    ],
)
def test_values_out_of_range(kind, given, message):
    with pytest.raises(ValueError, match=message):
        kind(**given)


@pytest.mark.parametrize("words", ["label --help", "evaluate correlation --help", "serve --help", "label --limt 3"])
def test_help_and_errors_do_not_import_torch(words):
    code = (
        "import sys; from seper_reward.cli import main\n"
        f"try: main({words.split()!r})\nexcept SystemExit: pass\nassert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
