"""Imports are light: a statement loads only the modules that it needs. `-s` prints how many, and the time."""

import json
import re
import sys
import tomllib
from pathlib import Path

import pytest

from seper_reward.shipped import RECIPES
from tests.helpers import run

ROOT = Path(__file__).parents[1]
MEASURE = """
import json, sys, time
before, start = set(sys.modules), time.perf_counter()
exec(sys.argv[1])
seconds = time.perf_counter() - start
print(json.dumps([seconds, sorted(set(sys.modules) - before)]))
"""
MODELS = {"torch", "transformers", "accelerate", "sentence_transformers", "peft", "trl"}
BM25 = "from seper_reward.retrieval import BM25Retriever"
SEARCH = f"""{BM25}
from seper_reward import Passage
found = BM25Retriever({{"p1": Passage("The ferry sank."), "p2": Passage("Ida runs the mill.")}}).retrieve(["mill"], 1)
assert found == [(Passage("Ida runs the mill."),)]
"""
RETRIEVAL = {"", ".retrieval", ".retrieval.base", ".runtime", ".runtime.imports", ".types"}
RETRIEVAL = {f"seper_reward{each}" for each in RETRIEVAL}
BM25_MODULES = RETRIEVAL | {"seper_reward.retrieval.bm25"}


def loaded(statement):
    """Return the modules that a statement loads in a new process, without those of the standard library."""
    done = run([statement], ("-c", MEASURE))
    assert not done.returncode, done.stderr
    seconds, modules = json.loads(done.stdout.splitlines()[-1])
    print(f"{statement.splitlines()[0]}: {len(modules)} modules in {seconds:.2f} s")
    return {name for name in modules if name.partition(".")[0] not in sys.stdlib_module_names}


def packages(modules):
    return {name.partition(".")[0] for name in modules}


@pytest.mark.parametrize(
    ("statement", "most"),
    [
        ("import seper_reward", {"seper_reward"}),
        (BM25, BM25_MODULES),
        ("from seper_reward.retrieval import next_query", RETRIEVAL | {"seper_reward.retrieval.hops"}),
    ],
)
def test_nothing_else_is_loaded(statement, most):
    assert loaded(statement) == most


@pytest.mark.parametrize("word", ["--version", "--help"])
def test_version_and_help_load_no_library(word):
    assert packages(loaded(f"from seper_reward.cli import main; main([{word!r}])")) == {"seper_reward"}


def test_a_search_by_words_needs_no_torch():
    modules = loaded(SEARCH)
    assert not packages(modules) & MODELS
    ours = {name for name in modules if name.startswith("seper_reward")}
    assert ours == BM25_MODULES


def test_a_search_service_needs_no_torch():
    assert not packages(loaded("from seper_reward.retrieval import SearchService")) & MODELS


def test_retrievers_load_neither_reader_nor_judge():
    modules = loaded("from seper_reward.retrieval import *")  # raises if a name is not found
    folders = {name.split(".")[1] for name in modules if name.startswith("seper_reward.")}
    assert folders == {"types", "options", "runtime", "data", "retrieval"}
    assert not {name for name in modules if name.startswith("transformers.models.")}


def test_formulas_load_no_model_code():
    modules = loaded("from seper_reward.estimators import response_weights, seper_soft, seper_hard")
    assert packages(modules) & MODELS == {"torch"}
    ours = {name for name in modules if name.startswith("seper_reward")}
    own = ("estimators", "estimators.clustering", "estimators.seper", "options")
    assert ours == {"seper_reward", *(f"seper_reward.{each}" for each in own)}


def test_help_and_errors_of_recipes_need_no_torch():
    wrong = {**dict.fromkeys(RECIPES, "lora_r"), "retriever": "top_k", "reranker": "top_k"}
    modules = loaded(
        f"""import contextlib
from seper_reward import cli
for recipe, wrong in {wrong!r}.items():
    assert cli.main(["train", recipe, f"--{{wrong}}", "many"]) == 2
    with contextlib.redirect_stdout(sys.stderr), contextlib.suppress(SystemExit):
        cli.main(["train", recipe, "--help"])"""
    )
    assert packages(modules) & MODELS == {"trl"}  # its parser


def test_errors_name_extras_that_exist():
    code = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "seper_reward").rglob("*.py"))
    named = re.findall(r'\bneed\([\w."]+, "(\w+)"\)', code)
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert len(named) > 15
    assert set(named) <= set(declared)
