"""Options: each has a help text and one default, and the parts of a command's options are taken out unchanged."""

from dataclasses import MISSING, fields, is_dataclass
from inspect import get_annotations

import pytest

from seper_reward import options as core_options
from seper_reward.baselines import options as baseline_options
from seper_reward.baselines.options import CompressionOptions, ERAGEvaluationOptions, ItemOptions
from seper_reward.cli import find_commands
from seper_reward.options import (
    AuditSearchesOptions,
    CounterfactualOptions,
    EngineOptions,
    LabelOptions,
    MergeReaderOptions,
    SamplingOptions,
    ScorerOptions,
    ServeOptions,
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
    again = {
        f"{kind.__name__}.{name}"
        for kind in vars(options).values()
        if is_dataclass(kind) and kind.__module__ == options.__name__
        for base in filter(is_dataclass, kind.__bases__)
        for name in get_annotations(kind).keys() & {each.name for each in fields(base)}
    }
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
        (ScorerOptions, {"chat_template_kwargs": {"date_string": "x"}}, "kwargs must not contain date_string"),
        (ScorerOptions, {"chat_template": "gone.jinja"}, "chat_template must be a file with a chat template"),
        (EngineOptions, {"engine": ["a@http://a", "http://b"]}, "engine must name one model for all servers"),
        (MergeReaderOptions, {}, "output_dir is required: the folder to create"),
        (ScorerOptions, {"seed": True}, "seed must be int, got True"),
        (ScorerOptions, {"prompt": "mine"}, "prompt must be one of paper, brief, few_shot, or a YAML file with"),
        (ScorerOptions, {"prompt": {"passages": "{question}"}}, r"passages of prompt must be a text with \{question"),
        (ScorerOptions, {"prompt": {"wording": "x"}}, "prompt has 'wording', expected some of style, closed_book"),
        (ScorerOptions, {"prompt": {"style": "mine"}}, "style of prompt must be one of paper, brief, few_shot"),
        (ScorerOptions, {"prompt": "{placebo: ' '}"}, "placebo of prompt must be a text, got ' '"),
        (LabelOptions, {"sets": "conditional:depth=4"}, "depth must be 2, 3, got 4"),
        (LabelOptions, {"sets": "all"}, "sets must be one of none, conditional, got 'all'"),
        (LabelOptions, {"top_k": 0}, "top_k must be at least 1"),
        (LabelOptions, {"batch_size": 0}, "batch_size must be at least 1"),
        (LabelOptions, {"max_passage_tokens": 0}, "max_passage_tokens must be at least 1"),
        (ServeOptions, {"port": 0}, r"port must be in \[1, 65535\], got 0"),
        (ServeOptions, {"deadline": 0}, "deadline must be above 0, got 0"),
        (ServeOptions, {"price": -1}, "price must be at least 0"),
        (CounterfactualOptions, {}, "file is required"),
        (CompressionOptions, {"file": "x", "candidates": 2}, "candidates must be at least the greatest of depths"),
        (ERAGEvaluationOptions, {"file": "x", "depths": [0]}, "depths must be whole numbers of at least 1, got"),
        (ItemOptions, {"file": "x", "relevant_from": 0}, "relevant_from must be at least 1, got 0"),
        (AuditSearchesOptions, {}, "input is required: seper-reward audit-searches rollouts.jsonl"),
        (AuditSearchesOptions, {"input": "x", "plot": "page.html"}, "plot must be svg, png or pdf, got 'page.html'"),
    ],
)
def test_values_out_of_range(kind, given, message):
    with pytest.raises(ValueError, match=message):
        kind(**given)


@pytest.mark.parametrize(
    ("engine", "on_servers"), [([], False), (["vllm"], False), (["http://a/v1"], True), (["m@http://a/v1"], True)]
)
def test_on_servers_are_readers_with_urls(engine, on_servers):
    assert EngineOptions(engine=engine).on_servers == on_servers
