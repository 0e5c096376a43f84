"""Methods of judging passages, each against a script of replies: what is asked, when it ends, what is chosen."""

from collections import Counter

import pytest

from seper_reward.labels.judgments import METHODS, Ask, JudgmentOptions, judge
from seper_reward.labels.replies import chosen_numbers, ordered_numbers, yes_or_no
from seper_reward.types import UnscorableError

ALL = (0, 1, 2, 3)


def played(options, *rounds, passages=4, **more):
    """Return what a plan asks, round after round, and its judgment, if the reader replies as the script says."""
    plan, script, asked = judge(options, passages, seed="q", **more), iter(rounds), []
    wanted = next(plan)
    while True:
        asked.append(wanted)
        try:
            wanted = plan.send(list(next(script)))
        except StopIteration as end:
            assert next(script, None) is None, "the plan ended before the script"
            return asked, end.value


def test_item_answers_from_what_it_chose_until_it_chooses_the_same():
    options = JudgmentOptions("a_s", rounds=5)
    asked, found = played(options, ["Bob"], [(2, 0)], ["Ann"], [(2, 1)], ["Ann Lee"], [(1, 2)])
    assert asked == [
        [Ask("answer", ALL)],
        [Ask("set", ALL, "Bob")],
        [Ask("answer", (0, 2))],
        [Ask("set", ALL, "Ann")],
        [Ask("answer", (1, 2))],
        [Ask("set", ALL, "Ann Lee")],
    ]
    assert (found.chosen, found.order) == ((1, 2), (1, 2, 0, 3))
    assert (found.pseudo_answers, found.stopped_by) == (("Bob", "Ann", "Ann Lee"), "same_selection")


def test_item_ends_after_its_rounds():
    asked, found = played(JudgmentOptions("a_s", rounds=2), ["Bob"], [(2,)], ["Ann"], [(1,)])
    assert len(asked) == 4
    assert (found.chosen, found.stopped_by) == ((1,), "rounds")


def test_choosing_all_is_choosing_the_same():
    asked, found = played(JudgmentOptions("a_s"), ["Bob"], [ALL])
    assert len(asked) == 2
    assert found.stopped_by == "same_selection"


def test_where_nothing_was_chosen_all_are_answered_from():
    asked, found = played(JudgmentOptions("a_s", rounds=3), ["Bob"], [()], ["Bob"], [()])
    assert asked[2] == [Ask("answer", ALL)]
    assert (found.chosen, found.order, found.stopped_by) == ((), ALL, "same_selection")


def test_item_ends_when_the_answer_stays_the_same():
    def similarity(one, other):
        return 0.8 if {one, other} == {"Ann", "Ann Lee"} else 0.1

    script = (["Bob"], [(2,)], ["Ann"], [(1,)], ["Ann Lee"])
    asked, found = played(JudgmentOptions("a_s", rounds=5, same_answer=0.8), *script, similarity=similarity)
    assert asked[-1] == [Ask("answer", (1,))]
    assert (found.chosen, found.pseudo_answers, found.stopped_by) == ((1,), ("Bob", "Ann"), "same_answer")
    stricter = JudgmentOptions("a_s", rounds=3, same_answer=0.9)
    assert played(stricter, *script, [(3,)], similarity=similarity)[1].chosen == (3,)


def test_an_implicit_answer_is_what_one_must_know():
    asked, _ = played(JudgmentOptions("a_s", pseudo_answer="implicit", rounds=1), ["who built it"], [(2,)])
    assert asked == [[Ask("information", ALL)], [Ask("set", ALL, "who built it")]]


def test_pointwise_judgments_are_asked_side_by_side():
    options = JudgmentOptions("a_s", form="pointwise", rounds=1)
    asked, found = played(options, ["Bob"], [False, True, False, True])
    assert asked[1] == [Ask("point", (place,), "Bob") for place in ALL]
    assert (found.chosen, found.order) == ((1, 3), (1, 3, 0, 2))


def test_rank_based_item_chooses_the_first():
    options = JudgmentOptions("a_r", top_k=2, rounds=4)
    asked, found = played(options, ["Bob"], [(3, 1, 0, 2)], ["Ann"], [(1, 3, 2, 0)])
    assert asked[1:3] == [[Ask("rank", ALL, "Bob")], [Ask("answer", (3, 1))]]
    assert (found.chosen, found.order) == ((1, 3), (1, 3, 2, 0))
    assert found.stopped_by == "same_selection"  # the same two, in another order


def test_item_ar_judges_in_the_order_of_relevance():
    options = JudgmentOptions("ar_s", rounds=2)
    asked, found = played(options, ["Bob"], [(3, 0, 2, 1)], [(0, 3)], ["Ann"], [(1, 0, 2, 3)], [(3, 1)])
    assert asked[1:4] == [
        [Ask("relevance", ALL, "Bob")],
        [Ask("set", (3, 0, 2, 1), "Bob")],
        [Ask("answer", (3, 0))],
    ]
    assert asked[4] == [Ask("relevance", ALL, "Ann")]
    assert (found.chosen, found.order) == ((1, 3), (1, 3, 0, 2))


def test_item_ar_by_ranks():
    asked, found = played(JudgmentOptions("ar_r", rounds=1, top_k=1), ["Bob"], [(3, 0, 2, 1)], [(2, 0, 1, 3)])
    assert asked[2] == [Ask("rank", (3, 0, 2, 1), "Bob")]
    assert (found.chosen, found.order) == ((2,), (2, 0, 1, 3))


@pytest.mark.parametrize(("method", "task"), [("exp_a", "answer"), ("imp_a", "information")])
def test_one_round_by_an_answer(method, task):
    asked, found = played(JudgmentOptions(method, rounds=7), ["Bob"], [(2,)])
    assert asked == [[Ask(task, ALL)], [Ask("set", ALL, "Bob")]]
    assert (found.chosen, found.stopped_by) == ((2,), "rounds")


def test_vanilla_judges_without_an_answer():
    asked, found = played(JudgmentOptions("vanilla"), [(1, 3)])
    assert asked == [[Ask("set", ALL)]]
    assert (found.chosen, found.pseudo_answers) == ((1, 3), ())


def test_k_sampling_by_hand():
    options = JudgmentOptions("k_sampling", samples=5)
    # sizes 2, 2, 1, 3: two are kept, those with most votes; the reader was not understood once
    asked, found = played(options, [(0, 2), (2, 3), None, (2,), (0, 1, 3)])
    orders = [each.shown for each in asked[0]]
    assert orders[0] == ALL
    assert len(set(orders)) == 5
    assert {each.task for each in asked[0]} == {"set"}
    assert (found.chosen, found.order) == ((2, 0), (2, 0, 3, 1))
    assert played(options, [(0, 2)] * 5)[0] == asked  # always the same orders
    # of equally common sizes the smallest counts
    assert played(options, [(0,), (1,), (1, 2), (2, 3), None])[1].chosen == (1,)


def test_k_sampling_has_no_more_orders_than_there_are():
    asked, _ = played(JudgmentOptions("k_sampling", samples=9), [(0,), (0,)], passages=2)
    assert Counter(each.shown for each in asked[0]) == {(0, 1): 1, (1, 0): 1}


def test_rank_gpt_ranks_once_without_an_answer():
    asked, found = played(JudgmentOptions("rank_gpt", top_k=3), [(3, 1, 0, 2)])
    assert asked == [[Ask("relevance", ALL)]]
    assert (found.chosen, found.order) == ((3, 1, 0), (3, 1, 0, 2))


@pytest.mark.parametrize(
    ("method", "script"),
    [
        ("vanilla", [[None]]),
        ("a_s", [["Bob"], [None]]),
        ("a_r", [["Bob"], [None]]),
        ("ar_s", [["Bob"], [None]]),
        ("ar_s", [["Bob"], [ALL], [None]]),
        ("rank_gpt", [[None]]),
        ("k_sampling", [[None] * 5]),
    ],
)
def test_what_was_not_understood_is_never_guessed(method, script):
    with pytest.raises(UnscorableError, match="could not be understood"):
        played(JudgmentOptions(method), *script)


def test_one_passage_that_was_not_understood_leaves_the_question_without_labels():
    with pytest.raises(UnscorableError, match="could not be understood"):
        played(JudgmentOptions("vanilla", form="pointwise"), [True, None, True, False])


def test_a_blank_answer_is_none():
    with pytest.raises(UnscorableError, match="pseudo-answer is blank"):
        played(JudgmentOptions("exp_a"), [" "])


@pytest.mark.parametrize("method", METHODS)
def test_presets(method):
    paper, official = (JudgmentOptions.preset(name, method) for name in ("paper", "official"))
    assert (paper.rounds, paper.top_k, paper.samples) == (3, 5, 5)
    assert (official.rounds, official.top_k, official.samples) == (6 if method.startswith("ar_") else 5, 10, 6)
    assert JudgmentOptions.preset("default", method) == paper
    assert JudgmentOptions.preset("official", method, rounds=2, top_k=None).rounds == 2


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"method": "b"}, "method must be one of vanilla, exp_a, imp_a"),
        ({"form": "pairs"}, "form must be one of listwise, pointwise, got 'pairs'"),
        ({"pseudo_answer": "none"}, "pseudo_answer must be one of explicit, implicit"),
        ({"rounds": 0}, "rounds must be at least 1, got 0"),
        ({"same_answer": 0.0}, r"same_answer must be in \(0, 1\], got 0.0"),
        ({"method": "ar_s", "form": "pointwise"}, "method=ar_s puts them in order"),
    ],
)
def test_options_are_checked(changes, said):
    with pytest.raises(ValueError, match=said):
        JudgmentOptions(**changes)
    with pytest.raises(ValueError, match="item_preset must be one of default, paper, official, got 'best'"):
        JudgmentOptions.preset("best", "a_s")


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("[2]", (2,)),
        (" [3],[1].\n", (3, 1)),
        ("[1, 3]", (1, 3)),
        ("[1]; [2] and [3]", (1, 2, 3)),
        ("[1] [2]", (1, 2)),
        ("none", ()),
        ("[]", ()),
        ("2", None),
        ("[4]", None),
        ("[0]", None),
        ("[1], [1]", None),
        ("Selected: [1]", None),
        ("[1], [2] are useful.", None),
        ("[1]\n\nBecause it says so.", None),
        ("None of them, but [2] is close.", None),
        ("", None),
    ],
)
def test_sets_are_read_strictly(text, numbers):
    assert chosen_numbers(text, 3) == numbers


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("[2] > [3] > [1]", (2, 3, 1)),
        ("[2],[3],[1]", (2, 3, 1)),
        ("[2] > [3]", None),
        ("[2] > [3] > [1] > [1]", None),
        ("[2] > [3] > [4]", None),
        ("2 > 3 > 1", None),
        ("none", None),
    ],
)
def test_orders_are_read_strictly(text, numbers):
    assert ordered_numbers(text, 3) == numbers


@pytest.mark.parametrize(
    ("text", "said"),
    [("Yes", True), ("no.", False), ("YES!", True), ("Yes, it is.", None), ("yesterday", None), ("", None)],
)
def test_yes_and_no_are_read_strictly(text, said):
    assert yes_or_no(text) is said
