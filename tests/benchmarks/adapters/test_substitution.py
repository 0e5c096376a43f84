"""Passages that state another answer of the same kind."""

from dataclasses import replace

from seper_reward.types import Passage, Query
from tests.benchmarks.adapters.substitution import misleads, substituted

OWNER = Query("q", "Who owned the inn?", ("Ann Lee",))


def test_every_spelling_of_the_answer_is_replaced():
    passage = Passage("Ann Lee ran. Later ANN rested; Annette did not.", "Ann Lee (runner)")
    changed = substituted(passage, ["Ann", "Ann Lee"], r"Bo\b Ray")
    assert changed.title == r"Bo\b Ray (runner)"
    assert changed.text == r"Bo\b Ray ran. Later Bo\b Ray rested; Annette did not."


def test_what_names_or_shares_the_answer_misleads_nobody():
    assert misleads(OWNER, "Bo Ray")
    assert not misleads(OWNER, "Lee Ray")  # a word of the right answer
    assert not misleads(OWNER, "yes")
    assert not misleads(replace(OWNER, answers=("no",)), "Ray")
    assert not misleads(replace(OWNER, question="Who was Ann Lee of the inn?"), "Bo Ray")
