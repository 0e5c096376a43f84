"""The page of `seper-reward report`: whole, escaped, and opened in a browser where there is one."""

import html
import json
import os
import re
import shutil
import subprocess

import pytest

from seper_reward import cli
from seper_reward.labels.labelers import GoldLabeler
from seper_reward.labels.run import LabelRun
from seper_reward.reports.html import Axis, write_page
from seper_reward.types import Passage, Query

ATTACK = "<script>document.title = 'owned'</script><img src=x onerror=\"document.title = 'owned'\">"
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "chrome")


def context(seper, *responses):
    names = ("text", "weight", "cluster", "support")
    return {"seper": seper, "responses": [dict(zip(names, each, strict=True), count=1) for each in responses]}


def passage(place, label, role, text="A plain text."):
    return {
        "passage_id": f"p{place}",
        "title": "Atlas",
        "text": text,
        "metadata": {"role": role},
        "question_gain": 1.25,
        "delta_seper": label,
        "std_error": 0.05,
        "low": max(label - 0.1, -1.0),
        "high": min(label + 0.1, 1.0),
        **context(0.5 + label, ("Ida", 0.75, 0, 0.9), ("Mrs Ida", 0.125, 0, 0.7), ("Bob", 0.125, 1, 0.1)),
    }


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
    (folder / "labels.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    provenance = {"labels_hash": "abc123", "decides": {"reader": ATTACK, "sampling": {"num_samples": 3}}}
    (folder / "provenance.json").write_text(json.dumps(provenance))
    return folder


@pytest.fixture
def page(labels, tmp_path):
    """The page, by the command."""
    path = tmp_path / "out" / "report.html"
    assert cli.main(["report", "--labels", str(labels), "--output", str(path)]) == 0
    return path


def browse(path, script="", width=1200, scheme="light"):
    """Return what a headless Chromium makes of a page, as HTML, after a script of ours ran in it."""
    found = os.environ.get("SEPER_CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip("no Chromium here; apt-get install chromium-headless-shell, or name one in $SEPER_CHROMIUM")
    if script:
        text = re.sub("<meta http-equiv=[^>]*>", "", path.read_text(encoding="utf-8"))  # it forbids other scripts
        text = text.replace("</body>", f"<script>{script}</script></body>")
        if width < 500:  # the least width of a window
            text = f'<iframe width="{width}" height="900" style="border: 0" srcdoc="{html.escape(text)}"></iframe>'
        path = path.with_name("scripted.html")
        path.write_text(f"<body>{text}</body>" if width < 500 else text, encoding="utf-8")
    words = ["--headless", "--no-sandbox", "--disable-gpu", f"--window-size={width},900", "--dump-dom"]
    words += [f"--blink-settings=preferredColorScheme={['dark', 'light'].index(scheme)}", path.as_uri()]
    return subprocess.run([found, *words], capture_output=True, text=True, timeout=60, check=True).stdout


def said(dom):
    """Return what a script wrote into ``data-said`` of the body."""
    return json.loads(html.unescape(re.search('data-said="([^"]*)"', dom)[1]))


SAY = "top.document.body.dataset.said = JSON.stringify({})"


def test_the_page_of_labels_of_sets_shows_the_label_of_the_sets(labels, tmp_path):
    error = {"std_error": 0.05, "low": 0.0, "high": 0.2}
    ends = {f"{name}{suffix}": value for name, value in error.items() for suffix in ("", "_utility", "_interaction")}
    measured = {"seper_gain": 0.1, "utility": 0.5, "interaction": 0.0, "given_std_error": 0.05, **ends}
    rows = [json.loads(line) for line in (labels / "labels.jsonl").read_text().splitlines()]
    for row in rows:
        row |= {"sets": [{"given": ["p1"], "passage_id": "p0", "shown": ["p1", "p0"], **measured}], "reader_calls": 7}
        for each in row["passages"]:
            each |= {"seper_gain": each["delta_seper"] / 2, "delta_belief": 0.1, "question_gain": 0.2}
            each |= {f"{name}_gain": value for name, value in error.items()}
    (labels / "labels.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    write_page(tmp_path / "page.html", labels)
    page = (tmp_path / "page.html").read_text()
    assert "seper gain" in page
    assert "4 labels" in page
    assert "28 contexts" in page


def test_the_page_holds_everything(page):
    text = page.read_text(encoding="utf-8")
    for part in ("distribution", "exports", "groups", "baseline", "passages", "list", "reliability", "provenance"):
        assert f'id="{part}"' in text
    assert text.count("<circle") == 12 + 3 + 12  # passages, means by role, passages by role
    assert "abc123" in text
    assert "Most helpful" in text
    assert "0.88 Ida" in text  # two responses of one cluster
    assert "the whole passage" in text


def test_the_page_has_question_gains_and_the_noise_of_the_placebo(labels, tmp_path):
    write_page(tmp_path / "page.html", labels)
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert text.count("question gain +1.25") == 8  # four helpful and four harmful examples
    assert "Placebo" not in text
    rows = [{"passages": [{"delta_seper": label}]} for label in (0.1, -0.1, 0.0)]
    (labels / "placebo.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    write_page(tmp_path / "page.html", labels)
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Placebo, a passage that answers nothing: ΔSePer +0.000" in text
    assert "Labels of that passage vary by 0.100 (standard deviation) over questions" in text


def test_the_page_loads_nothing(page):
    text = page.read_text(encoding="utf-8")
    assert "default-src 'none'" in text
    assert not re.search(r"https?://|url\(|@import|<link|<iframe", text)


def test_what_the_data_says_is_text(page):
    text = page.read_text(encoding="utf-8")
    assert text.count("<script") == 1
    assert "<img" not in text
    assert html.escape("<script>") in text


def test_a_browser_runs_none_of_the_data(page):
    dom = browse(page)
    assert "<title>ΔSePer in " in dom
    assert "owned</title>" not in dom


def test_a_browser_sorts_tables(page):
    script = (
        "const table = document.querySelector('#groups table');"
        "const names = () => [...table.tBodies[0].rows].map(r => r.cells[1].textContent.split(' ')[0]);"
        "const head = [...table.tHead.rows[0].cells].find(c => c.textContent == 'HEAD').querySelector('button');"
        "head.click(); const up = names(); head.click();" + SAY.format("[up, names()]")
    )
    # by value, not by letters
    assert said(browse(page, script.replace("HEAD", "mean"))) == [
        ["misleading", "unrelated", "supporting"],
        ["supporting", "unrelated", "misleading"],
    ]
    assert said(browse(page, script.replace("HEAD", "passages"))) == [
        ["misleading", "supporting", "unrelated"],
        ["unrelated", "supporting", "misleading"],
    ]


def with_gains(folder):
    """Give the rows `seper_gain`, which exports then use: by place 1.25, 0.5 and -0.75, with grades 3, 1 and -1."""
    measured = ((0.9, 0.7), (0.5, 0.0), (-0.75, 0.0))  # evidence .9, .35 and -.53
    rows = [json.loads(line) for line in (folder / "labels.jsonl").read_text().splitlines()]
    for row in rows:
        for each, (belief, question_gain) in zip(row["passages"], measured, strict=True):
            gain = belief + question_gain / 2
            each |= {"delta_belief": belief, "question_gain": question_gain}
            each |= {"seper_gain": gain, "std_error_gain": 0.1, "low_gain": gain - 0.2, "high_gain": gain + 0.2}
            each["metadata"]["relevant"] = gain == 1.25
    (folder / "labels.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return rows


def test_the_page_shows_the_labels_of_exports(labels, tmp_path):
    with_gains(labels)
    path = tmp_path / "page.html"
    write_page(path, labels)
    text = " ".join(re.sub("<[^>]*>", " ", path.read_text(encoding="utf-8")).split())
    assert "export and the trainers use seper gain , not ΔSePer" in text
    exported = tmp_path / "qrels"
    assert cli.main(["export", "--labels", str(labels), "--format", "trec", "--output", str(exported)]) == 0
    grades = [line.split()[3] for line in exported.read_text().splitlines()]
    for grade in set(grades):  # the page has the numbers of the file
        number = grades.count(grade)
        assert f"{grade.replace('-', '−')} {number} {4 if grade == '3' else 0} of {number}" in text
    pairs = tmp_path / "pairs.jsonl"
    words = ["--format", "sentence-transformers-pairs", "--output", str(pairs)]
    assert cli.main(["export", "--labels", str(labels), *words]) == 0
    assert f"passages are positives, of 4 of 4 questions {len(pairs.read_text().splitlines())} " in text


LISTED = "[...document.querySelectorAll('#list li')].map(r => r.querySelector('b').textContent)"
CHOOSE = "const [search, order, effect, grade] = document.querySelectorAll('#list input, #list select');"
INPUT = "document.querySelector('#list .controls').dispatchEvent(new Event('input'));"


@pytest.mark.parametrize(
    ("choice", "listed"),
    [
        ("", ["+1.25", "+0.50", "−0.75"] * 4),
        ("order.value = 'exported';", ["+1.25"] * 4 + ["+0.50"] * 4 + ["−0.75"] * 4),
        ("effect.value = 'harmful';", ["−0.75"] * 4),
        ("grade.value = '3';", ["+1.25"] * 4),
        ("search.value = 'MILL 2?';", ["+1.25", "+0.50", "−0.75"]),
        ("search.value = 'no such word';", []),
    ],
)
def test_a_browser_searches_sorts_and_filters_all_passages(labels, tmp_path, choice, listed):
    with_gains(labels)
    write_page(tmp_path / "page.html", labels)
    dom = browse(tmp_path / "page.html", f"{CHOOSE}{choice}{INPUT}" + SAY.format(LISTED))
    assert said(dom) == listed


def test_long_lists_are_shown_in_parts(tmp_path):
    passages = tuple(Passage(f"Text {number}.", id=str(number)) for number in range(70))
    query = Query("q", "Who?", ("Ann",), (*passages[:69], Passage("Ann.", id="69", metadata={"relevant": True})))
    LabelRun(tmp_path / "gold", GoldLabeler(), [query]).run()
    write_page(tmp_path / "page.html", tmp_path / "gold")
    count, more = f"{LISTED}.length", "document.querySelector('#list .more')"
    script = f"const before = {count}; {more}.click();" + SAY.format(f"[before, {count}, {more}.hidden]")
    assert said(browse(tmp_path / "page.html", script)) == [50, 70, True]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"delta_seper": float("nan")}, r"passage id='p1': expected a finite number in delta_seper, got nan"),
        ({"delta_seper": "1.0"}, r"passage id='p1': expected a finite number in delta_seper, got '1.0' \(str\)"),
        ({"delta_seper": True}, r"passage id='p1': expected a finite number in delta_seper, got True"),
        ({"low": "x"}, r"passage id='p1': expected a finite number in low, got 'x'"),
        ({"passage_id": "p0"}, r"expected different passage ids, got \['p0', 'p0', 'p2'\]"),
    ],
)
@pytest.mark.parametrize("command", ["report", "export"])
def test_edited_rows_are_refused(labels, tmp_path, capsys, change, message, command):
    rows = [json.loads(line) for line in (labels / "labels.jsonl").read_text().splitlines()]
    rows[2]["passages"][1] |= change
    (labels / "labels.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert cli.main([command, "--labels", str(labels), "--output", str(tmp_path / "out.html")]) == 2
    said = capsys.readouterr().err
    assert re.search(rf"labels\.jsonl, line 3.*{message}", said)
    assert "Traceback" not in said


@pytest.mark.parametrize("command", ["report", "export"])
def test_a_row_that_is_there_twice_is_refused(labels, tmp_path, capsys, command):
    lines = (labels / "labels.jsonl").read_text().splitlines()
    (labels / "labels.jsonl").write_text("\n".join([*lines, lines[1]]) + "\n")
    assert cli.main([command, "--labels", str(labels), "--output", str(tmp_path / "out.html")]) == 2
    assert "line 5: expected an id that no other row has, got 'q1'" in capsys.readouterr().err


@pytest.mark.parametrize("width", [390, 1200])
def test_no_table_is_cut(labels, tmp_path, width):
    text = (labels / "labels.jsonl").read_text()
    (labels / "labels.jsonl").write_text(text.replace(json.dumps(ATTACK)[1:-1], ""))  # names of usual lengths
    write_page(tmp_path / "page.html", labels)
    script = SAY.format("[...document.querySelectorAll('.wide')].map(e => [e.scrollWidth, e.clientWidth])")
    measured = [pair for pair in said(browse(tmp_path / "page.html", script, width)) if pair[1]]
    assert measured
    assert all(inner <= outer for inner, outer in measured)


@pytest.mark.parametrize("width", [390, 1200])
def test_a_browser_needs_no_scrolling_to_the_side(page, width):
    measured = said(browse(page, SAY.format("[document.documentElement.scrollWidth, innerWidth]"), width))
    assert measured[0] <= measured[1]


@pytest.mark.parametrize(
    ("scheme", "colours"),
    [("light", ["rgb(252, 252, 250)", "rgb(27, 29, 31)"]), ("dark", ["rgb(20, 23, 26)", "rgb(228, 227, 223)"])],
)
def test_the_colours_follow_the_browser(page, scheme, colours):
    style = "getComputedStyle(document.body)"
    script = SAY.format(f"[{style}.backgroundColor, {style}.color]")
    assert said(browse(page, script, scheme=scheme)) == colours


def test_labels_without_beliefs(tmp_path):
    passages = (Passage("Ann did.", id="a", metadata={"relevant": True}), Passage("Corn.", id="b"))
    LabelRun(tmp_path / "gold", GoldLabeler(), [Query("q", "Who?", ("Ann",), passages)]).run()
    write_page(tmp_path / "report.html", tmp_path / "gold")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<h1>gold in " in text
    assert 'id="baseline"' not in text
    assert "returns no standard errors" in text
    assert text.count("<circle") == 2  # means by role, and no intervals


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--labels", "absent", "--output", "x.html"], "absent/labels.jsonl: no such file"),
        (["--output", "x.html", "--question", "q1"], "question needs a plot"),
    ],
)
def test_what_cannot_be_shown_is_said(words, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["report", *words]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [(-1.0, 1.0, [-1, -0.5, 0, 0.5, 1]), (0.0, 1.0, [0, 0.2, 0.4, 0.6, 0.8, 1]), (-3.0, 7.0, [-2, 0, 2, 4, 6])],
)
def test_axes_have_round_numbers(low, high, ticks):
    axis = Axis(low, high)
    assert axis.ticks == ticks
    assert (axis.at(low), axis.at(high), axis.at((low + high) / 2)) == (0, 100, 50)


def test_an_axis_holds_zero_and_all_values():
    assert Axis.around([0.12, 0.33]) == Axis(0.0, pytest.approx(0.4))
    assert Axis.around([-2.7, -0.1]) == Axis(-3.0, 0.0)
    assert Axis.around([0.0, 0.0]) == Axis(-1.0, 1.0)
