"""The audit of an agent's searches: by hand with scripted beliefs, and the command on real rollouts."""

import json

import pytest

from seper_reward.cli import main
from seper_reward.evaluate.search_audit import audit_searches
from seper_reward.reward.rollouts import Rollout
from seper_reward.reward.turns import Turn
from seper_reward.statistics import Statistic, ratio_over_questions
from seper_reward.types import Passage
from tests.evaluate.stubs import StubScorer
from tests.helpers import write_rows

A, B = Passage("Ida runs it.", id="a"), Passage("Rain fell.", id="b")


def played(name, *found, answer="Ida"):
    return Rollout(name, ("Ida",), tuple(Turn("q", (passage,)) for passage in found), answer)


#: SePer by question and what was found.
KNOWN = {
    ("new", ""): 0.1, ("new", "a"): 0.9, ("new", "b"): 0.12, ("new", "ba"): 0.7, ("old", ""): 0.8, ("old", "b"): 0.3,
    ("lone", ""): 0.1, ("lone", "b"): 0.05, ("late", ""): 0.1,
}  # fmt: skip


@pytest.fixture
def scorer(tiny_sampler):
    def resampled(question, ids):
        return None if question in ("late", "lost") else KNOWN[question, ""] + 0.05

    return StubScorer(
        tiny_sampler.tokenizer,
        lambda question, ids: KNOWN.get((question, "".join(ids))),
        std_error=0.01,
        resampled=resampled,
    )


ROLLOUTS = [
    played("new", A), played("new", B, A), played("new", answer="Bo"), played("old", B), played("old"),
    played("lost"),
]  # fmt: skip


def test_audit_searches_by_hand(scorer):
    found = audit_searches(scorer, [*ROLLOUTS, played("late")])
    assert (found.rollouts, found.questions, found.searches, found.left_out) == (5, 2, 4, 2)
    gains = [0.8, 0.02, 0.58, -0.5]
    assert [row.delta_seper for row in found.by_search] == pytest.approx(gains)
    assert [row.kind for row in found.by_search] == ["helpful", "useless", "helpful", "harmful"]
    assert [row.search for row in found.by_search] == [1, 1, 2, 1]
    measures = {name: row.value for name, row in found.measures.items()}
    assert measures == pytest.approx(
        {
            "accuracy": 0.8, "searches_per_rollout": 0.8, "needed": 0.6, "search_rate_needed": 2 / 3,
            "search_rate_not_needed": 0.5, "decision_f1": 2 * 2 / (3 + 3), "unsure_before": 0.75,
            "failed_calls_per_rollout": 0.0, "uncovered": 0.0,
            "break_even_price": sum(gains) / 4, "break_even_price_needed": sum(gains[:3]) / 3,
            "break_even_price_not_needed": -0.5,
        },
        abs=1e-4,
    )  # fmt: skip
    kinds = {kind: (row.searches, row.share.value, row.surely) for kind, row in found.kinds.items()}
    assert kinds == {"helpful": (2, 0.5, 2), "useless": (1, 0.25, None), "harmful": (1, 0.25, 1)}
    page = " ".join(found.table().split())
    assert "| price at which the searches break even (mean ΔSePer) | 0.225" in page
    assert "2 rollouts left out" in page


def test_audit_searches_counts_a_question_as_covered_once(scorer):
    rollouts = [played("new", A), played("new", B), played("lone", B), played("old", B)]
    measures = audit_searches(scorer, rollouts).measures
    assert (measures["needed"].value, measures["uncovered"].value) == (0.75, 0.5)


def test_audit_searches_of_silent_agents(scorer):
    found = audit_searches(scorer, [played("new", answer=""), played("old", answer="")])
    assert "accuracy" not in found.measures
    assert found.measures["break_even_price"] == Statistic(None)
    assert found.kinds["helpful"].share.value is None
    assert "2 rollouts of 2 questions, 0 searches" in found.table()
    with pytest.raises(ValueError, match="expected rollouts that can be measured"):
        audit_searches(scorer, [played("lost")])


def test_ratio_over_questions_resamples_questions():
    """Three rows of one question are one piece of evidence."""
    alone = ratio_over_questions(["a", "a", "a"], [(1, 1), (0, 1), (1, 1)])
    assert alone == Statistic(0.6667)
    agreed = ratio_over_questions(["a", "b"], [(1, 2), (2, 4)])
    assert agreed == Statistic(0.5)
    assert ratio_over_questions(["a"], [(0, 0)]) == Statistic(None)
    low, high = ratio_over_questions(list("abcdefgh"), [(number % 2, 1) for number in range(8)]).interval
    assert low < 0.5 < high


def test_audit_searches_command(tiny_reader, tiny_entailment, tmp_path, capsys):
    row = {"question": "Who runs it?", "answers": ["Ida"]}
    searches = [{"query": "it", "passages": ["Ida runs it."]}]
    rows = [
        {**row, "searches": searches, "answer": "Ida"},
        {"question": "Who fell?", "answers": ["Bo"], "searches": [], "answer": "Bo"},
    ]
    log = write_rows(tmp_path / "rollouts.jsonl", [*rows, {"question": "Who else?", "searches": []}])
    words = ["--reader", str(tiny_reader), "--judge", str(tiny_entailment), "--json", str(tmp_path / "out.json")]
    options = "--dtype float32 --device cpu --prompt brief --num_samples 3 --max_new_tokens 4"
    words += options.split()
    files = ["--searches", str(tmp_path / "out.jsonl"), "--plot", str(tmp_path / "out.svg")]
    assert main(["audit-searches", str(log), *words, *files]) == 0
    out, err = capsys.readouterr()
    assert "2 rollouts of 2 questions, 1 search" in out
    assert "1 row cannot be used" in err
    assert "line 3" in err
    found = json.loads((tmp_path / "out.json").read_text())
    assert found["measures"]["accuracy"]["value"] == 1.0
    (search,) = map(json.loads, (tmp_path / "out.jsonl").read_text().splitlines())
    assert (search["query"], search["question"]) == ("it", "Who runs it?")
    assert (tmp_path / "out.svg").read_text().startswith("<?xml")
    messages = [
        [
            {"role": "assistant", "tool_calls": [{"function": {"name": name, "arguments": {"query": "it"}}}]},
            {"role": "tool", "name": name, "content": "Ida runs it."},
            {"role": "assistant", "content": "Done: Ida"},
        ]
        for name in ("search", "search", "python")
    ]
    write_rows(log, [{**row, "completion": each} for each in messages])
    assert main(["audit-searches", str(log), *words]) == 2
    several = "tools search (2), python (1): name the search tools, such as --search_tools search"
    assert several in capsys.readouterr().err
    named = ["--search_tools", "search", "web", "--answer_pattern", "Done: (.*)"]
    assert main(["audit-searches", str(log), *words, *named]) == 0
    out, err = capsys.readouterr()
    assert "3 rollouts of 1 question, 2 searches" in out
    assert "--search_tools web: the log has no result of it; it has search (2), python (1)" in err
    assert json.loads((tmp_path / "out.json").read_text())["measures"]["accuracy"]["value"] == 1.0
