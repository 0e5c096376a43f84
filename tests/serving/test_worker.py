"""The worker: what all clients ask is joined into blocks, measured once, and one question's fault is its own."""

from concurrent.futures import wait

import pytest

from seper_reward.serving.worker import FullError, Worker
from seper_reward.types import Asked, Passage, UnscorableError
from tests.serving.helpers import held

MILL, SHEEP = Passage("Ida Voss runs Hallow's mill."), Passage("Sheep graze on the hill.")


def ask(*contexts, question="Who runs the mill in Hallow?", answers=("Ida Voss",), texts=()):
    return Asked(question, answers, contexts, texts)


@pytest.fixture
def busy(tiny_scorer):
    """Return a function that makes a worker busy with a first question, with its hold."""
    workers = []

    def make(**options):
        scorer, hold = held(tiny_scorer)
        worker = Worker(lambda: scorer, **options)
        workers.append((worker, hold))
        worker.submit([ask((), question="First?")])
        assert hold.reached.wait(30)
        return worker, hold

    yield make
    for worker, hold in workers:
        hold.may_go_on.set()
        worker.close()
        worker.join()


def values(futures):
    return [[belief.seper for belief in future.result(30).beliefs] for future in futures]


def test_what_waits_is_one_block_and_a_baseline_is_measured_once(busy, tiny_scorer):
    worker, hold = busy()
    one = worker.submit([ask((), (MILL,))])
    other = worker.submit([ask((), (SHEEP,)), ask((), question="Where?")])
    again = worker.submit([ask((Passage(MILL.text, id="another client's id"),), ())])
    hold.may_go_on.set()
    found = values([*one, *other, *again])
    assert hold.blocks == [
        [("First?", 1)],
        [("Who runs the mill in Hallow?", 3), ("Where?", 1)],
    ]
    question, answers = ask().question, ask().answers
    expected = [each.seper for each in tiny_scorer.beliefs(question, answers, [(), (MILL,), (SHEEP,)])]
    assert found[0] == pytest.approx(expected[:2], abs=1e-5)
    assert found[1] == pytest.approx([expected[0], expected[2]], abs=1e-5)
    assert found[3] == found[0][::-1]
    later = worker.submit([ask((MILL,))])
    assert values(later) == [[found[0][1]]]
    assert len(hold.blocks) == 2  # from memory


def test_a_block_has_a_size_but_takes_one_question_whole(busy):
    worker, hold = busy(block=3)
    jobs = [ask((), question=f"{number}?") for number in range(4)]
    futures = worker.submit([*jobs, ask((), (MILL,), (SHEEP,), (MILL, SHEEP))])
    hold.may_go_on.set()
    wait(futures)
    assert [[count for _, count in block] for block in hold.blocks] == [[1], [1, 1, 1], [1], [4]]


def test_one_questions_fault_is_its_own(busy):
    worker, hold = busy()
    too_long = "long " * 600
    futures = worker.submit([ask((), question=too_long), ask((), question="Broken?"), ask(())])
    hold.fails["Broken?"] = RuntimeError("a bug")
    hold.may_go_on.set()
    with pytest.raises(UnscorableError, match="question"):
        futures[0].result(30)
    with pytest.raises(RuntimeError, match="a bug"):
        futures[1].result(30)
    assert len(futures[2].result(30).beliefs) == 1


def test_an_unscorable_question_is_not_measured_alone_again(busy):
    worker, hold = busy()
    futures = worker.submit([ask((), question="long " * 600), ask((), (MILL,)), ask((SHEEP,))])
    hold.may_go_on.set()
    wait(futures)
    assert len(hold.blocks) == 2
    assert isinstance(futures[0].exception(), UnscorableError)


def test_an_engine_that_is_away_fails_the_block_but_not_the_next(busy):
    worker, hold = busy()
    futures = worker.submit([ask(()), ask((), question="Where?")])
    hold.fails["Where?"] = ConnectionError("no engine answered")
    hold.may_go_on.set()
    for future in futures:
        with pytest.raises(ConnectionError, match="no engine"):
            future.result(30)
    hold.fails.clear()
    assert len(worker.submit([ask(())])[0].result(30).beliefs) == 1


def test_a_full_queue_refuses_all_of_a_request(busy):
    worker, hold = busy(queue=3)
    accepted = worker.submit([ask((), (MILL,), (SHEEP,), question="As long as the queue is empty?", texts=("x",))])
    assert worker.waiting == 4
    with pytest.raises(FullError):
        worker.submit([ask(())])
    hold.may_go_on.set()
    wait(accepted)
    assert worker.submit([ask(())])[0].result(30)
    assert worker.waiting == 0


def test_what_is_cancelled_before_its_turn_is_not_measured(busy):
    worker, hold = busy()
    late, kept = worker.submit([ask((), question="Late?"), ask(())])
    assert late.cancel()
    hold.may_go_on.set()
    assert kept.result(30)
    assert hold.blocks[1] == [("Who runs the mill in Hallow?", 1)]


def test_memory_forgets_what_was_not_asked_for_the_longest(busy):
    worker, hold = busy()
    hold.may_go_on.set()
    values(worker.submit([ask((), question="A?")]))
    size = worker._beliefs._bytes // 2  # of one belief: the first question was measured, too
    worker._beliefs._most_bytes = int(2.5 * size)
    hold.may_go_on.set()
    for question in ("A?", "B?", "A?", "C?", "A?", "B?"):
        values(worker.submit([ask((), question=question)]))
    assert [block[0][0] for block in hold.blocks] == ["First?", "A?", "B?", "C?", "B?"]


def test_long_texts_count_by_their_bytes(busy):
    worker, hold = busy(memory=250_000)
    hold.may_go_on.set()
    values(worker.submit([ask((Passage("short"),))]))
    small = worker._beliefs._bytes
    for letter in "abc":  # cut for the reader, but whole in the keys
        values(worker.submit([ask((Passage(letter * 100_000),))]))
    worker.close()
    worker.join()  # it forgets after it has answered
    assert worker._beliefs._bytes < 250_000
    assert len(worker._beliefs._entries) == 2  # of four and the first question
    assert small < 20_000


def test_more_than_memory_holds_is_answered(busy):
    worker, hold = busy(memory=0)
    hold.may_go_on.set()
    assert len(values(worker.submit([ask((), (MILL,), (SHEEP,))]))[0]) == 3


def test_what_loading_raises_is_raised_where_it_can_be_told():
    def load():
        raise OSError("no such model")

    with pytest.raises(OSError, match="no such model"):
        Worker(load)
