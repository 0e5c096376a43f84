"""Methods of judging passages, each against a script of replies: what is asked, when it ends, what is chosen."""

from collections import Counter

import pytest

from seper_reward.labels.judgments import METHODS, Ask, JudgmentOptions, judge
from seper_reward.labels.replies import chosen_numbers, ordered_numbers, text_and_numbers, yes_or_no
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
    assert found.rounds == (("Bob", (0, 2)), ("Ann", (1, 2)), ("Ann Lee", (1, 2)))
    assert (found.stopped_by, found.relevance) == ("same_selection", ())


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
    assert (found.chosen, found.stopped_by) == ((1,), "same_answer")
    assert found.rounds == (("Bob", (2,)), ("Ann", (1,)))
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


@pytest.mark.parametrize(("method", "task"), [("exp_a", "answer_point"), ("imp_a", "information_point")])
def test_pointwise_judgments_with_an_answer_in_the_reply(method, task):
    replies = [("Bob", False), ("Ann", True), ("no one", False), ("Ann Lee", True)]
    asked, found = played(JudgmentOptions(method, form="pointwise"), replies)
    assert asked == [[Ask(task, (place,)) for place in ALL]]
    assert (found.chosen, found.order) == ((1, 3), (1, 3, 0, 2))
    assert found.rounds == (("Bob", ()), ("Ann", (1,)), ("no one", ()), ("Ann Lee", (3,)))
    with pytest.raises(UnscorableError, match="could not be parsed"):
        played(JudgmentOptions(method, form="pointwise"), [("Bob", False), None, ("Ann", True), ("Ann", True)])


def test_rank_based_item_chooses_the_first():
    options = JudgmentOptions("a_r", top_k=2, rounds=4)
    asked, found = played(options, ["Bob"], [(3, 1, 0, 2)], ["Ann"], [(1, 3, 2, 0)])
    assert asked[1:3] == [[Ask("rank", ALL, "Bob")], [Ask("answer", (3, 1))]]
    assert (found.chosen, found.order) == ((1, 3), (1, 3, 2, 0))
    assert found.stopped_by == "same_selection"  # the same two, in another order


def test_item_ar_judges_in_the_order_of_relevance():
    options = JudgmentOptions("ar_s", rounds=2)
    asked, found = played(options, ["Bob"], [(3, 0, 2, 1)], [(0, 3)], ["Ann"], [(1, 0, 2, 3)], [(3, 1)])
    assert asked[1:4] == [[Ask("relevance", ALL, "Bob")], [Ask("set", (3, 0, 2, 1), "Bob")], [Ask("answer", (3, 0))]]
    assert asked[4] == [Ask("relevance", (3, 0, 2, 1), "Ann")]  # eq. 4: the previous round's order is ranked
    assert asked[5] == [Ask("set", (1, 0, 2, 3), "Ann")]
    # its order is that of relevance, and not the chosen ones first
    assert (found.chosen, found.order, found.relevance) == ((1, 3), (1, 0, 2, 3), ())


def test_item_ar_by_ranks():
    script = (["Bob"], [(3, 0, 2, 1)], [(2, 0, 1, 3)], ["Ann"], [(0, 1, 2, 3)], [(3, 2, 1, 0)])
    asked, found = played(JudgmentOptions("ar_r", rounds=2, top_k=1), *script)
    assert asked[2] == [Ask("rank", (3, 0, 2, 1), "Bob")]
    assert asked[4:] == [[Ask("relevance", (3, 0, 2, 1), "Ann")], [Ask("rank", (0, 1, 2, 3), "Ann")]]
    assert (found.chosen, found.order, found.relevance) == ((3,), (3, 2, 1, 0), (0, 1, 2, 3))
    assert found.rounds == (("Bob", (2,)), ("Ann", (3,)))


@pytest.mark.parametrize(("method", "task"), [("exp_a", "answer_set"), ("imp_a", "information_set")])
def test_one_reply_with_an_answer_and_a_judgment(method, task):
    asked, found = played(JudgmentOptions(method, rounds=7), [("Bob", (3, 2))])
    assert asked == [[Ask(task, ALL)]]
    assert (found.chosen, found.order, found.stopped_by) == ((2, 3), (2, 3, 0, 1), "rounds")
    assert found.rounds == (("Bob", (2, 3)),)
    one_round, _ = played(JudgmentOptions("a_s", rounds=1), ["Bob"], [(2,)])
    assert asked != one_round


def test_vanilla_judges_without_an_answer():
    asked, found = played(JudgmentOptions("vanilla"), [(1, 3)])
    assert asked == [[Ask("set", ALL)]]
    assert (found.chosen, found.rounds) == ((1, 3), ())


def test_k_sampling_by_hand():
    options = JudgmentOptions("k_sampling", samples=5)
    # sizes 2, 2, 1, 3: two are kept, those with most votes; the reader was not understood once
    asked, found = played(options, [("A", (0, 2)), ("B", (2, 3)), None, ("A", (2,)), ("C", (0, 1, 3))])
    orders = [each.shown for each in asked[0]]
    assert orders[0] == ALL
    assert len(set(orders)) == 5
    assert {each.task for each in asked[0]} == {"answer_set"}
    assert [(answer, set(chosen)) for answer, chosen in found.rounds] == [
        ("A", {0, 2}),
        ("B", {2, 3}),
        ("A", {2}),
        ("C", {0, 1, 3}),
    ]
    assert (found.chosen, found.order) == ((2, 0), (2, 0, 3, 1))
    assert played(options, [("A", (0, 2))] * 5)[0] == asked  # always the same orders
    # of equally common sizes the smallest counts
    votes = [("A", (0,)), ("A", (1,)), ("A", (1, 2)), ("A", (2, 3)), None]
    assert played(options, votes)[1].chosen == (1,)


def test_k_sampling_of_the_paper_votes_over_the_given_order_and_five_others():
    asked, _ = played(JudgmentOptions.preset("paper", "k_sampling"), [("A", (0,))] * 6)
    assert len({each.shown for each in asked[0]}) == len(asked[0]) == 6
    asked, _ = played(JudgmentOptions("k_sampling", pseudo_answer="implicit"), [("A", (0,))] * 6)
    assert {each.task for each in asked[0]} == {"information_set"}


def test_k_sampling_has_no_more_orders_than_there_are():
    asked, _ = played(JudgmentOptions("k_sampling", samples=9), [("A", (0,)), ("A", (0,))], passages=2)
    assert Counter(each.shown for each in asked[0]) == {(0, 1): 1, (1, 0): 1}


def test_rank_gpt_ranks_once_without_an_answer():
    asked, found = played(JudgmentOptions("rank_gpt", top_k=3), [(3, 1, 0, 2)])
    assert asked == [[Ask("relevance", ALL)]]
    assert (found.chosen, found.order) == ((3, 1, 0), (3, 1, 0, 2))


@pytest.mark.parametrize(
    ("method", "script", "form"),
    [
        ("vanilla", [[None]], "listwise"),
        ("vanilla", [[True, None, True, False]], "pointwise"),  # one passage is enough
        ("a_s", [["Bob"], [None]], "listwise"),
        ("a_r", [["Bob"], [None]], "listwise"),
        ("ar_s", [["Bob"], [None]], "listwise"),
        ("ar_s", [["Bob"], [ALL], [None]], "listwise"),
        ("rank_gpt", [[None]], "listwise"),
        ("k_sampling", [[None] * 6], "listwise"),
        ("exp_a", [[None]], "listwise"),
    ],
)
def test_what_was_not_understood_is_never_guessed(method, script, form):
    with pytest.raises(UnscorableError, match="could not be parsed"):
        played(JudgmentOptions(method, form=form), *script)


def test_a_blank_answer_is_none():
    with pytest.raises(UnscorableError, match="pseudo-answer is blank"):
        played(JudgmentOptions("a_s"), [" "])


@pytest.mark.parametrize("method", METHODS)
def test_presets(method):
    paper, official = (JudgmentOptions.preset(name, method) for name in ("paper", "official"))
    assert (paper.rounds, paper.top_k, paper.samples) == (3, 5, 6)
    assert (official.rounds, official.top_k, official.samples) == (6 if method.startswith("ar_") else 5, 10, 6)
    assert JudgmentOptions.preset("default", method) == paper
    assert JudgmentOptions.preset("official", method, rounds=2).rounds == 2


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"method": "b"}, "method must be one of vanilla, exp_a, imp_a"),
        ({"form": "pairs"}, "form must be one of listwise, pointwise, got 'pairs'"),
        ({"pseudo_answer": "none"}, "pseudo_answer must be one of explicit, implicit"),
        ({"rounds": 0}, "rounds must be at least 1, got 0"),
        ({"same_answer": 0.0}, r"same_answer must be in \(0, 1\], got 0.0"),
        ({"method": "ar_s", "form": "pointwise"}, "method=ar_s compares them in one reply; use"),
        ({"method": "k_sampling", "form": "pointwise"}, "method=k_sampling compares them in one reply; use vanilla"),
    ],
)
def test_options_are_checked(changes, said):
    with pytest.raises(ValueError, match=said):
        JudgmentOptions(**changes)
    with pytest.raises(ValueError, match="preset must be one of default, paper, official, got 'best'"):
        JudgmentOptions.preset("best", "a_s")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Answer: Ann Lee\nUseful: [2],[3]", ("Ann Lee", (2, 3))),
        ("Needed: who built it.  \n\n useful: none.\n", ("who built it.", ())),
        ("Answer: Ann\nUseful: [4]", None),
        ("Answer:\nUseful: [2]", None),
        ("Ann\nUseful: [2]", None),
        ("Answer: Ann Lee. Useful: [2]", ("Ann Lee.", (2,))),
        ("Answer: Ann. Useful: [1] Useful: [2]", None),
        ("Answer: Ann.\nLee\nUseful: [2]", None),
        ("Answer: Ann\nUseful: [1]\nUseful: [2]", None),
        ("Answer: Ann\nUseful: [2]\nIt says so.", None),
        ("Useful: [2]\nAnswer: Ann", None),
    ],
)
def test_replies_with_an_answer_are_read_strictly(text, found):
    assert text_and_numbers(text, 3) == found


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
