"""The documentation is true: snippets and notebook run, commands, settings, files and links exist, the pages build."""

import ast
import importlib
import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import pytest

from seper_reward import cli
from seper_reward.shipped import RECIPES

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.glob("*.md"))]
FENCE = re.compile(r"^(?P<before>.*)\n```(?P<language>\w*)\n(?P<code>(?:.*\n)*?)```$", re.MULTILINE)
SPAN = re.compile(r"`([^`]+)`")
OUTPUT = re.compile(r"```\n\n(?:```text\n((?:.*\n)*?)```|((?:    .*\n)+))")  # printed by the snippet in front of it
NUMBER = r"([-+]?\d+\.\d+)"
NOT_RUN = re.compile(r"<!-- not run: \S.* -->")
COMMANDS = [
    *("label", "audit-searches", "doctor", "export", "init", "merge-reader", "report", "serve"),
    *(f"evaluate {name}" for name in ("counterfactual", "credit", "judge", "labels", "retrievers")),
    *(f"baseline {name}" for name in ("compression", "correlation", "eor", "erag", "item", "workflows")),
    *(f"train {recipe}" for recipe in RECIPES),
]
FOREIGN_FLAGS = {"--no-enable-chunked-prefill", "--logprobs-mode", "--enable-lora", "--no-deps"}  # of vLLM and pip


class Block(NamedTuple):
    """A fenced block, the line its code begins in, and the line before its fence."""

    language: str
    code: str
    line: int
    before: str


def name_of(page):
    return str(page.relative_to(ROOT))


def blocks(page) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    for found in FENCE.finditer(text):
        line = text[: found.start("code")].count("\n") + 1
        yield Block(found["language"], found["code"], line, found["before"])


def snippets(page) -> list[Block]:
    """Return the Python blocks of a page that are to be run."""
    return [each for each in blocks(page) if each.language == "python" and not NOT_RUN.fullmatch(each.before)]


def code_of(page) -> list[str]:
    """Return all that a page shows as something to type: lines of blocks that are not Python, and spans."""
    text = page.read_text(encoding="utf-8")
    lines = [line for block in blocks(page) if block.language != "python" for line in block.code.splitlines()]
    prose = FENCE.sub(r"\g<before>", text)
    lines += [line for line in prose.splitlines() if line.startswith("    ")]
    # a span may go on in the next line; what is indented is a block
    kept = "\n".join("" if line.startswith("    ") else line for line in prose.splitlines())
    return lines + [" ".join(span.split()) for span in SPAN.findall(kept)]


def invocations(line) -> Iterator[tuple[str, list[str]]]:
    """Yield what a line runs of ours, ``label`` or ``trainers.policy``, and the words behind it."""
    words = line.split(" # ")[0].replace("&&", " ; ").split()
    for at, word in enumerate(words):
        behind = [*words[at + 1 :], ";"]
        behind = behind[: behind.index(";")]
        if word == "seper-reward" or (word == "seper_reward" and words[at - 1] == "-m"):
            command = [part for part in behind[:2] if re.fullmatch(r"[a-z-]+", part) and not part.startswith("-")]
            if command:
                yield " ".join(command if command[0] in ("evaluate", "baseline", "train") else command[:1]), behind
        elif words[at - 1] == "-m" and word.startswith(("trainers.", "tests.")):
            yield word, behind


@cache
def flags(program) -> set[str]:
    """Return the flags that the help of a command, recipe or benchmark names.

    Those of other libraries are among them.
    """
    if program == "doctor":
        return set()  # it has no settings
    if program.startswith("train "):
        return flags(program.replace("train ", "trainers."))  # with those of TRL or transformers
    shown, argv = io.StringIO(), sys.argv
    sys.argv = [program, "--help"]
    try:
        main = partial(cli.main, [*program.split(), "--help"])
        with redirect_stdout(shown), pytest.raises(SystemExit, match=r"^0$"):
            main() if program in COMMANDS else importlib.import_module(program).main()
    finally:
        sys.argv = argv
    return set(re.findall(r"--[a-z]\w*", shown.getvalue()))


def named_settings(words) -> set[str]:
    """Return the flags among the words of a command line."""
    return {word.partition("=")[0] for word in words if word.startswith("--")} - {"--config", "--help"}


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=[] if page.stem == "README" else pytest.mark.slow) for page in PAGES if snippets(page)],
    ids=name_of,
)
def test_snippets_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # what a snippet writes
    namespace, text = {"__name__": "__main__"}, page.read_text(encoding="utf-8")
    for block in snippets(page):
        code = "\n" * (block.line - 1) + block.code  # errors then name the page's line
        with redirect_stdout(io.StringIO()) as printed:
            exec(compile(code, page, "exec"), namespace)
        if shown := OUTPUT.match(text.partition(block.code)[2]):
            wanted, found = (re.split(NUMBER, each) for each in (shown[1] or shown[2], printed.getvalue()))
            assert [each.split() for each in found[::2]] == [each.split() for each in wanted[::2]]
            # processors differ in the last digit
            assert list(map(float, found[1::2])) == pytest.approx(list(map(float, wanted[1::2])), abs=0.011)


def test_blocks_that_are_not_run_are_few():
    marked = [block for page in PAGES for block in blocks(page) if NOT_RUN.fullmatch(block.before)]
    assert len(marked) <= 3
    for block in marked:
        ast.parse(block.code)


def test_the_commands_are_all_there_are(capsys):
    cli.main(["--help"])
    shown = re.findall(r"^  ([a-z-]+(?: [a-z-]+)?)  ", capsys.readouterr().out, re.MULTILINE)
    assert shown == COMMANDS


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_and_their_settings_exist(page):
    for line in code_of(page):
        for program, behind in invocations(line):
            known = program in COMMANDS or (ROOT / f"{program.replace('.', '/')}.py").is_file()
            assert known, f"{name_of(page)}: no command {program!r} in {line!r}"
            named = named_settings(behind)
            assert named <= flags(program), f"{name_of(page)}: {sorted(named - flags(program))} in {line!r}"


def test_settings_in_prose_exist_somewhere():
    folders = {"trainers": ROOT / "trainers", "tests.benchmarks.experiments": ROOT / "tests/benchmarks/experiments"}
    recipes = [
        f"{package}.{path.stem}"
        for package, folder in folders.items()
        for path in folder.glob("*.py")
        if re.search(r"^def main", path.read_text(), re.MULTILINE)
    ]
    known = set().union(*map(flags, [*COMMANDS, *recipes]), FOREIGN_FLAGS)
    for page in PAGES:
        for line in code_of(page):
            if line.startswith("--"):
                assert named_settings(line.split()) <= known | {"--help", "--config"}, f"{name_of(page)}: {line}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_files_and_targets_that_are_named_exist(page):
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    text = page.read_text(encoding="utf-8")
    for config in re.findall(r"(?:[\w.-]+/)*\bconfigs/[\w/.-]+\.yaml", text):
        assert (ROOT / config).is_file(), f"{name_of(page)}: {config}"
    for line in code_of(page):
        if found := re.match(r"make ([a-z-]+)", line.strip()):
            assert found[1] in targets, f"{name_of(page)}: {line}"
        for path in re.findall(r"(?<![\w./-])[\w-]+(?:/[\w-]+)*/[\w-]+\.(?:py|md|svg)\b", line):
            folders = (ROOT, ROOT / "seper_reward", DOCS)
            assert path.startswith("runs/") or any((folder / path).is_file() for folder in folders), path


@pytest.mark.parametrize("page", PAGES[:2], ids=name_of)
def test_links_lead_somewhere(page):
    for link in re.findall(r"\]\(([^)]+)\)", FENCE.sub("", page.read_text(encoding="utf-8"))):
        path = link.partition("#")[0]
        assert link.startswith(("https://", "#")) or (ROOT / path).is_file(), f"{name_of(page)}: {link}"


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 130


def test_the_readmes_numbers_are_those_of_the_results():
    number = re.compile(r"[-+]?\d*\.\d+")
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    summary = text.partition("Which passages are relevant?")[2].partition("- **Speed**")[0]
    summary += text.partition("## Results")[2].partition("## Citation")[0]
    shown = number.findall(summary)
    assert len(shown) > 30
    assert set(shown) <= set(number.findall((DOCS / "results.md").read_text(encoding="utf-8")))


def test_papers_are_those_in_the_code():
    arxiv = re.compile(r"arXiv:(\d{4}\.\d{5})")
    sources = [
        path for folder in ("seper_reward", "trainers", "tests/benchmarks") for path in (ROOT / folder).rglob("*.py")
    ]
    cited = {paper for path in sources for paper in arxiv.findall(path.read_text(encoding="utf-8"))}
    assert set(arxiv.findall((DOCS / "papers.md").read_text(encoding="utf-8"))) == cited


def test_messages_on_the_page_of_errors_are_in_the_code():
    page = (DOCS / "troubleshooting.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`.+?) \|", page.partition("## Messages")[2], re.MULTILINE)
    code = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "seper_reward").rglob("*.py"))
    code = re.sub(r'"\s*\n\s*f?"', "", code)  # literals over several lines
    messages = re.findall("`(.+?)`", " ".join(rows))
    assert len(messages) > 15
    assert [message for message in messages if message not in code] == []


@pytest.mark.slow
def test_the_pages_build_and_fetch_nothing(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert not done.returncode, done.stderr
    pages = list(tmp_path.glob("*.html"))
    assert len(pages) == len(list(DOCS.glob("*.md"))) + len(list(DOCS.glob("*.ipynb"))) + 1  # and the one for errors
    for page in pages:
        html = page.read_text(encoding="utf-8")
        assert not re.search(r"<(?:script|link|img|iframe)\b[^>]*(?:src|href)=\"?(?:https?:)?//", html), page


def run_notebook(name, folder, **smaller):
    """Return the code cells of a notebook after they were run in a folder, some settings with smaller numbers."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(DOCS / f"{name}.ipynb", as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for setting, number in smaller.items():
        places = [cell for cell in cells if re.search(rf"\b{setting}(?:: | )\d", cell.source)]
        assert places, setting
        for cell in places:
            cell.source = re.sub(rf"\b({setting}(?:: | ))\d+", rf"\g<1>{number}", cell.source)
    assert not any(cell.outputs or cell.execution_count for cell in cells)  # committed without outputs
    NotebookClient(notebook, timeout=3600, kernel_name="python3", resources={"metadata": {"path": folder}}).execute()
    return cells


@pytest.mark.slow
def test_the_notebook_runs_top_to_bottom(tmp_path):
    cells = run_notebook("quickstart", tmp_path)
    assert "image/svg+xml" in str(cells[-2].outputs)
    (rewards,) = cells[-1].outputs
    found, useless, stayed = ast.literal_eval(rewards["data"]["text/plain"])
    assert found > stayed == 0.0 > useless


@pytest.fixture
def commands_on_path(monkeypatch):
    """Let `!seper-reward` in a notebook be this checkout's."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.mark.slow
def test_the_notebook_on_labelling(tmp_path, commands_on_path):
    cells = run_notebook("label_your_data", tmp_path)
    labels = "".join(each["text"] for each in cells[2].outputs)
    gains = {text: float(gain) for gain, text in re.findall(r"^  ([+-][\d.]+) ± [\d.]+  (.+)$", labels, re.MULTILINE)}
    assert len(gains) == 6
    assert min(gain for text, gain in gains.items() if text[:8] in ("Ida Voss", "Tom Aske")) > 0.5
    assert gains["The mill in Hallow was painted green in spring."] < 0.3
    assert "image/svg+xml" in str(cells[4].outputs)
    assert set(ast.literal_eval(cells[6].outputs[-1]["data"]["text/plain"])) == {"query", "docs", "labels"}


@pytest.mark.slow
def test_the_notebook_on_a_retriever(tmp_path, commands_on_path):
    cells = run_notebook("train_retriever", tmp_path, limit=16)
    changes = re.findall(r"^(\S+) +([\d.]+) → ([\d.]+)$", cells[2].outputs[0]["text"], re.MULTILINE)
    assert {"ndcg@10", "seper@1", "seper@1_plain"} <= {name for name, *_ in changes}
    # a progress bar's last line, on stderr, may come after it
    ranking = "".join(output["text"] for output in cells[3].outputs if output.get("name") == "stdout")
    assert ranking.splitlines()[0].endswith("Ida Voss runs the mill in Hallow.")


@pytest.mark.slow
def test_the_notebook_on_a_policy(tmp_path, commands_on_path):
    cells = run_notebook("reward_policy", tmp_path, limit_each=10, max_steps=1)
    found, useless, stayed = ast.literal_eval(cells[0].outputs[-1]["data"]["text/plain"])
    assert found > stayed == 0.0 > useless
    table = cells[4].outputs[0]["text"]
    assert all(f"| {name}" in table for name in ("before", "after", "never_search", "always_search"))
