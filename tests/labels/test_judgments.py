"""Methods of judging passages, each against a script of replies: what is asked, when it ends, what is chosen."""

from collections import Counter

import pytest

from seper_reward.labels.judgments import JudgmentOptions, judge
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


def written(asked):
    """Return the requests as a text: rounds by "|", requests of a round by ";", the passages shown as digits."""
    texts = (
        [f"{ask.task} {''.join(map(str, ask.shown))} {ask.pseudo_answer}".strip() for ask in asks] for asks in asked
    )
    return " | ".join(map("; ".join, texts))


def similarity(one, other):
    return 0.8 if {one, other} == {"Ann", "Ann Lee"} else 0.1


A_S = (["Bob"], [(2,)], ["Ann"], [(1,)])  # replies of two rounds
ASKED = "answer 0123 | set 0123 Bob | answer 2 | set 0123 Ann"  # by these
EACH = [("Bob", False), ("Ann", True), ("no one", False), ("Ann Lee", True)]  # replies one by one
VOTES = (("Bob", ()), ("Ann", (1,)), ("no one", ()), ("Ann Lee", (3,)))


@pytest.mark.parametrize(
    ("options", "script", "asked", "chosen", "order", "rounds", "stopped_by"),
    [
        # it answers from what it chose, until it chooses the same
        ({"method": "a_s", "rounds": 5}, (["Bob"], [(2, 0)], ["Ann"], [(2, 1)], ["Ann Lee"], [(1, 2)]),
         "answer 0123 | set 0123 Bob | answer 02 | set 0123 Ann | answer 12 | set 0123 Ann Lee",
         (1, 2), (1, 2, 0, 3), (("Bob", (0, 2)), ("Ann", (1, 2)), ("Ann Lee", (1, 2))), "same_selection"),
        ({"method": "a_s", "rounds": 2}, A_S, ASKED,
         (1,), (1, 0, 2, 3), (("Bob", (2,)), ("Ann", (1,))), "rounds"),
        # all are chosen
        ({"method": "a_s"}, (["Bob"], [ALL]), "answer 0123 | set 0123 Bob",
         ALL, ALL, (("Bob", ALL),), "same_selection"),
        # where nothing was chosen, all are answered from
        ({"method": "a_s"}, (["Bob"], [()], ["Bob"], [()]), "answer 0123 | set 0123 Bob | answer 0123 | set 0123 Bob",
         (), ALL, (("Bob", ()),) * 2, "same_selection"),
        # the answer stays as similar as needed, and does not
        ({"method": "a_s", "rounds": 5, "same_answer": 0.8}, (*A_S, ["Ann Lee"]), f"{ASKED} | answer 1",
         (1,), (1, 0, 2, 3), (("Bob", (2,)), ("Ann", (1,))), "same_answer"),
        ({"method": "a_s", "rounds": 3, "same_answer": 0.9}, (*A_S, ["Ann Lee"], [(3,)]),
         f"{ASKED} | answer 1 | set 0123 Ann Lee",
         (3,), (3, 0, 1, 2), (("Bob", (2,)), ("Ann", (1,)), ("Ann Lee", (3,))), "rounds"),
        ({"method": "a_s", "pseudo_answer": "implicit", "rounds": 1}, (["who built it"], [(2,)]),
         "information 0123 | set 0123 who built it", (2,), (2, 0, 1, 3), (("who built it", (2,)),), "rounds"),
        ({"method": "a_s", "form": "pointwise", "rounds": 1}, (["Bob"], [False, True, False, True]),
         "answer 0123 | point 0 Bob; point 1 Bob; point 2 Bob; point 3 Bob",
         (1, 3), (1, 3, 0, 2), (("Bob", (1, 3)),), "rounds"),
        ({"method": "exp_a", "form": "pointwise"}, [EACH],
         "answer_point 0; answer_point 1; answer_point 2; answer_point 3", (1, 3), (1, 3, 0, 2), VOTES, "rounds"),
        ({"method": "imp_a", "form": "pointwise"}, [EACH],
         "information_point 0; information_point 1; information_point 2; information_point 3",
         (1, 3), (1, 3, 0, 2), VOTES, "rounds"),
        ({"method": "exp_a", "rounds": 7}, [[("Bob", (3, 2))]], "answer_set 0123",
         (2, 3), (2, 3, 0, 1), (("Bob", (2, 3)),), "rounds"),
        ({"method": "imp_a"}, [[("Bob", (3, 2))]], "information_set 0123",
         (2, 3), (2, 3, 0, 1), (("Bob", (2, 3)),), "rounds"),
        # the same two, in another order
        ({"method": "a_r", "top_k": 2, "rounds": 4}, (["Bob"], [(3, 1, 0, 2)], ["Ann"], [(1, 3, 2, 0)]),
         "answer 0123 | rank 0123 Bob | answer 31 | rank 0123 Ann",
         (1, 3), (1, 3, 2, 0), (("Bob", (3, 1)), ("Ann", (1, 3))), "same_selection"),
        # eq. 4: the previous round's order is ranked; its order is that of relevance
        ({"method": "ar_s", "rounds": 2}, (["Bob"], [(3, 0, 2, 1)], [(0, 3)], ["Ann"], [(1, 0, 2, 3)], [(3, 1)]),
         "answer 0123 | relevance 0123 Bob | set 3021 Bob | answer 30 | relevance 3021 Ann | set 1023 Ann",
         (1, 3), (1, 0, 2, 3), (("Bob", (3, 0)), ("Ann", (1, 3))), "rounds"),
        ({"method": "ar_r", "rounds": 2, "top_k": 1},
         (["Bob"], [(3, 0, 2, 1)], [(2, 0, 1, 3)], ["Ann"], [(0, 1, 2, 3)], [(3, 2, 1, 0)]),
         "answer 0123 | relevance 0123 Bob | rank 3021 Bob | answer 2 | relevance 3021 Ann | rank 0123 Ann",
         (3,), (3, 2, 1, 0), (("Bob", (2,)), ("Ann", (3,))), "rounds"),
        ({"method": "vanilla"}, [[(1, 3)]], "set 0123", (1, 3), (1, 3, 0, 2), (), "rounds"),
        ({"method": "rank_gpt", "top_k": 3}, [[(3, 1, 0, 2)]], "relevance 0123",
         (3, 1, 0), (3, 1, 0, 2), (), "rounds"),
    ],
)  # fmt: skip
def test_judge_by_hand(options, script, asked, chosen, order, rounds, stopped_by):
    asks, judgment = played(JudgmentOptions(**options), *script, similarity=similarity)
    assert written(asks) == asked
    assert (judgment.chosen, judgment.order) == (chosen, order)
    assert (judgment.rounds, judgment.stopped_by) == (rounds, stopped_by)
    assert judgment.relevance == ((0, 1, 2, 3) if options["method"] == "ar_r" else ())


def test_judge_by_k_sampling():
    options = JudgmentOptions("k_sampling", samples=5)
    # sizes 2, 2, 1, 3: two are kept, those with most votes; the reader was not understood once
    asked, judgment = played(options, [("A", (0, 2)), ("B", (2, 3)), None, ("A", (2,)), ("C", (0, 1, 3))])
    orders = [ask.shown for ask in asked[0]]
    assert orders[0] == ALL
    assert len(set(orders)) == 5
    assert {ask.task for ask in asked[0]} == {"answer_set"}
    assert [(answer, set(chosen)) for answer, chosen in judgment.rounds] == [
        ("A", {0, 2}), ("B", {2, 3}), ("A", {2}), ("C", {0, 1, 3}),
    ]  # fmt: skip
    assert (judgment.chosen, judgment.order) == ((2, 0), (2, 0, 3, 1))
    assert played(options, [("A", (0, 2))] * 5)[0] == asked  # always the same orders
    # of equally common sizes the smallest counts
    votes = [("A", (0,)), ("A", (1,)), ("A", (1, 2)), ("A", (2, 3)), None]
    assert played(options, votes)[1].chosen == (1,)


def test_judge_by_k_sampling_of_the_paper_and_of_few_orders():
    asked, _ = played(JudgmentOptions.preset("paper", "k_sampling", pseudo_answer="implicit"), [("A", (0,))] * 6)
    assert len({ask.shown for ask in asked[0]}) == len(asked[0]) == 6
    assert {ask.task for ask in asked[0]} == {"information_set"}
    asked, _ = played(JudgmentOptions("k_sampling", samples=9), [("A", (0,)), ("A", (0,))], passages=2)
    assert Counter(ask.shown for ask in asked[0]) == {(0, 1): 1, (1, 0): 1}


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
        ("imp_a", [[("Bob", False), None, ("Ann", True), ("Ann", True)]], "pointwise"),
    ],
)
def test_judge_never_guesses(method, script, form):
    with pytest.raises(UnscorableError, match="could not be parsed"):
        played(JudgmentOptions(method, form=form), *script)
    with pytest.raises(UnscorableError, match="pseudo-answer is blank"):
        played(JudgmentOptions("a_s"), [" "])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "b"}, "method must be one of vanilla, exp_a, imp_a"),
        ({"form": "pairs"}, "form must be one of listwise, pointwise, got 'pairs'"),
        ({"pseudo_answer": "none"}, "pseudo_answer must be one of explicit, implicit"),
        ({"rounds": 0}, "rounds must be at least 1, got 0"),
        ({"same_answer": 0.0}, r"same_answer must be in \(0, 1\], got 0.0"),
        ({"method": "k_sampling", "form": "pointwise"}, "method=k_sampling compares them in one reply; use vanilla"),
    ],
)
def test_judgment_options_refuse(options, message):
    with pytest.raises(ValueError, match=message):
        JudgmentOptions(**options)


@pytest.mark.parametrize(
    ("read", "replies"),
    [
        (
            lambda text: text_and_numbers(text, 3),
            {
                "Answer: Ann Lee\nUseful: [2],[3]": ("Ann Lee", (2, 3)),
                "Needed: who built it.  \n\n useful: none.\n": ("who built it.", ()),
                "Answer: Ann Lee. Useful: [2]": ("Ann Lee.", (2,)),
                **dict.fromkeys(("Answer: Ann\nUseful: [4]", "Answer:\nUseful: [2]", "Ann\nUseful: [2]")),
                **dict.fromkeys(("Answer: Ann.\nLee\nUseful: [2]", "Answer: Ann\nUseful: [1]\nUseful: [2]")),
                **dict.fromkeys(("Answer: Ann\nUseful: [2]\nIt says so.", "Useful: [2]\nAnswer: Ann")),
            },
        ),
        (
            lambda text: chosen_numbers(text, 3),
            {
                **{"[2]": (2,), " [3],[1].\n": (3, 1), "[1, 3]": (1, 3), "[1]; [2] and [3]": (1, 2, 3)},
                **{"none": (), "[]": ()},
                **dict.fromkeys(("2", "[4]", "[0]", "[1], [1]", "Selected: [1]", "")),
                **dict.fromkeys(("[1]\n\nBecause it says so.", "None of them, but [2] is close.")),
            },
        ),
        (
            lambda text: ordered_numbers(text, 3),
            {
                **{"[2] > [3] > [1]": (2, 3, 1), "[2],[3],[1]": (2, 3, 1)},
                **dict.fromkeys(("[2] > [3]", "[2] > [3] > [1] > [1]", "[2] > [3] > [4]", "2 > 3 > 1", "none")),
            },
        ),
        (yes_or_no, {"Yes": True, "no.": False, "YES!": True, **dict.fromkeys(("Yes, it is.", "yesterday", ""))}),
    ],
    ids=["text_and_numbers", "chosen_numbers", "ordered_numbers", "yes_or_no"],
)
def test_replies_are_read_strictly(read, replies):
    assert {text: read(text) for text in replies} == replies
