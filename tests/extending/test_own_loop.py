"""Asynchronous code of plugins: what blocks there holds up its own plugin and nothing else."""

import asyncio
import contextvars
import functools
import logging
import threading
from collections.abc import Iterator

import pytest

from perdure.extending.foreign_code import CodeEnded
from perdure.extending.own_loop import HELD_S, OwnLoop, OwnLoops

ASKED = contextvars.ContextVar[str]("ASKED")


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """Blocks what waits for it, until the test is over."""
    blocked = threading.Event()
    yield blocked
    blocked.set()


async def test_what_it_returns_and_raises_comes_back_with_the_context_of_the_call() -> None:
    own, here = OwnLoop("mine"), threading.get_ident()
    ASKED.set("for this run")

    async def told() -> tuple[str, bool]:
        await asyncio.sleep(0)
        return ASKED.get(), threading.get_ident() == here

    async def failed() -> None:
        raise ZeroDivisionError("half")

    async def left() -> None:
        raise SystemExit(3)

    async def cancelled_itself() -> None:
        raise asyncio.CancelledError

    assert await own.run(told) == ("for this run", False)
    with pytest.raises(ZeroDivisionError, match="half"):
        await own.run(failed)
    with pytest.raises(CodeEnded, match=r"sys\.exit\(3\)"):
        await own.run(left)
    with pytest.raises(CodeEnded, match="cancelled"):
        await own.run(cancelled_itself)


async def test_clients_stay_in_one_event_loop_from_call_to_call() -> None:
    own = OwnLoop("mine")

    async def loop() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    assert await own.run(loop) is await own.run(loop)


async def test_a_cancelled_call_ends_before_the_caller_goes_on() -> None:
    own, begun, cleaned = OwnLoop("mine"), threading.Event(), threading.Event()

    async def slow() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.set()

    task = asyncio.create_task(own.run(slow))
    await asyncio.to_thread(begun.wait)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cleaned.is_set()


async def test_a_blocking_call_holds_up_neither_the_caller_nor_the_calls_after_it(
    gate: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    own, begun = OwnLoop(__name__.partition(".")[0]), threading.Event()

    async def blocks() -> None:
        begun.set()
        gate.wait()

    async def quick() -> str:
        return "done"

    task = asyncio.create_task(own.run(blocks))
    await asyncio.to_thread(begun.wait)
    task.cancel()
    await asyncio.sleep(HELD_S + 0.1)
    with caplog.at_level(logging.WARNING):
        assert await own.run(quick) == await own.run(quick) == "done"
    assert caplog.text.count("test_own_loop.py, line") == 1
    assert not task.done()

    gate.set()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_an_event_loop_that_answers_again_serves_again(gate: threading.Event) -> None:
    own, begun = OwnLoop("mine"), threading.Event()

    async def loop() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    async def blocks() -> None:
        begun.set()
        gate.wait()

    first = await own.run(loop)
    task = asyncio.create_task(own.run(blocks))
    await asyncio.to_thread(begun.wait)
    task.cancel()
    await asyncio.sleep(HELD_S + 0.1)
    assert await own.run(loop) is not first
    gate.set()
    await asyncio.wait({task})
    assert await own.run(loop) is first


async def test_a_call_that_waits_for_a_blocked_event_loop_never_begins_once_withdrawn(
    gate: threading.Event,
) -> None:
    own, begun, ran = OwnLoop("mine"), threading.Event(), threading.Event()

    async def blocks() -> None:
        begun.set()
        gate.wait()

    async def acts() -> None:
        ran.set()

    first = asyncio.create_task(own.run(blocks))
    await asyncio.to_thread(begun.wait)
    second = asyncio.create_task(own.run(acts))
    await asyncio.sleep(0)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    gate.set()
    await first
    await own.run(functools.partial(asyncio.sleep, 0))
    assert not ran.is_set()


async def test_functions_of_a_package_share_an_event_loop_whatever_their_form() -> None:
    loops, here = OwnLoops(), asyncio.get_running_loop()

    async def asynchronous(add: int = 0) -> tuple[asyncio.AbstractEventLoop, int]:
        return asyncio.get_running_loop(), 1 + add

    def plain_that_awaits() -> object:
        return asynchronous(1)

    def plain() -> int:
        return 3

    found = [
        await loops.aside(function)()  # pyright: ignore[reportGeneralTypeIssues]
        for function in (asynchronous, plain_that_awaits, functools.partial(asynchronous, add=4))
    ]
    assert [number for _, number in found] == [1, 2, 5]
    (loop,) = {loop for loop, _ in found}
    assert loop is not here
    assert loops.aside(plain)() == 3
    assert loops.of(asynchronous) is not loops.of(asyncio.sleep)
