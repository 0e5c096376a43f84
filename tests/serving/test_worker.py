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


def test_worker_joins_what_waits_into_one_block(busy, tiny_scorer):
    worker, hold = busy()
    one = worker.submit([ask((), (MILL,))])
    other = worker.submit([ask((), (SHEEP,)), ask((), question="Where?")])
    again = worker.submit([ask((Passage(MILL.text, id="another client's id"),), ())])
    hold.may_go_on.set()
    found = values([*one, *other, *again])
    assert hold.blocks == [[("First?", 1)], [("Who runs the mill in Hallow?", 3), ("Where?", 1)]]
    question, answers = ask().question, ask().answers
    expected = [each.seper for each in tiny_scorer.beliefs(question, answers, [(), (MILL,), (SHEEP,)])]
    assert found[0] == pytest.approx(expected[:2], abs=1e-5)
    assert found[1] == pytest.approx([expected[0], expected[2]], abs=1e-5)
    assert found[3] == found[0][::-1]
    later = worker.submit([ask((MILL,))])
    assert values(later) == [[found[0][1]]]
    assert len(hold.blocks) == 2  # from memory


def test_worker_takes_a_question_whole(busy):
    worker, hold = busy(batch_size=3)
    jobs = [ask((), question=f"{number}?") for number in range(4)]
    futures = worker.submit([*jobs, ask((), (MILL,), (SHEEP,), (MILL, SHEEP))])
    hold.may_go_on.set()
    wait(futures)
    assert [[count for _, count in block] for block in hold.blocks] == [[1], [1, 1, 1], [1], [4]]


def test_worker_keeps_faults_apart(busy):
    worker, hold = busy()
    long, broken, good = worker.submit([ask((), question="long " * 600), ask((), question="Broken?"), ask(())])
    hold.fails["Broken?"] = RuntimeError("a bug")
    hold.may_go_on.set()
    with pytest.raises(UnscorableError, match="question"):
        long.result(30)
    with pytest.raises(RuntimeError, match="a bug"):
        broken.result(30)
    assert len(good.result(30).beliefs) == 1


def test_worker_fails_one_block_without_an_engine(busy):
    worker, hold = busy()
    futures = worker.submit([ask(()), ask((), question="Where?")])
    hold.fails["Where?"] = ConnectionError("no engine answered")
    hold.may_go_on.set()
    for future in futures:
        with pytest.raises(ConnectionError, match="no engine"):
            future.result(30)
    hold.fails.clear()
    assert len(worker.submit([ask(())])[0].result(30).beliefs) == 1


def test_worker_refuses_a_request_of_a_full_queue(busy):
    worker, hold = busy(queue=3)
    accepted = worker.submit([ask((), (MILL,), (SHEEP,), question="As long as the queue is empty?", texts=("x",))])
    assert worker.waiting == 4
    with pytest.raises(FullError):
        worker.submit([ask(())])
    hold.may_go_on.set()
    wait(accepted)
    assert worker.submit([ask(())])[0].result(30)
    assert worker.waiting == 0


def test_worker_skips_what_is_cancelled(busy):
    worker, hold = busy()
    late, kept = worker.submit([ask((), question="Late?"), ask(())])
    assert late.cancel()
    hold.may_go_on.set()
    assert kept.result(30)
    assert hold.blocks[1] == [("Who runs the mill in Hallow?", 1)]


def test_worker_answers_more_than_its_memory_holds(busy):
    worker, hold = busy(memory=0)
    hold.may_go_on.set()
    assert len(values(worker.submit([ask((), (MILL,), (SHEEP,))]))[0]) == 3


def test_worker_raises_errors_of_loading():
    def load():
        raise OSError("no such model")

    with pytest.raises(OSError, match="no such model"):
        Worker(load)
