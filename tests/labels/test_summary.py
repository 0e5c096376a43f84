"""Counts over labels, and what a run warns of."""

from seper_reward.labels.summary import summarize, summary_warnings
from seper_reward.reports.tables import coverage_line
from tests.helpers import read_row


def test_summarize_counts_contexts_that_say_little():
    def context(*rows):
        names = ("text", "count", "finished")
        return {"responses": [dict(zip(names, row, strict=True)) for row in rows]}

    fine = context(("Ann", 6, True), ("Bob", 3, True), ("", 1, True))
    cut = context(("Ann and Bob and", 5, False), ("Ann", 5, True))
    empty = context(("", 7, True), ("Ann", 3, True))
    equal = context(("Ann", 10, True))

    def row(baseline, *contexts):
        return read_row({"baseline": baseline, "passages": [{**each, "delta_seper": 0.1} for each in contexts]})

    summary = summarize([row(fine, cut, empty, equal)])
    assert [summary[name] for name in ("contexts", "unfinished", "empty", "all_equal")] == [4, 1, 1, 1]
    warnings = summary_warnings(summary)
    assert [warning.partition(" contexts")[0] for warning in warnings] == ["in 1 of 4", "in 1 of 4"]
    assert "max_new_tokens" in warnings[0]
    assert not summary_warnings(summarize([row(fine, fine, fine, fine)]))
    broken = summary_warnings(summarize([row(equal, equal)]))
    assert broken == ["in every context all responses are equal; check the temperature (0?) and the reader"]


def test_summarize_counts_answers_longer_than_responses():
    def row(*log_probs):
        responses = [{"text": text, "count": 5, "finished": True} for text in ("Ann", "Bob")]
        leaves = [{"log_prob": each} for each in log_probs]
        passage = {"responses": responses, "delta_seper": 0.1}
        return read_row({"baseline": {"responses": responses, "known_leaves": leaves}, "passages": [passage]})

    summary = summarize([row(None, None), row(None, -2.0), row()])
    assert summary["long_answers"] == 1
    (warning,) = summary_warnings(summary)
    assert warning.startswith("the answers of 1 question are longer than a response can be")
    assert "seper_gain" in warning
    assert not summary_warnings(summarize([row(None), *[row(-2.0)] * 9]))


def test_summarize_counts_questions_that_no_passage_helps():
    def row(seper, *highs):
        passages = [{"delta_seper": high - 0.1, "low": high - 0.2, "high": high} for high in highs]
        return read_row({"baseline": {"seper": seper}, "passages": passages})

    labels = [row(0.2, 0.05, -0.3), row(0.9, 0.01), row(0.2, 0.06, 0.0), row(0.1)]
    summary = summarize(labels)
    assert (summary["unmoved"], summary["uncovered"]) == (3, 2)
    assert summarize(labels, margin=0.1)["unmoved"] == 4
    assert coverage_line(summary) == (
        "no passage helps in 3 of 4 questions; 2 of these stay unanswered under any ranking of the passages "
        "(SePer without a passage is below 0.5)"
    )
    likelihood = summarize(
        [read_row({"labeler": "likelihood", "passages": [{"likelihood": -0.2}]}, "likelihood")], "likelihood"
    )
    assert likelihood["unmoved"] == 1
    assert coverage_line(likelihood) == "no passage helps in 1 of 1 question"
