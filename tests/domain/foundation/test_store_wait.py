"""What a step counts while its store is away."""

from perdure.domain.foundation.retry_policies import Patience, StoreWait


class Clock:
    """A clock that a test turns."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_step_that_works_says_nothing() -> None:
    assert Patience().store_wait(5.0) is None


def test_a_wait_says_why_for_how_long_and_how_often_it_was_tried() -> None:
    patience, clock = Patience(), Clock()
    with patience.wait("refused", clock):
        clock.now += 7
        patience.note_failure("still refused")
        told = patience.store_wait(clock())
    assert told == StoreWait(waits="still refused", waited_s=7.0, tried=2)
    assert patience.store_wait(clock()) is None
    assert patience.store_seconds(clock()) == 7.0


def test_overlapping_waits_count_once_and_a_later_one_counts_anew() -> None:
    patience, clock = Patience(), Clock()
    with patience.wait("full", clock):
        clock.now += 2
        with patience.wait("locked", clock):
            clock.now += 3
        clock.now += 1
        told = patience.store_wait(clock())
        assert told is not None
        assert (told.waited_s, told.tried) == (6.0, 2)
    clock.now += 10
    with patience.wait("full", clock):
        clock.now += 1
        told = patience.store_wait(clock())
    assert told == StoreWait(waits="full", waited_s=1.0, tried=1)
    assert patience.total == 7.0


def test_an_operation_that_stands_before_a_lock_and_succeeds_is_no_work() -> None:
    patience, clock = Patience(), Clock()
    with patience.in_store(clock):
        clock.now += 9
        assert patience.store_seconds(clock()) == 9.0
        assert patience.store_wait(clock()) is None, "nothing has failed yet"
        with patience.wait("locked", clock):
            clock.now += 5
            told = patience.store_wait(clock())
    assert told == StoreWait(waits="locked", waited_s=5.0, tried=1)
    assert (patience.total, patience.store_seconds(clock())) == (14.0, 14.0)
