"""The page of `seper-reward report`: whole, escaped, and opened in a browser where there is one."""

import html
import json
import os
import re
import shutil
import subprocess
from collections import Counter

import pytest

from seper_reward import cli
from seper_reward.labels.labelers import GoldLabeler
from seper_reward.labels.run import LabelRun
from seper_reward.reports.html import Axis, write_page
from seper_reward.runtime.json_files import read_lines
from seper_reward.types import Passage, Query
from tests.helpers import write_rows

ATTACK = "<script>document.title = 'owned'</script><img src=x onerror=\"document.title = 'owned'\">"
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "chrome")


def context(seper, *responses):
    names = ("text", "weight", "cluster", "support")
    return {"seper": seper, "responses": [dict(zip(names, each, strict=True), count=1) for each in responses]}


def passage(place, label, role, text="A plain text."):
    # labels of exports by place: 1.25, .5 and -.75, with grades 3, 1 and -1
    belief, gain = ((0.9, 0.7), (0.5, 0.0), (-0.75, 0.0))[place]
    return {
        "passage_id": f"p{place}", "title": "Atlas", "text": text, "metadata": {"role": role, "relevant": place == 0},
        "delta_seper": label, "std_error": 0.05, "low": max(label - 0.1, -1.0), "high": min(label + 0.1, 1.0),
        "delta_belief": belief, "question_gain": gain, "seper_gain": belief + gain / 2, "std_error_gain": 0.1,
        **context(0.5 + label, ("Ida", 0.75, 0, 0.9), ("Mrs Ida", 0.125, 0, 0.7), ("Bob", 0.125, 1, 0.1)),
    }  # fmt: skip


@pytest.fixture
def labels(tmp_path):
    """A label folder of four questions, with markup wherever data could bring it."""
    folder = tmp_path / "labels"
    folder.mkdir()
    rows = [
        {
            "id": f"q{number}",
            "question": f"Who runs mill {number}? {ATTACK}",
            "answers": [f"Ida {ATTACK}"],
            "metadata": {"group": f"fiction {ATTACK}"},
            "baseline": {"std_error": 0.02, **context(0.5, (f"Bob {ATTACK}", 1.0, 0, 0.0))},
            "passages": [
                passage(0, 0.4, f"supporting {ATTACK}", f"Ida runs it. {ATTACK} " + 60 * "And so on. "),
                passage(1, 0.01 * number, "unrelated"),
                passage(2, -0.3, "misleading", ATTACK),
            ],
        }
        for number in range(4)
    ]
    write_rows(folder / "labels.jsonl", rows)
    provenance = {"labels_hash": "abc123", "decides": {"reader": ATTACK, "sampling": {"num_samples": 3}}}
    (folder / "provenance.json").write_text(json.dumps(provenance))
    return folder


@pytest.fixture
def page(labels, tmp_path):
    """The page, by the command."""
    path = tmp_path / "out" / "report.html"
    assert cli.main(["report", "--labels", str(labels), "--output", str(path)]) == 0
    return path


def browse(path, script=""):
    """Return what a headless Chromium makes of a page, as HTML, after a script of ours ran in it."""
    found = os.environ.get("SEPER_CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip("no Chromium here; apt-get install chromium-headless-shell, or name one in $SEPER_CHROMIUM")
    if script:
        text = re.sub("<meta http-equiv=[^>]*>", "", path.read_text(encoding="utf-8"))  # it forbids other scripts
        text = text.replace("</body>", f"<script>{script}</script></body>")
        path = path.with_name("scripted.html")
        path.write_text(text, encoding="utf-8")
    words = ["--headless", "--no-sandbox", "--disable-gpu", "--window-size=1200,900", "--dump-dom", path.as_uri()]
    return subprocess.run([found, *words], capture_output=True, text=True, timeout=60, check=True).stdout


def said(dom):
    """Return what a script wrote into ``data-said`` of the body."""
    return json.loads(html.unescape(re.search('data-said="([^"]*)"', dom)[1]))


SAY = "top.document.body.dataset.said = JSON.stringify({})"


def written(labels):
    """Return the page of a folder as text."""
    write_page(labels.parent / "page.html", labels)
    return (labels.parent / "page.html").read_text(encoding="utf-8")


def test_page_of_sets_shows_the_label_of_the_sets(labels):
    error = {"std_error": 0.05, "low": 0.0, "high": 0.2}
    ends = {f"{name}{suffix}": value for name, value in error.items() for suffix in ("", "_utility", "_interaction")}
    measured = {"seper_gain": 0.1, "utility": 0.5, "interaction": 0.0, "given_std_error": 0.05, **ends}
    label = {"given": ["p1"], "passage_id": "p0", "shown": ["p1", "p0"], **measured}
    rows = [row | {"sets": [label], "reader_calls": 7} for row in read_lines(labels / "labels.jsonl")]
    write_rows(labels / "labels.jsonl", rows)
    text = written(labels)
    assert "4 labels next to given passages, 28 contexts measured" in text


def test_page_has_everything_escaped_and_loads_nothing(page):
    text = page.read_text(encoding="utf-8")
    for part in ("distribution", "exports", "groups", "baseline", "passages", "list", "reliability", "provenance"):
        assert f'id="{part}"' in text
    assert text.count("<circle") == 12 + 3 + 12  # passages, means by role, passages by role
    for part in ("abc123", "Most helpful", "0.88 Ida", "the whole passage"):  # two responses of one cluster
        assert part in text
    assert text.count("question gain +0.70") == 4
    assert "Placebo" not in text
    assert "default-src 'none'" in text
    assert not re.search(r"https?://|url\(|@import|<link|<iframe|<img", text)
    assert text.count("<script") == 1
    assert html.escape("<script>") in text
    dom = browse(page)
    assert "<title>ΔSePer in " in dom
    assert "owned</title>" not in dom


def test_page_shows_the_labels_of_exports(labels, tmp_path):
    text = " ".join(re.sub("<[^>]*>", " ", written(labels)).split())
    assert "export and the trainers use seper gain , not ΔSePer" in text
    qrels, pairs = tmp_path / "qrels", tmp_path / "pairs.jsonl"
    for layout, path in (("trec", qrels), ("sentence-transformers-pairs", pairs)):
        assert cli.main(["export", "--labels", str(labels), "--format", layout, "--output", str(path)]) == 0
    grades = Counter(line.split()[3] for line in qrels.read_text().splitlines())
    for grade, number in grades.items():  # the page has the numbers of the file
        assert f"{grade.replace('-', '−')} {number} {4 if grade == '3' else 0} of {number}" in text
    assert f"passages are positives, of 4 of 4 questions {len(pairs.read_text().splitlines())} " in text


LISTED = "[...document.querySelectorAll('#list li')].map(r => r.querySelector('b').textContent)"
CHOICES = {
    "": ["+1.25", "+0.50", "−0.75"] * 4,
    "order.value = 'exported'": ["+1.25"] * 4 + ["+0.50"] * 4 + ["−0.75"] * 4,
    "effect.value = 'harmful'": ["−0.75"] * 4,
    "grade.value = '3'": ["+1.25"] * 4,
    "search.value = 'MILL 2?'": ["+1.25", "+0.50", "−0.75"],
    "search.value = 'no such word'": [],
}


def test_page_searches_sorts_and_filters_all_passages(page):
    controls = "document.querySelector('#list .controls')"
    script = "const said = [], all = [...document.querySelectorAll('#list input, #list select')];"
    script += "const [search, order, effect, grade] = all, before = all.map(e => e.value);"
    for choice in CHOICES:
        script += f"all.forEach((e, at) => e.value = before[at]); {choice};"
        script += f"{controls}.dispatchEvent(new Event('input')); said.push({LISTED});"
    assert said(browse(page, script + SAY.format("said"))) == list(CHOICES.values())


def test_page_shows_long_lists_in_parts_and_labels_without_beliefs(tmp_path):
    passages = tuple(Passage(f"Text {number}.", id=str(number)) for number in range(70))
    query = Query("q", "Who?", ("Ann",), (*passages[:69], Passage("Ann.", id="69", metadata={"relevant": True})))
    LabelRun(tmp_path / "gold", GoldLabeler(), [query]).run()
    text = written(tmp_path / "gold")
    assert "<h1>gold in " in text
    assert 'id="baseline"' not in text
    assert "returns no standard errors" in text
    assert text.count("<circle") == 2  # means by role, and no intervals
    count, more = f"{LISTED}.length", "document.querySelector('#list .more')"
    script = f"const before = {count}; {more}.click();" + SAY.format(f"[before, {count}, {more}.hidden]")
    assert said(browse(tmp_path / "page.html", script)) == [50, 70, True]


@pytest.mark.parametrize("command", ["report", "export"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"delta_seper": float("nan")}, r"line 3.*passage id='p1': expected a finite number in delta_seper, got nan"),
        ({"delta_seper": "1.0"}, r"passage id='p1': expected a finite number in delta_seper, got '1.0' \(str\)"),
        ({"delta_seper": True}, r"passage id='p1': expected a finite number in delta_seper, got True"),
        ({"low": "x"}, r"passage id='p1': expected a finite number in low, got 'x'"),
        ({"passage_id": "p0"}, r"expected different passage ids, got \['p0', 'p0', 'p2'\]"),
        (None, "line 5: expected an id that no other row has, got 'q2'"),
    ],
)
def test_commands_refuse_edited_rows(labels, tmp_path, capsys, change, message, command):
    rows = list(read_lines(labels / "labels.jsonl"))
    if change is None:  # a row that is there twice
        rows.append(rows[2])
    else:
        rows[2]["passages"][1] |= change
    write_rows(labels / "labels.jsonl", rows)
    words = ["--labels", str(labels), "--output", str(tmp_path / "out.html")]
    words += ["--label", "delta_seper"] if command == "export" else []
    assert cli.main([command, *words]) == 2
    shown = capsys.readouterr().err
    assert re.search(rf"labels\.jsonl, .*{message}", shown)
    assert "Traceback" not in shown


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--labels", "absent", "--output", "x.html"], "absent/labels.jsonl: no such file"),
        (["--output", "x.html", "--question", "q1"], "question needs a plot"),
    ],
)
def test_report_command_refuses(words, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["report", *words]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [(-1.0, 1.0, [-1, -0.5, 0, 0.5, 1]), (0.0, 1.0, [0, 0.2, 0.4, 0.6, 0.8, 1]), (-3.0, 7.0, [-2, 0, 2, 4, 6])],
)
def test_axis_has_round_numbers(low, high, ticks):
    axis = Axis(low, high)
    assert axis.ticks == ticks
    assert (axis.at(low), axis.at(high), axis.at((low + high) / 2)) == (0, 100, 50)
    assert Axis.around([0.12, 0.33]) == Axis(0.0, pytest.approx(0.4))
    assert Axis.around([-2.7, -0.1]) == Axis(-3.0, 0.0)
    assert Axis.around([0.0, 0.0]) == Axis(-1.0, 1.0)
