"""The audit of an agent's searches: by hand with scripted beliefs, and the command on real rollouts."""

import json

import pytest

from seper_reward.cli import main
from seper_reward.evaluate import search_audit
from seper_reward.evaluate.search_audit import audit_searches
from seper_reward.reward.rollouts import Rollout
from seper_reward.reward.turns import Turn
from seper_reward.statistics import Statistic, ratio_over_questions
from seper_reward.types import Belief, Estimate, Passage

A, B = Passage("Ida runs it.", id="a"), Passage("Rain fell.", id="b")


def belief(value):
    estimate = Estimate(value, 0.01, value - 0.02, value + 0.02)
    return Belief(estimate, estimate)


def played(name, *found, answer="Ida"):
    return Rollout(name, ("Ida",), tuple(Turn("q", (passage,)) for passage in found), answer)


#: SePer by question and what was found.
KNOWN = {
    ("new", ()): 0.1, ("new", (A,)): 0.9, ("new", (B,)): 0.12, ("new", (B, A)): 0.7,
    ("lone", ()): 0.1, ("lone", (B,)): 0.05,
    ("old", ()): 0.8, ("old", (B,)): 0.3,
    ("late", ()): 0.1,
}  # fmt: skip


@pytest.fixture
def scripted(monkeypatch):
    def measured(scorer, queries, contexts):
        return [
            None if query.id == "lost" else {each: belief(KNOWN[query.id, each]) for each in own}
            for query, own in zip(queries, contexts, strict=True)
        ]

    def known_before(scorer, queries):  # by other samples
        return [None if query.id == "late" else KNOWN.get((query.id, ()), 0) + 0.05 for query in queries]

    monkeypatch.setattr(search_audit, "measured", measured)

    def right_answers(scorer, rollouts):
        return [each.answer in each.answers for each in rollouts]

    monkeypatch.setattr(search_audit, "known_before", known_before)
    monkeypatch.setattr(search_audit, "right_answers", right_answers)


ROLLOUTS = [
    played("new", A), played("new", B, A), played("new", answer="Bo"), played("old", B), played("old"),
    played("lost"),
]  # fmt: skip


def test_a_rollout_whose_need_cannot_be_measured_is_left_out(scripted):
    assert audit_searches(None, [*ROLLOUTS, played("late")]).left_out == 2


def test_by_hand(scripted):
    found = audit_searches(None, ROLLOUTS)
    assert (found.rollouts, found.questions, found.searches, found.left_out) == (5, 2, 4, 1)
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


def test_a_question_is_uncovered_if_no_search_of_any_rollout_helped(scripted):
    rollouts = [played("new", A), played("new", B), played("lone", B), played("old", B)]
    measures = audit_searches(None, rollouts).measures
    assert measures["needed"].value == 0.75
    assert measures["uncovered"].value == 0.5


def test_agents_that_never_search_or_never_answer(scripted):
    found = audit_searches(None, [played("new", answer=""), played("old", answer="")])
    assert "accuracy" not in found.measures
    assert found.measures["break_even_price"] == Statistic(None)
    assert found.kinds["helpful"].share.value is None
    assert "2 rollouts of 2 questions, 0 searches" in found.table()
    with pytest.raises(ValueError, match="expected rollouts that can be measured"):
        audit_searches(None, [played("lost")])


def test_tables_and_figure(scripted, tmp_path):
    found = audit_searches(None, ROLLOUTS)
    page = found.table()
    assert "| price at which the searches break even (mean ΔSePer) | 0.225" in " ".join(page.split()).replace(
        "  ", " "
    )
    assert "1 rollout left out" in page
    found.plot(tmp_path / "audit.svg")
    assert (tmp_path / "audit.svg").read_text().startswith("<?xml")


def test_counts_have_whole_numbers(scripted, tmp_path, monkeypatch):
    figures = []
    monkeypatch.setattr(search_audit, "save_figure", lambda figure, path: figures.append(figure))
    audit_searches(None, ROLLOUTS).plot(tmp_path / "audit.svg")
    assert all(tick == int(tick) for tick in figures[0].axes[0].get_yticks())


def test_ratios_resample_questions():
    """Three rows of one question are one piece of evidence."""
    alone = ratio_over_questions(["a", "a", "a"], [(1, 1), (0, 1), (1, 1)])
    assert alone == Statistic(0.6667)
    agreed = ratio_over_questions(["a", "b"], [(1, 2), (2, 4)])
    assert agreed == Statistic(0.5)
    assert ratio_over_questions(["a"], [(0, 0)]) == Statistic(None)
    low, high = ratio_over_questions(list("abcdefgh"), [(number % 2, 1) for number in range(8)]).interval
    assert low < 0.5 < high


def test_command(tiny_reader, tiny_entailment, tmp_path, capsys):
    searches = [{"query": "it", "passages": ["Ida runs it."]}]
    rows = [
        {"question": "Who runs it?", "answers": ["Ida"], "searches": searches, "answer": "Ida"},
        {"question": "Who fell?", "answers": ["Bo"], "searches": [], "answer": "Bo"},
        {"question": "Who else?", "searches": []},
    ]
    log = tmp_path / "rollouts.jsonl"
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = [
        "--reader", str(tiny_reader), "--judge", str(tiny_entailment),
        "--dtype", "float32", "--device", "cpu", "--prompt", "brief",
        "--num_samples", "3", "--max_new_tokens", "4",
    ]  # fmt: skip
    outputs = {name: str(tmp_path / f"out.{name}") for name in ("json", "jsonl", "svg")}
    files = ["--json", outputs["json"], "--searches", outputs["jsonl"], "--plot", outputs["svg"]]
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
    rows = [
        {
            "question": "Who runs it?", "answers": ["Ida"],
            "completion": [
                {"role": "assistant", "tool_calls": [{"function": {"name": name, "arguments": {"query": "it"}}}]},
                {"role": "tool", "name": name, "content": "Ida runs it."},
                {"role": "assistant", "content": "Done: Ida"},
            ],
        }
        for name in ("search", "search", "python")
    ]  # fmt: skip
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert main(["audit-searches", str(log), *words]) == 2
    several = "tools search (2), python (1): name the search tools, such as --search_tools search"
    assert several in capsys.readouterr().err
    named = ["--search_tools", "search", "web", "--answer_pattern", "Done: (.*)", "--json", outputs["json"]]
    assert main(["audit-searches", str(log), *words, *named]) == 0
    out, err = capsys.readouterr()
    assert "3 rollouts of 1 question, 2 searches" in out
    assert "--search_tools web: the log has no result of it; it has search (2), python (1)" in err
    assert json.loads((tmp_path / "out.json").read_text())["measures"]["accuracy"]["value"] == 1.0
    assert main(["audit-searches"]) == 2
    assert "input is required: seper-reward audit-searches rollouts.jsonl" in capsys.readouterr().err
    assert main(["audit-searches", str(log), "--plot", "page.html"]) == 2
    assert "plot must be svg, png or pdf, got 'page.html'; the measures are printed" in capsys.readouterr().err
