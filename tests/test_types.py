"""Records as they show themselves at a prompt and in a notebook."""

import pytest
from IPython.core.formatters import HTMLFormatter

from seper_reward.types import Asked, Belief, Estimate, Query, Responses, Utility, excerpt


def belief(value, texts, weights):
    estimate = Estimate(value, 0.05, value - 0.1, value + 0.1)
    columns = {"counts": (5, 3, 1, 1)[: len(texts)], "cluster_ids": tuple(range(len(texts)))}
    support = tuple(1 - place / 4 for place in range(len(texts)))
    said = Responses(texts, ())
    return Belief(estimate, estimate, sampled=said, weights=weights, best_support=support, **columns)


def page_of(record):
    return HTMLFormatter()(record)


WITHOUT = belief(0.141, ("the <mill>", "Bob"), (0.25, 0.75))
WITH = belief(0.812, ("Bob", "Ida Voss", "Ann", "x" * 80), (0.05, 0.6, 0.25, 0.1))


def test_a_belief_is_one_line():
    assert repr(WITHOUT) == "Belief(seper=0.141 [0.041, 0.241], 2 responses: 'Bob' 0.75, 'the <mill>' 0.25)"
    assert repr(WITH) == (
        "Belief(seper=0.812 [0.712, 0.912], 4 responses: 'Ida Voss' 0.60, 'Ann' 0.25, " + f"'{'x' * 59}…' 0.10, …)"
    )
    assert repr(belief(0.5, (), ())) == "Belief(seper=0.500 [0.400, 0.600], 0 responses)"


def test_a_utility_is_one_line():
    gain = Estimate(0.671, 0.1, 0.5, 0.75)
    found = Utility(gain, gain, None, None, WITH, WITHOUT, "p1")
    assert repr(found) == "Utility(delta_seper=0.671 [0.500, 0.750], seper 0.141 → 0.812, passage_id='p1')"
    assert "passage_id" not in repr(Utility(gain, gain, None, None, WITH, WITHOUT))
    page = page_of(found)
    assert page.startswith("<p>ΔSePer 0.671 [0.500, 0.750], hard 0.671 [0.500, 0.750]</p><table>")
    assert page.count("<tr>") == 3
    assert "passage p1" in page


def test_a_belief_in_a_notebook_is_a_table_of_responses():
    page = page_of(WITHOUT)
    assert page.count("<tr>") == 3
    assert page.index("Bob") < page.index("the &lt;mill&gt;")  # the heaviest first
    assert "0.750" in page
    assert "<mill>" not in page
    assert page_of(belief(0.5, (), ())).count("<tr>") <= 1


@pytest.mark.parametrize("record", [Query("q", "Where?", "Paris"), Asked("Where?", "Paris")])
def test_an_answer_that_is_a_text_is_one_alias(record):
    assert record.answers == ("Paris",)


def test_an_excerpt_has_at_most_so_many_characters():
    assert [excerpt("a" * 5, 5), excerpt("a" * 6, 5)] == ["aaaaa", "aaaa…"]
