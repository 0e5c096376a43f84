"""Tables as a person reads them."""

from seper_reward.labels.summary import summarize
from seper_reward.reports.tables import (
    clusters_text,
    lead_text,
    markdown_table,
    summary_table,
    text_table,
)
from seper_reward.statistics import Statistic
from tests.helpers import read_row
from trainers.ranking.tables import measures_table

ROWS = [
    {
        "metadata": {"group": "fiction"},
        "baseline": {"seper": 0.25},
        "passages": [
            {"metadata": {"role": "misleading"}, "delta_seper": -0.25, "std_error": 0.1, "low": -0.45, "high": -0.06},
            {"metadata": {"role": "supporting"}, "delta_seper": 0.75, "std_error": 0.1, "low": 0.5, "high": 0.9},
        ],
    },
    # sure, but too little to count
    {"baseline": {"seper": 0.5}, "passages": [{"delta_seper": 0.1, "std_error": 0.01, "low": 0.04, "high": 0.12}]},
]


def test_text_table_and_markdown_table():
    lines = text_table(["", "number"], [["a", "1"], ["long name", "22"]]).splitlines()
    assert [line.split() for line in lines] == [["number"], ["-" * 9, "-" * 8], ["a", "1"], ["long", "name", "22"]]
    assert len(set(map(len, lines))) == 1  # numbers stand to the right
    assert markdown_table(["", "n"], [["a", 1]]).splitlines()[-1].replace(" ", "") == "|a|1|"


def test_summary_table_of_a_run():
    summary = summarize(map(read_row, ROWS))
    assert (summary["helpful"], summary["harmful"]) == (1, 1)
    assert summary["groups"]["fiction"]["delta_seper"] == {"misleading": -0.25, "supporting": 0.75}
    head, _, fiction, rest = summary_table(summary).splitlines()
    assert head.split("  ")[0] == "group"
    assert head.index("ΔSePer supporting") < head.index("ΔSePer misleading") < head.index("ΔSePer all")
    assert fiction.split() == ["fiction", "1", "0.250", "+0.750", "-0.250", "-"]
    assert rest.split() == ["all", "1", "0.500", "-", "-", "+0.100"]


def test_measures_table():
    found = {"before": {"mrr": 0.5, "name": "x", "ndcg": None}, "after": {"mrr": 0.25}}
    lines = [line.replace(" ", "") for line in measures_table(found).splitlines()]
    assert lines[0] == "||before|after|"
    assert lines[2:] == ["|mrr|0.500|0.250|", "|ndcg|–|–|"]


def test_clusters_text_has_the_heaviest_first():
    responses = [
        {"text": "Lyon", "weight": 0.3, "cluster": 0},
        {"text": "Paris", "weight": 0.5, "cluster": 1},
        {"text": "It is Paris", "weight": 0.1, "cluster": 1},
        {"text": "Paris", "weight": 0.1, "cluster": 1},
    ]
    assert clusters_text(responses) == "0.70 Paris = It is Paris | 0.30 Lyon"


def test_lead_text_calls_a_null_one():
    assert lead_text(Statistic(-0.01, [-0.03, 0.0])) == "no difference seen: -0.010 [-0.030, 0.000]"
    assert lead_text(Statistic(0.2, [0.08, 0.33])) == "+0.200 [0.080, 0.330]"
    assert lead_text(Statistic(-0.2, [-0.33, -0.08])) == "-0.200 [-0.330, -0.080]"
    assert lead_text(Statistic(0.2)) == "+0.200 (no interval)"
    cells = [Statistic(0.5, [0.25, 0.75]), Statistic(1.0), Statistic(None)]
    assert list(map(str, cells)) == ["0.500 [0.250, 0.750]", "1.000", "–"]
